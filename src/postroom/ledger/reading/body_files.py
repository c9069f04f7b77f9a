"""The files with bodies in a ledger's folder, as a reader beside the broker finds them.

Journals, sealed and packed files, each with the positions that it holds; and many stretches of them at once,
in few, large reads.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.format.file_names import (
    Listing,
    PackedName,
    bodies_name,
    events_name,
    journal_name,
    packed_name,
)
from postroom.ledger.format.layout import Array
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.reading.tail import Watch
from postroom.ledger.storage.bodies import MAX_LOOKUPS
from postroom.ledger.storage.body_file import block_starts, piece_starts, walk_block_table
from postroom.ledger.storage.disk import Disk, DiskFile
from postroom.ledger.storage.events_image import load_image
from postroom.ledger.storage.packed_bodies import load_packed_index, load_packed_span

ARENA_END: Final = 16
"""So many bytes behind the last stretch can be read."""

READ_GAP_BYTES: Final = 64 << 10
"""Stretches that lie no further apart are read at once, and what is between them is thrown away."""

RUN_BYTES: Final = 4 << 20
"""Stretches that begin in the same part of this size are read at once."""

MOST_WASTE: Final = 4
"""What lies between stretches stays where it is at most this part of them: else they are copied together."""

Piece = bytes | memoryview
"""The bytes of one stretch."""
Bools = npt.NDArray[np.bool_]


class Arena:
    """Bytes that were read, one stretch behind the other in one array, which grows when it must."""

    def __init__(self, size_bytes: int) -> None:
        """`size_bytes`: how much is expected."""
        self.data: Array = np.empty(size_bytes + ARENA_END, np.uint8)
        self.used: int = 0
        """What is behind it can be read, `ARENA_END` bytes at least, and means nothing."""

    def room(self, size_bytes: int) -> memoryview:
        """So much behind what is used."""
        needed = self.used + size_bytes + ARENA_END
        if needed > len(self.data):
            data = np.empty(max(needed, 2 * len(self.data)), np.uint8)
            data[: self.used] = self.data[: self.used]
            self.data = data
        return self.data.data[self.used : self.used + size_bytes]

    def add(self, data: Piece) -> int:
        """Use these; returns where they begin."""
        self.room(len(data))[:] = data
        start, self.used = self.used, self.used + len(data)
        return start


class Stretches:
    """What was read into an arena, by row: where in it, how long, short where its file ends, empty where it
    isn't `there`. Between them may be bytes of none."""

    def __init__(self, count: int, arena: Arena) -> None:
        self.arena: Final = arena
        self.start: Final[Array] = np.zeros(count, np.int64)
        self.length: Final[Array] = np.zeros(count, np.int64)
        self.there: Final[Bools] = np.zeros(count, np.bool_)

    def take(self, rows: Array, others: "Stretches") -> None:
        """What was read of these rows, into the same arena."""
        self.start[rows], self.length[rows], self.there[rows] = others.start, others.length, others.there

    def pieces(self) -> list[memoryview]:
        """The bytes of all."""
        view, spans = self.arena.data.data, zip(self.start.tolist(), self.length.tolist(), strict=True)
        return [view[first : first + size] for first, size in spans]


@dataclass(frozen=True)
class BodiesFile:
    """One file, the positions that it is asked for, and where stretches begin by (key, offset); −1: not
    there."""

    name: str
    first_position: int
    last_position: int
    starts: Callable[[Array, Array], Array]


class BodyFiles:
    """What a folder holds of bodies. What is known of sealed files is remembered."""

    def __init__(self, folder: Path, watch: Watch) -> None:
        """`watch` has looked at the folder, and walked its journals."""
        self._folder: Final = folder
        self._watch: Final = watch
        self._known: dict[str, tuple[tuple[int, int], BodiesFile]] = {}
        self._files: list[BodiesFile] = []
        self._seen: tuple[int, int] | None = None

    def read(self, keys: Array, offsets: Array, sizes: Array, arena: Arena) -> Stretches:
        """Stretches of bodies heaps: of the block that holds a key, from an offset on, so many bytes.
        Unchecked; `there` tells which of them some file still has."""
        found = Stretches(len(keys), arena)
        rows = np.arange(len(keys))
        for attempt in range(MAX_LOOKUPS):
            if len(rows):
                rows = self._read(keys, offsets, sizes, rows, found, attempt > 0)
        return found

    def _read(
        self, keys: Array, offsets: Array, sizes: Array, rows: Array, found: Stretches, anew: bool
    ) -> Array:
        """Read from the files as they are now; returns the rows that have to be looked up again."""
        again = []
        try:
            files = self._now(anew)
        except FileNotFoundError:  # gone while it was looked at
            return rows
        with folder_of(self._folder) as disk:
            firsts = np.array([file.first_position for file in files], np.uint64)
            at = np.searchsorted(firsts, keys[rows], "right") - 1
            for index in np.unique(at).tolist():
                own = rows[at == index]
                if index < 0:
                    again.append(own)
                    continue
                file = files[index]
                inside = keys[own] <= file.last_position
                again.append(own[~inside])
                own = own[inside]
                try:
                    _read_file(disk, file, keys[own], offsets[own], sizes[own], own, found)
                except FileNotFoundError:
                    again.append(own)
        return np.concatenate([np.zeros(0, rows.dtype), *again])

    # --- what there is ------------------------------------------------------------------------------

    def _now(self, anew: bool) -> list[BodiesFile]:
        """The files in force, by position; those of the last time if no file has come or gone since, unless
        `anew`. Journals are known as far as the last look has walked them."""
        seen = self._folder.stat().st_mtime_ns, self._watch.snapshot_count
        if anew or seen != self._seen:
            self._files, self._seen = self._list(), seen
        return self._files

    def _list(self) -> list[BodiesFile]:
        identities = {entry.name: _identity(entry) for entry in os.scandir(self._folder)}
        listing = Listing(list(identities))
        packed = [name for name in listing.packed if not _is_superseded(name, listing.packed)]
        bodies = [n for n in listing.bodies if not _is_superseded(PackedName(n, n, 0), listing.packed)]
        names = [packed_name(name) for name in packed] + [bodies_name(number) for number in bodies]
        self._known = {name: known for name, known in self._known.items() if name in names}
        with folder_of(self._folder) as disk:
            files = [self._remembered(disk, name, identities[name]) for name in names]
            files += [self._journal(disk, number) for number in listing.journal]
        files.sort(key=lambda file: (file.first_position, file.last_position))
        return files

    def _remembered(self, disk: Disk, name: str, identity: tuple[int, int]) -> BodiesFile:
        known = self._known.get(name)
        if known is None or known[0] != identity:
            open_one = _packed_file if name.endswith(".packed") else _sealed_file
            known = self._known[name] = identity, open_one(disk, name)
        return known[1]

    def _journal(self, disk: Disk, number: int) -> BodiesFile:
        """A journal as far as the last look has walked it, or from its first block."""
        table = self._watch.block_table(number)
        if table is None:
            return _walked(disk, journal_name(number))
        first, last, rows = table
        return _of_blocks(journal_name(number), first, last, rows)


def _identity(entry: "os.DirEntry[str]") -> tuple[int, int]:
    """Another one for another file of that name: a folder may be restored under its reader."""
    stat = entry.stat()
    return stat.st_ino, stat.st_mtime_ns


def _is_superseded(name: PackedName, others: list[PackedName]) -> bool:
    return any(other.supersedes(name) for other in others)


def _packed_file(disk: Disk, name: str) -> BodiesFile:
    packed = Listing([name]).packed[0]
    span = load_packed_span(disk, packed, None)
    index = load_packed_index(disk, packed, span)
    return BodiesFile(
        name, span.first_position, span.last_position, lambda keys, offsets: piece_starts(index, keys)
    )


def _sealed_file(disk: Disk, name: str) -> BodiesFile:
    number = Listing([name]).bodies[0]
    if events_name(number) not in disk.names():
        return _walked(disk, name)
    image = load_image(disk, number)
    return _of_blocks(name, image.first_position, image.last_position, image.blocks.copy())


def _of_blocks(name: str, first: int, last: int, rows: Array) -> BodiesFile:
    return BodiesFile(name, first, last, lambda keys, offsets: block_starts(rows, keys, offsets))


def _walked(disk: Disk, name: str) -> BodiesFile:
    """A journal, or what was one, from its block headers; void blocks behind its seal included."""
    return _of_blocks(name, *walk_block_table(disk, name))


# --- reading --------------------------------------------------------------------------------------


def _read_file(
    disk: Disk, file: BodiesFile, keys: Array, offsets: Array, sizes: Array, rows: Array, found: Stretches
) -> None:
    """What one file holds of these stretches, into `found` at `rows`."""
    starts = file.starts(keys, offsets)
    there = starts >= 0
    starts, sizes, rows = starts[there], sizes[there].astype(np.int64), rows[there]
    opened = disk.open(file.name)
    order = np.argsort(starts, kind="stable")
    for run in _runs(starts[order], sizes[order]):
        own = order[run]
        _read_run(opened, starts[own], sizes[own], rows[own], found)
    found.there[rows] = True


def _runs(starts: Array, sizes: Array) -> Iterator[slice]:
    """Runs of neighbours among ascending stretches."""
    ends = np.maximum.accumulate(starts + sizes)
    breaks = starts[1:] > ends[:-1] + READ_GAP_BYTES
    breaks |= starts[1:] // RUN_BYTES != starts[:-1] // RUN_BYTES
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(starts)]
    for first, last in pairwise(edges):
        if last > first:
            yield slice(first, last)


def _read_run(opened: DiskFile, starts: Array, sizes: Array, rows: Array, found: Stretches) -> None:
    """One read; its stretches are short where the file ends within them."""
    base, ends = int(starts[0]), starts + sizes
    size, wanted, arena = int(ends.max()) - base, int(sizes.sum()), found.arena
    is_dense = size <= wanted + wanted // MOST_WASTE
    data = arena.room(size) if is_dense else memoryview(bytearray(size))
    count = opened.read_into(base, data)
    ends = np.minimum(ends - base, count)
    starts = np.minimum(starts - base, ends)
    lengths = ends - starts
    if is_dense:
        first = arena.used
        arena.used += count
    else:
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        first = arena.add(b"".join([data[start:end] for start, end in spans]))
        starts = np.cumsum(lengths) - lengths
    found.start[rows], found.length[rows] = first + starts, lengths
