"""Where bodies lie, and reading them in few, large reads.

A `BodyFile` is a journal, a sealed `.bodies` file or a packed one; the `BodyStore` knows them all by the
positions they hold and is the only one who does. Reading is safe in any thread beside the writer, sealing
and compaction: the list of files is replaced, never changed, and a file that was removed under a reader is
looked up again.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, final
from zlib import crc32

import numpy as np

from postroom.ledger.block import (
    BLOCK_HEADER_BYTES,
    BODY_TRAILER_BYTES,
    CHUNK_LIST_HEADER_BYTES,
    CHUNK_REFERENCE_BYTES,
    CHUNKED_OFFSET,
)
from postroom.ledger.disk import Disk, DiskFile
from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.files import PackedName, bodies_name, events_name, packed_name
from postroom.ledger.headers import FILE_HEADER_BYTES, BlockHeader, decode_block_header, decode_file_header
from postroom.ledger.image import load_image
from postroom.ledger.journal import BlockTable
from postroom.ledger.layout import BLOCK_ROW_DTYPE, Array
from postroom.ledger.packed import PackedSpan, load_packed_index

MAX_READ_BYTES: Final = 8 << 20
"""One read takes at most this much, unless a single piece is larger."""

KEPT_TABLE_BYTES: Final = 1 << 20
"""A sealed file's block table that is larger (very small blocks) is mapped again for each batch of reads."""

MAX_LOOKUPS: Final = 5
"""How often a reader looks again for a file that was replaced under it."""

MAX_POSITION: Final = (1 << 64) - 1
"""Where a file ends of which that isn't known: another file begins where it matters."""

_OFFSET_MASK: Final = CHUNKED_OFFSET - 1


class Want(NamedTuple):
    """A stretch of a bodies heap: of the block that holds `key`, at `offset` of its heap, `size` bytes."""

    key: int
    offset: int
    size: int


class BodyFile(Protocol):
    """One file that holds bodies."""

    first_position: int
    last_position: int
    first_file: int
    last_file: int

    def name(self) -> str: ...

    def places(self, wants: list[Want]) -> list[tuple[int, int]]:
        """(offset in the file, bytes there) for each want; (−1, 0) where it holds none.

        Packed files know pieces by key alone and give the rest of the piece from the start of the want.
        """

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

    def places(self, wants: list[Want]) -> list[tuple[int, int]]:
        found = []
        for key, offset, _ in wants:
            start, size = self.table.bodies_of(key)
            found.append((start + offset, size - offset) if 0 <= offset <= size else (-1, 0))
        return found

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

    def table(self) -> Array:
        """From the events file if there is one, else from the block headers."""
        if self._table is not None:
            return self._table
        if events_name(self.first_file) not in self._disk.names():
            self._table = scan_block_table(self._disk, self.first_file)
            return self._table
        table = load_image(self._disk, self.first_file, check=False).blocks
        if table.nbytes <= KEPT_TABLE_BYTES:
            # A copy: a view would keep the events file's space after retention has removed it.
            self._table = table.copy()
        return table

    def places(self, wants: list[Want]) -> list[tuple[int, int]]:
        table = self.table()
        keys = np.array([want.key for want in wants], np.uint64)
        offsets = np.array([want.offset for want in wants], np.int64)
        rows = np.searchsorted(table["first_position"], keys, "right") - 1
        starts = table["bodies_offset"][rows].astype(np.int64) + offsets
        sizes = table["bodies_bytes"][rows].astype(np.int64) - offsets
        found = (rows >= 0) & (sizes >= 0)
        return list(
            zip(np.where(found, starts, -1).tolist(), np.where(found, sizes, 0).tolist(), strict=True)
        )

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

    def index(self) -> Array:
        if self._index is None:
            self._index = load_packed_index(self._disk, self.packed, self.span)
        return self._index

    def places(self, wants: list[Want]) -> list[tuple[int, int]]:
        index = self.index()
        if not len(index):
            return [(-1, 0)] * len(wants)
        keys = np.array([want.key for want in wants], np.uint64)
        rows = np.minimum(np.searchsorted(index["key"], keys), len(index) - 1)
        found = index["key"][rows] == keys
        starts = np.where(found, index["offset"][rows].astype(np.int64), -1)
        sizes = np.where(found, index["length"][rows].astype(np.int64), 0)
        return list(zip(starts.tolist(), sizes.tolist(), strict=True))

    def open(self) -> DiskFile:
        return self._disk.open(self.name())


def scan_block_table(disk: Disk, number: int) -> Array:
    """The block table of a `.bodies` file from its block headers, void blocks behind its seal included."""
    name = bodies_name(number)
    file = disk.open(name)
    header = decode_file_header(file.read_at(0, FILE_HEADER_BYTES))
    if header is None:
        raise LedgerCorrupt(disk.describe(name), 0, "the header is damaged")
    rows: list[tuple[int, int, int, int]] = []
    offset, expected = FILE_HEADER_BYTES, header.first_position
    while (block := decode_block_header(file.read_at(offset, BLOCK_HEADER_BYTES))) is not None:
        if block[2:5] != header.identity() or block.first_position != expected:
            break
        if _holds_records(block):
            heap = offset + BLOCK_HEADER_BYTES + block.records_bytes()
            rows.append((block.first_position, heap, block.bodies_bytes, 0))
        expected = block.next_position()
        offset += block.block_bytes()
    return np.array(rows, BLOCK_ROW_DTYPE)


def _holds_records(block: BlockHeader) -> bool:
    return block.next_position() > block.first_position


class BodyStore:
    """Finds and reads bodies wherever they are."""

    def __init__(self, disk: Disk, memory: Callable[[int], bytes | None], read_gap_bytes: int) -> None:
        self._disk = disk
        self._memory = memory
        """The bodies heap of the block that holds a position, while it is not in a file yet."""
        self._gap_bytes = read_gap_bytes
        self._files: list[BodyFile] = []
        self._lock = threading.Lock()

    def files(self) -> list[BodyFile]:
        """All files, by position."""
        return list(self._files)

    def replace(self, old: list[BodyFile], new: list[BodyFile]) -> None:
        """Forget some files and learn others, at once."""
        with self._lock:
            kept = [file for file in self._files if file not in old]
            self._files = sorted([*kept, *new], key=lambda file: file.first_position)

    def holds(self, position: int) -> bool:
        """Whether some file covers the position."""
        file = self._file_of(self._files, position)
        return file is not None

    def read(self, wanted: list[tuple[int, int, int]]) -> list[bytes]:
        """Bodies by (body_serial, body_offset, body_len), in that order; b"" where compaction took one away.

        Only bodies of entries that have ended are taken away. Raises LedgerCorrupt where one is damaged.
        """
        found: list[bytes] = [b""] * len(wanted)
        plain: list[tuple[int, Want]] = []
        for row, (serial, offset, length) in enumerate(wanted):
            if offset & CHUNKED_OFFSET:
                found[row] = self._read_chunked(serial, offset & _OFFSET_MASK, length)
            else:
                plain.append((row, Want(serial, offset, length + BODY_TRAILER_BYTES)))
        pieces = self.read_pieces([want for _, want in plain])
        for (row, want), piece in zip(plain, pieces, strict=True):
            found[row] = self._checked(want, piece)
        return found

    def read_pieces(self, wants: list[Want]) -> list[bytes]:
        """Stretches of heaps, unchecked; b"" where no file has it any more."""
        pieces: list[bytes] = [b""] * len(wants)
        todo: list[int] = []
        for row, want in enumerate(wants):
            heap = self._memory(want.key)
            if heap is None:
                todo.append(row)
            else:
                pieces[row] = heap[want.offset : want.offset + want.size]
        for _ in range(MAX_LOOKUPS):
            if not todo:
                break
            todo = self._read_from_files(wants, todo, pieces)
        return pieces

    def _read_chunked(self, serial: int, offset: int, length: int) -> bytes:
        chunks = self.chunk_list(serial, offset)
        if not chunks:
            return b""
        pieces = self.read_pieces([Want(key, at, size + BODY_TRAILER_BYTES) for key, at, size in chunks])
        checked = [self._checked(Want(*chunk), piece) for chunk, piece in zip(chunks, pieces, strict=True)]
        body = b"".join(checked)
        if len(body) != length:
            raise self._damaged(serial, f"its chunks have {len(body)} bytes instead of {length}")
        return body

    def chunk_list(self, serial: int, offset: int) -> list[tuple[int, int, int]]:
        """(position, offset, bytes) of the chunks of a large body; empty if it was taken away."""
        head = self.read_pieces([Want(serial, offset, CHUNK_LIST_HEADER_BYTES)])[0]
        if not head:
            return []
        count, crc = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")
        size = CHUNK_LIST_HEADER_BYTES + count * CHUNK_REFERENCE_BYTES
        references = self.read_pieces([Want(serial, offset, size)])[0][CHUNK_LIST_HEADER_BYTES:]
        if len(references) != count * CHUNK_REFERENCE_BYTES or crc32(references) != crc:
            raise self._damaged(serial, "its chunk list is damaged")
        rows = np.frombuffer(references, np.dtype([("key", "<u8"), ("offset", "<u4"), ("size", "<u4")]))
        return list(zip(rows["key"].tolist(), rows["offset"].tolist(), rows["size"].tolist(), strict=True))

    def _checked(self, want: Want, piece: bytes) -> bytes:
        if not piece:
            return b""
        body, trailer = piece[:-BODY_TRAILER_BYTES], piece[-BODY_TRAILER_BYTES:]
        if len(piece) < BODY_TRAILER_BYTES or crc32(body).to_bytes(BODY_TRAILER_BYTES, "little") != trailer:
            raise self._damaged(want.key, "its CRC is wrong")
        return body

    def _damaged(self, serial: int, reason: str) -> LedgerCorrupt:
        file = self._file_of(self._files, serial)
        name = file.name() if file is not None else ""
        return LedgerCorrupt(
            self._disk.describe(name), 0, f"the body of message {serial} is damaged: {reason}"
        )

    @staticmethod
    def _file_of(files: list[BodyFile], position: int) -> BodyFile | None:
        at = bisect_right(files, position, key=lambda file: file.first_position) - 1
        return files[at] if at >= 0 and position <= files[at].last_position else None

    def _read_from_files(self, wants: list[Want], todo: list[int], pieces: list[bytes]) -> list[int]:
        """Read what the present files have; returns the rows that have to be looked up again."""
        files = self._files
        by_file: dict[int, list[int]] = {}
        missing = []
        for row in todo:
            file = self._file_of(files, wants[row].key)
            if file is None:
                missing.append(row)
            else:
                by_file.setdefault(id(file), []).append(row)
        for file in files:
            rows = by_file.get(id(file))
            if rows and not self._read_file(file, wants, rows, pieces):
                missing += rows
        return missing

    def _read_file(self, file: BodyFile, wants: list[Want], rows: list[int], pieces: list[bytes]) -> bool:
        """Read from one file in order of place, nearby pieces together; False if the file has gone."""
        try:
            places = file.places([wants[row] for row in rows])
            opened = file.open()
        except FileNotFoundError:
            return False
        stretches = []
        for row, (start, size) in zip(rows, places, strict=True):
            if start >= 0:
                stretches.append((start, min(size, wants[row].size), row))
        stretches.sort()
        at = 0
        while at < len(stretches):
            at = self._read_run(opened, stretches, at, pieces)
        for start, size, row in stretches:
            if len(pieces[row]) != size:
                raise LedgerCorrupt(self._disk.describe(file.name()), start, "the file ends within a body")
        return True

    def _read_run(
        self, file: DiskFile, stretches: list[tuple[int, int, int]], at: int, pieces: list[bytes]
    ) -> int:
        """One read for neighbours from `at` on; returns the first that isn't among them."""
        start, size, _ = stretches[at]
        end, stop = start + size, at + 1
        while stop < len(stretches):
            next_start, next_size, _ = stretches[stop]
            if next_start > end + self._gap_bytes or next_start + next_size - start > MAX_READ_BYTES:
                break
            end = max(end, next_start + next_size)
            stop += 1
        data = file.read_at(start, end - start)
        for offset, length, row in stretches[at:stop]:
            pieces[row] = data[offset - start : offset - start + length]
        return stop
