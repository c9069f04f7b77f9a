"""Messages that came through a channel and can't be put, and messages of a sending channel that can't travel:
what each asks for, and what is done about it.

Whatever becomes of such a message is part of its batch, or, of a fast one, done at once: its report, its dead
letter, or the arrival that ends as soon as it is available (`undeliverable.discard`). At a sending end each
is on the transmission queue, in a batch or held outside of them, and ends there.
"""

from enum import IntEnum
from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.manager.channels import batches
from postroom.manager.channels.channel import Batch, ReceivingEnd, SendingEnd
from postroom.manager.channels.receiving_end import put_aside, put_in_batch, put_on
from postroom.manager.consuming import settlement
from postroom.manager.headers.dead_letter_header import header_for, with_dead_letter_header
from postroom.manager.headers.transmission_header import take_transmission
from postroom.manager.kernel import overrides
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import NotAllowed
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.kernel.transitions import step
from postroom.manager.producing import discard
from postroom.manager.producing.put import refusal_of
from postroom.manager.producing.report_checks import Original
from postroom.manager.queues.placement import ended
from postroom.manager.reports import reports
from postroom.manager.undeliverable.child_entries import make_rewritten
from postroom.model import mq
from postroom.model import numbers as n
from postroom.model.message import MessageHead
from postroom.model.mq import Undelivered, reason_name


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


class OnFailure(IntEnum):
    """What a message asks for, should it not be delivered."""

    NOTHING = 0
    DISCARD = 1
    REPORT = 2
    REPORT_AND_DISCARD = 3
    RETURN = 4
    """A report with all its data, discard, and where to reply: return to sender."""


def on_failure_of(report: int, replies: bool) -> OnFailure:
    """What a report word asks for; ``replies``: the message says where to."""
    discards = report & mq.DISCARD_MSG != 0
    data = mq.requested_data(report, mq.EXCEPTION_MASK) if replies else mq.Data.NONE
    if data is mq.Data.NONE:
        return OnFailure.DISCARD if discards else OnFailure.NOTHING
    if not discards:
        return OnFailure.REPORT
    return OnFailure.RETURN if data is mq.Data.WITH_FULL_DATA else OnFailure.REPORT_AND_DISCARD


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
        self.report_serial: i64 = 0
        """Of the exception report about it, once that is put."""

    def fields(self) -> MessageFields:
        """Its header and properties, by the names of JMS."""
        head = self.head
        return MessageFields(head.priority, head.durable, head.delivery_count, self.body, None)

    @property
    def requested(self) -> OnFailure:
        """What it asks for."""
        report = self.head.report
        if report == 0:
            return OnFailure.NOTHING
        return on_failure_of(report, isinstance(self.fields().property_at(4), str))


def put_undelivered(
    core: Core, end: ReceivingEnd, action: Action, message: ReceivedMessage, why: Undelivered
) -> Undelivered | None:
    """Do ``action`` about ``message``, which can't be put for the reason ``why``; what has to be put for it
    and can't be. Raises as `commit.make_room`."""
    if action is Action.PUT_REPORT:
        transaction = None if message.fast else end.transaction
        return _put_report(core, message, take_transmission(message.body)[1], why, transaction)
    if action is Action.DEAD_LETTER:
        return _put_dead_letter(core, message, take_transmission(message.body)[1], why, end, None)
    if action is Action.RETURN_TO_SENDER:
        _end(core, end, message, n.EVENT_RETURN_TO_SENDER, why, {"report": int(message.report_serial)})
    else:
        dropped: dict[str, object] = {"dropped": True} if action is Action.DROP else {}
        _end(core, end, message, n.EVENT_DISCARD, why, dropped)
    return None


def _put_report(
    core: Core, message: ReceivedMessage, body: bytes, why: Undelivered, transaction: Transaction | None
) -> Undelivered | None:
    """Its exception report, in the batch. One that returns its message goes to its reply-to or nowhere: else
    the message itself is the dead letter."""
    original = Original(body)
    made = reports.exception_report(core, original, message.head, why)
    if made is None:
        return None
    put = reports.put_to if message.requested is OnFailure.RETURN else reports.put_somewhere
    failure = put(core, original.reply_to, made[0], made[1], transaction)
    if failure is None:
        message.report_serial = core.ledger.next_position - 1
    return failure


def _put_dead_letter(
    core: Core,
    message: ReceivedMessage,
    body: bytes,
    why: Undelivered,
    end: ReceivingEnd | None,
    entry: Entry | None,
) -> Undelivered | None:
    """What has come to ``end``, or waits to be sent as ``entry``, is a dead letter."""
    queue = reports.dead_letter_queue(core)
    if isinstance(queue, Undelivered):
        return queue
    own = core.options.queue_manager
    header = header_for(why.reason, why.queue, why.queue_manager or own, message.fields(), own, core.now_us)
    header.expiry_ms = int(entry.expiry_us // 1000) if entry is not None else 0
    sections = with_dead_letter_header(body, header)
    head = message.head
    if end is not None:
        head = _head_of_letter(head, sections)
        if queue.overrides is not None:
            overrides.apply(core.now_us, queue.overrides, head)
    reason = refusal_of(core, queue, head, len(sections))
    if reason is not None:
        return Undelivered(reason[0], queue.name, own, reason[1])
    if end is not None:
        put_on(core, end, queue, head, sections, message.sequence, message.origin_serial, message.fast)
    elif entry is not None:
        make_rewritten(core, entry, queue, n.EVENT_DEAD_LETTER, sections)
    return None


def _head_of_letter(head: MessageHead, sections: bytes) -> MessageHead:
    """As the message's, but that a dead letter waits for nothing and asks for nothing."""
    letter = scan_head(sections)
    letter.durable = head.durable
    letter.priority = head.priority
    letter.ttl_ms = head.ttl_ms
    letter.delivery_time_ms = letter.delivery_delay_ms = 0
    letter.report = 0
    return letter


def _end(
    core: Core,
    end: ReceivingEnd,
    message: ReceivedMessage,
    event: i64,
    why: Undelivered,
    more: dict[str, object],
) -> None:
    """It is put nowhere: the ledger is told that it came, and how it ended."""
    detail = discard.detail_of(why, {"channel": end.channel.name} | more)
    queue = discard.queue_for_undelivered(core)
    head, body = discard.bare_head(message.head), discard.NO_BODY
    if message.fast:
        entry = put_aside(core, end, queue, head, body, message.origin_serial)
        discard.end(core, entry, event, detail)
    else:
        entry = put_in_batch(core, end, queue, head, body, message.sequence, message.origin_serial)
        end.transaction.disposals[entry] = discard.Ending(event, detail)


_ENDS: Final = {
    Action.DEAD_LETTER: n.EVENT_DEAD_LETTER,
    Action.RETURN_TO_SENDER: n.EVENT_RETURN_TO_SENDER,
    Action.DISCARD: n.EVENT_DISCARD,
    Action.DROP: n.EVENT_DISCARD,
}


def refuse(
    core: Core, end: SendingEnd, action: Action, entry: Entry, message: ReceivedMessage, why: Undelivered
) -> Undelivered | None:
    """Do ``action`` about ``entry``, which can't travel for the reason ``why``; what has to be put for it and
    can't be. ``message`` has its sections without a transmission header."""
    owner = entry.owner
    if end.closed or not (isinstance(owner, Batch) or owner is end.consumer):
        raise NotAllowed(f"channel {end.channel.name!r}: message {entry.serial} isn't on its way by it")
    if action is Action.PUT_REPORT:
        return _put_report(core, message, message.body, why, None)
    if action is Action.DEAD_LETTER:
        failure = _put_dead_letter(core, message, message.body, why, None, entry)
        if failure is not None:
            return failure
    if isinstance(owner, Batch):
        batches.let_go(owner, entry)
    else:
        settlement.let_go(core, end.consumer, entry)
    dropped: dict[str, object] = {"dropped": True} if action is Action.DROP else {}
    detail = discard.detail_of(why, {"channel": end.channel.name, **dropped})
    if _ENDS[action] == n.EVENT_DISCARD:
        core.effects.discard(entry.queue.name, reason_name(why.reason), why.description)
    step(core, entry, _ENDS[action], 0, 0, None, 0, detail)
    ended(core, entry)
    return None
