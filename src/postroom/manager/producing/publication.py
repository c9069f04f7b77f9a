"""Publishing: one arrival, and an entry of it for every subscription that wants the message."""

from typing import Final, final

from mypy_extensions import i64

from postroom.amqp.message.message_fields import MessageFields
from postroom.ledger.format.entry_records import Arrival
from postroom.manager.destinations import routing, tap
from postroom.manager.destinations.topic import Route, Topic
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import ENTRY_OVERHEAD_BYTES, Entry
from postroom.manager.kernel.entry_creation import FIRST_SLOT, first_state
from postroom.manager.kernel.memory import must_pack
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.transaction import Transaction, make_room
from postroom.manager.kernel.transition_table import FIRST
from postroom.manager.producing.put import (
    NO_ROOM,
    Message,
    due_of,
    expiry_of,
    flags_of,
    hold_put,
    refusal,
    volatile_refusal,
    write_arrival,
)
from postroom.manager.producing.upload import abort
from postroom.manager.queues.band import Band
from postroom.manager.queues.duplicate_detection import note
from postroom.manager.queues.placement import add_delayed, add_new, watch_expiry
from postroom.manager.queues.queue import Queue, Subscription
from postroom.model import numbers as n

_STORED: Final = n.FLAG_BODY_STORED


def publish(
    core: Core, producer: Producer, topic: Topic, message: Message, transaction: Transaction | None
) -> tuple[str, str] | None:
    """Pass a message on to the subscriptions of ``topic``.

    Why not, as (condition, description), if one of them can't take it: then none gets it. Raises as
    `commit.make_room`.
    """
    route = routing.route_of(core, topic)
    takers = _takers(route, route.queues, producer, message)
    size = message.size
    refused = _refusal(core, topic, route, takers, size, message.head.durable)
    if refused is not None:
        return refused
    if transaction is not None:
        make_room(core, transaction, len(takers), size)
    topic.statistics.received += 1
    topic.statistics.received_bytes += size
    if not takers:
        _record_unrouted(core, producer, topic, message)
    else:
        _publish_to(core, producer, topic, route, takers, message, transaction)
    return None


def count_takers(core: Core, producer: Producer, topic: Topic, message: Message) -> int:
    """How many subscriptions want the message."""
    route = routing.route_of(core, topic)
    return len(_takers(route, route.queues, producer, message))


def _takers(
    route: Route, queues: list[Subscription], producer: Producer, message: Message
) -> list[Subscription]:
    """Of ``queues``, all or part of a route, those that want the message."""
    if not route.choosy:
        return queues
    head = message.head
    fields = MessageFields(head.priority, head.durable, 0, message.opening(), None)
    return routing.wanting(queues, fields, producer.container)


def _refusal(
    core: Core, topic: Topic, route: Route, takers: list[Subscription], size: i64, durable: bool
) -> tuple[str, str] | None:
    """Why it can't be taken however long it waits."""
    refused = refusal(core, topic, size, durable)
    if refused is not None:
        return refused
    for queue in route.closed:
        if not route.choosy or queue in takers:
            return refusal(core, queue, size, durable)
    for pool, count in _charges(takers if route.limited else []).items():
        if not pool.could_fit(count, size * count):
            return NO_ROOM, (
                f"{pool.what} has no room for {count} entries of {size} bytes, one for each subscription: at "
                f"most {pool.max_messages} messages, {pool.max_bytes} bytes (−1: no limit)"
            )
    return None if durable else volatile_refusal(core, size + ENTRY_OVERHEAD_BYTES * len(takers))


def lacking(core: Core, producer: Producer, topic: Topic, message: Message, order: i64) -> Pool | None:
    """The first pool without room for the entries that this publish makes in it; None: there is room.

    There is none where somebody waits who came before it: ``order``, as `BlockedSend.order`.
    """
    route = routing.route_of(core, topic)
    if not route.limited:
        return None
    size = message.size
    limited = _takers(route, route.limited, producer, message)
    for pool, count in _charges(limited).items():
        waits = not pool.preemptive and pool.line.has_before(order)
        if (waits or not pool.fits(count, size * count)) and pool.could_fit(count, size * count):
            return pool
    return None


def _charges(queues: list[Subscription]) -> dict[Pool, int]:
    """How many entries one publish makes in each pool."""
    found: dict[Pool, int] = {}
    for queue in queues:
        pool = queue.quota.pool
        if pool is not None:
            found[pool] = found.get(pool, 0) + 1
    return found


def _record_unrouted(core: Core, producer: Producer, topic: Topic, message: Message) -> None:
    """Nobody wants it: the ledger tells that it came, without its body."""
    if message.upload is not None:
        abort(core, message.upload)
    topic.unrouted += 1
    nobody = subscriptions_of(core).routing_sets.find(b"").id
    head = message.head
    flags: i64 = n.FLAG_DURABLE if head.durable else 0
    priority = head.priority if head.priority <= 9 else 9
    arrival = Arrival(nobody, n.EVENT_PUT, FIRST, head, priority=priority, flags=flags, expiry_us=0)
    write_arrival(core, producer, topic, arrival, Message(head, None))


def _publish_to(
    core: Core,
    producer: Producer,
    topic: Topic,
    route: Route,
    takers: list[Subscription],
    message: Message,
    transaction: Transaction | None,
) -> None:
    """Write the arrival, and give every subscription its entry."""
    head = message.head
    due_us = due_of(core, head)
    publication = _Publication(core, topic, message, due_us)
    if len(takers) > 1:
        publication.flags |= n.FLAG_PUBLISHED
    arrival = Arrival(
        routing.set_of(core, route, takers),
        n.EVENT_PUT,
        FIRST,
        head,
        priority=publication.priority,
        flags=publication.flags,
        expiry_us=publication.expiry_us,
    )
    if transaction is not None:
        arrival.event = n.EVENT_PUT_HELD
        arrival.holder_kind = transaction.kind
        arrival.holder = transaction.id
        if transaction.kind == n.XA_BRANCH or transaction.kind == n.SPARK_BRANCH:
            publication.flags |= _STORED  # as `put.new_entry` says
    if transaction is not None or due_us != 0:
        arrival.to_state = first_state(arrival.event, arrival.holder_kind, publication.causes)
    arrival.causes = publication.causes
    arrival.due_us = due_us
    arrival.flags = publication.flags | tap.flag(core, takers, publication.flags, message.body)
    publication.serial = write_arrival(core, producer, topic, arrival, message)
    publication.offset = arrival.body_offset
    note(topic, head, transaction)
    for queue in takers:
        if queue.ids is not None:
            queue.ids.note(publication.serial, head)
        if transaction is not None:
            entry = publication.entry(queue)
            hold_put(core, transaction, entry)
        elif due_us != 0:
            add_delayed(core, publication.entry(queue), n.UNBORN, due_us)
        else:
            _give(core, publication, queue)


@final
class _Publication:
    """What all entries of one publish have in common."""

    def __init__(self, core: Core, topic: Topic, message: Message, due_us: i64) -> None:
        head = message.head
        self.body = message.body
        self.size: i64 = message.size
        self.priority: i64 = head.priority if head.priority <= 9 else 9
        self.expiry_us: i64 = expiry_of(core, topic, head)
        self.flags: i64 = flags_of(message, self.expiry_us)
        self.due_us: i64 = due_us
        self.causes: i64 = n.UNBORN if due_us != 0 else 0
        self.serial: i64 = 0
        self.offset: i64 = 0

    def entry(self, queue: Queue) -> Entry:
        """An object for ``queue``, in no order yet."""
        entry = Entry(
            queue, self.serial, self.priority, self.flags, self.expiry_us, self.offset, self.size, self.body
        )
        if self.causes != 0:
            entry.causes = self.causes
            entry.due_us = self.due_us
        return entry


def _give(core: Core, publication: _Publication, queue: Queue) -> None:
    """Its entry is available at once. Where nobody waits for it, it is packed: it may wait for long."""
    queue.statistics.arrive(FIRST_SLOT, publication.size)
    if publication.flags & n.FLAG_REPORTS != 0:
        core.reports.note(publication.entry(queue), n.FEEDBACK_COA)
    band = queue.band(publication.priority)
    backlog = band.backlog
    idle = not queue.attached.consumers and publication.flags & _STORED != 0
    if idle or _packed(core, queue, band, publication.flags):
        backlog.append(
            publication.serial,
            publication.serial,
            publication.expiry_us,
            publication.offset,
            publication.size,
            publication.flags,
        )
        if publication.expiry_us != 0:
            watch_expiry(core, queue, publication.expiry_us)
    else:
        add_new(core, queue, publication.entry(queue))
    if queue.attached.ready or queue.attached.browsers or queue.schedule.watched:
        core.agenda.woken.append(queue)


def _packed(core: Core, queue: Queue, band: Band, flags: i64) -> bool:
    """Whether a new entry goes to the backlog though somebody consumes."""
    if flags & _STORED == 0 or queue.selectors.in_use > 0:
        return False
    return must_pack(core, band.live_count(), band.backlog.count)
