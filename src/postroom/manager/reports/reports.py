"""Reports that the queue manager makes: that a message has arrived, been delivered or expired; and, for
channels, that it could not be delivered.

What has happened is noted where it happens (`Reports.note`); before the command is over, and so in the same
block, the report is put, if the message is in memory. Otherwise it is read first and the report comes later:
a crash in between loses the report, never the message.

A report goes to the reply-to of its message, here or at another queue manager. What can't be put there goes
to the queue manager's dead-letter queue; a report that can't go there either is written to the ledger and
discarded.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.errors import AmqpError
from postroom.amqp.message.message_head import scan_head
from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.storage.body_requests import Body
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.headers.dead_letter_header import DEAD_LETTER, header_for, with_dead_letter_header
from postroom.manager.headers.transmission_header import TRANSMISSION, take_transmission
from postroom.manager.kernel import overrides
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.effects import Fetch, Warned
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.errors import ManagerError
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.kernel.turn_state import REPORTER, Cause, Reports
from postroom.manager.names.name_resolution import names_of
from postroom.manager.producing import discard
from postroom.manager.producing.put import message_of, put_in_transaction, refusal_of, store
from postroom.manager.producing.report_checks import Original
from postroom.manager.queues.queue import Queue, Subscription
from postroom.manager.reports.report_message import ReportText, report_sections
from postroom.model import mq
from postroom.model import numbers as n
from postroom.model.message import MessageHead
from postroom.model.mq import Feedback, Reason, Undelivered
from postroom.model.names import split_address

MAX_WAITING: Final = 100_000
"""Reports whose messages have to be read first; more are not made."""
AS_MESSAGE: Final = "message"
PERSISTENT: Final = "persistent"
"""Values of `ManagerOptions.report_persistence`; the third is "non-persistent"."""

_COA: Final = int(Feedback.COA)
_COD: Final = int(Feedback.COD)
_EXPIRATION: Final = int(Feedback.EXPIRATION)
_UNKNOWN_OBJECT_NAME: Final = int(Reason.UNKNOWN_OBJECT_NAME)
_UNEXPECTED: Final = int(Reason.UNEXPECTED_ERROR)
_FAMILY: Final = {_COA: mq.COA_MASK, _COD: mq.COD_MASK, _EXPIRATION: mq.EXPIRATION_MASK}


# --- what has happened ----------------------------------------------------------------------------


def _wait(core: Core, cause: Cause) -> None:
    """Its message has to be read first."""
    reports = core.reports
    if len(reports.waiting) < MAX_WAITING:
        reports.waiting.append(cause)
        return
    if not reports.crowded:
        why = f"more than {MAX_WAITING} reports wait for their messages to be read: the next are not made"
        core.effects.warned.append(Warned(cause.entry.queue.name, why))
    reports.crowded = True
    reports.unmade += 1


def read_more(core: Core) -> None:
    """Have the next messages read of which reports wait, a batch at a time."""
    reports = core.reports
    if reports.reading or not reports.waiting:
        return
    bytes_left: i64 = core.options.fetch_bytes
    while reports.waiting and len(reports.reading) < core.options.fetch_entries:
        entry = reports.waiting[0].entry
        bytes_left -= entry.body_len
        if entry.body_serial > core.durability.through or (reports.reading and bytes_left < 0):
            break
        reports.reading.append(reports.waiting.popleft())
    if not reports.waiting:
        reports.crowded = False
    if reports.reading:
        entries = [cause.entry for cause in reports.reading]
        places = [(int(one.body_serial), int(one.body_offset), int(one.body_len)) for one in entries]
        core.effects.fetches.append(Fetch(entries, places))


def _report(core: Core, cause: Cause, body: bytes) -> None:
    """Make the report about ``cause`` that the message ``body`` asks for, if it does."""
    try:
        original = Original(body)
    except AmqpError:
        return
    if original.fields.annotation(TRANSMISSION) is not None:
        if cause.feedback != _EXPIRATION:
            return  # it is on its way: neither here nor delivered
        original = Original(take_transmission(body)[1])
    entry = cause.entry
    if original.is_report() or _is_dead_letter(original, entry) or not original.reply_to:
        return
    data = wanted_data(original, _FAMILY[int(cause.feedback)])
    if data is mq.Data.NONE:
        return
    expiry_us = 0 if cause.feedback == _EXPIRATION else entry.expiry_us
    head = _head(core, original, entry.priority, entry.flags & n.FLAG_DURABLE != 0, expiry_us)
    sections = _sections(core, original, cause.feedback, data)
    failure = put_somewhere(core, original.reply_to, head, sections, None)
    if failure is not None:
        lost = _completed_head(head, sections)
        discard.discard_new(core, reporter(core), lost, discard.detail_of(failure, {"report": True}))


def _is_dead_letter(original: Original, entry: Entry) -> bool:
    added = entry.annotations
    return original.fields.annotation(DEAD_LETTER) is not None or (added is not None and DEAD_LETTER in added)


def wanted_data(original: Original, mask: int) -> mq.Data:
    """How much data the report of one family is to carry; NONE: no report is asked for."""
    try:
        return mq.requested_data(int(original.head.report), mask)
    except ValueError:
        return mq.Data.NONE


# --- the report -----------------------------------------------------------------------------------


def exception_report(
    core: Core, original: Original, received: MessageHead, why: Undelivered
) -> tuple[MessageHead, bytes] | None:
    """Head and sections of the report that ``original``, which came with the head ``received``, could not be
    delivered; None if it asks for none."""
    data = wanted_data(original, mq.EXCEPTION_MASK)
    if data is mq.Data.NONE or original.is_report() or not original.reply_to:
        return None
    expiry_us = core.now_us + received.ttl_ms * 1000 if received.ttl_ms > 0 else 0
    head = _head(core, original, received.priority, received.durable, expiry_us)
    return head, _sections(core, original, why.reason, data)


def _sections(core: Core, original: Original, feedback: i64, data: mq.Data) -> bytes:
    own = core.options.queue_manager
    message_id = f"ID:{own}.{core.now_us:x}.{core.ledger.next_position:x}.{core.reports.made:x}"
    text = ReportText(feedback, data, original.head.report, message_id, own, core.now_us)
    return report_sections(original, text)


def _head(core: Core, original: Original, priority: i64, durable: bool, expiry_us: i64) -> MessageHead:
    """What the report takes over of its message's head; its ids come with its sections."""
    head = MessageHead()
    head.priority = priority
    persistence = core.options.report_persistence
    head.durable = durable if persistence == AS_MESSAGE else persistence == PERSISTENT
    if original.head.report & mq.PASS_DISCARD_AND_EXPIRY != 0:
        head.expiry_us = expiry_us
    return head


def put_somewhere(
    core: Core, reply_to: str, head: MessageHead, sections: bytes, transaction: Transaction | None
) -> Undelivered | None:
    """Put a report where it belongs, else on the dead-letter queue; why neither could be."""
    failure = put_to(core, reply_to, head, sections, transaction)
    if failure is None:
        return None
    failure = _dead_letter(core, failure, head, sections, transaction)
    if failure is not None and transaction is None:
        core.reports.unmade += 1
    return failure


def put_to(
    core: Core, address: str, head: MessageHead, sections: bytes, transaction: Transaction | None
) -> Undelivered | None:
    """Put a report to an address, at this queue manager or another; why it couldn't be. It doesn't wait for
    room."""
    queue, queue_manager = (address, "")
    if address not in destinations_of(core).queues and address not in names_of(core).definitions:
        queue, queue_manager = split_address(address)
    found = names_of(core).resolve(queue, queue_manager)
    if isinstance(found, Undelivered):
        return found
    sent = names_of(core).sent_to(found, sections)
    return _put(core, found.queue, head, sent, queue, queue_manager, transaction)


def _dead_letter(
    core: Core, why: Undelivered, head: MessageHead, sections: bytes, transaction: Transaction | None
) -> Undelivered | None:
    queue = dead_letter_queue(core)
    if isinstance(queue, Undelivered):
        return queue
    own = core.options.queue_manager
    target_manager = why.queue_manager or own
    fields = Original(sections).fields
    header = header_for(why.reason, why.queue, target_manager, fields, own, core.now_us)
    letter = with_dead_letter_header(sections, header)
    return _put(core, queue, head, letter, queue.name, own, transaction)


def dead_letter_queue(core: Core) -> Queue | Undelivered:
    """The queue manager's; why there is none."""
    name, own = core.options.dead_letter_queue, core.options.queue_manager
    if not name:
        return Undelivered(
            _UNKNOWN_OBJECT_NAME,
            "",
            own,
            f"queue manager {own!r} has no dead-letter queue (dead_letter_queue)",
        )
    queue = destinations_of(core).queues.get(name)
    if queue is None or isinstance(queue, Subscription):
        return Undelivered(
            _UNKNOWN_OBJECT_NAME,
            name,
            own,
            f"there is no queue {name!r}, this queue manager's dead-letter queue",
        )
    return queue


def _put(
    core: Core,
    queue: Queue,
    head: MessageHead,
    sections: bytes,
    name: str,
    queue_manager: str,
    transaction: Transaction | None,
) -> Undelivered | None:
    """Put on this very queue, if it can take the report now."""
    own = _completed_head(head, sections)
    if queue.overrides is not None:
        overrides.apply(core.now_us, queue.overrides, own)
    reason = refusal_of(core, queue, own, len(sections))
    if reason is not None:
        return Undelivered(reason[0], name, queue_manager, reason[1])
    producer = reporter(core)
    first = core.ledger.next_position
    try:
        message = message_of(core, producer, own, sections)
        if transaction is None:
            store(core, producer, queue, message)
        else:
            put_in_transaction(core, transaction, producer, queue, message)
            core.durability.provisional(first)
    except ManagerError as error:
        return Undelivered(_UNEXPECTED, name, queue_manager, error.description)
    core.reports.made += 1
    core.agenda.woken.append(queue)
    return None


def _completed_head(head: MessageHead, sections: bytes) -> MessageHead:
    """The head of these sections, with what ``head`` says of the message as a whole."""
    own = scan_head(sections)
    own.priority = head.priority
    own.durable = head.durable
    own.expiry_us = head.expiry_us
    return own


def reporter(core: Core) -> Producer:
    """Who puts reports, as the ledger has the name."""
    producer = core.reports.producer
    if producer is None:
        producer = Producer(core.holders.ids.take(), REPORTER, core.options.queue_manager, "", 0)
        producer.adverse = True
        core.reports.producer = producer
    return producer


@final
class ReportPart(TurnPart):
    """Reports are made, at once or when what they are about has been read."""

    def follow(self, core: Core) -> None:
        """Make the reports about what this command has brought about."""
        reports = core.reports
        if not reports.due:
            return
        due, reports.due = reports.due, []
        for cause in due:
            if cause.entry.body is not None:
                _report(core, cause, cause.entry.body)
            elif cause.entry.flags & n.FLAG_BODY_STORED != 0:
                _wait(core, cause)
        read_more(core)

    def durable(self, core: Core) -> None:
        read_more(core)

    def reads(self, entry: Entry) -> bool:
        return entry.state == n.START and isinstance(entry.owner, Reports)

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        """The messages that were to be read, in their order. A damaged one leaves its report unmade."""
        reports = core.reports
        read, reports.reading = reports.reading, []
        for cause, body in zip(read, bodies, strict=True):
            if isinstance(body, LedgerCorrupt):
                reports.unmade += 1
            else:
                _report(core, cause, body)
        read_more(core)
