"""The message that a report is about, as it is stored."""

from typing import Final, final

from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.manager.headers.mq_properties import MSG_TYPE
from postroom.manager.queues.message_ids import ids_of
from postroom.model import mq
from postroom.model.ids import MessageIds
from postroom.model.message import MessageHead

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

    @property
    def ids(self) -> MessageIds:
        return ids_of(self.head)

    def is_report(self) -> bool:
        """Whether it is one itself: about those none are made."""
        return self.fields.application_property(MSG_TYPE) == mq.MessageType.REPORT.value
