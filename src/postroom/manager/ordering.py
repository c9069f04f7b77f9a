"""Unit of order: a member that is met before its turn waits, DELAYED with cause ORDERED, in its place."""

from mypy_extensions import i64

from postroom.ledger.body import Body
from postroom.manager.band import NOWHERE
from postroom.manager.core import Core
from postroom.manager.entry import Entry
from postroom.manager.fetching import readable, request, wait_for_durable
from postroom.manager.memory import drop_body, stored
from postroom.manager.placing import take_out
from postroom.manager.queue import Queue
from postroom.manager.returning import end_delay
from postroom.manager.spark_looking import held_entries
from postroom.manager.transitions import step
from postroom.manager.units import ORDERED_AHEAD, Units
from postroom.model import numbers as n


def may_look(core: Core, queue: Queue, units: Units) -> bool:
    """Let go whose turn has come; whether anything can be delivered before something else happens."""
    if not units.known():
        _find_out(core, queue, units)
        if not units.known():
            return False
    while units.freed:
        entry = units.take_waiting(units.freed.pop())
        if entry is not None:
            _let_go(core, queue, entry)
    return True


def hold_back(core: Core, queue: Queue, units: Units, entry: Entry) -> bool:
    """Whether an available object, in its band or just out of the backlog, is not to be delivered yet; then
    it waits for its turn."""
    unit = units.held_back_by(int(entry.serial))
    if unit is None:
        return False
    if units.waiting_count >= ORDERED_AHEAD and entry.spot != NOWHERE:
        return True
    if entry.spot != NOWHERE:
        take_out(queue, entry)
    if core.cached_bytes > core.body_cache_bytes:
        drop_body(core, entry)
    entry.due_us = 0
    step(core, entry, n.EVENT_DELAY, 0, 0, None, n.ORDERED)
    queue.delayed.add(entry)
    core.set_alarm(queue, entry.expiry_us)
    units.hold_back(unit, entry)
    return True


def is_full(units: Units) -> bool:
    """Whether so many wait that nothing more is looked at."""
    return units.waiting_count >= ORDERED_AHEAD


def _let_go(core: Core, queue: Queue, entry: Entry) -> None:
    queue.delayed.discard(entry)
    end_delay(core, queue, entry)


# Units that are not known yet.


def restored(queue: Queue, units: Units) -> None:
    """The queue was there before the start: every body must be read once before anything is delivered."""
    if queue.empty():
        return
    units.restored = True
    objects = [*queue.held, *queue.delayed.entries(), *held_entries(queue)]
    for band in queue.bands:
        objects += band.waiting()
        units.unread_chunks += band.backlog.sealed()
    for entry in objects:
        if stored(entry):  # what a prepared branch holds need not be
            units.ask_for(entry)


def _find_out(core: Core, queue: Queue, units: Units) -> None:
    """Have the next bodies read, a batch at a time."""
    if units.asked > 0:
        return
    while not units.unread and units.unread_chunks:
        chunk = units.unread_chunks.pop()
        backlog = queue.bands[chunk.priority()].backlog
        for index in range(chunk.count):
            # Also what was taken from it since the start, and may come back; what has ended is known.
            units.ask_for(backlog.object_at(chunk, index))
    bytes_left: i64 = core.options.fetch_bytes
    wanted: list[Entry] = []
    while units.unread and len(wanted) < core.options.fetch_entries and bytes_left > 0:
        if not readable(core, units.unread[-1]):
            break
        wanted.append(units.unread.pop())
        bytes_left -= wanted[-1].body_len
    if wanted:
        units.asked = len(wanted)
        request(core, wanted)
    elif units.unread:
        wait_for_durable(core, queue)
    elif units.restored:
        _take_over(core, queue, units)


def names_read(core: Core, units: Units, copies: list[Entry], bodies: list[Body]) -> None:
    """The bodies that `_find_out` asked for; a damaged one names no unit."""
    units.asked = 0
    for copy, body in zip(copies, bodies, strict=True):
        if isinstance(body, bytes) and len(body) == copy.body_len:
            units.join(int(copy.serial), body)
    core.woken.append(copies[0].queue)


def _take_over(core: Core, queue: Queue, units: Units) -> None:
    """All units are known after a start: those that were held back wait on, or go."""
    units.restored = False
    for entry in queue.delayed.some(queue.delayed.object_count()):
        if entry.causes & n.ORDERED == 0:
            continue
        unit = units.held_back_by(int(entry.serial))
        if unit is None:
            _let_go(core, queue, entry)
        else:
            units.hold_back(unit, entry)
