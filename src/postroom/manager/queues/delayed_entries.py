"""Entries that wait for a time: unborn ones, and those in their redelivery delay.

Whatever comes first, the end of the delay or the expiry, is the entry's *moment*; nothing is looked at
before. The first are objects on a heap. Beyond the bound on objects, unborn entries are packed, 48 bytes
each, into runs sorted by moment; what has come since lies unsorted in the tail, whose earliest moment is
known. The tail becomes a run when that moment comes, or when it is full; small runs are merged, so that their
number stays within the logarithm of what waits, and a sort never holds up a turn for long.

Those that wait for no time but for their turn in a unit of order are kept apart, found by their serials
(`HeldBack`).
"""

from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry, unpacked, write_entry
from postroom.manager.kernel.entry_creation import delayed_again
from postroom.manager.queues.ascending_heap import AscendingHeap
from postroom.manager.queues.held_back import HeldBack
from postroom.model import numbers as n
from postroom.model.packed import EXPIRY_AT, UNBORN_BYTES, UNBORN_FIELDS, PackedEntry

if TYPE_CHECKING:
    from postroom.manager.kernel.destination import Destination

RUN_ENTRIES: Final = 64 << 10
"""A run has at most so many: 3 MiB, sorted in a few milliseconds."""

_ROWS: Final = np.dtype(UNBORN_FIELDS)
_DUE_AT: Final = 40
NEVER: Final = 0x7FFF_FFFF_FFFF_FFFF
"""A moment that doesn't come."""
_NOTHING: Final = (NEVER, NEVER)


def moment_us(entry: Entry) -> i64:
    """When something is to be done about a delayed entry: the end of its delay, or its expiry before."""
    return _moment(entry.due_us, entry.expiry_us)


def _moment(due_us: i64, expiry_us: i64) -> i64:
    if due_us == 0:
        return expiry_us if expiry_us != 0 else NEVER
    return expiry_us if expiry_us != 0 and expiry_us < due_us else due_us


def can_be_packed(entry: Entry) -> bool:
    """Whether nothing of it is lost by packing, and its body can be read again."""
    if entry.causes == n.ORDERED:
        plain = entry.excluded is None and entry.noted == 0
    else:
        plain = entry.causes == n.UNBORN and entry.place == 0 and entry.failure_count == 0
    return plain and entry.flags & n.FLAG_BODY_STORED != 0 and entry.annotations is None


@final
class _Run:
    """Packed entries in order of (moment, serial). ``data`` never changes."""

    def __init__(self, data: bytes, count: i64) -> None:
        self.data = data
        self.count: i64 = count
        self.head: i64 = 0
        """First that has not been taken."""
        self.dead: bytearray | None = None
        self.dead_count: i64 = 0
        """Tombstones from `head` on."""
        self.next_us: i64 = self.moment(0)
        """The moment of the first that waits; never when none is left."""

    def left(self) -> i64:
        return self.count - self.head - self.dead_count

    def moment(self, index: i64) -> i64:
        at = index * UNBORN_BYTES
        return _moment(read_i64_le(self.data, at + _DUE_AT), read_i64_le(self.data, at + EXPIRY_AT))

    def serial(self, index: i64) -> i64:
        return read_i64_le(self.data, index * UNBORN_BYTES)

    def is_dead(self, index: i64) -> bool:
        dead = self.dead
        return dead is not None and (dead[index >> 3] >> (index & 7)) & 1 != 0

    def advance(self) -> None:
        """The first has been taken or has died: find the next."""
        while self.head < self.count and self.is_dead(self.head):
            self.head += 1
            self.dead_count -= 1
        self.next_us = self.moment(self.head) if self.head < self.count else NEVER

    def bury(self, index: i64) -> None:
        dead = self.dead
        if dead is None:
            dead = bytearray((self.count + 7) >> 3)
            self.dead = dead
        dead[index >> 3] |= 1 << (index & 7)
        self.dead_count += 1
        if index == self.head:
            self.advance()

    def find(self, moment: i64, serial: i64) -> i64:
        """Index of an entry that waits here, or −1."""
        low, high = self.head, self.count
        while low < high:
            middle = (low + high) >> 1
            at = self.moment(middle)
            if at < moment or (at == moment and self.serial(middle) < serial):
                low = middle + 1
            else:
                high = middle
        here = low < self.count and self.serial(low) == serial and not self.is_dead(low)
        return low if here else -1

    def waiting(self) -> Any:
        """Indexes of what waits here, as an array."""
        indexes = np.arange(self.head, self.count)
        if self.dead is None:
            return indexes
        bits = np.unpackbits(np.frombuffer(self.dead, np.uint8), bitorder="little")
        return indexes[bits[self.head : self.count] == 0]

    def rows(self) -> Any:
        """What waits here, as an array."""
        return np.frombuffer(self.data, _ROWS)[self.waiting()]


def _sorted_run(rows: Any) -> _Run:
    due, expiry = rows["due_us"], rows["expiry_us"]
    moments = np.where((expiry != 0) & (expiry < due), expiry, due)
    order = np.lexsort((rows["serial"], moments))
    return _Run(rows[order].tobytes(), len(rows))


_SCRATCH: Final = PackedEntry()
"""Whoever unpacks an entry uses it, and is done with it before the next."""


@final
class DelayedEntries:
    """Everything on one queue that waits for a time."""

    def __init__(self, queue: "Destination") -> None:
        self._queue = queue
        self._heap = AscendingHeap()
        """(moment, serial, entry); one that leaves early is skipped when its moment comes."""
        self._objects: set[Entry] = set()
        self._parked: dict[Entry, None] = {}
        """Those of the objects that wait for insertion to be resumed, in the order in which they came."""
        self._runs: list[_Run] = []
        self.packed: i64 = 0
        """Unborn entries that are not objects."""
        self.ordered = HeldBack(queue)
        """Those of them that wait for their turn, and for no time."""
        self._new_tail()

    def _new_tail(self) -> None:
        self._tail: BytesWriter | None = None
        """None while it is empty: there may be many queues on which nothing is ever delayed."""
        self._tail_count: i64 = 0
        self._tail_next_us: i64 = NEVER

    def __len__(self) -> int:
        return len(self._objects) + int(self.packed) + len(self.ordered)

    def object_count(self) -> i64:
        return len(self._objects) + self.ordered.object_count()

    def add(self, entry: Entry) -> None:
        """``entry`` waits for its moment, as the object that it is."""
        if entry.causes == n.ORDERED:
            self.ordered.add(entry)
            return
        moment = moment_us(entry)
        if moment != NEVER:
            self._heap.push((moment, entry.serial, entry))
        self._objects.add(entry)
        if entry.causes & n.PAUSED != 0:
            self._parked[entry] = None

    def next_parked(self) -> Entry | None:
        """The first of those that wait for insertion to be resumed."""
        return next(iter(self._parked), None)

    def pack(self, entry: Entry) -> None:
        """``entry``, of which `can_be_packed` holds, waits for its moment; the object is not kept."""
        if entry.causes == n.ORDERED:
            self.ordered.pack(entry)
            return
        tail = self._tail
        if tail is None:
            tail = self._tail = BytesWriter()
        write_entry(tail, entry)
        write_i64_le(tail, entry.due_us)
        moment = moment_us(entry)
        if moment < self._tail_next_us:
            self._tail_next_us = moment
        self._tail_count += 1
        self.packed += 1
        if self._tail_count == RUN_ENTRIES:
            self._seal()

    def restore(self, packed: bytes) -> None:
        """Unborn entries as recovery hands them over, in any order."""
        rows = np.frombuffer(packed, _ROWS)
        for at in range(0, len(rows), RUN_ENTRIES):
            self._runs.append(_sorted_run(rows[at : at + RUN_ENTRIES]))
        self.packed += len(rows)

    def discard(self, entry: Entry) -> None:
        """It waits no longer (deleted, moved, purged)."""
        if self.ordered.discard(int(entry.serial)):
            return
        if entry in self._objects:
            self._objects.discard(entry)
            self._parked.pop(entry, None)
            return
        if self._tail_count > 0:
            self._seal()
        moment = moment_us(entry)
        for run in self._runs:
            index = run.find(moment, entry.serial)
            if index >= 0:
                run.bury(index)
                self.packed -= 1
                return

    def next_us(self) -> i64:
        """The first moment of all; 0 if none comes."""
        soonest = self._soonest()
        expiry_us = self.ordered.next_us()
        if expiry_us != 0 and expiry_us < soonest:
            return expiry_us
        return 0 if soonest == NEVER else soonest

    def _soonest(self) -> i64:
        while self._heap and self._heap.first()[2] not in self._objects:
            self._heap.pop()
        soonest: i64 = self._heap.first()[0] if self._heap else NEVER
        if self._tail_next_us < soonest:
            soonest = self._tail_next_us
        for run in self._runs:
            if run.next_us < soonest:
                soonest = run.next_us
        return soonest

    def pop(self, now_us: i64) -> Entry | None:
        """Take out the first whose moment has come."""
        soonest = self._soonest()
        if soonest > now_us:
            return self.ordered.pop(now_us)
        if self._tail_next_us == soonest:
            self._seal()
        first = self._heap.first() if self._heap else _NOTHING
        serial: i64 = first[1] if first[0] == soonest else NEVER
        found: _Run | None = None
        for run in self._runs:
            if run.next_us == soonest and run.serial(run.head) < serial:
                found = run
                serial = run.serial(run.head)
        if found is not None:
            return self._take(found)
        entry: Entry = self._heap.pop()[2]
        self._objects.discard(entry)
        self._parked.pop(entry, None)
        return entry

    def _take(self, run: _Run) -> Entry:
        entry = self._object(run, run.head)
        run.head += 1
        run.advance()
        self.packed -= 1
        if run.head >= run.count:
            self._runs.remove(run)
        return entry

    def _object(self, run: _Run, index: i64) -> Entry:
        at = index * UNBORN_BYTES
        _SCRATCH.read_at(run.data, at)
        entry = unpacked(self._queue, _SCRATCH)
        delayed_again(entry, n.UNBORN)
        entry.due_us = read_i64_le(run.data, at + _DUE_AT)
        entry.place = 0
        return entry

    def _seal(self) -> None:
        """Make the tail a run, together with the small runs before it."""
        tail = self._tail
        parts: list[Any] = [np.frombuffer(tail.getvalue() if tail is not None else b"", _ROWS)]
        total = self._tail_count
        while self._runs:
            left = self._runs[-1].left()
            if left > 2 * total or left + total > RUN_ENTRIES:
                break
            parts.append(self._runs.pop().rows())
            total += left
        self._runs.append(_sorted_run(np.concatenate(parts) if len(parts) > 1 else parts[0]))
        self._new_tail()

    def serials(self) -> list[int]:
        """Of all that wait, in no order."""
        if self._tail_count > 0:
            self._seal()
        found = [*(int(entry.serial) for entry in self._objects), *self.ordered.serials()]
        for run in self._runs:
            found += run.rows()["serial"].tolist()
        return found

    def holds(self, entry: Entry) -> bool:
        """Whether it waits here, as this object or packed."""
        if entry in self._objects or self.ordered.has(int(entry.serial)):
            return True
        if self._tail_count > 0:
            self._seal()
        moment = moment_us(entry)
        return any(run.find(moment, entry.serial) >= 0 for run in self._runs)

    def behind(self, serial: i64, limit: i64) -> list[Entry]:
        """Up to ``limit`` of those that wait, as objects, in the order in which they came: those behind
        ``serial``."""
        if self._tail_count > 0:
            self._seal()
        here = [entry for entry in self._objects if entry.serial > serial]
        found = sorted(here, key=_by_serial)[:limit]
        found += self.ordered.behind(serial, limit)
        for run in self._runs:
            indexes = run.waiting()
            serials = np.frombuffer(run.data, _ROWS)["serial"][indexes]
            wanted = np.flatnonzero(serials > int(serial))
            if len(wanted) > limit:
                wanted = wanted[np.argpartition(serials[wanted], int(limit))[: int(limit)]]
            for index in indexes[wanted].tolist():
                found.append(self._object(run, index))
        return sorted(found, key=_by_serial)[:limit]

    def timed(self) -> list[Entry]:
        """All that wait for a time, as `entries`: without those that wait for their turn."""
        return [entry for entry in self.entries() if entry.causes != n.ORDERED]

    def entries(self) -> list[Entry]:
        """All that wait, as objects; those that are packed stay so. First moment first."""
        return self.some(len(self))

    def some(self, limit: i64) -> list[Entry]:
        """Up to ``limit`` of those that wait, as `entries`; first those that are objects."""
        if self._tail_count > 0:
            self._seal()
        found = sorted(self._objects, key=_by_moment)[:limit]
        found += self.ordered.some(limit - len(found))
        packed: list[Entry] = []
        for run in self._runs:
            index = run.head
            while index < run.count and len(found) + len(packed) < limit:
                if not run.is_dead(index):
                    packed.append(self._object(run, index))
                index += 1
        return sorted([*found, *packed], key=_by_moment)


def _by_moment(entry: Entry) -> tuple[int, int]:
    return (moment_us(entry), entry.serial)


def _by_serial(entry: Entry) -> int:
    return int(entry.serial)
