"""Headers of journal files and blocks: encoding, decoding, checking. Layouts: ``FORMAT.md``, "Journal"."""

import os
import struct
from typing import Final, NamedTuple
from uuid import UUID

from isal.isal_zlib import crc32

from postroom.ledger.errors import UnknownFormat
from postroom.ledger.format.block import ARRIVAL_BYTES, BLOCK_HEADER_BYTES, TRANSITION_BYTES, SealedParts
from postroom.ledger.format.layout import BLOCK_DICTIONARY, FILE_HEADER
from postroom.ledger.format.records import BLOCK_HEADER, BLOCK_MAGIC, FILE_MAGIC, FORMAT_VERSION

FILE_HEADER_BYTES: Final = FILE_HEADER.size_bytes
_U32 = struct.Struct("<I")
_CRC_AT: Final = 4


def with_crc(data: bytes, extra: bytes | bytearray | memoryview = b"") -> bytes:
    """A header, packed with header_crc zero, with its CRC (over it and `extra`) put in."""
    return data[:_CRC_AT] + _U32.pack(crc32(extra, crc32(data))) + data[_CRC_AT + 4 :]


def crc_matches(data: bytes, extra: bytes | bytearray | memoryview = b"") -> bool:
    """Whether a header's header_crc is right."""
    stored = _U32.unpack_from(data, _CRC_AT)[0]
    return bool(crc32(extra, crc32(data[_CRC_AT + 4 :], crc32(data[:_CRC_AT] + b"\0\0\0\0"))) == stored)


class Seal(NamedTuple):
    """Where a file ends: what its successor's header says of it."""

    file_number: int
    epoch: int
    position: int
    """The last position, 0 before the first record."""
    crc: int
    """header_crc of the last block."""


NO_SEAL: Final = Seal(0, 0, 0, 0)


class Identity(NamedTuple):
    """What every block of one file repeats."""

    ledger_id: bytes
    epoch: int
    file_number: int


class FileHeader(NamedTuple):
    """The head of a journal file."""

    ledger_id: bytes
    epoch: int
    epoch_id: bytes
    file_number: int
    first_position: int
    time_us: int
    seal: Seal
    crc: int

    def identity(self) -> Identity:
        return Identity(self.ledger_id, self.epoch, self.file_number)

    def encode(self) -> bytes:
        """160 bytes; the `crc` field is not looked at."""
        seal = self.seal
        fixed = (self.epoch, self.ledger_id, self.epoch_id, self.file_number, seal.file_number)
        rest = (self.first_position, self.time_us, seal.position, seal.epoch, seal.crc, b"")
        return with_crc(FILE_HEADER.struct.pack(FILE_MAGIC, 0, FORMAT_VERSION, *fixed, *rest))


def header_crc_of(data: bytes) -> int:
    """The stored header_crc of any encoded header."""
    return int(_U32.unpack_from(data, _CRC_AT)[0])


def decode_file_header(data: bytes) -> FileHeader | None:
    """The header at the start of a journal or .bodies file; None if it is not one, or damaged."""
    if len(data) < FILE_HEADER_BYTES or not crc_matches(data[:FILE_HEADER_BYTES]):
        return None
    fields = FILE_HEADER.struct.unpack_from(data)
    magic, crc, version, epoch, ledger_id, epoch_id, number, sealed_file, first, time_us = fields[:10]
    if magic != FILE_MAGIC or version != FORMAT_VERSION:
        return None
    seal = Seal(sealed_file, fields[11], fields[10], fields[12])
    return FileHeader(ledger_id, epoch, epoch_id, number, first, time_us, seal, crc)


def require_known_version(name: str, head: bytes) -> None:
    """Raises ``UnknownFormat`` for a journal whose header is whole and of another version."""
    if len(head) < FILE_HEADER_BYTES or not crc_matches(head[:FILE_HEADER_BYTES]):
        return
    magic, _, version = FILE_HEADER.struct.unpack_from(head)[:3]
    if magic == FILE_MAGIC and version != FORMAT_VERSION:
        raise UnknownFormat(name, int(version), FORMAT_VERSION)


class BlockHeader(NamedTuple):
    """The head of a block, field by field as in ``records.BLOCK_HEADER``."""

    magic: int
    header_crc: int
    ledger_id: bytes
    epoch: int
    file_number: int
    first_position: int
    time_us: int
    durable_through: int
    arrivals: int
    transitions: int
    names_bytes: int
    bodies_bytes: int
    records_crc: int
    previous_crc: int
    flags: int
    reserved: int
    reserved2: int

    def records_bytes(self) -> int:
        """Bytes of arrivals, transitions and names: what records_crc covers."""
        return self.arrivals * ARRIVAL_BYTES + self.transitions * TRANSITION_BYTES + self.names_bytes

    def block_bytes(self) -> int:
        return BLOCK_HEADER_BYTES + self.records_bytes() + self.bodies_bytes

    def is_dictionary(self) -> bool:
        return self.flags & BLOCK_DICTIONARY != 0

    def next_position(self) -> int:
        """The position after the block's records."""
        return self.first_position + (0 if self.is_dictionary() else self.arrivals + self.transitions)


def encode_block(
    parts: SealedParts, identity: Identity, durable_through: int, previous_crc: int, flags: int = 0
) -> bytes:
    """The header of a block with these parts (96 bytes)."""
    crc = crc32(parts.names, crc32(parts.transitions, crc32(parts.arrivals)))
    counts = (parts.arrival_count(), parts.transition_count(), len(parts.names), parts.bodies_bytes)
    head = (BLOCK_MAGIC, 0, *identity, parts.first_position, parts.time_us, durable_through)
    return with_crc(BLOCK_HEADER.struct.pack(*head, *counts, crc, previous_crc, flags, 0, 0))


def decode_block_header(data: bytes) -> BlockHeader | None:
    """The header at the start of `data`; None if it is not one, or damaged."""
    if len(data) < BLOCK_HEADER_BYTES:
        return None
    data = data[:BLOCK_HEADER_BYTES]
    header = BlockHeader._make(BLOCK_HEADER.struct.unpack(data))
    if header.magic != BLOCK_MAGIC or not crc_matches(data):
        return None
    return header


def new_id() -> bytes:
    """A random id for a ledger or an epoch."""
    return UUID(bytes=os.urandom(16), version=4).bytes
