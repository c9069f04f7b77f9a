"""Entries that wait for their turn in a unit of order, and for no time.

They are found by their serials. Beyond the bound on objects they are packed, `ORDERED_BYTES` each; they may
expire.
"""

import heapq
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry, unpacked, write_entry
from postroom.manager.kernel.entry_creation import delayed_again
from postroom.model import numbers as n
from postroom.model.packed import EXPIRY_AT, ORDERED_BYTES, PACKED_BYTES, PackedEntry

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination

_SWEEP_AT: Final = 64
"""Expiries of those that have left that are left alone."""

_SCRATCH: Final = PackedEntry()
"""Whoever unpacks an entry uses it, and is done with it before the next."""


@final
class HeldBack:
    """Members of units of order of one queue that wait for their turn."""

    def __init__(self, queue: "Destination") -> None:
        self._queue = queue
        self._objects: dict[int, Entry] = {}
        self._packed: dict[int, bytes] = {}
        self._expiries: list[tuple[int, int]] = []
        """Heap of (expiry, serial); one that has left is skipped when it comes to the top."""

    def __len__(self) -> int:
        return len(self._objects) + len(self._packed)

    def object_count(self) -> i64:
        return len(self._objects)

    def has(self, serial: int) -> bool:
        return serial in self._objects or serial in self._packed

    def add(self, entry: Entry) -> None:
        """``entry`` waits as the object that it is."""
        self._objects[int(entry.serial)] = entry
        self._watch(int(entry.serial), int(entry.expiry_us))

    def pack(self, entry: Entry) -> None:
        """``entry``, of which `can_be_packed` holds, waits; the object is not kept."""
        w = BytesWriter()
        write_entry(w, entry)
        write_i64_le(w, entry.place)
        write_i64_le(w, entry.ordinal)
        self._keep(int(entry.serial), w.getvalue())

    def restore(self, packed: bytes) -> None:
        """As recovery hands them over."""
        for at in range(0, len(packed), ORDERED_BYTES):
            row = packed[at : at + ORDERED_BYTES]
            self._keep(int(read_i64_le(row, 0)), row)

    def _keep(self, serial: int, row: bytes) -> None:
        self._packed[serial] = row
        self._watch(serial, int(read_i64_le(row, EXPIRY_AT)))

    def _watch(self, serial: int, expiry_us: int) -> None:
        if expiry_us == 0:
            return
        if len(self._expiries) > 2 * len(self) + _SWEEP_AT:
            self._expiries = [each for each in self._expiries if self.has(each[1])]
            heapq.heapify(self._expiries)
        heapq.heappush(self._expiries, (expiry_us, serial))

    def take(self, serial: int) -> Entry | None:
        """The one with that serial, which waits no longer; None if it doesn't wait here."""
        entry = self.find(serial)
        self.discard(serial)
        return entry

    def find(self, serial: int) -> Entry | None:
        """The one with that serial, which waits on."""
        entry = self._objects.get(serial)
        if entry is None:
            row = self._packed.get(serial)
            if row is not None:
                entry = self._object(row)
        return entry

    def discard(self, serial: int) -> bool:
        """It waits no longer; whether it did."""
        if self._packed.pop(serial, None) is not None:
            return True
        return self._objects.pop(serial, None) is not None

    def next_us(self) -> i64:
        """The first expiry; 0 if none comes."""
        while self._expiries and not self.has(self._expiries[0][1]):
            heapq.heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else 0

    def pop(self, now_us: i64) -> Entry | None:
        """Take out the first that has expired."""
        soonest = self.next_us()
        if soonest == 0 or soonest > now_us:
            return None
        return self.take(heapq.heappop(self._expiries)[1])

    def _object(self, row: bytes) -> Entry:
        _SCRATCH.read_at(row, 0)
        entry = unpacked(self._queue, _SCRATCH)
        delayed_again(entry, n.ORDERED)
        entry.place = read_i64_le(row, PACKED_BYTES)
        entry.ordinal = read_i64_le(row, PACKED_BYTES + 8)
        return entry

    def serials(self) -> list[int]:
        """Of all that wait, in no order."""
        return [*self._objects, *self._packed]

    def packed_serials(self) -> list[int]:
        """Of those that are no objects."""
        return list(self._packed)

    def objects(self) -> list[Entry]:
        """Those that are objects."""
        return list(self._objects.values())

    def behind(self, serial: i64, limit: i64) -> list[Entry]:
        """Up to ``limit`` of those behind ``serial``, in the order of their serials."""
        after = int(serial)
        wanted = heapq.nsmallest(int(limit), [each for each in self.serials() if each > after])
        return [entry for entry in [self.find(each) for each in wanted] if entry is not None]

    def some(self, limit: i64) -> list[Entry]:
        """Up to ``limit`` of those that wait; first those that are objects."""
        found = list(self._objects.values())[: int(limit)]
        for row in self._packed.values():
            if len(found) >= limit:
                break
            found.append(self._object(row))
        return found

    def oldest_place(self) -> i64:
        """The lowest place of all; 0 none waits."""
        oldest: i64 = 0
        for entry in self._objects.values():
            if oldest == 0 or entry.place < oldest:
                oldest = entry.place
        for row in self._packed.values():
            place = read_i64_le(row, PACKED_BYTES)
            if oldest == 0 or place < oldest:
                oldest = place
        return oldest
