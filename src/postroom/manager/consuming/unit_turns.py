"""Unit of order: which members have their turn. One that becomes available before it waits from then on,
DELAYED with cause ORDERED (`placement.wait_for_turn`); here those are let go whose turn has come.
"""

from typing import Final, final

from mypy_extensions import i64

from postroom.ledger.storage.body_requests import Body
from postroom.manager.consuming.body_fetch import readable, request, wait_for_durable
from postroom.manager.kernel.core import Core, TurnPart
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.memory import stored
from postroom.manager.queues.band import Band
from postroom.manager.queues.entry_lookup import held_entries
from postroom.manager.queues.placement import take_out, take_packed, wait_for_turn
from postroom.manager.queues.queue import Queue
from postroom.manager.queues.units_of_order import Units
from postroom.manager.undeliverable.returned_entries import end_delay
from postroom.model import numbers as n

READS_AT_A_TIME: Final = 4096
"""Of those that wait, packed, so many become objects at once to have their bodies read."""


def give_turns(core: Core, queue: Queue, units: Units) -> None:
    """Let go whose turn has come; first of all find out who is in which unit."""
    if not units.known():
        _find_out(core, queue, units)
        if not units.known():
            return
    while units.freed:
        serial = units.freed.pop()
        if not units.must_wait(serial):
            _let_go(core, queue, serial)


def catch_up(core: Core, queue: Queue) -> bool:
    """Give turns while the queue is dispatched: what has ended meanwhile may have let somebody go who stands
    ahead of the next. Whether there was anything to do."""
    units = queue.units
    if units is None or not units.freed:
        return False
    give_turns(core, queue, units)
    return True


def _let_go(core: Core, queue: Queue, serial: int) -> None:
    entry = queue.delayed.ordered.take(serial)
    if entry is not None:
        end_delay(core, queue, entry)


# Units that are not known yet.


def restored(core: Core, queue: Queue, units: Units) -> None:
    """The queue was there before the start: every body must be read once before anything is delivered."""
    if queue.is_empty():
        return
    units.restored = True
    units.unread_ordered = queue.delayed.ordered.packed_serials()
    objects = [*queue.held, *queue.delayed.timed(), *queue.delayed.ordered.objects(), *held_entries(queue)]
    for band in queue.bands:
        objects += band.waiting()
        units.unread_chunks += band.backlog.sealed()
    for entry in objects:
        if stored(entry):  # what a prepared branch holds need not be
            units.request(entry)
    core.agenda.woken.append(queue)


def _find_out(core: Core, queue: Queue, units: Units) -> None:
    """Have the next bodies read, a batch at a time."""
    if units.requested > 0:
        return
    while not units.unread and units.unread_chunks:
        chunk = units.unread_chunks.pop()
        backlog = queue.bands[chunk.priority()].backlog
        for index in range(chunk.count):
            # Also what was taken from it since the start, and may come back; what has ended is known.
            units.request(backlog.object_at(chunk, index))
    while not units.unread and units.unread_ordered:
        _request_some_ordered(queue, units)
    bytes_left: i64 = core.options.fetch_bytes
    wanted: list[Entry] = []
    while units.unread and len(wanted) < core.options.fetch_entries and bytes_left > 0:
        if not readable(core, units.unread[-1]):
            break
        wanted.append(units.unread.pop())
        bytes_left -= wanted[-1].body_len
    if wanted:
        units.requested = len(wanted)
        request(core, wanted)
    elif units.unread:
        wait_for_durable(core, queue)
    else:
        _judge(core, queue, units)


def _request_some_ordered(queue: Queue, units: Units) -> None:
    """The next of those that wait, packed, for their turn."""
    some = units.unread_ordered[-READS_AT_A_TIME:]
    del units.unread_ordered[-READS_AT_A_TIME:]
    for serial in some:
        entry = queue.delayed.ordered.find(serial)
        if entry is not None:  # else it has ended
            units.request(entry)


def _judge(core: Core, queue: Queue, units: Units) -> None:
    """All units are known (again): what became available meanwhile waits for its turn, or has it."""
    places, units.undecided = units.undecided, []
    if units.restored:
        units.restored = False
        for band in queue.bands:
            _judge_band(core, queue, band, units)
        for serial in queue.delayed.ordered.serials():
            if not units.must_wait(serial):
                _let_go(core, queue, serial)
        return
    for priority, place, ordinal in places:
        _judge_at(core, queue, queue.bands[priority], units, place, ordinal)


def _judge_band(core: Core, queue: Queue, band: Band, units: Units) -> None:
    for entry in band.waiting():
        if units.must_wait(int(entry.serial)):
            take_out(queue, entry)
            wait_for_turn(core, queue, entry)
    for chunk in list(band.backlog.sealed()):
        for index in range(chunk.head, chunk.count):
            serial = chunk.serial(index)
            if units.must_wait(int(serial)) and not chunk.is_dead(index):
                wait_for_turn(core, queue, take_packed(core, queue, band, chunk, index))
    core.ledger.boundary()


def _judge_at(core: Core, queue: Queue, band: Band, units: Units, place: i64, ordinal: i64) -> None:
    """The same for what is available at a place, if it still is."""
    entry = band.find(place, ordinal)
    if entry is not None:
        if units.must_wait(int(entry.serial)):
            take_out(queue, entry)
            wait_for_turn(core, queue, entry)
        return
    band.backlog.sealed()
    found = band.backlog.find(place, ordinal)
    if found is not None:
        chunk, index = found
        if units.must_wait(int(chunk.serial(index))):
            wait_for_turn(core, queue, take_packed(core, queue, band, chunk, index))


@final
class UnitOfOrderPart(TurnPart):
    """Names of units of order are known."""

    def reads(self, entry: Entry) -> bool:
        return entry.state == n.START and isinstance(entry.owner, Units)

    def bodies_read(self, core: Core, entries: list[Entry], bodies: list[Body]) -> None:
        """The bodies that `_find_out` asked for; a damaged one names no unit."""
        units = entries[0].owner
        assert isinstance(units, Units)
        units.requested = 0
        for copy, body in zip(entries, bodies, strict=True):
            if isinstance(body, bytes) and len(body) == copy.body_len:
                units.join(int(copy.serial), body)
        core.agenda.woken.append(entries[0].queue)
