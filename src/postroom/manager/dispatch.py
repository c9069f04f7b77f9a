"""Who gets what next: available entries to consumers with credit, in order and in turn."""

from mypy_extensions import i64

from postroom.manager.browse import browse
from postroom.manager.consumer import Consumer
from postroom.manager.core import Core
from postroom.manager.effects import Delivery
from postroom.manager.entry import Entry
from postroom.manager.expiry import expire_available
from postroom.manager.fetching import fetch_ahead, fetch_entry
from postroom.manager.memory import drop_body
from postroom.manager.placing import ended, refill, take_out
from postroom.manager.queue import PRIORITIES, Queue
from postroom.manager.transitions import acquire, step
from postroom.model import numbers as n


def can_take(core: Core, consumer: Consumer) -> bool:
    """Whether the consumer could be given a delivery now."""
    return (
        consumer.credit > 0
        and consumer.active
        and not consumer.closed
        and not consumer.suspended
        and consumer.backoff_us == 0
        and len(consumer.held) < core.max_unsettled
    )


def refresh(core: Core, consumer: Consumer) -> None:
    """Put the consumer into its queue's ring, or out of it."""
    able = can_take(core, consumer)
    if able == consumer.ready:
        return
    consumer.ready = able
    queue = consumer.queue
    if able:
        queue.ready.append(consumer)
    else:
        at: i64 = queue.ready.index(consumer)
        queue.ready.pop(at)
        if at < queue.turn:
            queue.turn -= 1


def dispatch(core: Core, queue: Queue) -> None:
    """Deliver what can be delivered, within the bounds of a turn."""
    if queue.ready:
        if queue.exclusions > 0:
            _dispatch_choosing(core, queue)
        else:
            _dispatch_in_turn(core, queue)
    if queue.browsers:
        for browser in queue.browsers:
            browse(core, browser)
    if queue.watched:
        core.tell_watchers(queue)
    _finish_drains(core, queue)


def _dispatch_in_turn(core: Core, queue: Queue) -> None:
    """The usual case: the next entry may go to anybody."""
    while queue.ready:
        entry = next_entry(core, queue)
        if entry is None:
            return
        if core.deliveries_left <= 0 or core.delivery_bytes_left <= 0:
            core.leave_for_next_turn(queue)
            return
        if queue.turn >= len(queue.ready):
            queue.turn = 0
        consumer = queue.ready[queue.turn]
        queue.turn += 1
        deliver(core, queue, consumer, entry)


def next_entry(core: Core, queue: Queue) -> Entry | None:
    """The next available entry with its body in memory; expired ones on the way are ended. None: nothing
    now."""
    while True:
        band = queue.top_band()
        if band is None:
            return None
        if band.backlog.count > 0:
            refill(core, queue, band)
        entry = band.first()
        if entry is None:
            return None
        if entry.expiry_us != 0 and entry.expiry_us <= core.now_us:
            expire_available(core, entry)
            continue
        if queue.unbodied > 0:
            if entry.body is None:
                queue.ahead = 0  # whatever was counted stands behind this one, or on another priority
            fetch_ahead(core, queue, band)
            if entry.body is None:
                return None
        return entry


def deliver(core: Core, queue: Queue, consumer: Consumer, entry: Entry) -> None:
    """Give ``entry``, which has its body, to ``consumer``."""
    body = entry.body
    assert body is not None
    take_out(queue, entry)
    queue.ahead -= 1
    delivery_count = entry.delivery_count
    annotations = entry.annotations
    if consumer.presettled:
        step(core, entry, n.EVENT_GET, 0, 0, None, 0)
        ended(core, entry)
    else:
        if not consumer.recorded:
            core.record_consumer(consumer)
        acquire(core, entry, consumer.id, consumer)
        consumer.held.add(entry)
        drop_body(core, entry)
    consumer.credit -= 1
    consumer.assigned += 1
    core.deliveries_left -= 1
    core.delivery_bytes_left -= entry.body_len
    core.effects.deliveries.append(Delivery(consumer, entry, body, delivery_count, annotations, False))
    if consumer.credit == 0 or len(consumer.held) >= core.max_unsettled:
        refresh(core, consumer)


def _dispatch_choosing(core: Core, queue: Queue) -> None:
    """Some entries may not go to some consumers: each takes the first that may come to it."""
    idle: i64 = 0
    while queue.ready and idle < len(queue.ready):
        if core.deliveries_left <= 0 or core.delivery_bytes_left <= 0:
            core.leave_for_next_turn(queue)
            return
        if queue.turn >= len(queue.ready):
            queue.turn = 0
        consumer = queue.ready[queue.turn]
        queue.turn += 1
        entry = _first_for(core, queue, consumer)
        if entry is None:
            idle += 1
            continue
        if entry.expiry_us != 0 and entry.expiry_us <= core.now_us:
            expire_available(core, entry)
            continue
        if entry.body is None:
            fetch_entry(core, queue, entry)
            return
        idle = 0
        deliver(core, queue, consumer, entry)


def _first_for(core: Core, queue: Queue, consumer: Consumer) -> Entry | None:
    """The first available entry that may go to ``consumer``."""
    priority: i64 = PRIORITIES - 1
    while priority >= 0:
        band = queue.bands[priority]
        if band.backlog.count > 0:
            refill(core, queue, band)
        front = band.live[band.head] if band.head < len(band.live) else None
        at: i64 = len(band.returned) - 1
        while at >= 0:
            entry = band.returned[at]
            if front is not None and front.before(entry):
                break
            if entry.excluded is None or consumer.id not in entry.excluded:
                return entry
            at -= 1
        if front is not None:
            return front
        priority -= 1
    return None


def _finish_drains(core: Core, queue: Queue) -> None:
    """Consumers that drain and can get nothing more now have used their credit."""
    if not queue.draining or queue.fetching or queue.awaited > 0 or queue.waits_for_durable or queue.pending:
        return
    for consumer in queue.draining:
        consumer.credit = 0
        consumer.drain = False
        refresh(core, consumer)
        core.effects.drained.append(consumer)
    queue.draining.clear()
