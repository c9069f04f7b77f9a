"""The records of one file in contiguous form: what `.events` files hold and what every fold reads.

Made from a journal file (`build_image`), written by `encode_image`, read back by `load_image` without
copying. See ``FORMAT.md``, "Events file".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt, UnknownFormat
from postroom.ledger.format.block import ARRIVAL_BYTES, BLOCK_HEADER_BYTES, TRANSITION_BYTES
from postroom.ledger.format.file_names import TMP_SUFFIX, events_name
from postroom.ledger.format.headers import Seal, crc_matches, with_crc
from postroom.ledger.format.layout import (
    ARRIVAL_DTYPE,
    BLOCK_ROW_DTYPE,
    EVENTS_HEADER,
    EVENTS_MAGIC,
    TRANSITION_DTYPE,
    Array,
)
from postroom.ledger.format.records import FORMAT_VERSION, RecordType
from postroom.ledger.storage.disk import Bytes, Disk, is_no_space, write_in_pieces
from postroom.ledger.storage.journal_scan import FoundBlock, Scan, bodies_start

EVENTS_HEADER_BYTES: Final = EVENTS_HEADER.size_bytes


@dataclass
class EventsImage:
    """A file's records, names and block table."""

    ledger_id: bytes
    epoch: int
    epoch_id: bytes
    file_number: int
    first_position: int
    last_position: int
    time_us: int
    last_time_us: int
    sealed: Seal
    """How the file before ended."""
    last_block_crc: int
    dictionary_count: int
    transitions: Array
    """The dictionary's, then the file's own."""
    arrivals: Array
    names: memoryview
    blocks: Array

    @cached_property
    def own_types(self) -> Array:
        """RecordType of each of the file's own transitions; looks at every record when first asked for."""
        return np.ascontiguousarray(self.own_transitions()["type"])

    def own_transitions(self) -> Array:
        """Without the dictionary."""
        return self.transitions[self.dictionary_count :]

    def seal(self) -> Seal:
        """How this file ended."""
        return Seal(self.file_number, self.epoch, self.last_position, self.last_block_crc)


def build_image(scan: Scan, data: memoryview) -> EventsImage:
    """Gather the records of a scanned journal."""
    header, seal = scan.header, scan.seal()
    found = [scan.dictionary, *scan.blocks]
    arrivals, transitions, names = gather_records(found, data)
    rows = [
        (block.header.first_position, bodies_start(block), block.header.bodies_bytes, 0)
        for block in scan.blocks
        if block.header.next_position() > block.header.first_position
    ]
    return EventsImage(
        ledger_id=header.ledger_id,
        epoch=header.epoch,
        epoch_id=header.epoch_id,
        file_number=header.file_number,
        first_position=header.first_position,
        last_position=seal.position,
        time_us=header.time_us,
        last_time_us=scan.last_time_us(),
        sealed=header.seal,
        last_block_crc=seal.crc,
        dictionary_count=scan.dictionary.header.transitions,
        transitions=transitions,
        arrivals=arrivals,
        names=memoryview(names),
        blocks=np.array(rows, BLOCK_ROW_DTYPE),
    )


ARRIVAL_NAMES: Final = (
    ("message_id_offset", ("message_id_len", "unique_id_len")),
    ("correlation_id_offset", ("correlation_id_len",)),
    ("group_id_offset", ("group_id_len",)),
)
"""What an arrival has in the names heap: where each stretch begins, and the fields that make its length."""
TRANSITION_NAMES: Final = (("detail_offset", ("detail_len",)),)
"""The same of a transition, but for a BODY_CHUNK, whose offset is one of the bodies heap."""


def gather_records(found: list[FoundBlock], data: memoryview) -> tuple[Array, Array, bytes]:
    """Arrivals, transitions and names of blocks, their offsets into the names of all of them."""
    arrivals, transitions, names, bases = _gather(found, data)
    _rebase(arrivals, [block.header.arrivals for block in found], bases, ARRIVAL_NAMES)
    _rebase(transitions, [block.header.transitions for block in found], bases, TRANSITION_NAMES)
    return arrivals, transitions, names


def _gather(found: list[FoundBlock], data: memoryview) -> tuple[Array, Array, bytes, Array]:
    """Arrivals, transitions, names of all blocks, and where each block's names start among them."""
    arrivals = np.empty(sum(block.header.arrivals for block in found), ARRIVAL_DTYPE)
    transitions = np.empty(sum(block.header.transitions for block in found), TRANSITION_DTYPE)
    arrival_bytes, transition_bytes = arrivals.view(np.uint8), transitions.view(np.uint8)
    source = np.frombuffer(data, np.uint8)
    names: list[memoryview] = []
    a = t = 0
    for offset, header in found:
        start = offset + BLOCK_HEADER_BYTES
        size = header.arrivals * ARRIVAL_BYTES
        arrival_bytes[a : a + size] = source[start : start + size]
        a, start = a + size, start + size
        size = header.transitions * TRANSITION_BYTES
        transition_bytes[t : t + size] = source[start : start + size]
        t, start = t + size, start + size
        names.append(data[start : start + header.names_bytes])
    bases = np.zeros(len(found), np.uint32)
    np.cumsum([len(part) for part in names[:-1]], out=bases[1:])
    return arrivals, transitions, b"".join(names), bases


def _rebase(
    rows: Array, counts: list[int], bases: Array, fields: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    """Offsets into a block's names become offsets into the file's."""
    base = np.repeat(bases, counts)
    for offset, lengths in fields:
        named = name_bytes(rows, lengths) > 0
        if offset == "detail_offset":
            named &= rows["type"] != RecordType.BODY_CHUNK
        rows[offset][named] += base[named]


def name_bytes(rows: Array, lengths: tuple[str, ...]) -> Array:
    """Size of a stretch of names in each row."""
    return np.asarray(sum(rows[length].astype(np.int64) for length in lengths))


def encode_image(image: EventsImage) -> list[Bytes]:
    """The bytes of the `.events` file."""
    sections: list[Bytes] = [
        image.transitions.view(np.uint8).data,
        image.arrivals.view(np.uint8).data,
        image.names,
        image.blocks.view(np.uint8).data,
    ]
    crcs = [crc32(section) for section in sections]
    sealed = image.sealed
    head = EVENTS_HEADER.struct.pack(
        EVENTS_MAGIC,
        0,
        FORMAT_VERSION,
        image.epoch,
        image.ledger_id,
        image.epoch_id,
        image.file_number,
        sealed.file_number,
        image.first_position,
        image.last_position,
        image.time_us,
        image.last_time_us,
        sealed.position,
        sealed.epoch,
        sealed.crc,
        image.dictionary_count,
        len(image.transitions),
        len(image.arrivals),
        len(image.names),
        len(image.blocks),
        *crcs,
        image.last_block_crc,
        0,
        b"",
    )
    return [with_crc(head), *sections]


def _decode_header(data: memoryview, where: str, file_number: int) -> dict[str, Any]:
    head = bytes(data[:EVENTS_HEADER_BYTES])
    if len(head) < EVENTS_HEADER_BYTES or not crc_matches(head):
        raise LedgerCorrupt(where, 0, "the header is damaged")
    f = dict(zip((name for name, _ in EVENTS_HEADER.fields), EVENTS_HEADER.struct.unpack(head), strict=True))
    if f["magic"] == EVENTS_MAGIC and f["version"] != FORMAT_VERSION:
        raise UnknownFormat(where, f["version"], FORMAT_VERSION)
    if f["magic"] != EVENTS_MAGIC or f["file_number"] != file_number:
        raise LedgerCorrupt(where, 0, "this is not an events file of that number")
    return f


def load_image(disk: Disk, file_number: int) -> EventsImage:
    """Map an `.events` file, its sections' CRCs verified. Raises LedgerCorrupt.

    A process verifies each file once: it never changes, and one that was written to since is another.
    """
    name = events_name(file_number)
    file = disk.open(name)
    identity = file.identity()
    check = identity is None or identity not in _VERIFIED
    if check:
        file.read_ahead()
    image = decode_image(memoryview(file.view()), disk.describe(name), file_number, check)
    if identity is not None:
        _VERIFIED[identity] = None
        while len(_VERIFIED) > MAX_VERIFIED:
            _VERIFIED.pop(next(iter(_VERIFIED)), None)
    return image


MAX_VERIFIED: Final = 1 << 16
"""So many files a process remembers to have verified."""

_VERIFIED: dict[tuple[int, ...], None] = {}


def decode_image(data: memoryview, where: str, file_number: int, check: bool = True) -> EventsImage:
    """The inverse of `encode_image`, copying nothing; `where` is what errors name. Raises LedgerCorrupt."""
    f = _decode_header(data, where, file_number)
    sizes = (
        f["transition_count"] * TRANSITION_BYTES,
        f["arrival_count"] * ARRIVAL_BYTES,
        f["names_bytes"],
        f["block_count"] * BLOCK_ROW_DTYPE.itemsize,
    )
    crcs = (f["transitions_crc"], f["arrivals_crc"], f["names_crc"], f["blocks_crc"])
    sections, offset = [], EVENTS_HEADER_BYTES
    for size, crc in zip(sizes, crcs, strict=True):
        section = data[offset : offset + size]
        if len(section) != size or (check and crc32(section) != crc):
            raise LedgerCorrupt(where, offset, f"a section of {size} bytes is damaged")
        sections.append(section)
        offset += size
    return EventsImage(
        ledger_id=f["ledger_id"],
        epoch=f["epoch"],
        epoch_id=f["epoch_id"],
        file_number=file_number,
        first_position=f["first_position"],
        last_position=f["last_position"],
        time_us=f["time_us"],
        last_time_us=f["last_time_us"],
        sealed=Seal(f["sealed_file"], f["sealed_epoch"], f["sealed_position"], f["sealed_crc"]),
        last_block_crc=f["last_block_crc"],
        dictionary_count=f["dictionary_count"],
        transitions=np.frombuffer(sections[0], TRANSITION_DTYPE),
        arrivals=np.frombuffer(sections[1], ARRIVAL_DTYPE),
        names=sections[2],
        blocks=np.frombuffer(sections[3], BLOCK_ROW_DTYPE),
    )


def write_durably(disk: Disk, name: str, parts: list[Bytes]) -> None:
    """A whole file, never seen half: to `.tmp`, sync, rename, sync the folder.

    What a full disk cuts off is removed: it must not hold the space that others wait for.
    """
    temporary = name + TMP_SUFFIX
    file = disk.create(temporary)
    try:
        write_in_pieces(file, parts)
    except OSError as error:
        file.close()
        if is_no_space(error):
            disk.remove(temporary)
        raise
    file.close()
    disk.rename(temporary, name)
    disk.sync_names()
