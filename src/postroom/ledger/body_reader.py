"""Messages read from outside: their arrivals, names and bodies, offline or beside a running broker.

No lock and no writer is needed. Files may be sealed, rewritten or dropped under the reader: then it looks
again. Only what is durable is read. Everything is done for many messages at once; of a single body only its
CRC is looked at.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from postroom.ledger.block import CHUNK_LIST_HEADER_BYTES, CHUNK_REFERENCE_BYTES, CHUNKED_OFFSET
from postroom.ledger.bodies import MAX_LOOKUPS
from postroom.ledger.body_files import BodyFiles, Piece
from postroom.ledger.carried import newest_checkpoint
from postroom.ledger.disk import Disk
from postroom.ledger.files import Listing
from postroom.ledger.image import ARRIVAL_NAMES, load_arrivals, name_bytes
from postroom.ledger.layout import ARRIVAL_DTYPE, Array
from postroom.ledger.records import ArrivalFlag
from postroom.ledger.segments import Segment, find_position, folder_of, open_segment
from postroom.ledger.state import find
from postroom.ledger.tail import Watch, journal_chunks

SPARSE: Final = 16
"""Where less than this part of a file's arrivals is wanted, they are searched for and not gone through."""

_OFFSET_MASK: Final = CHUNKED_OFFSET - 1
_CHUNK_HEAD: Final = struct.Struct("<II")
_CHUNK: Final = np.dtype([("key", "<u8"), ("offset", "<u4"), ("size", "<u4")])
_STORED: Final = int(ArrivalFlag.BODY_STORED)

Bytes8 = npt.NDArray[np.uint8]


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
    offsets of names in them point into `names`. The body of row i is `bodies[offsets[i]:offsets[i + 1]]`:
    empty unless its state is PRESENT, and where it is damaged: then `errors` says how, by row.
    """

    found: npt.NDArray[np.bool_]
    arrivals: Array
    names: Bytes8
    states: Bytes8
    bodies: bytes
    offsets: npt.NDArray[np.int64]
    errors: dict[int, str]


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
        wanted, order = np.unique(np.asarray(serials, np.uint64), return_inverse=True)
        arrivals, names = self._arrivals(wanted, durable_through)
        stored = (arrivals["flags"] & _STORED) != 0
        lengths = np.where(stored, arrivals["body_len"], 0).astype(np.int64)
        if max_bytes is not None and with_bodies:
            order = order[: _fitting(lengths[order], max_bytes)]
        states = _states(arrivals, stored, with_bodies)
        pieces: list[Piece | None] = [b""] * len(wanted)
        errors: dict[int, str] = {}
        rows = np.intersect1d(np.flatnonzero(states == BodyState.PRESENT), order)
        for row, piece in zip(rows.tolist(), self._bodies(arrivals[rows]), strict=True):
            pieces[row] = piece
        if with_bodies:
            _judge(arrivals, rows, pieces, states, errors, check)
        return _answer(arrivals, names, states, pieces, errors, order)

    # --- arrivals -----------------------------------------------------------------------------------

    def _arrivals(self, wanted: Array, durable_through: int | None) -> tuple[Array, Bytes8]:
        """The arrivals of ascending serials, zero where there is none, and the heap of their names."""
        for _ in range(MAX_LOOKUPS - 1):
            try:
                return self._look_for(wanted, durable_through)
            except FileNotFoundError:
                continue  # sealed or dropped since the look
        return self._look_for(wanted, durable_through)

    def _look_for(self, wanted: Array, durable_through: int | None) -> tuple[Array, Bytes8]:
        look = self._watch.look(durable_through)
        durable = look.durable_through() if durable_through is None else durable_through
        found = _Arrivals(wanted)
        with folder_of(self.folder) as disk:
            for segment in look.segments:
                low, high = found.within(segment.first_position, min(segment.last_position, durable))
                if low < high:
                    for arrivals, names in self._of_file(disk, segment, wanted[low:high]):
                        found.take(arrivals, names, low, high)
            older = found.within(0, look.segments[0].first_position - 1)[1]
            if older:
                for arrivals, names in self._older(disk, look.segments[0]):
                    found.take(arrivals, names, 0, older)
        return found.arrivals, found.heap()

    def _of_file(self, disk: Disk, segment: Segment, wanted: Array) -> Iterator[tuple[Array, Bytes8]]:
        """Arrivals of one file, at least those with the wanted serials, and their heaps."""
        first, last = int(wanted[0]), int(wanted[-1])
        if segment.is_sealed:
            image = load_arrivals(disk, segment.number)
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
                        image = load_arrivals(disk, span.number)
                        kept.append((image.arrivals, np.frombuffer(image.names, np.uint8)))
            self._carried = newest, kept
        return self._carried[1]

    # --- bodies -------------------------------------------------------------------------------------

    def _bodies(self, arrivals: Array) -> list[Piece | None]:
        """The bodies of these, unchecked; None where one is not there any more."""
        offsets = arrivals["body_offset"]
        chunked = (offsets & CHUNKED_OFFSET) != 0
        if not chunked.any():
            return self._files.read(arrivals["body_serial"], offsets, arrivals["body_len"])
        found: list[Piece | None] = [None] * len(arrivals)
        for rows, read in (
            (np.flatnonzero(~chunked), self._bodies),
            (np.flatnonzero(chunked), self._chunked),
        ):
            for row, piece in zip(rows.tolist(), read(arrivals[rows]), strict=True):
                found[row] = piece
        return found

    def _chunked(self, arrivals: Array) -> list[Piece | None]:
        """Bodies in chunks: of each its list, then all their chunks at once."""
        keys, offsets = arrivals["body_serial"], arrivals["body_offset"] & np.uint32(_OFFSET_MASK)
        heads = self._files.read(keys, offsets, np.full(len(keys), CHUNK_LIST_HEADER_BYTES))
        counts = [
            0 if head is None or len(head) < _CHUNK_HEAD.size else _CHUNK_HEAD.unpack(head)[0]
            for head in heads
        ]
        sizes = CHUNK_LIST_HEADER_BYTES + CHUNK_REFERENCE_BYTES * np.array(counts, np.int64)
        lists = [
            np.frombuffer(b"" if one is None else one[CHUNK_LIST_HEADER_BYTES:], _CHUNK)
            for one in self._files.read(keys, offsets, sizes)
        ]
        every = np.concatenate(lists)
        chunks = self._files.read(every["key"], every["offset"], every["size"])
        ends = np.cumsum([len(one) for one in lists]).tolist()
        return [_joined(chunks[end - len(one) : end]) for one, end in zip(lists, ends, strict=True)]


class _Arrivals:
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
        rows = low + np.flatnonzero(at >= 0)
        own = arrivals[at[at >= 0]]
        self._take_names(own, names)
        self.arrivals[rows] = own

    def _take_names(self, own: Array, names: Bytes8) -> None:
        offsets = np.concatenate([own[offset].astype(np.int64) for offset, _ in ARRIVAL_NAMES])
        sizes = np.concatenate([name_bytes(own, lengths) for _, lengths in ARRIVAL_NAMES])
        heap = gather(names, offsets, sizes)
        moved = np.where(sizes > 0, self._size + np.cumsum(sizes) - sizes, 0)
        for column, (offset, _) in enumerate(ARRIVAL_NAMES):
            own[offset] = moved[column * len(own) : (column + 1) * len(own)]
        self._heaps.append(heap)
        self._size += len(heap)

    def heap(self) -> Bytes8:
        """All names."""
        return np.concatenate([*self._heaps, np.zeros(0, np.uint8)])


def gather(heap: Bytes8, offsets: Array, sizes: Array) -> Bytes8:
    """Stretches of a heap, one behind the other."""
    index = np.repeat(offsets - (np.cumsum(sizes) - sizes), sizes)
    index += np.arange(len(index))
    found: Bytes8 = heap[index]
    return found


def _find(arrivals: Array, wanted: Array) -> Array:
    """Index of each ascending serial among the arrivals, −1 where it isn't there."""
    low = find_position(arrivals, int(wanted[0]))
    high = find_position(arrivals, int(wanted[-1]) + 1)
    some = arrivals[low:high]["position"]
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


def _judge(
    arrivals: Array,
    rows: Array,
    pieces: list[Piece | None],
    states: Bytes8,
    errors: dict[int, str],
    check: bool,
) -> None:
    """Tell what has gone, and what is damaged: that is left out, too."""
    lengths = arrivals["body_len"].tolist()
    crcs = arrivals["body_crc"].tolist()
    for row in rows.tolist():
        piece = pieces[row]
        if piece is None:
            states[row], pieces[row] = BodyState.DROPPED, b""
        elif len(piece) != lengths[row]:
            errors[row] = f"its body has {len(piece)} bytes instead of {lengths[row]}"
            pieces[row] = b""
        elif check and crc32(piece) != crcs[row]:
            errors[row] = "its body is damaged: its CRC is wrong"
            pieces[row] = b""


def _answer(
    arrivals: Array,
    names: Bytes8,
    states: Bytes8,
    pieces: list[Piece | None],
    errors: dict[int, str],
    order: Array,
) -> FoundMessages:
    """Rows of distinct serials in the order asked for."""
    sent = [pieces[row] or b"" for row in order.tolist()]
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum([len(piece) for piece in sent], out=offsets[1:])
    said = {row: errors[at] for row, at in enumerate(order.tolist()) if at in errors} if errors else {}
    own = arrivals[order]
    return FoundMessages(own["position"] != 0, own, names, states[order], b"".join(sent), offsets, said)


def _count_of(head: Piece | None) -> int:
    """How many chunks a list says that it has; 0 if it has gone."""
    return 0 if head is None or len(head) < _CHUNK_HEAD.size else int(_CHUNK_HEAD.unpack(head)[0])


def _joined(chunks: list[Piece | None]) -> Piece | None:
    """A body's chunks as one; None if one has gone, or there was no list of them."""
    whole = [chunk for chunk in chunks if chunk is not None]
    return b"".join(whole) if chunks and len(whole) == len(chunks) else None
