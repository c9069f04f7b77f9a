"""Report options at the put: which make sense here, which are refused, and of which is warned; and the
message that a report is about.

An option that Postroom has no meaning for is refused or accepted as MQ's three masks say; the report that is
asked for needs somewhere to go.
"""

from typing import Final, final

from postroom.amqp.errors import INVALID_FIELD
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.manager.headers.mq_properties import MSG_TYPE
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Warned
from postroom.manager.kernel.options import USAGE_TRANSMISSION
from postroom.model import mq
from postroom.model.message import MessageHead
from postroom.model.mq import Reason, Undelivered, reason_name

_FAMILY_NAMES: Final = {
    mq.EXCEPTION_MASK: "exception",
    mq.EXPIRATION_MASK: "expiration",
    mq.COA_MASK: "confirmation on arrival",
    mq.COD_MASK: "confirmation on delivery",
}
_ANSWERS: Final = mq.FAMILIES | int(mq.Report.PAN | mq.Report.NAN)
"""Options that ask for a message to the reply-to queue, be it a program's."""


_REPLY_TO: Final = 4


@final
class Original:
    """The message that a report is about: ``sections`` as stored, perhaps only those before its body."""

    def __init__(self, sections: bytes) -> None:
        self.sections = sections
        self.head: MessageHead = scan_head(sections, complete=False)
        self.fields = MessageFields(self.head.priority, self.head.durable, 0, sections, None)

    @property
    def reply_to(self) -> str:
        """Where reports go; "" nowhere."""
        found = self.fields.property_at(_REPLY_TO)
        return found if isinstance(found, str) else ""

    def is_report(self) -> bool:
        """Whether it is one itself: about those none are made."""
        return self.fields.application_property(MSG_TYPE) == mq.MessageType.REPORT.value


def check_options(
    core: Core, queue: Destination, head: MessageHead, sections: bytes
) -> tuple[str, str] | None:
    """Why the put of a message with report options is refused, as (condition, description); None: it isn't.

    ``sections`` are those stored, at least up to the body. In a message that is a report itself the options
    mean nothing: they are taken out of ``head``.
    """
    refused = unfit_options(queue, head, sections)
    if refused is not None:
        return INVALID_FIELD, f"{reason_name(refused.reason)} ({refused.reason}): {refused.description}"
    unknown = head.report & ~mq.SUPPORTED
    if unknown != 0:
        core.effects.warned.append(
            Warned(
                queue.name,
                f"{reason_name(Reason.UNKNOWN_REPORT_OPTION)} ({Reason.UNKNOWN_REPORT_OPTION.value}): report "
                f"options 0x{unknown:08X} mean nothing here; the message was accepted without them",
            )
        )
    return None


def unfit_options(queue: Destination, head: MessageHead, sections: bytes) -> Undelivered | None:
    """Why a message with report options can't be put on ``queue``; as `check_options`, warning of nothing."""
    original = Original(sections)
    if original.is_report():
        head.report &= ~mq.FAMILIES
        return None
    reason, why = 0, _senseless(head.report, queue.definition.usage == USAGE_TRANSMISSION)
    if why:
        reason = Reason.REPORT_OPTIONS_ERROR.value
    elif head.report & _ANSWERS != 0 and not original.reply_to:
        reason = Reason.MISSING_REPLY_TO_Q.value
        why = f"report options 0x{head.report:08X} ask for an answer, and the message has no reply-to"
    return Undelivered(reason, queue.name, "", why) if why else None


def _senseless(word: int, transmitted: bool) -> str:
    """What is wrong with a report word; "" if it can be accepted. ``transmitted``: the message goes to a
    transmission queue, and its queue manager may know more."""
    refused = mq.REJECT_MASK if transmitted else mq.REJECT_MASK | mq.ACCEPT_IF_TRANSMITTED_MASK
    unknown = word & ~mq.SUPPORTED & refused
    if unknown != 0:
        return f"report options 0x{unknown:08X} are not known"
    for mask, name in _FAMILY_NAMES.items():
        try:
            mq.requested_data(word, mask)
        except ValueError:
            return f"0x{word & mask:08X} is none of the options for {name}: is it two of them added?"
    return ""
