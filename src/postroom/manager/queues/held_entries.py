"""What a Spark subscription holds, in the order in which it was assigned: packed, for a window may have a
million.

Each entry is 40 bytes, and each record that assigned some has a *mark*: its position, and how many of the
chunk's entries it and those before it have assigned. Where places are not the serials they take 16 bytes
more. Only what can't be packed (a body that isn't stored, annotations) stays an object.
"""

from typing import Any, Final, final

import numpy as np
from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry, unpacked, write_entry
from postroom.model.packed import CHUNK_ENTRIES, PACKED_FIELDS, PackedEntry, write_plain_places

MARK_BYTES: Final = 16
PLACE_BYTES: Final = 16

_PACKED: Final = np.dtype(PACKED_FIELDS)


@final
class HeldChunk:
    """A run of what is held; ``data`` never changes."""

    def __init__(
        self, data: bytes, marks: bytes, places: bytes, objects: dict[int, Entry], count: i64
    ) -> None:
        self.data = data
        self.marks = marks
        """(position, end): the entries before index ``end``, from the mark before on, were assigned there."""
        self.places = places
        """(place, ordinal) of each entry where places are not the serials, else empty."""
        self.objects = objects
        """By index."""
        self.head: i64 = 0
        """First index that is still held."""
        self.end: i64 = count
        """Behind the last that is."""

    def end_through(self, position: i64) -> i64:
        """Behind the last entry that was assigned at ``position`` or before."""
        low: i64 = 0
        high: i64 = len(self.marks) // MARK_BYTES
        while low < high:
            middle = (low + high) >> 1
            if read_i64_le(self.marks, middle * MARK_BYTES) <= position:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return self.head
        end = read_i64_le(self.marks, (low - 1) * MARK_BYTES + 8)
        return max(self.head, min(end, self.end))

    def rows(self, first: i64, end: i64) -> Any:
        """Packed entries as an array of `PACKED_FIELDS`."""
        return np.frombuffer(self.data, _PACKED)[first:end]

    def entry(self, index: i64, queue: Destination, scratch: PackedEntry) -> Entry:
        """The entry at ``index`` as an object, its own if it has one; state and holder are the caller's."""
        if self.objects:
            kept = self.objects.get(int(index))
            if kept is not None:
                return kept
        scratch.read(self.data, index)
        entry = unpacked(queue, scratch)
        if self.places:
            entry.place = read_i64_le(self.places, index * PLACE_BYTES)
            entry.ordinal = read_i64_le(self.places, index * PLACE_BYTES + 8)
        return entry


@final
class _Tail:
    """What was assigned last, still growing."""

    def __init__(self) -> None:
        self.data = BytesWriter()
        self.marks = BytesWriter()
        self.places: BytesWriter | None = None
        self.objects: dict[int, Entry] = {}
        self.count: i64 = 0
        self.marked: i64 = 0
        """So many of them have their position."""

    def start_places(self) -> BytesWriter:
        """From here on places are not the serials: write down those so far."""
        places = self.places
        if places is None:
            places = BytesWriter()
            write_plain_places(places, self.data.getvalue(), self.count)
            self.places = places
        return places

    def sealed(self) -> HeldChunk:
        places = self.places
        return HeldChunk(
            self.data.getvalue(),
            self.marks.getvalue(),
            places.getvalue() if places is not None else b"",
            self.objects,
            self.count,
        )


@final
class Held:
    """Everything that one Spark subscription holds."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.size_bytes: i64 = 0
        """Of their bodies."""
        self._chunks: list[HeldChunk] = []
        """Oldest first, none of them empty."""
        self._tail = _Tail()

    def add(self, entry: Entry, keep: bool) -> None:
        """An entry has been assigned; ``keep`` the object if it can't be packed."""
        tail = self._tail
        if keep:
            tail.objects[int(tail.count)] = entry
        if tail.places is not None or entry.place != entry.serial or entry.ordinal != 0:
            places = tail.start_places()
            write_i64_le(places, entry.place)
            write_i64_le(places, entry.ordinal)
        write_entry(tail.data, entry)
        tail.count += 1
        self.count += 1
        self.size_bytes += entry.body_len

    def add_packed(self, data: bytes, places: bytes, count: i64, size_bytes: i64) -> None:
        """Packed entries have been assigned in this order; ``places`` may be empty: then they are the
        serials."""
        tail = self._tail
        if places or tail.places is not None:
            own = tail.start_places()
            if places:
                own.write(places)
            else:
                write_plain_places(own, data, count)
        tail.data.write(data)
        tail.count += count
        self.count += count
        self.size_bytes += size_bytes

    def mark(self, position: i64, count: i64) -> None:
        """The next ``count`` that have no position yet were assigned at ``position``."""
        tail = self._tail
        tail.marked += count
        write_i64_le(tail.marks, position)
        write_i64_le(tail.marks, tail.marked)

    def settle(self) -> None:
        """Everything has its position: a tail that is long enough grows no more."""
        if self._tail.count >= CHUNK_ENTRIES:
            self._seal()

    def _seal(self) -> None:
        if self._tail.count > 0:
            self._chunks.append(self._tail.sealed())
            self._tail = _Tail()

    def chunks(self) -> list[HeldChunk]:
        """All of it; everything has its position."""
        self._seal()
        return self._chunks

    def drop(self, chunk: HeldChunk, first: i64, end: i64, size_bytes: i64) -> None:
        """These of ``chunk`` are held no longer: from its head on, or up to its end."""
        if chunk.objects:
            for index in [each for each in chunk.objects if first <= each < end]:
                del chunk.objects[index]
        if first == chunk.head:
            chunk.head = end
        else:
            chunk.end = first
        self.count -= end - first
        self.size_bytes -= size_bytes
        if chunk.head >= chunk.end:
            self._chunks.remove(chunk)

    def restore(self, data: bytes, places: bytes, positions: bytes) -> None:
        """Take over what was held before a start: packed entries in order, and their positions."""
        rows = np.frombuffer(data, _PACKED)
        where = np.frombuffer(places, "<u8").reshape(-1, 2)
        at = np.frombuffer(positions, "<u8")
        for start in range(0, len(rows), CHUNK_ENTRIES):
            part = slice(start, start + CHUNK_ENTRIES)
            own, own_where, own_at = rows[part], where[part], at[part]
            plain = bool((own_where[:, 0] == own["serial"]).all()) and not own_where[:, 1].any()
            ends = np.append(np.flatnonzero(np.diff(own_at)) + 1, len(own)).astype("<u8")
            marks = np.stack([own_at[ends.astype(np.int64) - 1], ends], axis=1).astype("<u8")
            self._chunks.append(
                HeldChunk(own.tobytes(), marks.tobytes(), b"" if plain else own_where.tobytes(), {}, len(own))
            )
        self.count += len(rows)
        self.size_bytes += int(rows["body_len"].sum(dtype=np.int64))

    def seen(self) -> list[HeldChunk]:
        """All of it as it is now, for who only looks: what has no position yet included."""
        return [*self._chunks, self._tail.sealed()] if self._tail.count > 0 else self._chunks


class PackedHolder:
    """Who holds packed entries of a queue: a Spark subscription."""

    def __init__(self, id: i64, name: str) -> None:
        self.id: i64 = id
        self.name = name
        self.held = Held()
