"""Puts: what a queue takes, what it refuses, and the way of a message from its producer to its place, or
into a transaction: invisible until it is committed."""

from typing import Final, final

from isal.isal_zlib import crc32
from mypy_extensions import i64, mypyc_attr

from postroom.amqp.errors import INVALID_FIELD
from postroom.ledger.format.entry_records import Arrival
from postroom.manager.destinations.topic import Topic
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import ENTRY_OVERHEAD_BYTES, Entry
from postroom.manager.kernel.entry_creation import FIRST_SLOT, begin_held, first_state
from postroom.manager.kernel.errors import (
    DestinationPaused,
    LimitExceeded,
    ManagerError,
    MessageTooLarge,
    NotAllowed,
    ReportOptionsInvalid,
)
from postroom.manager.kernel.memory import admit, must_pack
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.transaction import Transaction, make_room
from postroom.manager.kernel.transition_table import FIRST
from postroom.manager.producing.upload import Upload, upload_of
from postroom.manager.queues.duplicate_detection import note
from postroom.manager.queues.placement import add_delayed, add_new, watch_expiry
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.queues.store_holders import ConfirmIdHolder
from postroom.manager.undeliverable.expiry import expire_available, expired
from postroom.model import mq
from postroom.model import numbers as n
from postroom.model.message import MessageHead
from postroom.model.mq import Reason

TOO_LARGE: Final = "amqp:link:message-size-exceeded"
NO_ROOM: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
CLOSED: Final = "amqp:illegal-state"
_ERRORS: Final[dict[str, type[ManagerError]]] = {
    TOO_LARGE: MessageTooLarge,
    NO_ROOM: LimitExceeded,
    NOT_ALLOWED: NotAllowed,
    CLOSED: DestinationPaused,
    INVALID_FIELD: ReportOptionsInvalid,
}
"""By the condition that a send would be refused with."""


@final
@mypyc_attr(free_list_len=1, acyclic=True)
class Message:
    """A head, and the sections that it is the head of (without header and delivery-annotations): ``body``, or
    else an ``upload``."""

    __slots__ = ("body", "head", "size", "upload")

    def __init__(self, head: MessageHead, body: bytes | None, upload: Upload | None = None) -> None:
        self.head = head
        self.body = body
        self.upload = upload
        self.size: i64 = 0
        """In bytes, of its sections."""
        if body is not None:
            self.size = len(body)
        elif upload is not None:
            self.size = upload.size_bytes

    def opening(self) -> bytes:
        """Its first bytes, which have every section before the body."""
        return (self.upload.opening if self.upload is not None else self.body) or b""


def message_of(core: Core, producer: Producer, head: MessageHead, body: bytes) -> Message:
    """A message that is here as a whole; a large body is written in pieces first."""
    upload = upload_of(core, producer, body)
    return Message(head, None if upload is not None else body, upload)


_PUT_INHIBITED: Final = int(Reason.PUT_INHIBITED)
_Q_FULL: Final = int(Reason.Q_FULL)
_TOO_BIG_FOR_Q: Final = int(Reason.MSG_TOO_BIG_FOR_Q)
_TOO_BIG_FOR_Q_MGR: Final = int(Reason.MSG_TOO_BIG_FOR_Q_MGR)
_PERSISTENT_NOT_ALLOWED: Final = int(Reason.PERSISTENT_NOT_ALLOWED)
_STORAGE_NOT_AVAILABLE: Final = int(Reason.STORAGE_NOT_AVAILABLE)

PutHolder = Transaction | ConfirmIdHolder
"""Who can have put something that has to be confirmed."""


def error_of(refused: tuple[str, str]) -> ManagerError:
    """Why a message can't be taken, (condition, description), as an exception."""
    return _ERRORS[refused[0]](refused[1])


def refusal(core: Core, queue: Destination, size: i64, durable: bool) -> tuple[str, str] | None:
    """Why ``queue`` can't take a message of ``size`` bytes however long it waits: (condition, description).

    None if it can, now or when there is room.
    """
    if queue.switches.closed_to_puts:
        switch = "production" if queue.switches.production_paused else "insertion"
        return CLOSED, f"{queue.definition.kind} {queue.name!r} takes no messages: {switch} is paused"
    found = unfit(core, queue, size, durable)
    return None if found is None else (found[0], found[1])


def unfit(core: Core, queue: Destination, size: i64, durable: bool) -> tuple[str, str, int] | None:
    """As `refusal`, whatever is paused: the bounds of ``queue`` and of the queue manager; with the MQRC_."""
    limits = queue.limits
    if size > limits.max_message_bytes:
        text = f"message of {size} bytes is larger than the {limits.max_message_bytes} bytes that queue"
        return TOO_LARGE, f"{text} {queue.name!r} takes", _TOO_BIG_FOR_Q
    if durable and not limits.persistent:
        text = (
            f"queue {queue.name!r} has no store (persistent = false) and takes no persistent messages: "
            "send it non-persistent, or set allow_persistent_downgrade"
        )
        return NOT_ALLOWED, text, _PERSISTENT_NOT_ALLOWED
    if isinstance(queue, Queue) and queue.units is not None and queue.units.full():
        text = (
            f"queue {queue.name!r} keeps {queue.units.max_members} messages of units of order in mind "
            "(max_unit_members): send it when some are done"
        )
        return NO_ROOM, text, _Q_FULL
    pool = queue.quota.pool
    if pool is not None and not pool.could_fit(1, size):
        reason = _TOO_BIG_FOR_Q if 0 <= pool.max_bytes < size else _Q_FULL
        return NO_ROOM, no_room_text(pool, size), reason
    refused = None if durable else volatile_refusal(core, size + ENTRY_OVERHEAD_BYTES)
    return None if refused is None else (*refused, _STORAGE_NOT_AVAILABLE)


def volatile_refusal(core: Core, size: i64) -> tuple[str, str] | None:
    """Why non-persistent messages that take ``size`` bytes of memory are refused; None: they aren't."""
    memory = core.memory
    if memory.volatile_bytes + size <= memory.max_volatile_bytes:
        return None
    return NO_ROOM, (
        f"non-persistent messages fill the {memory.max_volatile_bytes} bytes that the queue manager has "
        "for them (max_volatile_bytes): send it persistent, or later"
    )


def lacking(core: Core, queue: Destination, size: i64) -> Pool | None:
    """The pool that has no room now for a message of ``size`` bytes to ``queue``; None: there is room."""
    pool = queue.quota.pool
    if pool is None or pool.takes(size):
        return None
    # expired entries at the front of a full queue are noticed on access
    for band in as_queue(queue).bands:
        entry = band.first()
        while entry is not None and expired(core, entry):
            expire_available(core, entry)
            entry = band.first()
    return None if pool.takes(size) else pool


def no_room_text(pool: Pool, size: i64) -> str:
    """Why a message of ``size`` bytes is refused."""
    return (
        f"{pool.what} has no room for {size} bytes: {pool.messages} messages of at most "
        f"{pool.max_messages}, {pool.bytes} bytes of at most {pool.max_bytes} (−1: no limit)"
    )


def expiry_of(core: Core, queue: Destination, head: MessageHead) -> i64:
    """When the message expires: the earliest of its time to live, its absolute time and the queue's
    limit; 0 never.

    A time to live of 0 means none, as clients that write the header in full mean it.
    """
    limits = queue.limits
    soonest: i64 = head.expiry_us if limits.respects_ttl else 0
    if head.ttl_ms > 0 and limits.respects_ttl:
        by_ttl = core.now_us + head.ttl_ms * 1000
        if soonest == 0 or by_ttl < soonest:
            soonest = by_ttl
    if limits.max_ttl_us >= 0:
        by_queue = core.now_us + limits.max_ttl_us
        if soonest == 0 or by_queue < soonest:
            soonest = by_queue
    return soonest


def due_of(core: Core, head: MessageHead) -> i64:
    """When the message is to be born, if that is still to come; 0 at once."""
    due_us = head.delivery_time_ms * 1000
    by_delay = core.now_us + head.delivery_delay_ms * 1000
    if by_delay > due_us:
        due_us = by_delay
    return due_us if due_us > core.now_us else 0


def store(core: Core, producer: Producer, queue: Queue, message: Message) -> None:
    """Put a whole message, nothing held. The caller has asked `refusal`."""
    head = message.head
    if head.delivery_time_ms != 0 or head.delivery_delay_ms != 0:
        due_us = due_of(core, head)
        if due_us != 0:
            entry = new_entry(core, producer, queue, message, due_us, None)
            add_delayed(core, entry, n.UNBORN, due_us)
            note(queue, message.head, None)
            return
    expiry_us = expiry_of(core, queue, head)
    priority = head.priority if head.priority <= 9 else 9
    flags = flags_of(message, expiry_us)
    arrival = Arrival(queue.id, n.EVENT_PUT, FIRST, head, priority=priority, flags=flags, expiry_us=expiry_us)
    serial = write_arrival(core, producer, queue, arrival, message)
    if queue.duplicates is not None:
        note(queue, head, None)
    size, body = message.size, message.body
    queue.statistics.arrive(FIRST_SLOT, size)
    offset = arrival.body_offset
    if flags & n.FLAG_REPORTS != 0:
        new = Entry(queue, serial, priority, flags, expiry_us, offset, size, body)
        core.reports.note(new, n.FEEDBACK_COA)
    band = queue.band(priority)
    packed = flags & n.FLAG_BODY_STORED != 0 and must_pack(core, band.live_count(), band.backlog.count)
    if packed and queue.selectors.in_use == 0 and queue.units is None:
        band.backlog.append(serial, serial, expiry_us, offset, size, flags)
        if expiry_us != 0:
            watch_expiry(core, queue, expiry_us)
        return
    add_new(core, queue, Entry(queue, serial, priority, flags, expiry_us, offset, size, body))


def flags_of(message: Message, expiry_us: i64) -> i64:
    """Of a message that expires then. A body that came in chunks is stored even if it isn't persistent: it
    was written before that was known."""
    head = message.head
    flags: i64 = n.FLAG_DURABLE | n.FLAG_BODY_STORED if head.durable else 0
    if head.dead_letter_eligible:
        flags |= n.FLAG_DEAD_LETTER_ELIGIBLE
    if head.report & mq.LIFE_FAMILIES != 0:
        flags |= n.FLAG_REPORTS
    if message.upload is not None:
        flags |= n.FLAG_BODY_STORED | n.FLAG_BODY_CHUNKED
    stated_us = head.properties_expiry_us
    if stated_us != 0 and (expiry_us == 0 or expiry_us > stated_us):
        flags |= n.FLAG_EXPIRY_REPLACED
    return flags


def new_entry(
    core: Core, producer: Producer, queue: Queue, message: Message, due_us: i64, by: PutHolder | None
) -> Entry:
    """Write an arrival, and make the object in no order: `entry_creation` has it begin, available, delayed
    (``due_us``, else 0), or held by whom it was put ``by``."""
    head = message.head
    event: i64 = n.EVENT_PUT
    holder_kind: i64 = n.NO_HOLDER
    holder: i64 = 0
    if by is not None:
        event = n.EVENT_PUT_HELD
        holder_kind = by.kind
        holder = by.id
    expiry_us = expiry_of(core, queue, head)
    priority = head.priority if head.priority <= 9 else 9
    flags = flags_of(message, expiry_us)
    if holder_kind == n.XA_BRANCH or holder_kind == n.SPARK_BRANCH:
        flags |= n.FLAG_BODY_STORED  # whatever its mode: such a branch survives, with all that is in it
    causes: i64 = n.UNBORN if due_us != 0 else 0
    state = first_state(event, holder_kind, causes)
    arrival = Arrival(queue.id, event, state, head, priority=priority, flags=flags, expiry_us=expiry_us)
    arrival.holder_kind = holder_kind
    arrival.holder = holder
    arrival.causes = causes
    arrival.due_us = due_us
    serial = write_arrival(core, producer, queue, arrival, message)
    size, offset = message.size, arrival.body_offset
    entry = Entry(queue, serial, priority, flags, expiry_us, offset, size, message.body)
    entry.causes = causes
    entry.due_us = due_us
    return entry


def write_arrival(
    core: Core, producer: Producer, queue: Destination, arrival: Arrival, message: Message
) -> i64:
    """Complete and write an arrival by ``producer``; the body goes with it only if it is to be stored.
    Returns its serial.

    ``queue`` is where it was put: itself the routing set, or a topic, which the record names as its parent.
    """
    if not producer.recorded:
        core.holders.open_producer(producer)
    queue.schedule.active_us = core.now_us
    arrival.producer = producer.id
    body, upload = message.body, message.upload
    flags = arrival.flags
    if producer.adverse:
        flags |= n.FLAG_ADVERSE
    if queue.taps != 0 and body is not None and flags & n.FLAG_BODY_STORED == 0:
        flags |= n.FLAG_TAPPED
    if producer.receives:
        flags |= n.FLAG_RECEIVED
        arrival.parent_serial = producer.origin_serial
        arrival.parent_queue = producer.sequence
    elif isinstance(queue, Topic):
        arrival.parent_queue = queue.id
    arrival.flags = flags
    arrival.body_len = message.size
    if upload is not None:
        arrival.chunk_positions = upload.chunks
        arrival.body_crc = upload.crc
    elif body is not None:
        arrival.body_crc = crc32(body)
        if flags & (n.FLAG_BODY_STORED | n.FLAG_TAPPED) != 0:
            arrival.body = body
    serial = core.ledger.arrival(arrival)
    if core.trace_contexts is not None:
        core.trace_contexts.note(serial, message.opening())
    if isinstance(queue, Queue) and (queue.ids is not None or queue.units is not None):
        _note_arrival(queue, serial, arrival, message)
    return serial


def _note_arrival(queue: Queue, serial: i64, arrival: Arrival, message: Message) -> None:
    """Have it found by its ids, and be a member of its unit."""
    if queue.ids is not None:
        queue.ids.note(serial, arrival.properties)
    if queue.units is not None:
        size, offset = message.size, arrival.body_offset
        queue.units.come(Entry(queue, serial, arrival.priority, arrival.flags, 0, offset, size, message.body))


def put_in_transaction(
    core: Core, transaction: Transaction, producer: Producer, queue: Queue, message: Message
) -> Entry:
    """Put provisionally: invisible until the commit. Raises as `make_room`."""
    make_room(core, transaction, 1, message.size)
    entry = new_entry(core, producer, queue, message, due_of(core, message.head), transaction)
    note(queue, message.head, transaction)
    hold_put(core, transaction, entry)
    return entry


def hold_put(core: Core, transaction: Transaction, entry: Entry) -> None:
    """The transaction has put ``entry``, a new object in no order."""
    begin_held(entry, transaction.kind, transaction.id, transaction)
    as_queue(entry.queue).held.add(entry)
    if transaction.kind == n.SPARK_BRANCH:
        entry.body = None  # it may be held for long, and there may be very many: read again when it goes out
    admit(core, entry)
    transaction.puts.append(entry)


def refusal_of(core: Core, queue: Queue, head: MessageHead, size: i64) -> tuple[int, str] | None:
    """Why ``queue`` doesn't take it now, as (MQRC_, sentence)."""
    if queue.switches.closed_to_puts:
        return _PUT_INHIBITED, f"queue {queue.name!r} takes no messages: production or insertion is paused"
    if size > core.options.max_message_bytes:
        limit = core.options.max_message_bytes
        return _TOO_BIG_FOR_Q_MGR, f"message of {size} bytes: the queue manager takes {limit} at most"
    refused = unfit(core, queue, size, head.durable)
    if refused is not None:
        return refused[2], refused[1]
    pool = lacking(core, queue, size)
    return None if pool is None else (_Q_FULL, no_room_text(pool, size))
