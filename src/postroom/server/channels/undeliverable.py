"""Messages that a sending link can't send, or whose partner doesn't take them, end at this queue manager."""

from postroom.amqp.message.message_head import scan_head
from postroom.channel.undelivered import Step, UndeliveredHandler
from postroom.ledger.format.records import ArrivalFlag
from postroom.manager.channels.channel import SendingEnd
from postroom.manager.channels.undelivered import Action, ReceivedMessage
from postroom.manager.kernel.entry import Entry
from postroom.manager.services.channels import ChannelService
from postroom.model.mq import Undelivered
from postroom.server.links.delivery_headers import header_of

_DURABLE = int(ArrivalFlag.DURABLE)


def message_of(entry: Entry, sections: bytes, fast: bool, now_us: int) -> ReceivedMessage:
    """The message that would travel: ``sections`` are without a transmission header. On a ``fast`` channel
    only persistent ones are in a batch."""
    durable = entry.flags & _DURABLE != 0
    head = scan_head(header_of(durable, entry.priority, entry.expiry_us, 0, now_us) + sections)
    return ReceivedMessage(head, sections, 0, int(entry.serial), fast and not durable)


def give_up(
    channels: ChannelService,
    end: SendingEnd,
    undelivered_handler: UndeliveredHandler,
    step: Step,
    entry: Entry,
    message: ReceivedMessage,
    now_us: int,
) -> Undelivered | None:
    """Carry out ``step`` of the handler, and those that follow, until the message has its end; None. Else why
    nothing takes it: it stays in its batch. Raises `ManagerError`."""
    while step.action is not Action.DONE:
        why = undelivered_handler.undelivered
        assert why is not None
        if step.action is Action.BACK_OUT:
            return why
        step = undelivered_handler.next(
            channels.refuse_sending(end, step.action, entry, message, why, now_us)
        )
    return None
