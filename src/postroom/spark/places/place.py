"""A place where a ledger is read, and what it gives.

A `Place` gives looks (which records there are) and reads slices (records of one file). It is small and
pickled with each task; what it remembers between looks stays on the driver.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from postroom.ledger.errors import LedgerError
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.layout import Array
from postroom.ledger.reading.body_reader import BodyState, FoundMessages, packed_bodies
from postroom.ledger.reading.carried_entries import Carried
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.segments import Segment
from postroom.ledger.verification.integrity import Covered


@dataclass(frozen=True, slots=True)
class Epoch:
    """One run of the broker, as far as its records are still there."""

    number: int
    epoch_id: bytes
    first_position: int
    last_position: int
    """Of an epoch that another follows: its seal."""


@dataclass(frozen=True)
class Snapshot:
    """What there is of a ledger at one moment: the files in force, oldest first, and how far they count."""

    ledger_id: str
    """A dashed UUID."""
    segments: tuple[Segment, ...]
    """Cut at `durable_through`."""
    first_position: int
    """The oldest position that there is history of."""
    durable_through: int
    """The last position that may be read."""
    last_time_us: int
    """Time of the newest block that may be read, µs since 1970."""
    written_through: int
    """The last position that is there. A broker that falls idle tells a moment later that it is durable."""

    @cached_property
    def epochs(self) -> tuple[Epoch, ...]:
        """The epochs of the history, oldest first; the last position of the newest is `durable_through`."""
        found: list[Epoch] = []
        for s in self.segments:
            first = s.first_position
            if found and found[-1].number == s.epoch:
                first = found.pop().first_position
            found.append(Epoch(s.epoch, s.epoch_id, first, s.last_position))
        return tuple(found)


def snapshot_of(segments: list[Segment], durable_through: int, written_through: int = 0) -> Snapshot:
    """A look at these files, oldest first, cut at `durable_through`."""
    return Snapshot(
        str(UUID(bytes=segments[-1].ledger_id)),
        tuple(segments),
        segments[0].first_position,
        durable_through,
        segments[-1].last_time_us,
        max(durable_through, written_through),
    )


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task reads: positions first to last, both included, of one file."""

    place: "Place"
    segment: Segment
    first: int
    last: int
    hint: bytes = b""
    """What the place wants to be told where it reads (`Place.hint`)."""

    @property
    def ledger_id(self) -> str:
        """A dashed UUID."""
        return str(UUID(bytes=self.segment.ledger_id))

    @property
    def records_bytes(self) -> int:
        """About how many bytes reading it costs."""
        share = (self.last - self.first + 1) / max(1, self.segment.record_count)
        return int(share * self.segment.records_bytes)


Serials = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages, in the order in which their serials were asked for.

    Where `found` doesn't hold, nothing is known of one: history has been dropped, or there is no such
    arrival; its arrival is zero. The message of row i as it is stored is `heap[starts[i]:ends[i]]`; it means
    nothing where its state isn't PRESENT, and where it is damaged: `errors` then says how, by row.
    `BODIES_END` zeros are at the heap's end.
    """

    found: npt.NDArray[np.bool_]
    arrivals: Array
    """ARRIVAL records; the offsets of names in them point into `names`."""
    names: npt.NDArray[np.uint8]
    heap: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    states: npt.NDArray[np.uint8]
    """`ledger.body_reader.BodyState`."""
    errors: dict[int, str]

    def __len__(self) -> int:
        return len(self.found)

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Where there is no message to be read: it isn't PRESENT, or it is damaged."""
        missing: npt.NDArray[np.bool_] = self.states != BodyState.PRESENT
        missing[list(self.errors)] = True
        return missing

    @property
    def sections(self) -> pa.LargeBinaryArray:
        """The messages as they are stored, copied together; null where one is missing."""
        missing = self.missing
        bodies, offsets = packed_bodies(self.heap.data, self.starts, self.ends)
        validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(bodies)]
        return pa.Array.from_buffers(pa.large_binary(), len(missing), buffers)


def messages_of(found: FoundMessages) -> Messages:
    """What a reader of bodies has found, as Spark's side takes it. Nothing is copied."""
    heap = np.frombuffer(found.bodies, np.uint8)
    own = found.found, found.arrivals, found.names, heap, found.starts, found.ends
    return Messages(*own, found.states, found.errors)


class Place(ABC):
    """A ledger somewhere. Two that are pickled alike are the same."""

    uri: str
    """What people call it."""

    @abstractmethod
    def __reduce__(self) -> tuple[Any, ...]: ...

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__reduce__() == self.__reduce__()

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """What there is now; what was seen before makes it cheap. Raises ``LedgerError``, ``OSError``."""

    def check(self) -> Covered:
        """Whether the ledger there is whole, as far as that can be told from here, and what that is about: of
        a place that is far away the look, as the files were checked where they lie, and `read` compares CRCs.

        Raises ``LedgerError``, ``OSError``.
        """
        found = self.snapshot()
        size = sum(segment.records_bytes for segment in found.segments)
        return Covered(
            found.ledger_id, len(found.segments), found.first_position, found.durable_through, size, 0
        )

    def hint(self, segment: Segment, first: int, last: int) -> bytes:
        """What `read` of that slice should be told; of a live journal, where its blocks lie."""
        return b""

    @abstractmethod
    def read(self, slice: Slice) -> Iterator[tuple[Chunk, Definitions]]:
        """The records of a slice in ascending chunks, each with the definitions that it speaks of.

        Raises ``LedgerCorrupt``; FileNotFoundError if retention has dropped the file since the look.
        """

    @abstractmethod
    def carried(self, snapshot: Snapshot, through: int) -> Carried | None:
        """What a checkpoint at or before `through` tells of entries older than the look's history."""

    @abstractmethod
    def messages(
        self, snapshot: Snapshot | None, serials: Serials, check: bool = True, max_bytes: int | None = None
    ) -> Messages:
        """The messages of these serials: arrivals, ids and, where they may be had, bodies.

        `snapshot`: nothing behind its end is given; None: nothing that isn't durable. `check`: whether the
        bodies' CRCs are compared. `max_bytes`: of the serials only so many, from the first on, as have about
        so many bytes of bodies, one at least: ask for the others with the next call. Raises ``LedgerError``,
        ``OSError``.
        """

    @abstractmethod
    def arrivals(self, serials: Serials, through: int) -> Messages:
        """The arrivals of these serials with their ids, without bodies; all of them, in that order.

        `through`: positions up to there are known to be durable. Raises ``LedgerError``, ``OSError``.
        """


class LedgerTwice(LedgerError):
    """Two paths lead to one ledger."""

    def __init__(self, ledger_id: str, first: str, second: str) -> None:
        super().__init__(f"{first} and {second} are both ledger {ledger_id}; name one of them")


@dataclass(frozen=True, slots=True)
class Seen:
    """A place and what it shows."""

    place: Place
    snapshot: Snapshot


def snapshots_of(places: Iterable[Place]) -> dict[str, Seen]:
    """A look at each place, by ledger id. Raises ``LedgerTwice`` and what looks raise."""
    seen: dict[str, Seen] = {}
    for place in places:
        snapshot = place.snapshot()
        other = seen.get(snapshot.ledger_id)
        if other is not None:
            raise LedgerTwice(snapshot.ledger_id, other.place.uri, place.uri)
        seen[snapshot.ledger_id] = Seen(place, snapshot)
    return seen
