"""Messages that came through a channel and can't be put: what each asks for, and the verbs that deal with
it."""

from enum import IntEnum
from typing import final

from postroom.amqp.message_fields import MessageFields
from postroom.model import mq
from postroom.model.message import MessageHead


class Action(IntEnum):
    """What to do with a message that could not be put; all but the first, second and last two are told to
    `QueueManager.put_undelivered`."""

    DONE = 0
    """Nothing: it is somewhere, or its end is in the ledger. Go on with the next message."""
    WAIT = 1
    """Put it again later."""
    PUT_REPORT = 2
    RETURN_TO_SENDER = 3
    """Its report has gone back with all its data: end it so."""
    DISCARD = 4
    DEAD_LETTER = 5
    DROP = 6
    """A fast non-persistent one: end it as discarded, with the reason."""
    BACK_OUT = 7
    """Refuse the batch: the message stays with its sender."""


class Asked(IntEnum):
    """What a message asks for, should it not be delivered."""

    NOTHING = 0
    DISCARD = 1
    REPORT = 2
    REPORT_AND_DISCARD = 3
    RETURN = 4
    """A report with all its data, discard, and where to reply: return to sender."""


def asked_of(report: int, replies: bool) -> Asked:
    """What a report word asks for; ``replies``: the message says where to."""
    discards = report & mq.DISCARD_MSG != 0
    data = mq.asked(report, mq.EXCEPTION_MASK) if replies else mq.Data.NONE
    if data is mq.Data.NONE:
        return Asked.DISCARD if discards else Asked.NOTHING
    if not discards:
        return Asked.REPORT
    return Asked.RETURN if data is mq.Data.WITH_FULL_DATA else Asked.REPORT_AND_DISCARD


@final
class ReceivedMessage:
    """A message that came through a channel: as `QueueManager.receive` gets it."""

    def __init__(self, head: MessageHead, body: bytes, sequence: int, origin_serial: int, fast: bool) -> None:
        self.head = head
        self.body = body
        self.sequence = sequence
        self.origin_serial = origin_serial
        self.fast = fast
        """Non-persistent and in no batch."""

    def fields(self) -> MessageFields:
        """Its header and properties, by the names of JMS."""
        head = self.head
        return MessageFields(head.priority, head.durable, head.delivery_count, self.body, None)

    @property
    def asked(self) -> Asked:
        """What it asks for."""
        report = self.head.report
        if report == 0:
            return Asked.NOTHING
        return asked_of(report, isinstance(self.fields().property_at(4), str))
