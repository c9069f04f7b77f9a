"""The files that hold bodies: a journal, a sealed `.bodies` file or a packed one; where in them each lies."""

from collections.abc import Sequence
from typing import Final, Protocol, final

import numpy as np
from librt.strings import BytesWriter, write_i64_le

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.block import BLOCK_HEADER_BYTES
from postroom.ledger.format.file_names import PackedName, bodies_name, events_name, packed_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, decode_block_header, decode_file_header
from postroom.ledger.format.layout import BLOCK_ROW_DTYPE, Array
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.ledger.storage.cached_reads import find_starts, is_native
from postroom.ledger.storage.disk import Disk, DiskFile
from postroom.ledger.storage.events_image import load_image
from postroom.ledger.storage.journal import BlockTable
from postroom.ledger.storage.packed_bodies import PackedSpan, load_packed_index

KEPT_TABLE_BYTES: Final = 1 << 20
"""A sealed file's block table that is larger (very small blocks) is mapped again for each batch of reads."""

MAX_POSITION: Final = (1 << 64) - 1
"""Where a file ends of which that isn't known: another file begins where it matters."""


def outlive(before: object) -> None:
    """Call with what an attribute had, once it has another value. Compiled code lets go of the old value
    before it has stored the new one; where that unmaps a file it hands over the interpreter, and another
    thread would find what is gone."""


class BodyFile(Protocol):
    """One file that holds bodies."""

    first_position: int
    last_position: int
    first_file: int
    last_file: int

    def name(self) -> str: ...

    def ready(self) -> bool:
        """Whether `places` has all it needs in memory."""

    def places(self, wanted: list[BodyPlace]) -> bytes:
        """The offset in the file of each, as an i64, little-endian; −1 where it holds none."""

    def starts(self, serials: Array, offsets: Array) -> Array:
        """The same of many at once, as arrays."""

    def open(self) -> DiskFile: ...


@final
class JournalBodies:
    """A journal file while it is written, or until it is sealed: its table is in memory."""

    def __init__(self, name: str, file: DiskFile, number: int, first: int, table: BlockTable) -> None:
        self.first_position = first
        self.last_position = MAX_POSITION
        self.first_file = self.last_file = number
        self.table = table
        self._name = name
        self._file = file

    def name(self) -> str:
        return self._name

    def ready(self) -> bool:
        return True

    def places(self, wanted: list[BodyPlace]) -> bytes:
        found = BytesWriter()
        first, last, heap, heap_bytes = 1, 0, 0, -1
        for serial, offset, _ in wanted:
            if not first <= serial <= last:
                first, last, heap, heap_bytes = self.table.block_of(serial)
            write_i64_le(found, heap + offset if offset <= heap_bytes else -1)
        return found.getvalue()

    def starts(self, serials: Array, offsets: Array) -> Array:
        table = self.table
        rows = np.zeros(len(table.first_positions), BLOCK_ROW_DTYPE)
        rows["first_position"] = table.first_positions
        rows["bodies_offset"], rows["bodies_bytes"] = table.bodies_offsets, table.bodies_bytes
        return block_starts(rows, serials, offsets)

    def open(self) -> DiskFile:
        return self._file


@final
class SealedBodies:
    """A `.bodies` file; its block table is read when first needed."""

    def __init__(self, disk: Disk, number: int, first_position: int, last_position: int) -> None:
        self.first_position = first_position
        self.last_position = last_position
        self.first_file = self.last_file = number
        self._disk = disk
        self._table: Array | None = None

    def name(self) -> str:
        return bodies_name(self.first_file)

    def ready(self) -> bool:
        return self._table is not None

    def table(self) -> Array:
        """From the events file if there is one, else from the block headers."""
        if self._table is not None:
            return self._table
        if events_name(self.first_file) not in self._disk.names():
            return self._keep(walk_block_table(self._disk, self.name())[2])
        table = load_image(self._disk, self.first_file).blocks
        if table.nbytes <= KEPT_TABLE_BYTES:
            # A copy: a view would keep the events file's space after retention has removed it.
            self._keep(table.copy())
        return table

    def _keep(self, table: Array) -> Array:
        before = self._table
        self._table = table
        outlive(before)
        return table

    def places(self, wanted: list[BodyPlace]) -> bytes:
        if is_native():
            return find_starts(wanted, self.table(), False)
        return packed_starts(self.starts(*_columns(wanted)))

    def starts(self, serials: Array, offsets: Array) -> Array:
        return block_starts(self.table(), serials, offsets)

    def open(self) -> DiskFile:
        return self._disk.open(self.name())


@final
class PackedBodies:
    """A packed file; its index is read when first needed."""

    def __init__(self, disk: Disk, packed: PackedName, span: PackedSpan) -> None:
        self.first_position, self.last_position = span.first_position, span.last_position
        self.first_file, self.last_file = packed.first, packed.last
        self.packed = packed
        self.span = span
        self._disk = disk
        self._index: Array | None = None

    def name(self) -> str:
        return packed_name(self.packed)

    def ready(self) -> bool:
        return self._index is not None

    def index(self) -> Array:
        if self._index is not None:
            return self._index
        return self._keep(load_packed_index(self._disk, self.packed, self.span))

    def _keep(self, index: Array) -> Array:
        """Another thread may have loaded it meanwhile."""
        before = self._index
        self._index = index
        outlive(before)
        return index

    def places(self, wanted: list[BodyPlace]) -> bytes:
        if is_native():
            return find_starts(wanted, self.index(), True)
        return packed_starts(self.starts(*_columns(wanted)))

    def starts(self, serials: Array, offsets: Array) -> Array:
        return piece_starts(self.index(), serials)

    def open(self) -> DiskFile:
        return self._disk.open(self.name())


def _columns(wanted: Sequence[BodyPlace]) -> tuple[Array, Array]:
    """Serials and offsets."""
    serials = np.array([place[0] for place in wanted], np.uint64)
    return serials, np.array([place[1] for place in wanted], np.int64)


def packed_starts(starts: Array) -> bytes:
    """An i64 each, little-endian."""
    return starts.astype("<i8").tobytes()


def block_starts(table: Array, serials: Array, offsets: Array) -> Array:
    """Where in a file the stretches at these offsets of the bodies heaps begin, by its block table; −1 where
    it has none."""
    if not len(table):
        return np.full(len(serials), -1, np.int64)
    firsts = table["first_position"]
    rows = np.searchsorted(firsts, serials, "right") - 1
    found = (rows >= 0) & (offsets <= table["bodies_bytes"][rows])
    return np.where(found, table["bodies_offset"][rows].astype(np.int64) + offsets, -1)


def piece_starts(index: Array, serials: Array) -> Array:
    """Where in a packed file the pieces of these keys begin, by its index; −1 where it has none."""
    if not len(index):
        return np.full(len(serials), -1, np.int64)
    rows = np.minimum(np.searchsorted(index["key"], serials), len(index) - 1)
    found = index["key"][rows] == serials
    return np.where(found, index["offset"][rows].astype(np.int64), -1)


def walk_block_table(disk: Disk, name: str) -> tuple[int, int, Array]:
    """First and last position and the block table of a journal, or of what was one, from its block headers;
    void blocks behind its seal included."""
    file = disk.open(name)
    header = decode_file_header(file.read_at(0, FILE_HEADER_BYTES))
    if header is None:
        raise LedgerCorrupt(disk.describe(name), 0, "the header is damaged")
    rows: list[tuple[int, int, int, int]] = []
    offset, expected = FILE_HEADER_BYTES, header.first_position
    while (block := decode_block_header(file.read_at(offset, BLOCK_HEADER_BYTES))) is not None:
        if block[2:5] != header.identity() or block.first_position != expected:
            break
        if block.next_position() > block.first_position:
            heap = offset + BLOCK_HEADER_BYTES + block.records_bytes()
            rows.append((block.first_position, heap, block.bodies_bytes, 0))
        expected = block.next_position()
        offset += block.block_bytes()
    return header.first_position, expected - 1, np.array(rows, BLOCK_ROW_DTYPE)
