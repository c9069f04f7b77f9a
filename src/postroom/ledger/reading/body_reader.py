"""Messages read from outside: their arrivals, names and bodies, offline or beside a running broker.

No lock and no writer is needed. Files may be sealed, rewritten or dropped under the reader: then it looks
again. Only what is durable is read. Everything is done for many messages at once; of a single body only its
CRC is looked at.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from isal.isal_zlib import crc32

from postroom.ledger.fold.state import find
from postroom.ledger.format.block import (
    BODY_TRAILER_BYTES,
    CHUNK_LIST_HEADER_BYTES,
    CHUNK_REFERENCE_BYTES,
    CHUNKED_OFFSET,
)
from postroom.ledger.format.file_names import Listing
from postroom.ledger.format.layout import ARRIVAL_DTYPE, Array, rows_at, rows_together, set_rows
from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.body_crcs import crcs_of
from postroom.ledger.reading.body_files import (
    ARENA_END,
    MOST_WASTE,
    RUN_BYTES,
    Arena,
    BodyFiles,
    Piece,
    Stretches,
)
from postroom.ledger.reading.carried_entries import newest_checkpoint
from postroom.ledger.reading.segments import Segment, find_position, folder_of, open_segment
from postroom.ledger.reading.tail import Watch, journal_chunks
from postroom.ledger.storage.bodies import MAX_LOOKUPS
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import ARRIVAL_NAMES, load_image, name_bytes

SPARSE: Final = 16
"""Where less than this part of a file's arrivals is wanted, they are searched for and not gone through."""

DENSE: Final = 2
"""Names are copied with what lies between them where that is no more than they are."""

BODIES_END: Final = ARENA_END
"""So many zeros follow the bodies: who decodes them may read whole words."""

_OFFSET_MASK: Final = CHUNKED_OFFSET - 1
_CHUNK_HEAD: Final = struct.Struct("<II")
_CHUNK: Final = np.dtype([("key", "<u8"), ("offset", "<u4"), ("size", "<u4")])
_STORED: Final = int(ArrivalFlag.BODY_STORED)

Bytes8 = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


class BodyState(IntEnum):
    """What there is of a message's body."""

    PRESENT = 0
    DROPPED = 1
    """It was stored and is not there any more: its entries have ended and nothing keeps it."""
    NOT_STORED = 2
    """It never was: a non-persistent message, while no lease of its queue asked for bodies."""
    WITHHELD = 3
    """It may be there, and whoever asks may not have it."""


BODY_STATE_NAMES: Final = ("present", "dropped", "not stored", "withheld")
"""By `BodyState`, as people read them."""


@dataclass(frozen=True)
class FoundMessages:
    """Messages in the order in which their serials were asked for.

    `arrivals` are zero where `found` doesn't hold: history has been dropped, or there is no such arrival. The
    offsets of names in them point into `names`. The body of row i is `bodies[starts[i]:ends[i]]`: empty
    unless its state is PRESENT, and where it is damaged: then `errors` says how, by row. They lie in any
    order, several may lie in one place, and a little that is no body between them. `BODIES_END` zeros are
    behind all.
    """

    found: npt.NDArray[np.bool_]
    arrivals: Array
    names: Bytes8
    states: Bytes8
    bodies: Piece
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    errors: dict[int, str]


NOTHING: Final = FoundMessages(
    np.zeros(0, np.bool_),
    np.zeros(0, ARRIVAL_DTYPE),
    np.zeros(0, np.uint8),
    np.zeros(0, np.uint8),
    bytes(BODIES_END),
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    {},
)
"""What is found of no messages."""


def packed_bodies(bodies: Piece, starts: Array, ends: Array) -> tuple[Piece, npt.NDArray[np.int64]]:
    """Bodies behind one another and nothing between them, `BODIES_END` zeros behind the last; and their
    offsets, one more than bodies."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(ends - starts, out=offsets[1:])
    if (starts == offsets[:-1]).all() and offsets[-1] == len(bodies) - BODIES_END:
        return bodies, offsets
    view, spans = memoryview(bodies), zip(starts.tolist(), ends.tolist(), strict=True)
    return b"".join([*[view[first:last] for first, last in spans], bytes(BODIES_END)]), offsets


def check_bodies(found: FoundMessages) -> FoundMessages:
    """The same, and `errors` tells of those whose CRC is wrong, too; their bytes stay."""
    view, errors = memoryview(found.bodies), dict(found.errors)
    spans = zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    crcs = [crc32(view[first:last]) for first, last in spans]
    wrong = (np.array(crcs, np.uint32) != found.arrivals["body_crc"]) & (found.states == BodyState.PRESENT)
    for row in np.flatnonzero(wrong).tolist():
        errors.setdefault(row, damaged(found.arrivals[row], "its CRC is wrong"))
    return replace(found, errors=errors)


def damaged(arrival: Array, what: str) -> str:
    """What is said of a damaged body."""
    return f"the body of message {arrival['position']} is damaged: {what}"


class BodyReader:
    """A ledger's messages. What it remembers makes the next reading cheap; for one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._watch: Final = Watch(folder)
        self._files: Final = BodyFiles(folder, self._watch)
        self._carried: tuple[int, list[tuple[Array, Bytes8]]] | None = None
        """Arrivals older than the history, as the checkpoint of that position has them."""

    def read(
        self,
        serials: npt.NDArray[np.uint64],
        durable_through: int | None = None,
        with_bodies: bool = True,
        check: bool = True,
        max_bytes: int | None = None,
    ) -> FoundMessages:
        """The messages of these serials, in any order, also several times the same.

        `durable_through`: how far the ledger is durable, where the caller knows better than its blocks say.
        Without `with_bodies` those that were stored are WITHHELD. `check`: whether CRCs are compared.
        `max_bytes`: only so many of the serials, from the first on, as have so many bytes of bodies; one at
        least. Raises LedgerCorrupt for damage beyond single bodies, NoLedger, OSError.
        """
        serials = np.asarray(serials, np.uint64)
        wanted, order = serials, None
        if not (serials[1:] > serials[:-1]).all():
            wanted, order = np.unique(serials, return_inverse=True)
        arrivals, names = self._arrivals(wanted, durable_through)
        stored = (arrivals["flags"] & _STORED) != 0
        if max_bytes is not None and with_bodies:
            lengths = np.where(stored, arrivals["body_len"], 0).astype(np.int64)
            count = _fitting(lengths if order is None else lengths[order], max_bytes)
            if order is None:
                arrivals, stored = arrivals[:count], stored[:count]
            else:
                order = order[:count]
        states = _states(arrivals, stored, with_bodies)
        read = _Bodies(arrivals, states, check)
        for rows in read.batches(order):
            some = rows_at(arrivals, rows)
            found = self._bodies(some, read.arena)
            arrivals["body_crc"][rows] = some["body_crc"]
            read.take(rows, found)
        return read.answer(names, order)

    # --- arrivals -----------------------------------------------------------------------------------

    def _arrivals(self, wanted: Array, durable_through: int | None) -> tuple[Array, Bytes8]:
        """The arrivals of ascending serials, zero where there is none, and the heap of their names."""
        for _ in range(MAX_LOOKUPS - 1):
            try:
                return self._lookup(wanted, durable_through)
            except FileNotFoundError:
                continue  # sealed or dropped since the look
        return self._lookup(wanted, durable_through)

    def _lookup(self, wanted: Array, durable_through: int | None) -> tuple[Array, Bytes8]:
        snapshot = self._watch.snapshot(durable_through)
        durable = snapshot.durable_through() if durable_through is None else durable_through
        found = FoundArrivals(wanted)
        with folder_of(self.folder) as disk:
            for segment in snapshot.segments:
                low, high = found.within(segment.first_position, min(segment.last_position, durable))
                if low < high:
                    for arrivals, names in self._of_file(disk, segment, wanted[low:high]):
                        found.take(arrivals, names, low, high)
            older = found.within(0, snapshot.segments[0].first_position - 1)[1]
            if older:
                for arrivals, names in self._older(disk, snapshot.segments[0]):
                    found.take(arrivals, names, 0, older)
        return found.arrivals, found.heap()

    def _of_file(self, disk: Disk, segment: Segment, wanted: Array) -> Iterator[tuple[Array, Bytes8]]:
        """Arrivals of one file, at least those with the wanted serials, and their heaps."""
        first, last = int(wanted[0]), int(wanted[-1])
        if segment.is_sealed:
            image = load_image(disk, segment.number)
            yield image.arrivals, np.frombuffer(image.names, np.uint8)
            return
        hint = self._watch.hint(segment, first, last)
        if hint is None:
            for chunk in open_segment(self.folder, segment).chunks(first, last):
                yield chunk.arrivals, chunk.names
            return
        data = memoryview(disk.open(segment.name).view())[hint.start : hint.end]
        for chunk, _ in journal_chunks(segment.name, data, segment, hint, first, last):
            yield chunk.arrivals, chunk.names

    def _older(self, disk: Disk, oldest: Segment) -> list[tuple[Array, Bytes8]]:
        """Arrivals from before the history: what the newest checkpoint carries or needs."""
        checkpoints = Listing(disk.names()).checkpoints
        newest = checkpoints[-1] if checkpoints else 0
        if self._carried is None or self._carried[0] != newest:
            state = newest_checkpoint(disk, oldest.ledger_id)
            kept: list[tuple[Array, Bytes8]] = []
            if state is not None:
                kept.append((state.carried, np.frombuffer(state.carried_names, np.uint8)))
                for span in state.needs:
                    if span.last_position < oldest.first_position:
                        image = load_image(disk, span.number)
                        kept.append((image.arrivals, np.frombuffer(image.names, np.uint8)))
            self._carried = newest, kept
        return self._carried[1]

    # --- bodies -------------------------------------------------------------------------------------

    def _bodies(self, arrivals: Array, arena: Arena) -> Stretches:
        """The bodies of these with their trailers, unchecked. The arrival of one that shares its body has no
        CRC: it gets that of the body."""
        chunked = (arrivals["body_offset"] & CHUNKED_OFFSET) != 0
        if not chunked.any():
            return self._plain(arrivals, arena)
        found = Stretches(len(arrivals), arena)
        for rows, read in ((~chunked).nonzero()[0], self._plain), (chunked.nonzero()[0], self._chunked):
            some = arrivals.take(rows)
            found.take(rows, read(some, arena))
            arrivals["body_crc"][rows] = some["body_crc"]
        return found

    def _plain(self, arrivals: Array, arena: Arena) -> Stretches:
        """Bodies in one piece."""
        sizes = arrivals["body_len"].astype(np.int64) + BODY_TRAILER_BYTES
        found = self._files.read(arrivals["body_serial"], arrivals["body_offset"], sizes, arena)
        shared = (arrivals["body_serial"] != arrivals["position"]) & found.there
        if shared.any():
            pieces = found.pieces()
            for row in np.flatnonzero(shared).tolist():
                arrivals["body_crc"][row] = _without_trailer(pieces[row])[1]
        return found

    def _chunked(self, arrivals: Array, arena: Arena) -> Stretches:
        """Bodies in chunks: of each its list, then all their chunks at once."""
        keys, offsets = arrivals["body_serial"], arrivals["body_offset"] & np.uint32(_OFFSET_MASK)
        heads = self._read_apart(keys, offsets, np.full(len(keys), CHUNK_LIST_HEADER_BYTES))
        counts = np.array([_count_of(head) for head in heads.pieces()], np.int64)
        sizes = CHUNK_LIST_HEADER_BYTES + CHUNK_REFERENCE_BYTES * counts
        lists = [_chunk_list(one) for one in self._read_apart(keys, offsets, sizes).pieces()]
        every = rows_together(lists)
        sizes = every["size"].astype(np.int64) + BODY_TRAILER_BYTES
        chunks = self._read_apart(every["key"], every["offset"], sizes)
        pieces, ends = chunks.pieces(), np.cumsum([len(one) for one in lists]).tolist()
        found = Stretches(len(keys), arena)
        for row, (one, end) in enumerate(zip(lists, ends, strict=True)):
            span = slice(end - len(one), end)
            found.there[row] = heads.there[row] and chunks.there[span].all()
            checked = [_without_trailer(chunk) for chunk in pieces[span]]
            body = b"".join([chunk for chunk, _ in checked])
            crc = crc32(body)
            found.start[row] = arena.add(body + crc.to_bytes(BODY_TRAILER_BYTES, "little"))
            found.length[row] = len(body) + BODY_TRAILER_BYTES
            shared = keys[row] != arrivals["position"][row]
            if shared and all(crc32(chunk) == stored_crc for chunk, stored_crc in checked):
                arrivals["body_crc"][row] = crc
        return found

    def _read_apart(self, keys: Array, offsets: Array, sizes: Array) -> Stretches:
        """What is no body: not where these are."""
        return self._files.read(keys, offsets, sizes, Arena(int(sizes.sum())))


class _Bodies:
    """Bodies of ascending serials, batch by batch: what is checked is still in the processor's cache."""

    def __init__(self, arrivals: Array, states: Bytes8, check: bool) -> None:
        self._arrivals: Final = arrivals
        self._states: Final = states
        self._check: Final = check
        self._starts: Final = np.zeros(len(arrivals), np.int64)
        self._ends: Final = np.zeros(len(arrivals), np.int64)
        self._errors: Final[dict[int, str]] = {}
        present = states == BodyState.PRESENT
        size_bytes = int((arrivals["body_len"][present].astype(np.int64) + BODY_TRAILER_BYTES).sum())
        self.arena: Final = Arena(size_bytes + size_bytes // MOST_WASTE)

    def batches(self, order: Array | None) -> Iterator[Array]:
        """The rows with bodies among those of `order`, ascending, so many at a time as one read takes."""
        requested = np.full(len(self._arrivals), order is None)
        if order is not None:
            requested[order] = True
        rows = np.flatnonzero(requested & (self._states == BodyState.PRESENT))
        parts = np.cumsum(self._arrivals["body_len"][rows], dtype=np.int64) // RUN_BYTES
        edges = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(rows)]
        for first, last in pairwise(edges):
            if last > first:
                yield rows[first:last]

    def take(self, rows: Array, found: Stretches) -> None:
        """What was read of these rows; what has gone, and what is damaged, is left out."""
        self._states[rows[~found.there]] = BodyState.DROPPED
        expected = self._arrivals["body_len"][rows]
        lengths = np.minimum(found.length, expected)
        wrong = lengths != expected
        if self._check:
            crcs = crcs_of(self.arena.data, found.start, found.start + found.length)
            wrong |= crcs != self._arrivals["body_crc"][rows]
        for at in np.flatnonzero(wrong & found.there).tolist():
            self._errors[int(rows[at])] = self._wrong(int(rows[at]), int(lengths[at]))
        self._starts[rows] = found.start
        self._ends[rows] = found.start + np.where(wrong, 0, lengths)

    def _wrong(self, row: int, size_bytes: int) -> str:
        arrival = self._arrivals[row]
        if size_bytes != arrival["body_len"]:
            what = f"{size_bytes} bytes instead of {arrival['body_len']} are there"
        else:
            what = "its CRC is wrong"
        return damaged(arrival, what)

    def answer(self, names: Bytes8, order: Array | None) -> FoundMessages:
        """All rows; in another order than that of their serials, or some several times, if that is asked."""
        found, starts, ends = self._arrivals["position"] != 0, self._starts, self._ends
        end = self.arena.used + BODIES_END
        self.arena.data[self.arena.used : end] = 0
        bodies = self.arena.data.data[:end]
        if order is None:
            return FoundMessages(
                found, self._arrivals, names, self._states, bodies, starts, ends, self._errors
            )
        rows = enumerate(order.tolist()) if self._errors else ()
        errors = {at: self._errors[row] for at, row in rows if row in self._errors}
        own, states = self._arrivals.take(order), self._states[order]
        return FoundMessages(found[order], own, names, states, bodies, starts[order], ends[order], errors)


class FoundArrivals:
    """Arrivals of ascending serials, as they are found."""

    def __init__(self, wanted: Array) -> None:
        self._wanted: Final = wanted
        self.arrivals: Final = np.zeros(len(wanted), ARRIVAL_DTYPE)
        self._heaps: Final[list[Bytes8]] = []
        self._size = 0

    def within(self, first: int, last: int) -> tuple[int, int]:
        """Which rows have serials from first to last: from one row up to before another."""
        low, high = np.searchsorted(self._wanted, np.array([first, last + 1], np.uint64))
        return int(low), int(high)

    def take(self, arrivals: Array, names: Bytes8, low: int, high: int) -> None:
        """Those of rows low to high that are among `arrivals`, with their names."""
        wanted = self._wanted[low:high]
        at = _find(arrivals, wanted)
        if at[-1] - at[0] == len(at) - 1 and (at >= 0).all():  # mostly so, and ten times as fast
            set_rows(self.arrivals, slice(low, high), arrivals[at[0] : at[-1] + 1])
            self._take_names(self.arrivals[low:high], names)
            return
        own = arrivals.take(at[at >= 0])
        self._take_names(own, names)
        set_rows(self.arrivals, low + np.flatnonzero(at >= 0), own)

    def _take_names(self, own: Array, names: Bytes8) -> None:
        """Copy the names of these arrivals, and let them point at the copies."""
        offsets = np.concatenate([own[offset].astype(np.int64) for offset, _ in ARRIVAL_NAMES])
        sizes = np.concatenate([name_bytes(own, lengths) for _, lengths in ARRIVAL_NAMES])
        heap, offsets = _compact(names, offsets, sizes)
        moved = np.where(sizes > 0, self._size + offsets, 0)
        for column, (offset, _) in enumerate(ARRIVAL_NAMES):
            own[offset] = moved[column * len(own) : (column + 1) * len(own)]
        self._heaps.append(heap)
        self._size += len(heap)

    def without_bodies(self, order: Array) -> FoundMessages:
        """All of them in that order, as of a place that has no bodies."""
        own = self.arrivals.take(order)
        found, at = own["position"] != 0, np.zeros(len(own), np.int64)
        states = np.where(found, BodyState.NOT_STORED, BodyState.DROPPED).astype(np.uint8)
        return FoundMessages(found, own, self.heap(), states, bytes(BODIES_END), at, at, {})

    def heap(self) -> Bytes8:
        """All names."""
        return np.concatenate([*self._heaps, np.zeros(0, np.uint8)])


def _compact(heap: Bytes8, offsets: Array, sizes: Array) -> tuple[Bytes8, Array]:
    """A heap with at least these stretches of another, and where they begin in it."""
    named, total = sizes > 0, int(sizes.sum())
    if not total:
        return heap[:0], offsets
    low, high = int(offsets[named].min()), int((offsets + sizes)[named].max())
    if high - low <= DENSE * total:
        return heap[low:high].copy(), offsets - low
    starts = np.cumsum(sizes) - sizes
    return heap[np.repeat(offsets - starts, sizes) + np.arange(total)], starts


def _find(arrivals: Array, wanted: Array) -> Array:
    """Index of each ascending serial among the arrivals, −1 where it isn't there."""
    low = find_position(arrivals, int(wanted[0]))
    high = find_position(arrivals, int(wanted[-1]) + 1)
    some = arrivals[low:high]["position"]
    if len(some) == len(wanted) and (some == wanted).all():  # mostly so: all that arrived
        return np.arange(low, high)
    at = find(some, wanted) if len(some) <= SPARSE * len(wanted) else _search(some, wanted)
    return np.where(at >= 0, at + low, -1)


def _search(positions: Array, wanted: Array) -> Array:
    """As `find`, touching few of many positions that lie far apart in memory."""
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(positions))
    while (low < high).any():
        middle = (low + high) >> 1
        less = positions[np.minimum(middle, len(positions) - 1)] < wanted
        less &= low < high
        low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
    at = np.minimum(low, len(positions) - 1)
    return np.where(positions[at] == wanted, at, -1)


def _fitting(lengths: Array, max_bytes: int) -> int:
    """How many rows, from the first on, have so many bytes; one at least."""
    return max(1, int(np.searchsorted(np.cumsum(lengths), max_bytes, "right")))


def _states(arrivals: Array, stored: Array, with_bodies: bool) -> Bytes8:
    """What there should be of each body, before anybody has looked for it."""
    states = np.full(len(arrivals), BodyState.DROPPED, np.uint8)
    found = arrivals["position"] != 0
    states[found] = np.where(
        stored[found], BodyState.PRESENT if with_bodies else BodyState.WITHHELD, BodyState.NOT_STORED
    )
    return states


def _without_trailer(piece: Piece) -> tuple[Piece, int]:
    """A piece of a bodies heap, and the CRC that follows it; 0 where the file ends before."""
    body, trailer = piece[:-BODY_TRAILER_BYTES], piece[-BODY_TRAILER_BYTES:]
    return body, int.from_bytes(trailer, "little")


def _count_of(head: Piece) -> int:
    """How many chunks a list says that it has; 0 if it has gone."""
    return int(_CHUNK_HEAD.unpack(head)[0]) if len(head) == _CHUNK_HEAD.size else 0


def _chunk_list(raw: Piece) -> Array:
    """The chunks of a list, none where it has gone or is cut short; damage shows in the body's CRC."""
    body = raw[CHUNK_LIST_HEADER_BYTES:]
    return np.frombuffer(body[: len(body) - len(body) % CHUNK_REFERENCE_BYTES], _CHUNK)
