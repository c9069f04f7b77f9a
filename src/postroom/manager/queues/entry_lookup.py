"""Finding available entries: all of them in order from a place on, or the one of a serial.

Nothing is taken by looking. A `Location` is good until the queue changes; `pick` takes its entry out of the
order.
"""

from collections.abc import Iterator
from typing import Any, Final, final

import numpy as np
from mypy_extensions import i64

from postroom.ledger.fold.state import find as among
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.entry_creation import assigned_again
from postroom.manager.queues.backlog import Backlog, Chunk
from postroom.manager.queues.band import Band
from postroom.manager.queues.held_entries import HeldChunk, PackedHolder
from postroom.manager.queues.placement import take_out, unpack
from postroom.manager.queues.queue import Queue
from postroom.model.packed import PACKED_FIELDS, PackedEntry

BATCH_OBJECTS: Final = 128
BEHIND_ALL: Final = 0x7FFF_FFFF_FFFF_FFFF
"""An ordinal that no entry has: with it a place means what stands behind the whole event."""

_PACKED: Final = np.dtype(PACKED_FIELDS)


@final
class Location:
    """An available entry and where it stands: among the objects of its band, or packed in ``chunk``."""

    __slots__ = ("band", "chunk", "entry", "index")

    def __init__(self, entry: Entry, band: Band, chunk: Chunk | None, index: i64) -> None:
        self.entry = entry
        self.band = band
        self.chunk = chunk
        self.index: i64 = index


def pick(core: Core, queue: Queue, location: Location) -> Entry:
    """Take the entry out of the order, as an object."""
    entry = location.entry
    if location.chunk is None:
        take_out(queue, entry)
        queue.bodies.ahead = 0
        return entry
    location.band.backlog.bury(location.chunk, location.index)
    unpack(core, queue, entry)
    return entry


def locations(queue: Queue, priority: i64, place: i64, ordinal: i64) -> Iterator[Location]:
    """What is available on one priority behind a place, in order."""
    band = queue.bands[priority]
    packed = _packed(band, place, ordinal) if band.backlog.count > 0 else iter(())
    return _merged(band, _objects(band, place, ordinal), packed)


def _merged(band: Band, objects: Iterator[Entry], packed: Iterator[Location]) -> Iterator[Location]:
    """Both in the order in which they stand."""
    behind = next(packed, None)
    for entry in objects:
        while behind is not None and behind.entry.before(entry):
            yield behind
            behind = next(packed, None)
        yield Location(entry, band, None, 0)
    while behind is not None:
        yield behind
        behind = next(packed, None)


def _objects(band: Band, place: i64, ordinal: i64) -> Iterator[Entry]:
    found = band.after(place, ordinal, BATCH_OBJECTS)
    while found:
        yield from found
        last = found[-1]
        found = band.after(last.place, last.ordinal, BATCH_OBJECTS)


def _packed(band: Band, place: i64, ordinal: i64) -> Iterator[Location]:
    backlog = band.backlog
    for chunk in backlog.sealed():
        if chunk.place(chunk.count - 1) < place:
            continue
        index = max(chunk.head, _index_of(chunk, place))
        while index < chunk.count:
            if not chunk.is_dead(index):
                entry = backlog.object_at(chunk, index)
                if entry.behind(place, ordinal):
                    yield Location(entry, band, chunk, index)
            index += 1


def _index_of(chunk: Chunk, place: i64) -> i64:
    """The first entry of the chunk that doesn't stand before ``place``."""
    places: Any = np.frombuffer(chunk.data, _PACKED)["serial"].view(np.int64)
    if chunk.places:
        places = np.frombuffer(chunk.places, np.int64)[::2]
    return int(np.searchsorted(places, int(place)))


def locations_among(queue: Queue, priority: i64, serials: Any) -> Iterator[Location]:
    """Of these many serials (ascending, u64) what is available on one priority, in order."""
    band = queue.bands[priority]
    wanted = set(serials.tolist()) if band.live_count() > 0 else set()
    packed = _packed_among(band, serials) if band.backlog.count > 0 else iter(())
    objects = (entry for entry in _objects(band, -1, 0) if int(entry.serial) in wanted)
    return _merged(band, objects, packed)


def _packed_among(band: Band, serials: Any) -> Iterator[Location]:
    backlog = band.backlog
    for chunk in backlog.sealed():
        column: Any = np.frombuffer(chunk.data, _PACKED)["serial"]
        for index in np.flatnonzero(among(serials, column) >= 0).tolist():
            if index >= chunk.head and not chunk.is_dead(index):
                yield Location(backlog.object_at(chunk, index), band, chunk, index)


def find_again(queue: Queue, entry: Entry) -> Location | None:
    """Where an entry stands that was available when it was looked at; None if it isn't any more.

    By its place, which it keeps: however much waits, this takes little.
    """
    return _at(queue.bands[entry.priority], entry.serial, entry.place, entry.ordinal)


def find_at(queue: Queue, serial: i64, place: i64, ordinal: i64) -> Location | None:
    """The entry of that serial if it is available at that place, whatever its priority; takes as little."""
    for band in queue.bands:
        if band.live_count() > 0 or band.backlog.count > 0:
            location = _at(band, serial, place, ordinal)
            if location is not None:
                return location
    return None


def _at(band: Band, serial: i64, place: i64, ordinal: i64) -> Location | None:
    here = band.find(place, ordinal)
    if here is not None:
        return Location(here, band, None, 0) if here.serial == serial else None
    if band.backlog.count == 0:
        return None
    band.backlog.sealed()
    packed = band.backlog.find(place, ordinal)
    if packed is None:
        return None
    chunk, index = packed
    found = band.backlog.object_at(chunk, index)
    return Location(found, band, chunk, index) if found.serial == serial else None


def find(queue: Queue, serial: i64) -> Location | None:
    """The entry of that serial if it is available here."""
    for band in queue.bands:
        if band.live_count() > 0:
            for entry in band.after(serial - 1, BEHIND_ALL, 1):  # the place is the serial, nearly always
                if entry.serial == serial:
                    return Location(entry, band, None, 0)
        if band.backlog.count > 0:
            location = find_packed(band, band.backlog, serial)
            if location is not None:
                return location
    for band in queue.bands:
        for entry in band.waiting() if band.live_count() > 0 else []:
            if entry.serial == serial:
                return Location(entry, band, None, 0)
    return None


def find_packed(band: Band, backlog: Backlog, serial: i64) -> Location | None:
    """The packed entry of that serial if it waits in this band."""
    for chunk in backlog.sealed():
        serials: Any = np.frombuffer(chunk.data, _PACKED)["serial"]
        wanted = np.uint64(int(serial))
        if chunk.places:
            at = np.flatnonzero(serials == wanted)
            index: i64 = int(at[0]) if len(at) else -1
        else:
            index = int(np.searchsorted(serials, wanted))
            if index == len(serials) or int(serials[index]) != serial:
                index = -1
        if index >= chunk.head and not chunk.is_dead(index):
            return Location(backlog.object_at(chunk, index), band, chunk, index)
    return None


def find_busy(queue: Queue, serial: i64) -> Entry | None:
    """The entry of that serial if it is on the queue without being available: held, or delayed."""
    for entry in queue.held:
        if entry.serial == serial:
            return entry
    for consumer in queue.attached.consumers:
        for entry in consumer.held:
            if entry.serial == serial:
                return entry
    if queue.packed_holders:
        found = held_entry(queue, int(serial))
        if found is not None:
            return found
    if len(queue.delayed) > 0 and int(serial) in queue.delayed.serials():
        for entry in queue.delayed.entries():
            if entry.serial == serial:
                return entry
    return None


def waiting_rows(chunk: Chunk) -> Any:
    """What waits in the chunk, as an array of `PACKED_FIELDS`."""
    rows: Any = np.frombuffer(chunk.data, _PACKED)[chunk.head : chunk.count]
    if chunk.dead is None:
        return rows
    dead = np.unpackbits(np.frombuffer(chunk.dead, np.uint8), bitorder="little")
    return rows[dead[chunk.head : chunk.count] == 0]


def serials_on(queue: "Queue") -> Any:
    """The serials of everything on the queue, in any state, as a u64 array."""
    parts = [waiting_rows(chunk)["serial"] for band in queue.bands for chunk in band.backlog.sealed()]
    objects = [entry.serial for band in queue.bands for entry in band.waiting()]
    objects += queue.delayed.serials()
    objects += [entry.serial for entry in queue.held]
    objects += [entry.serial for consumer in queue.attached.consumers for entry in consumer.held]
    parts.append(np.array(objects, np.uint64))
    parts += held_serials(queue)
    return np.concatenate(parts)


def held_entries(queue: Queue) -> Iterator[Entry]:
    """Copies of all that is held, in order of serial."""
    parts = [(holder, chunk) for holder in queue.packed_holders for chunk in holder.held.seen()]
    if not parts:
        return
    serials: Any = np.concatenate([chunk.rows(chunk.head, chunk.end)["serial"] for _, chunk in parts])
    counts = [int(chunk.end - chunk.head) for _, chunk in parts]
    part: Any = np.repeat(np.arange(len(parts)), counts)
    index: Any = np.concatenate([np.arange(int(chunk.head), int(chunk.end)) for _, chunk in parts])
    for at in np.argsort(serials, kind="stable").tolist():
        holder, chunk = parts[int(part[at])]
        yield _copy(queue, holder, chunk, int(index[at]))


def held_entry(queue: Queue, serial: int) -> Entry | None:
    """A copy of the entry of that serial, if a Spark subscription holds it."""
    return held_among(queue, {serial}).get(serial)


def held_among(queue: Queue, serials: set[int]) -> dict[int, Entry]:
    """Copies of those of these entries that Spark subscriptions hold, by serial."""
    found: dict[int, Entry] = {}
    wanted = np.array(sorted(serials), np.uint64)
    for holder in queue.packed_holders:
        for chunk in holder.held.seen():
            own: Any = chunk.rows(chunk.head, chunk.end)["serial"]
            for at in np.flatnonzero(np.isin(own, wanted)).tolist():
                entry = _copy(queue, holder, chunk, int(chunk.head) + at)
                found[int(entry.serial)] = entry
    return found


def held_serials(queue: Queue) -> list[Any]:
    """Of all that is held, as u64 arrays."""
    return [
        np.asarray(chunk.rows(chunk.head, chunk.end)["serial"], np.uint64)
        for holder in queue.packed_holders
        for chunk in holder.held.seen()
    ]


def _copy(queue: Queue, holder: PackedHolder, chunk: HeldChunk, index: int) -> Entry:
    entry = chunk.entry(index, queue, PackedEntry()).copy_for(holder)
    assigned_again(entry, holder.id)
    return entry
