"""The ids of arrivals, read back by serial: for answering who has an id without keeping them all in memory.

Safe in any thread beside the writer, sealing and retention: files are looked up anew for each call, and
again when one has gone meanwhile. Bodies are not touched.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.fold.state import distinct, find
from postroom.ledger.format.block import BLOCK_HEADER_BYTES
from postroom.ledger.format.file_names import Listing, journal_name
from postroom.ledger.format.headers import decode_block_header
from postroom.ledger.format.layout import ARRIVAL_DTYPE, Array, rows_together
from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.carried_entries import newest_checkpoint
from postroom.ledger.reading.message_id_hash import hash_ids
from postroom.ledger.storage.bodies import MAX_LOOKUPS, BodyStore
from postroom.ledger.storage.body_file import JournalBodies
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import ARRIVAL_NAMES, load_image
from postroom.model.ids import ID_KINDS, MessageIds

PIECE_ROWS: Final = 1 << 16
"""Arrivals hashed and sorted at a time: a step holds the interpreter for some milliseconds."""

CLOSE_BYTES: Final = 512
"""Names that take no more together for each of them are copied at once."""

_SHARED: Final = int(ArrivalFlag.BODY_SHARED)
_RECEIVED: Final = int(ArrivalFlag.RECEIVED)


class Named(NamedTuple):
    """Some arrivals of one file, and the heap that their ids lie in."""

    serials: Array
    """Of the entries asked for: those of the rows, or of the children that share their bodies."""
    rows: Array
    names: Array
    own: Array
    """The rows of the entries themselves, which say what they were made of."""


class HashedIds(NamedTuple):
    """The ids of one kind that some arrivals have: hashes ascending, and beside each the serial."""

    hashes: Array
    serials: Array


class IdReader:
    """Reads arrivals' ids wherever they lie: journals, events files, or carried by a checkpoint."""

    def __init__(self, disk: Disk, ledger_id: bytes, store: BodyStore) -> None:
        self._disk = disk
        self._ledger_id = ledger_id
        self._store = store
        self._spans: dict[int, tuple[int, int]] = {}
        """First and last position of each events file that was looked at."""

    def ids(self, serials: list[int]) -> list[MessageIds | None]:
        """The ids of durable arrivals, in that order; None where the ledger knows the arrival no more."""
        found: dict[int, MessageIds] = {}
        for named in self._read(distinct(np.array(serials, np.uint64))):
            found.update(zip(named.serials.tolist(), _ids_of(named), strict=True))
        return list(map(found.get, serials))

    def hashed(self, serials: Array) -> list[list[HashedIds]]:
        """In large pieces, for each kind of id the hashes of all that these durable arrivals have."""
        return [_hashed(piece) for piece in _pieces(self._read(distinct(serials)))]

    def _read(self, serials: Array) -> Iterator[Named]:
        """The arrivals; for those that share another's body, the arrival which that came with."""
        children: list[Array] = []
        for rows, names in self._rows(serials):
            shared = (rows["flags"] & _SHARED) != 0
            children.append(rows.compress(shared))
            own = rows.compress(~shared)
            yield Named(own["position"], own, names, own)
        if sum(map(len, children)):
            yield from self._read_parents(rows_together(children))

    def _read_parents(self, children: Array) -> Iterator[Named]:
        parents = children["body_serial"]
        for rows, names in self._rows(distinct(parents)):
            at = find(rows["position"], parents)
            here = children.compress(at >= 0)
            yield Named(here["position"], rows.take(at[at >= 0]), names, here)

    def _rows(self, serials: Array) -> Iterator[tuple[Array, Array]]:
        """(arrivals, names) that have these ascending serials, a file or block at a time."""
        left = serials
        for _ in range(MAX_LOOKUPS):
            if not len(left):
                return
            found: list[Array] = []
            for rows, names in chain(self._from_journals(left), self._from_events(left)):
                found.append(rows["position"])
                yield rows, names
            if found:
                left = left[find(np.sort(np.concatenate(found)), left) < 0]
        state = newest_checkpoint(self._disk, self._ledger_id) if len(left) else None
        if state is not None:
            at = find(state.carried["position"], left)
            yield state.carried.take(at[at >= 0]), np.frombuffer(state.carried_names, np.uint8)

    def _from_journals(self, serials: Array) -> Iterator[tuple[Array, Array]]:
        files = self._store.files()
        for number, file in enumerate(files):
            if isinstance(file, JournalBodies):
                open_end = number + 1 == len(files)  # an open journal doesn't know its end
                end = 1 << 63 if open_end else files[number + 1].first_position
                low, high = np.searchsorted(serials, [file.first_position, end]).tolist()
                yield from _from_blocks(file, serials[low:high])

    def _from_events(self, serials: Array) -> Iterator[tuple[Array, Array]]:
        for number in Listing(self._disk.names()).events:
            try:
                first, last = self._span(number)
                low, high = np.searchsorted(serials, [first, last + 1]).tolist()
                if low < high:
                    image, wanted = load_image(self._disk, number), serials[low:high]
                    rows = _between(image.arrivals, int(wanted[0]), int(wanted[-1]))
                    at = find(rows["position"], wanted)
                    yield rows.take(at[at >= 0]), np.frombuffer(image.names, np.uint8)
            except FileNotFoundError:  # retention has let it go: a checkpoint carries what lives
                continue

    def _span(self, number: int) -> tuple[int, int]:
        if number not in self._spans:
            image = load_image(self._disk, number)
            self._spans[number] = (image.first_position, image.last_position)
        return self._spans[number]


def _between(rows: Array, first: int, last: int) -> Array:
    """The rows of some positions, both included; the others are not looked at: there may be 50 MB of them."""
    positions = rows["position"]
    return rows[bisect_left(positions, first) : bisect_right(positions, last)]


def _from_blocks(file: JournalBodies, serials: Array) -> Iterator[tuple[Array, Array]]:
    """Arrivals of a journal, block by block."""
    at = 0
    while at < len(serials):
        place = file.table.records_of(int(serials[at]))
        if place is None:
            return
        offset, size = place
        data = file.open().read_at(offset, size)
        header = decode_block_header(data[:BLOCK_HEADER_BYTES])
        if header is None:
            raise LedgerCorrupt(journal_name(file.first_file), offset, "the block's header is damaged")
        rows = np.frombuffer(data, ARRIVAL_DTYPE, header.arrivals, BLOCK_HEADER_BYTES)
        end = int(np.searchsorted(serials, header.next_position()))
        found = find(rows["position"], serials[at:end])
        names = data[size - header.names_bytes :]
        yield rows.take(found[found >= 0]), np.frombuffer(names, np.uint8)
        at = max(end, at + 1)


def _columns(rows: Array) -> list[tuple[Array, Array, Array, Array]]:
    """For each kind of id: which rows have one, and its offsets, lengths and types."""
    behind = rows["message_id_offset"].astype(np.int64) + rows["message_id_len"]
    return [
        (rows["unique_id_len"] > 0, behind, rows["unique_id_len"], np.zeros(len(rows), np.uint8)),
        *(
            (rows[f"{name}_type"] > 0, rows[f"{name}_offset"], rows[f"{name}_len"], rows[f"{name}_type"])
            for name in ("message_id", "correlation_id")
        ),
    ]


def _pieces(found: Iterator[Named]) -> Iterator[Named]:
    """The same arrivals in fewer pieces: blocks of a journal may have a handful each."""
    waiting: list[Named] = []
    count = 0
    for named in found:
        waiting.append(named)
        count += len(named.rows)
        if count >= PIECE_ROWS:
            yield _joined(waiting)
            waiting, count = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[Named]) -> Named:
    if len(parts) == 1:
        return parts[0]
    rows = rows_together([part.rows for part in parts])
    sizes = np.array([len(part.names) for part in parts], np.int64)
    bases = np.repeat(np.cumsum(sizes) - sizes, [len(part.rows) for part in parts]).astype(np.uint32)
    for offset, _ in ARRIVAL_NAMES:
        rows[offset] += bases
    serials = np.concatenate([part.serials for part in parts])
    names = np.concatenate([part.names for part in parts])
    return Named(serials, rows, names, rows_together([part.own for part in parts]))


def _hashed(named: Named) -> list[HashedIds]:
    found = []
    for has, offsets, lengths, types in _columns(named.rows):
        hashes = hash_ids(named.names, offsets[has], lengths[has], types[has])
        order = np.argsort(hashes, kind="stable")
        found.append(HashedIds(hashes[order], named.serials[has][order]))
    assert len(found) == ID_KINDS
    return found


def _ids_of(named: Named) -> list[MessageIds]:
    """Of each row. Columns are taken out as lists: an element of an array costs as much as the whole row."""
    names, rows, own = named.names.data, named.rows, named.own
    unique, message, correlation = (
        (_texts(names, offsets, lengths), types.tolist()) for _, offsets, lengths, types in _columns(rows)
    )
    found = list(map(MessageIds, unique[0], *message, *correlation))
    if rows["group_id_len"].any():
        for ids, group_id in zip(
            found, _texts(names, rows["group_id_offset"], rows["group_id_len"]), strict=True
        ):
            ids.group_id = group_id
    is_own = (own["flags"] & _RECEIVED) == 0
    for name, numbers in {
        "group_sequence": rows["group_sequence"],
        "creation_us": rows["creation_us"],
        "parent_queue": own["parent_queue"] * is_own,
        "parent_serial": own["parent_serial"] * is_own,
    }.items():
        if numbers.any():  # else all have what a new one has
            for ids, number in zip(found, numbers.tolist(), strict=True):
                setattr(ids, name, number)
    return found


def _texts(names: memoryview, offsets: Array, lengths: Array) -> list[bytes]:
    if not lengths.any():
        return [b""] * len(lengths)
    starts = offsets.astype(np.int64)
    ends = starts + lengths
    low, high = int(starts.min()), int(ends.max())
    heap: bytes | memoryview = names
    if high - low <= CLOSE_BYTES * len(lengths):  # to cut bytes costs less than to cut a memoryview
        heap, starts, ends = bytes(names[low:high]), starts - low, ends - low
    return [bytes(heap[at:end]) for at, end in zip(starts.tolist(), ends.tolist(), strict=True)]
