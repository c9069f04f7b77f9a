"""Who gets what next: available entries to consumers with credit, in order and in turn."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.consuming.body_fetch import fetch_ahead, fetch_entry
from postroom.manager.consuming.browser import Browser, browse
from postroom.manager.consuming.selection import first_for, may_go, next_wanted
from postroom.manager.consuming.unit_turns import catch_up, give_turns
from postroom.manager.kernel.consumer import BulkReceiver, Consumer
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.memory import drop_body
from postroom.manager.kernel.outgoing_sections import outgoing_sections
from postroom.manager.kernel.transitions import acquire, step
from postroom.manager.queues.band import NOWHERE, Band
from postroom.manager.queues.message_groups import FIRST_IN_GROUP, GROUP_WINDOW, Groups, Passed
from postroom.manager.queues.placement import ended, refill, take_out
from postroom.manager.queues.queue import PRIORITIES, Queue, as_queue
from postroom.manager.queues.selector_cursor import cursor_of
from postroom.manager.undeliverable.expiry import expire_available
from postroom.model import numbers as n

MAX_REPORTED_BODY_BYTES: Final = 64 << 10
"""A body up to so large that is handed out stays in memory if a report may be asked about its delivery."""
GROUPED_AT_ONCE: Final = 64
"""Entries of a queue with groups that are taken out of its band's order together."""


def can_take(core: Core, consumer: Consumer) -> bool:
    """Whether the consumer could be given a delivery now."""
    return (
        consumer.credit > 0
        and consumer.active
        and not consumer.closed
        and not consumer.suspended
        and consumer.backoff_us == 0
        and len(consumer.held) < _most_unsettled(core, consumer.queue)
    )


def _most_unsettled(core: Core, queue: Destination) -> i64:
    """What one consumer may have without having settled it."""
    own, bound = queue.limits.max_unsettled, core.budget.max_unsettled
    return own if own < bound else bound


def refresh(core: Core, consumer: Consumer) -> None:
    """Put the consumer into its queue's ring, or out of it."""
    able = can_take(core, consumer)
    if able == consumer.ready:
        return
    consumer.ready = able
    queue = as_queue(consumer.queue)
    if able:
        queue.attached.ready.append(consumer)
        if queue.groups is not None:
            queue.groups.released()
    else:
        at: i64 = queue.attached.ready.index(consumer)
        queue.attached.ready.pop(at)
        if at < queue.attached.turn:
            queue.attached.turn -= 1


def dispatch(core: Core, queue: Queue) -> None:
    """Deliver what can be delivered, within the bounds of a turn."""
    queue.schedule.stopped = False
    if queue.units is not None:
        give_turns(core, queue, queue.units)
    if not queue.switches.consumption_paused and not queue.switches.get_inhibited:
        _give_out(core, queue)
    if queue.attached.browsers:
        for browser in queue.attached.browsers:
            assert isinstance(browser, Browser)
            browse(core, browser)
    if queue.schedule.watched:
        core.agenda.notify_watchers(queue)
    _finish_drains(core, queue)


def _give_out(core: Core, queue: Queue) -> None:
    """Entries to those who take them."""
    if queue.returning > 0 or (queue.units is not None and not queue.units.known()):
        queue.schedule.stopped = True
    elif queue.attached.ready:
        if queue.selectors.exclusions > 0 or queue.selectors.in_use > 0:
            _dispatch_choosing(core, queue)
        elif queue.groups is not None:
            _dispatch_groups(core, queue, queue.groups)
        elif queue.packed_holders:
            _dispatch_with_bulk(core, queue)
        else:
            _dispatch_in_turn(core, queue)


def _dispatch_in_turn(core: Core, queue: Queue) -> None:
    """The usual case: the next entry may go to anybody."""
    while queue.attached.ready:
        entry = next_entry(core, queue)
        if entry is None:
            return
        if _is_used_up(core, queue):
            return
        deliver(core, queue, _in_turn(queue), entry)


def _is_used_up(core: Core, queue: Queue) -> bool:
    """Whether this turn may deliver no more; then the next one goes on."""
    if core.budget.deliveries > 0 and core.budget.delivery_bytes > 0:
        return False
    queue.schedule.stopped = True
    core.agenda.leave_for_next_turn(queue)
    return True


def _in_turn(queue: Queue) -> Consumer:
    """Whose turn it is among those who can take something."""
    attached = queue.attached
    if attached.turn >= len(attached.ready):
        attached.turn = 0
    attached.turn += 1
    return attached.ready[attached.turn - 1]


def _dispatch_with_bulk(core: Core, queue: Queue) -> None:
    """Those that take in bulk take turns with the others; by itself one takes all that it has room for."""
    attached = queue.attached
    while attached.ready:
        if core.budget.deliveries <= 0 or core.budget.delivery_bytes <= 0 or core.budget.assignments <= 0:
            queue.schedule.stopped = True
            core.agenda.leave_for_next_turn(queue)
            return
        if attached.turn >= len(attached.ready):
            attached.turn = 0
        consumer = attached.ready[attached.turn]
        bulk = consumer.bulk
        if bulk is None:
            entry = next_entry(core, queue)
            if entry is None:
                return
            attached.turn += 1
            deliver(core, queue, consumer, entry)
        elif not bulk.take_next(len(attached.ready) == 1):
            return
        else:
            attached.turn += 1
            has_room(core, consumer)


def has_room(core: Core, consumer: Consumer) -> None:
    """Whom the consumer takes for in bulk may have another room: so much is its credit."""
    bulk = consumer.bulk
    assert bulk is not None
    consumer.credit = bulk.room()
    if (consumer.credit > 0) != consumer.ready:
        refresh(core, consumer)


def next_entry(core: Core, queue: Queue) -> Entry | None:
    """The next available entry with its body in memory; expired ones on the way are ended. None: nothing
    now."""
    while True:
        catch_up(core, queue)
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
        return entry if _has_body(core, queue, band, entry) else None


def _has_body(core: Core, queue: Queue, band: Band, entry: Entry) -> bool:
    """Whether the next of ``band`` has its body in memory; has bodies read in good time."""
    if queue.bodies.missing > 0:
        if entry.body is None:
            queue.bodies.ahead = 0  # whatever was counted stands behind this one, or on another priority
        fetch_ahead(core, queue, band)
    return entry.body is not None


def deliver(core: Core, queue: Queue, consumer: Consumer, entry: Entry) -> None:
    """Give ``entry``, which has its body, to ``consumer``."""
    body = entry.body
    assert body is not None
    if entry.band_part != NOWHERE:
        take_out(queue, entry)
        queue.bodies.ahead -= 1
    delivery_count = entry.delivery_count
    first = entry.flags & n.FLAG_ACQUIRED == 0 and delivery_count == 0
    annotations = entry.annotations
    if queue.groups is not None and queue.groups.goes(consumer, entry, body):
        annotations = {**(annotations or {}), FIRST_IN_GROUP: True}
    if consumer.receiver is not None:
        consumer.receiver.take(entry)
    elif consumer.presettled:
        step(core, entry, n.EVENT_GET, 0, 0, None, 0)
        ended(core, entry)
    else:
        if not consumer.recorded:
            core.holders.open_consumer(consumer)
        acquire(core, entry, consumer.id, consumer)
        consumer.held.add(entry)
        if entry.flags & n.FLAG_REPORTS == 0 or entry.body_len > MAX_REPORTED_BODY_BYTES:
            drop_body(core, entry)
    consumer.credit -= 1
    consumer.assigned += 1
    core.budget.deliveries -= 1
    core.budget.delivery_bytes -= entry.body_len
    sections = outgoing_sections(entry, body)
    core.effects.deliveries.append(
        Delivery(consumer, entry, sections, delivery_count, annotations, False, first)
    )
    if consumer.credit == 0 or len(consumer.held) >= _most_unsettled(core, consumer.queue):
        refresh(core, consumer)


def _dispatch_choosing(core: Core, queue: Queue) -> None:
    """Some entries may not go to some consumers: each takes the first that may come to it."""
    idle: i64 = 0
    while queue.attached.ready and idle < len(queue.attached.ready):
        if _is_used_up(core, queue):
            return
        consumer = _in_turn(queue)
        entry = _next_for(core, queue, consumer)
        if entry is None:
            idle += 1
        else:
            idle = 0
            _give(core, queue, consumer, entry)


def _dispatch_groups(core: Core, queue: Queue, groups: Groups) -> None:
    """Entries in order, each to the consumer that has its group; to the next in turn where nobody has it."""
    priority: i64 = PRIORITIES - 1
    while priority >= 0:
        band = queue.bands[priority]
        if band.holds_any() and not _dispatch_groups_of(core, queue, groups, band):
            return
        priority = PRIORITIES if catch_up(core, queue) else priority
        priority -= 1


def _dispatch_groups_of(core: Core, queue: Queue, groups: Groups, band: Band) -> bool:
    """Those of one priority, or until units have to catch up; False: nothing of others may be given out,
    either."""
    passed = groups.passed(band.priority, band.changes)
    goes_on = True
    while goes_on and passed.count <= GROUP_WINDOW:
        if band.backlog.count > 0:
            refill(core, queue, band)
        entries = band.after(passed.place, passed.ordinal, GROUPED_AT_ONCE)
        if not entries or (queue.units is not None and queue.units.freed):
            break
        goes_on = _dispatch_grouped(core, queue, groups, band, entries, passed)
    passed.changes = band.changes
    return goes_on


def _dispatch_grouped(
    core: Core, queue: Queue, groups: Groups, band: Band, entries: list[Entry], passed: Passed
) -> bool:
    """Some entries of a band, past a window of those whose consumer can take nothing."""
    for entry in entries:
        if not queue.attached.ready or _is_used_up(core, queue):
            return False
        if queue.units is not None and queue.units.freed:
            return True
        if entry.expiry_us != 0 and entry.expiry_us <= core.now_us:
            expire_available(core, entry)
            continue
        if not _has_body(core, queue, band, entry):
            _fetch_if_missing(core, queue, entry)
            return False
        body = entry.body
        assert body is not None
        owner = groups.owner_of(groups.bucket_of(entry, body))
        if owner is None or owner.ready:
            _give(core, queue, _in_turn(queue) if owner is None else owner, entry)
            continue
        passed.place, passed.ordinal = entry.place, entry.ordinal
        passed.count += 1
        if passed.count > GROUP_WINDOW:
            break
    return True


def _give(core: Core, queue: Queue, consumer: Consumer, entry: Entry) -> None:
    """Give ``entry``, which may go to it and has its body, to one that takes it alone or in bulk."""
    if consumer.bulk is None:
        deliver(core, queue, consumer, entry)
    else:
        _take_chosen(core, queue, consumer, consumer.bulk, entry)


def _take_chosen(core: Core, queue: Queue, consumer: Consumer, bulk: BulkReceiver, entry: Entry) -> None:
    """Give ``entry``, which may go to it and has its body, to one that takes in bulk."""
    body = entry.body
    assert body is not None
    if entry.band_part != NOWHERE:
        take_out(queue, entry)
        queue.bodies.ahead -= 1
    if queue.groups is not None:
        queue.groups.goes(consumer, entry, body)
    core.budget.deliveries -= 1
    core.budget.delivery_bytes -= entry.body_len
    bulk.take(entry)
    has_room(core, consumer)


def _next_for(core: Core, queue: Queue, consumer: Consumer) -> Entry | None:
    """The next entry for this consumer, with its body; None: nothing now."""
    cursor = cursor_of(consumer)
    if cursor is not None:
        catch_up(core, queue)
        entry = next_wanted(core, cursor, consumer)
        consumer.waits = cursor.busy
        return entry
    if queue.selectors.exclusions == 0 and queue.groups is None:
        return next_entry(core, queue)
    return _next_that_may_go(core, queue, consumer)


def _next_that_may_go(core: Core, queue: Queue, consumer: Consumer) -> Entry | None:
    while True:
        catch_up(core, queue)
        entry = first_for(core, queue, consumer)
        if entry is None:
            return None
        if entry.expiry_us != 0 and entry.expiry_us <= core.now_us:
            expire_available(core, entry)
            continue
        if entry.body is None:
            queue.bodies.ahead = 0
            fetch_ahead(core, queue, queue.bands[entry.priority])
            _fetch_if_missing(core, queue, entry)
        if entry.body is None:
            return None
        if may_go(queue, consumer, entry, entry.body):
            return entry


def _fetch_if_missing(core: Core, queue: Queue, entry: Entry) -> None:
    """Ask for the body of ``entry`` if it still isn't there: another subscription may have had it."""
    if entry.body is None and not entry.fetching:
        fetch_entry(core, queue, entry)


def _finish_drains(core: Core, queue: Queue) -> None:
    """Consumers that drain and can get nothing more now have used their credit."""
    if not queue.attached.draining or queue.schedule.stopped or queue.bodies.waits_for_durable:
        return
    still: list[Consumer] = []
    for consumer in queue.attached.draining:
        waits = (
            consumer.waits
            if consumer.selector_cursor_id != 0
            else queue.bodies.fetching or queue.bodies.awaited > 0
        )
        if waits and consumer.ready:
            still.append(consumer)
            continue
        consumer.credit = 0
        consumer.drain = False
        refresh(core, consumer)
        core.effects.drained.append(consumer)
    queue.attached.draining = still


@final
class DispatchPart(TurnPart):
    """Queues on which something has become available are dispatched."""

    def follow(self, core: Core) -> None:
        woken = core.agenda.woken
        core.agenda.woken = []
        last: Destination | None = None
        for queue in woken:
            if queue is not last and not queue.deleted:
                dispatch(core, as_queue(queue))
            last = queue
