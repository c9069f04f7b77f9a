"""Packed files: live bodies of sealed files, rewritten without the dead. ``FORMAT.md``, "Packed bodies"."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt, UnknownFormat
from postroom.ledger.format.file_names import TMP_SUFFIX, PackedName, packed_name
from postroom.ledger.format.headers import crc_matches, with_crc
from postroom.ledger.format.layout import PACKED_HEADER, PACKED_MAGIC, PACKED_ROW_DTYPE, Array
from postroom.ledger.format.records import FORMAT_VERSION
from postroom.ledger.storage.disk import SYNC_PIECE_BYTES, Disk, DiskFile, is_no_space


class PackedSpan(NamedTuple):
    """What a packed file's header says."""

    first_position: int
    last_position: int
    index_offset: int
    index_count: int
    index_crc: int


class Pieces(NamedTuple):
    """Bodies, chunks and chunk lists of one file, with their trailers."""

    keys: Array
    """The positions that find them (u64)."""
    starts: Array
    """Where in `data` each begins (i64)."""
    sizes: Array
    """Bytes of each (u32)."""
    data: memoryview


def write_packed(
    disk: Disk, name: PackedName, ledger_id: bytes, positions: tuple[int, int], pieces: Iterable[Pieces]
) -> int:
    """Write the file from pieces in any order, make it durable under its name; returns its size in bytes."""
    final = packed_name(name)
    temporary = final + TMP_SUFFIX
    file = disk.create(temporary)
    try:
        size = _write_all(file, name, ledger_id, positions, pieces)
    except OSError as error:
        file.close()
        if is_no_space(error):
            disk.remove(temporary)
        raise
    file.close()
    disk.rename(temporary, final)
    disk.sync_names()
    return size


def _write_all(
    file: DiskFile, name: PackedName, ledger_id: bytes, positions: tuple[int, int], pieces: Iterable[Pieces]
) -> int:
    """Pieces, index and header, durable."""
    index, index_offset = _write_pieces(file, pieces)
    index = index[np.argsort(index["key"])]
    raw = index.view(np.uint8).data
    file.write_at(index_offset, [raw])
    head = PACKED_HEADER.struct.pack(
        PACKED_MAGIC,
        0,
        FORMAT_VERSION,
        name.generation,
        ledger_id,
        name.first,
        name.last,
        *positions,
        index_offset,
        len(index),
        crc32(raw),
        b"",
    )
    file.write_at(0, [with_crc(head)])
    file.sync()
    return index_offset + len(raw)


def _write_pieces(file: DiskFile, pieces: Iterable[Pieces]) -> tuple[Array, int]:
    """Returns the index, in the order of the file, and where the pieces end."""
    indexes = [np.empty(0, PACKED_ROW_DTYPE)]
    waiting: list[memoryview] = []
    start = end = PACKED_HEADER.size_bytes
    for some in pieces:
        indexes.append(_index_of(some, end))
        for stretch in _stretches(some):
            waiting.append(stretch)
            end += len(stretch)
            if end - start >= SYNC_PIECE_BYTES:
                file.write_at(start, [b"".join(waiting)])
                file.sync()
                waiting, start = [], end
    file.write_at(start, [b"".join(waiting)])
    return np.concatenate(indexes), end


def _index_of(pieces: Pieces, offset: int) -> Array:
    """The index rows of pieces that follow one another in the file from ``offset`` on."""
    rows = np.zeros(len(pieces.keys), PACKED_ROW_DTYPE)
    rows["key"], rows["length"] = pieces.keys, pieces.sizes
    rows["offset"] = offset + np.cumsum(pieces.sizes, dtype=np.uint64) - pieces.sizes
    return rows


def _stretches(pieces: Pieces) -> Iterator[memoryview]:
    """The bytes of the pieces in their order: neighbours as one, of SYNC_PIECE_BYTES at most."""
    if not len(pieces.keys):
        return
    ends = pieces.starts + pieces.sizes
    firsts = np.flatnonzero(np.concatenate([[True], pieces.starts[1:] != ends[:-1]]))
    lasts = np.append(firsts[1:], len(ends)) - 1
    for start, end in zip(pieces.starts[firsts].tolist(), ends[lasts].tolist(), strict=True):
        for at in range(start, end, SYNC_PIECE_BYTES):
            yield pieces.data[at : min(at + SYNC_PIECE_BYTES, end)]


def load_packed_span(disk: Disk, name: PackedName, ledger_id: bytes | None) -> PackedSpan:
    """The checked header of a packed file; `ledger_id` None: any ledger's. Raises LedgerCorrupt."""
    where = disk.describe(packed_name(name))
    head = disk.open(packed_name(name)).read_at(0, PACKED_HEADER.size_bytes)
    if len(head) < PACKED_HEADER.size_bytes or not crc_matches(head):
        raise LedgerCorrupt(where, 0, "the header is damaged")
    fields = PACKED_HEADER.struct.unpack(head)
    magic, _, version, generation, owner, first_file, last_file = fields[:7]
    if magic == PACKED_MAGIC and version != FORMAT_VERSION:
        raise UnknownFormat(where, version, FORMAT_VERSION)
    if magic != PACKED_MAGIC or ledger_id not in (None, owner):
        raise LedgerCorrupt(where, 0, "this is not a packed file of this ledger")
    if (first_file, last_file, generation) != name:
        raise LedgerCorrupt(where, 0, f"the header says files {first_file} to {last_file}, the name another")
    return PackedSpan(*fields[7:12])


def load_packed_index(disk: Disk, name: PackedName, span: PackedSpan) -> Array:
    """The index, by key. Raises LedgerCorrupt."""
    size = span.index_count * PACKED_ROW_DTYPE.itemsize
    data = memoryview(disk.open(packed_name(name)).view())
    raw = data[span.index_offset : span.index_offset + size]
    if len(raw) != size or crc32(raw) != span.index_crc:
        raise LedgerCorrupt(disk.describe(packed_name(name)), span.index_offset, "the index is damaged")
    return np.frombuffer(raw, PACKED_ROW_DTYPE)
