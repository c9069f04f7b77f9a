"""Messages whose time is over: noticed when somebody meets them, and by a scan that looks only where
some are."""

from typing import final

from mypy_extensions import i64

from postroom.manager.destinations import registry as queues
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.transitions import step
from postroom.manager.queues.backlog import Backlog, Chunk, earliest
from postroom.manager.queues.placement import ended, take_out, watch_live
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.undeliverable.child_entries import make_child, may_leave
from postroom.model import numbers as n


def expired(core: Core, entry: Entry) -> bool:
    """Whether its time is over."""
    return entry.expiry_us != 0 and entry.expiry_us <= core.now_us


def expire_available(core: Core, entry: Entry) -> None:
    """End an available object whose time is over."""
    take_out(as_queue(entry.queue), entry)
    expire(core, entry)


def expire(core: Core, entry: Entry) -> None:
    """End an entry that is in no order: as expired, or redirected if its queue says so."""
    queue = as_queue(entry.queue)
    target = None
    if queue.limits.expiry_target and may_leave(entry):
        target = queues.target(core, queue, queue.limits.expiry_target)
    if target is None:
        step(core, entry, n.EVENT_EXPIRE, 0, 0, None, 0)
    else:
        make_child(core, entry, target, n.EVENT_REDIRECT, None)
        step(core, entry, n.EVENT_REDIRECT, 0, 0, None, 0)
    ended(core, entry)


def scan(core: Core, queue: Queue) -> None:
    """End what has expired on ``queue``, up to a turn's bound, and set the alarm for the next look."""
    queue.schedule.scanned_us = core.now_us
    left: i64 = core.options.max_expired_per_turn
    if queue.schedule.live_expiry_us != 0 and queue.schedule.live_expiry_us <= core.now_us:
        left = _scan_objects(core, queue, left)
    for band in queue.bands:
        if left > 0 and band.backlog.count > 0:
            left = _scan_backlog(core, queue, band.backlog, left)
    if left <= 0:
        core.agenda.set_alarm(queue, core.now_us)
        return
    soonest = next_expiry_us(queue)
    if soonest != 0:
        again = core.now_us + core.options.expiry_scan_ms * 1000
        core.agenda.set_alarm(queue, soonest if soonest > again else again)


def next_expiry_us(queue: Queue) -> i64:
    """Not later than the earliest expiry on the queue; 0 if nothing expires."""
    times = [int(band.backlog.min_expiry_us()) for band in queue.bands if band.backlog.count > 0]
    times.append(int(queue.schedule.live_expiry_us))
    return earliest(times)


def _scan_objects(core: Core, queue: Queue, left: i64) -> i64:
    """End expired objects that are available; returns how many more may be ended this turn.

    Those that are delayed have their own moments (`returned_entries.DelayPart`).
    """
    queue.schedule.live_expiry_us = 0
    for band in queue.bands:
        for entry in band.waiting() if band.live_count() > 0 else []:
            left -= _end_if_expired(core, queue, entry, left)
    return left


def _end_if_expired(core: Core, queue: Queue, entry: Entry, left: i64) -> i64:
    if entry.expiry_us == 0:
        return 0
    if left <= 0 or not expired(core, entry):
        watch_live(queue, entry.expiry_us)
        return 0
    expire_available(core, entry)
    return 1


def _scan_backlog(core: Core, queue: Queue, backlog: Backlog, left: i64) -> i64:
    soonest = backlog.min_expiry_us()
    if soonest == 0 or soonest > core.now_us:
        return left
    for chunk in backlog.with_expired(core.now_us):
        if left > 0:
            left = _scan_chunk(core, queue, backlog, chunk, left)
    backlog.drop_empty()
    return left


def _scan_chunk(core: Core, queue: Queue, backlog: Backlog, chunk: Chunk, left: i64) -> i64:
    for zone in range(len(chunk.zones)):
        soonest = chunk.zones[zone]
        if soonest != 0 and soonest <= core.now_us and left > 0:
            for index in chunk.expired_in(zone, core.now_us, left):
                entry = backlog.object_at(chunk, index)
                backlog.bury(chunk, index)
                expire(core, entry)
                left -= 1
    chunk.min_expiry_us = earliest(chunk.zones)
    return left


@final
class ExpiryPart(TurnPart):
    """What has expired is ended."""

    def destination_due(self, core: Core, destination: Destination) -> None:
        if isinstance(destination, Queue):
            scan(core, destination)
