"""The long tail of a queue: waiting entries packed into chunks, 40 bytes each, no objects.

The newest chunk (the tail) grows at its end; the oldest is taken from at its front. In between nothing
moves: an entry that ends in the middle (expired, purged) gets a tombstone bit. A chunk knows the earliest
expiry of each zone of 256 entries, so that looking for expired ones touches only zones that have some.

Entries that can't be packed (non-persistent bodies, annotations) keep their place by a packed stand-in and
live in the chunk's ``objects``.
"""

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry, unpacked, write_entry
from postroom.model.packed import CHUNK_ENTRIES, PACKED_BYTES, PackedEntry, write_plain_places

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination

ZONE_ENTRIES: Final = 256
ZONE_SHIFT: Final = 8
_PRIORITY_AT: Final = 32
_PRIORITY_SHIFT: Final = 32
"""Where a packed entry has its priority, see `PackedEntry.write`."""


@final
class Chunk:
    """A run of packed entries of one priority, in the order of their places. ``data`` never changes."""

    def __init__(
        self, number: i64, data: bytes, count: i64, zones: list[int], objects: dict[int, Entry], places: bytes
    ) -> None:
        self.number: i64 = number
        """Chunks of a backlog are numbered in order, so that a browser can find its way."""
        self.data = data
        self.count: i64 = count
        self.head: i64 = 0
        """First index that has not been taken."""
        self.zones = zones
        """Earliest expiry of each zone, 0 none; empty if nothing in the chunk expires."""
        self.objects = objects
        self.places = places
        """(place, ordinal) of each entry where places are not the serials, else empty."""
        self.dead: bytearray | None = None
        self.dead_count: i64 = 0
        """Tombstones from `head` on."""
        self.min_expiry_us: i64 = earliest(zones)

    def priority(self) -> i64:
        """Of all entries here."""
        return (read_i64_le(self.data, _PRIORITY_AT) >> _PRIORITY_SHIFT) & 0xFF

    def left(self) -> i64:
        """Entries still waiting here."""
        return self.count - self.head - self.dead_count

    def is_dead(self, index: i64) -> bool:
        dead = self.dead
        return dead is not None and (dead[index >> 3] >> (index & 7)) & 1 != 0

    def first_living(self) -> i64:
        """The first index that waits; `count` if none does."""
        index = self.head
        while index < self.count and self.is_dead(index):
            index += 1
        return index

    def bury(self, index: i64) -> None:
        """The entry at ``index``, which must be waiting, ends or is taken: it gets a tombstone, or if it is
        the first, `head` moves on."""
        if self.objects:
            self.objects.pop(index, None)
        dead = self.dead
        if index == self.head:
            self.head = index + 1
            while dead is not None and self.head < self.count and self.is_dead(self.head):
                self.head += 1
                self.dead_count -= 1
            return
        if dead is None:
            dead = bytearray((self.count + 7) >> 3)
            self.dead = dead
        dead[index >> 3] |= 1 << (index & 7)
        self.dead_count += 1

    def serial(self, index: i64) -> i64:
        return read_i64_le(self.data, index * PACKED_BYTES)

    def place(self, index: i64) -> i64:
        """Position of the event that first made the entry available."""
        if self.places:
            return read_i64_le(self.places, index * 16)
        return read_i64_le(self.data, index * PACKED_BYTES)

    def ordinal(self, index: i64) -> i64:
        return read_i64_le(self.places, index * 16 + 8) if self.places else 0

    def before(self, index: i64, place: i64, ordinal: i64) -> bool:
        """Whether the entry at ``index`` stands ahead of a place."""
        own = self.place(index)
        return own < place or (own == place and self.ordinal(index) < ordinal)

    def first_at(self, place: i64, ordinal: i64) -> i64:
        """The first index from `head` on that is not ahead of a place; `count` if all are."""
        low = self.head
        high = self.count
        if low < high and not self.before(low, place, ordinal):
            return low  # whoever takes what comes first
        while low < high:
            middle = (low + high) >> 1
            if self.before(middle, place, ordinal):
                low = middle + 1
            else:
                high = middle
        return low

    def entry(self, index: i64, queue: "Destination", scratch: PackedEntry) -> Entry:
        """The entry at ``index`` as an object: its own if it has one, else a fresh one without body."""
        if self.objects:
            kept = self.objects.get(index)
            if kept is not None:
                return kept
        scratch.read(self.data, index)
        entry = unpacked(queue, scratch)
        if self.places:
            entry.place = self.place(index)
            entry.ordinal = self.ordinal(index)
        return entry

    def expired_in(self, zone: i64, now_us: i64, limit: i64) -> list[int]:
        """Up to ``limit`` indexes of waiting entries of ``zone`` that have expired; sets the zone's
        earliest anew."""
        first = zone << ZONE_SHIFT
        end = min(first + ZONE_ENTRIES, self.count)
        first = max(first, self.head)
        found: list[int] = []
        soonest: i64 = 0
        index = first
        while index < end:
            expiry = read_i64_le(self.data, index * PACKED_BYTES + 16)
            if expiry != 0 and not self.is_dead(index):
                if expiry <= now_us and len(found) < limit:
                    found.append(index)
                elif soonest == 0 or expiry < soonest:
                    soonest = expiry
            index += 1
        self.zones[zone] = soonest
        return found


def earliest(times_us: list[int]) -> i64:
    """The smallest that is not 0; 0 if there is none."""
    soonest: i64 = 0
    for time_us in times_us:
        if time_us != 0 and (soonest == 0 or time_us < soonest):
            soonest = time_us
    return soonest


_SCRATCH: Final = PackedEntry()
"""Whoever unpacks an entry uses it, and is done with it before the next."""


@final
class _Tail:
    """The newest entries of a backlog, still growing."""

    def __init__(self) -> None:
        self.data = BytesWriter()
        self.count: i64 = 0
        self.zones: list[int] = []
        self.zone_min_us: i64 = 0
        self.expires = False
        self.objects: dict[int, Entry] = {}
        self.places: BytesWriter | None = None

    def grow(self, place: i64, ordinal: i64, serial: i64, expiry_us: i64) -> None:
        """An entry has been written to `data`."""
        places = self.places
        if places is not None:
            write_i64_le(places, place)
            write_i64_le(places, ordinal)
        elif place != serial:
            places = BytesWriter()
            write_plain_places(places, self.data.getvalue(), self.count)
            write_i64_le(places, place)
            write_i64_le(places, ordinal)
            self.places = places
        if expiry_us != 0:
            self.expires = True
            if self.zone_min_us == 0 or expiry_us < self.zone_min_us:
                self.zone_min_us = expiry_us
        self.count += 1
        if self.count & (ZONE_ENTRIES - 1) == 0:
            self.zones.append(self.zone_min_us)
            self.zone_min_us = 0

    def expiry_us(self) -> i64:
        """The earliest; 0 if nothing expires."""
        return earliest([*self.zones, self.zone_min_us]) if self.expires else 0

    def close(self) -> None:
        """It grows no more."""
        if self.count & (ZONE_ENTRIES - 1) != 0:
            self.zones.append(self.zone_min_us)


@final
class Backlog:
    """The packed entries of one priority of one queue."""

    def __init__(self, queue: "Destination", priority: i64) -> None:
        self.queue = queue
        self.priority: i64 = priority
        self.chunks: list[Chunk] = []
        self.count: i64 = 0
        """Entries waiting here, tail included."""
        self.last_place: i64 = 0
        self.last_ordinal: i64 = 0
        self._next_number: i64 = 0
        self._tail: _Tail | None = None
        """None while it is empty: there may be many backlogs that never have anything."""

    def _open_tail(self) -> _Tail:
        tail = self._tail
        if tail is None:
            tail = self._tail = _Tail()
        return tail

    def append(
        self, serial: i64, body_serial: i64, expiry_us: i64, body_offset: i64, body_len: i64, flags: i64
    ) -> None:
        """Add a fresh arrival; it stands behind all others."""
        tail = self._open_tail()
        packed = PackedEntry()
        packed.serial = serial
        packed.body_serial = body_serial
        packed.expiry_us = expiry_us
        packed.body_offset = body_offset
        packed.body_len = body_len
        packed.priority = self.priority
        packed.flags = flags
        packed.write(tail.data)
        self._grow(tail, serial, 0, serial, expiry_us)

    def append_entry(self, entry: Entry, keep: bool) -> None:
        """Add an entry that exists as an object; ``keep`` it as one if it can't be packed."""
        tail = self._open_tail()
        if keep:
            tail.objects[tail.count] = entry
        write_entry(tail.data, entry)
        self._grow(tail, entry.place, entry.ordinal, entry.serial, entry.expiry_us)

    def _grow(self, tail: _Tail, place: i64, ordinal: i64, serial: i64, expiry_us: i64) -> None:
        tail.grow(place, ordinal, serial, expiry_us)
        self.last_place = place
        self.last_ordinal = ordinal
        self.count += 1
        if tail.count == CHUNK_ENTRIES:
            self._seal(tail)

    def _seal(self, tail: _Tail) -> None:
        """Make the tail a chunk."""
        tail.close()
        places = tail.places
        self.add_chunk(
            tail.data.getvalue(),
            tail.count,
            tail.zones if tail.expires else [],
            tail.objects,
            places.getvalue() if places is not None else b"",
        )
        self._tail = None

    def add_chunk(
        self, data: bytes, count: i64, zones: list[int], objects: dict[int, Entry], places: bytes
    ) -> None:
        """Put a whole chunk at the end. From outside (recovery): the caller adds to `count`, tail empty."""
        self.chunks.append(Chunk(self._next_number, data, count, zones, objects, places))
        self._next_number += 1

    def with_expired(self, now_us: i64) -> list[Chunk]:
        """Chunks in which something has expired; the tail becomes one if it has."""
        tail = self._tail
        if tail is not None and 0 < tail.expiry_us() <= now_us:
            self._seal(tail)
        return [chunk for chunk in self.chunks if 0 < chunk.min_expiry_us <= now_us]

    def sealed(self) -> list[Chunk]:
        """All that waits, as chunks: the tail becomes one."""
        if self._tail is not None:
            self._seal(self._tail)
        return self.chunks

    def front(self) -> Chunk:
        """The chunk in which the next entry waits; the backlog isn't empty."""
        self._open_front()
        return self.chunks[0]

    def _open_front(self) -> None:
        """Have the next entry wait in the first chunk; the tail grows on as long as there are others."""
        while self.chunks and self.chunks[0].left() == 0:
            del self.chunks[0]  # all of it has ended where it stood
        if not self.chunks:
            self.sealed()

    def passed(self, chunk: Chunk, count: i64) -> None:
        """The next ``count`` of the first chunk, none of which has ended, are taken as they are."""
        chunk.head += count
        self.count -= count
        if chunk.head == chunk.count:
            del self.chunks[0]

    def take(self, limit: i64) -> list[Entry]:
        """Remove up to ``limit`` entries from the front and return them as objects, in order."""
        self._open_front()
        taken: list[Entry] = []
        while self.chunks and len(taken) < limit:
            chunk = self.chunks[0]
            index = chunk.head
            while index < chunk.count and len(taken) < limit:
                if chunk.is_dead(index):
                    chunk.dead_count -= 1
                else:
                    taken.append(chunk.entry(index, self.queue, _SCRATCH))
                    if chunk.objects:
                        chunk.objects.pop(index, None)
                index += 1
            chunk.head = index
            if index == chunk.count:
                del self.chunks[0]
        self.count -= len(taken)
        return taken

    def object_at(self, chunk: Chunk, index: i64) -> Entry:
        """The entry at ``index`` of ``chunk``, which stays where it is."""
        return chunk.entry(index, self.queue, _SCRATCH)

    def bury(self, chunk: Chunk, index: i64) -> None:
        """The entry at ``index`` has ended where it stands."""
        chunk.bury(index)
        self.count -= 1

    def last(self) -> tuple[int, int]:
        """(place, ordinal) of the last entry ever added that may still be here; the backlog isn't empty."""
        if self._tail is not None:
            return self.last_place, self.last_ordinal
        chunk = self.chunks[-1]
        return chunk.place(chunk.count - 1), chunk.ordinal(chunk.count - 1)

    def reaches_beyond(self, place: i64, ordinal: i64) -> bool:
        """Whether something, ended perhaps, stands behind a place; the backlog isn't empty."""
        last_place, last_ordinal = self.last()
        return last_place > place or (last_place == place and last_ordinal > ordinal)

    def find(self, place: i64, ordinal: i64) -> "tuple[Chunk, int] | None":
        """Chunk and index of the waiting entry at a place; None if it isn't in a chunk (any more)."""
        at = self.chunk_at(place, ordinal)
        if at == len(self.chunks):
            return None
        chunk = self.chunks[at]
        index = chunk.first_at(place, ordinal)
        if index == chunk.count or chunk.place(index) != place or chunk.ordinal(index) != ordinal:
            return None
        return None if chunk.is_dead(index) else (chunk, int(index))

    def chunk_at(self, place: i64, ordinal: i64) -> i64:
        """Which of `chunks` is the first that reaches to a place; their number if none does."""
        low: i64 = 0
        high: i64 = len(self.chunks)
        if high > 0 and not self.chunks[0].before(self.chunks[0].count - 1, place, ordinal):
            return 0
        while low < high:
            middle = (low + high) >> 1
            chunk = self.chunks[middle]
            if chunk.before(chunk.count - 1, place, ordinal):
                low = middle + 1
            else:
                high = middle
        return low

    def take_at(self, chunk: Chunk, index: i64) -> Entry:
        """Remove the waiting entry at ``index`` of ``chunk`` and return it as an object."""
        entry = chunk.entry(index, self.queue, _SCRATCH)
        self.bury(chunk, index)
        if chunk.left() == 0:
            self.chunks.remove(chunk)
        return entry

    def drop_empty(self) -> None:
        """Forget chunks in which nothing waits any more."""
        self.chunks = [chunk for chunk in self.chunks if chunk.left() > 0]

    def min_expiry_us(self) -> i64:
        """Not later than the earliest expiry of any entry here; 0 if none expires."""
        soonest = 0 if self._tail is None else self._tail.expiry_us()
        for chunk in self.chunks:
            if chunk.min_expiry_us != 0 and (soonest == 0 or chunk.min_expiry_us < soonest):
                soonest = chunk.min_expiry_us
        return soonest
