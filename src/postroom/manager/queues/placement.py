"""Where entries stand that nobody holds: adding, taking out, and what must be told of it."""

from typing import Final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import begin_delayed
from postroom.manager.kernel.memory import admit, drop_body, forget, must_pack, must_pack_delayed, stored
from postroom.manager.kernel.outgoing_sections import fields_of
from postroom.manager.kernel.transitions import step
from postroom.manager.queues import annotations
from postroom.manager.queues.backlog import Chunk
from postroom.manager.queues.band import Band
from postroom.manager.queues.delayed_entries import NEVER, can_be_packed, moment_us
from postroom.manager.queues.queue import Queue, as_queue
from postroom.manager.queues.selector_cursor import SelectorCursor, note_verdict
from postroom.manager.queues.units_of_order import Units
from postroom.model import numbers as n

REFILL_BELOW: Final = 256
MATCHED_AHEAD: Final = 256
"""Wanted entries that a cursor remembers before it stops judging arrivals that nobody has asked for yet."""


def add_new(core: Core, queue: Queue, entry: Entry) -> None:
    """A new available entry, behind all others of its priority. It may be packed: use ``entry`` no more."""
    if queue.units is not None and not has_turn(core, queue, queue.units, entry):
        admit(core, entry)
        wait_for_turn(core, queue, entry)
        return
    band = queue.band(entry.priority)
    backlog = band.backlog
    wanted = queue.selectors.in_use > 0 and wanted_at_arrival(queue, entry)
    if must_pack(core, band.live_count(), backlog.count):
        if wanted:
            admit(core, entry)
            add_again(core, queue, entry)
            return
        object_needed = not stored(entry) or entry.annotations is not None
        if object_needed:
            admit(core, entry)
        backlog.append_entry(entry, object_needed)
        if entry.expiry_us != 0:
            watch_expiry(core, queue, entry.expiry_us)
        return
    admit(core, entry)
    band.push(entry)
    note_unbodied(queue, entry)
    if entry.expiry_us != 0:
        watch_expiry(core, queue, entry.expiry_us)


def note_unbodied(queue: Queue, entry: Entry) -> None:
    """``entry`` becomes available; without its body someone must read it before it can go out."""
    if entry.body is None:
        queue.bodies.missing += 1


def add_committed(core: Core, queue: Queue, entry: Entry) -> None:
    """An object that becomes available by a commit or its birth, behind all others. It may be packed: use it
    no more."""
    if queue.units is not None and not has_turn(core, queue, queue.units, entry):
        wait_for_turn(core, queue, entry)
        return
    band = queue.band(entry.priority)
    packed = band.backlog.count > 0 or must_pack(core, band.live_count(), 0)
    wanted = queue.selectors.in_use > 0 and wanted_at_arrival(queue, entry)
    if packed and wanted:
        add_again(core, queue, entry)
        return
    if packed and stored(entry) and entry.annotations is None:
        band.backlog.append_entry(entry, False)
        forget(core, entry)
    elif band.backlog.count > 0:
        band.backlog.append_entry(entry, True)
    else:
        band.push(entry)
        note_unbodied(queue, entry)
    if entry.expiry_us != 0:
        watch_expiry(core, queue, entry.expiry_us)


def add_again(core: Core, queue: Queue, entry: Entry) -> None:
    """An object that was held or delayed is available (again), at its place."""
    if queue.units is not None and not has_turn(core, queue, queue.units, entry):
        wait_for_turn(core, queue, entry)
        return
    queue.band(entry.priority).give_back(entry)
    if queue.selectors.cursors:
        queue.selectors.came_back(entry)
    note_unbodied(queue, entry)
    queue.bodies.ahead = 0
    if entry.excluded is not None:
        queue.selectors.exclusions += 1
    if entry.expiry_us != 0:
        watch_expiry(core, queue, entry.expiry_us)


def has_turn(core: Core, queue: Queue, units: Units, entry: Entry) -> bool:
    """Whether nothing of the unit of order of ``entry``, which has become available, comes before it. While
    not every unit is known that is found out later, and nothing is delivered before."""
    if units.known():
        return not units.must_wait(int(entry.serial))
    if not units.restored:
        units.undecided.append((int(entry.priority), int(entry.place), int(entry.ordinal)))
    core.agenda.woken.append(queue)
    return True


def wait_for_turn(core: Core, queue: Queue, entry: Entry) -> None:
    """An available object, in no order, waits until it is the first of its unit of order. It may be packed:
    use it no more."""
    if core.memory.cached_bytes > core.memory.body_cache_bytes:
        drop_body(core, entry)
    entry.due_us = 0
    step(core, entry, n.EVENT_DELAY, 0, 0, None, n.ORDERED)
    delay(core, entry)


def take_packed(core: Core, queue: Queue, band: Band, chunk: Chunk, index: i64) -> Entry:
    """Take an entry out of the middle of the backlog: an object, in no order, perhaps without its body."""
    entry = band.backlog.take_at(chunk, index)
    unpack(core, queue, entry)
    return entry


def put_back_packed(core: Core, queue: Queue, entry: Entry) -> None:
    """Have what `take_packed` gave wait at its place as an object."""
    queue.band(entry.priority).give_back(entry)
    queue.selectors.came_back(entry)
    note_unbodied(queue, entry)
    if entry.expiry_us != 0:
        watch_live(queue, entry.expiry_us)


def unpack(core: Core, queue: Queue, entry: Entry) -> None:
    """An entry that was packed is an object now."""
    if not entry.counted:
        entry.counted = True
        core.memory.live_entries += 1
    if queue.selectors.cursors:
        queue.selectors.unpacked(entry)


def take_out(queue: Queue, entry: Entry) -> None:
    """An available object leaves the order."""
    queue.bands[entry.priority].pop(entry)
    if entry.body is None:
        queue.bodies.missing -= 1
    if entry.excluded is not None:
        queue.selectors.exclusions -= 1


def refill(core: Core, queue: Queue, band: Band) -> None:
    """Make objects of the next packed entries when few are left."""
    backlog = band.backlog
    if backlog.count == 0 or len(band.live) - band.head >= REFILL_BELOW:
        return
    for entry in backlog.take(core.options.fetch_entries):
        unpack(core, queue, entry)
        band.push(entry)
        note_unbodied(queue, entry)
        if entry.expiry_us != 0:
            watch_live(queue, entry.expiry_us)


def watch_live(queue: Queue, expiry_us: i64) -> None:
    """An object of this queue expires then."""
    if queue.schedule.live_expiry_us == 0 or expiry_us < queue.schedule.live_expiry_us:
        queue.schedule.live_expiry_us = expiry_us


def watch_expiry(core: Core, queue: Queue, expiry_us: i64) -> None:
    """Something on this queue expires then: have it looked at, but not more often than the scan interval."""
    watch_live(queue, expiry_us)
    earliest = queue.schedule.scanned_us + core.options.expiry_scan_ms * 1000
    core.agenda.set_alarm(queue, expiry_us if expiry_us > earliest else earliest)


def ended(core: Core, entry: Entry) -> None:
    """The entry is DELETED: nothing of it stays in memory."""
    if entry.excluded is not None:
        for consumer in as_queue(entry.queue).attached.consumers:
            if consumer.id in entry.excluded:
                consumer.excluded -= 1
    if entry.queue.annotated is not None:
        annotations.drop(core, as_queue(entry.queue), entry.serial)
    units = as_queue(entry.queue).units
    if units is not None and units.ended(int(entry.serial)):
        core.agenda.woken.append(entry.queue)
    forget(core, entry)


def add_delayed(core: Core, entry: Entry, causes: i64, due_us: i64) -> None:
    """A new entry, just written to the ledger as DELAYED, waits for its birth, or for a pause to end (0)."""
    begin_delayed(entry, causes, due_us)
    admit(core, entry)
    delay(core, entry)


def why_held_back(entry: Entry) -> i64:
    """The cause for which an entry that could become available now waits all the same; 0: it doesn't wait."""
    if not entry.queue.switches.insertion_paused:
        return 0
    entry.due_us = 0
    return n.PAUSED


def why_put_waits(core: Core, entry: Entry) -> i64:
    """The cause for which an entry whose put is confirmed or committed waits; 0: it is available at once."""
    return entry.causes if entry.due_us > core.now_us else why_held_back(entry)


def delay(core: Core, entry: Entry) -> None:
    """Have a DELAYED entry wait for its time. It may be packed: use ``entry`` no more."""
    queue = as_queue(entry.queue)
    moment = moment_us(entry)
    if can_be_packed(entry) and must_pack_delayed(core, queue.delayed.object_count()):
        queue.delayed.pack(entry)
        forget(core, entry)
    else:
        queue.delayed.add(entry)
    core.agenda.set_alarm(queue, 0 if moment == NEVER else moment)


def wanted_at_arrival(queue: Queue, entry: Entry) -> bool:
    """Whether a selector that has come to the end of its priority wants ``entry``, which is about to stand
    there.

    It is judged while its body is in memory, so that it need not be read again, and nobody who doesn't want
    it is woken. A wanted one is better kept as an object.
    """
    priority, body = entry.priority, entry.body
    band = queue.bands[priority]
    fields = fields_of(entry, body) if body is not None else None
    wanted = False
    for cursor in queue.selectors.cursors.values():
        if fields is None or not _follows(cursor, band):
            cursor.done = False
            continue
        cursor.judgements += 1
        verdict = cursor.selector.matches(fields)
        note_verdict(entry, cursor, verdict)
        cursor.at(priority, entry.place, entry.ordinal)
        if verdict:
            cursor.wants_next(entry)
            wanted = True
    return wanted


def _follows(cursor: SelectorCursor, band: Band) -> bool:
    """Whether somebody uses the cursor, and it has been through everything there was of a priority."""
    priority = band.priority
    if cursor.users == 0 or cursor.ahead(priority) >= MATCHED_AHEAD:
        return False
    return band.ends_at(cursor.place[priority], cursor.ordinal[priority])
