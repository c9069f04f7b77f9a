"""Entries of the log: what members append, byte for byte.

An entry is a header of 60 bytes and a payload, compressed where that pays: the log has less to store, to sync
and to send to each node and member. All numbers are little-endian.

====== ===== =============== ==========================================================================
offset bytes field           meaning
====== ===== =============== ==========================================================================
0      4     magic           ``PRLE``
4      4     crc             CRC-32 of header (with 0 here) and payload as it is stored
8      1     version         2
9      1     kind            `Kind`
10     1     encoding        `Encoding` of the payload
11     1     reserved        0
12     16    claim           random id of the claim under which it is appended; a claim's own
28     8     after           sequence of the entry that its writer knew to be the last
36     4     file_number     of a block's part: the journal file that it goes to
40     2     part            of a part: its number within the block's or file's, from 0
42     2     parts           of a part: how many there are
44     8     offset          of a block's part: where in the journal file it goes
52     4     size            bytes of the payload, decompressed
56     4     reserved        0
====== ===== =============== ==========================================================================

The payload of a block's part is bytes of the journal file, from `offset` on; of a claim and a release JSON.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec
from isal.igzip_lib import compress
from isal.isal_zlib import IsalError, decompressobj

from postroom.ledger.format.headers import crc_matches, with_crc
from postroom.ledger.storage.disk import Bytes
from postroom.replication.errors import EntryDamaged

MAGIC: Final = b"PRLE"
VERSION: Final = 2
_HEADER: Final = struct.Struct("<4sIBBBB16sQIHHQII")
HEADER_BYTES: Final = _HEADER.size
CLAIM_ID_BYTES: Final = 16
NO_CLAIM: Final = bytes(CLAIM_ID_BYTES)
MAX_PARTS: Final = 0xFFFF
MAX_PAYLOAD_BYTES: Final = 1 << 20
"""Of one entry, decompressed."""
COMPRESS_FROM_BYTES: Final = 4 << 10
"""Smaller payloads, single messages for instance, are stored as they are."""
SAMPLE_BYTES: Final = 4 << 10
"""So much from the middle of a large payload shows whether it can be compressed."""
LEAST_GAIN: Final = 8
"""Compression pays where it takes at least one byte of so many away."""
_LEVEL: Final = 1
_RAW: Final = -15
"""Window of zlib's interface for DEFLATE without a header of its own."""


class Kind(IntEnum):
    """What an entry says."""

    CLAIM = 1
    """From here on its member is the active one; payload: `Claimant`."""
    PART = 2
    """Bytes of the journal; a block counts when its last part is there."""
    HEARTBEAT = 3
    """The active is there, and has nothing to say."""
    RELEASE = 4
    """The active has stopped; payload: `Release`."""
    FILE = 5
    """Part of a file that is beside the ledger; it counts when its last part is there. What the parts have
    together is the file's name, a zero byte, and what is in it."""


class Encoding(IntEnum):
    """How a payload is stored."""

    PLAIN = 0
    DEFLATE = 1
    """RFC 1951."""


class Claimant(msgspec.Struct, frozen=True):
    """Who claims."""

    member: str
    urls: list[str] = []
    """Where it takes clients once it is active."""
    version: str = ""
    """Of its Postroom."""


class Release(msgspec.Struct, frozen=True):
    """An active that has stopped of its own accord."""

    member: str
    to: str = ""
    """The member that shall claim; "": whoever comes first."""


class Entry(NamedTuple):
    """One entry of the log."""

    kind: Kind
    claim: bytes
    after: int
    payload: Bytes = b""
    file_number: int = 0
    offset: int = 0
    part: int = 0
    parts: int = 0

    def encode(self) -> bytes:
        """Header and payload; without the interpreter lock where that takes long."""
        encoding, stored = _compressed(self.payload)
        place = (self.file_number, self.part, self.parts, self.offset, len(self.payload), 0)
        fields = (VERSION, self.kind, encoding, 0, self.claim, self.after, *place)
        return b"".join((with_crc(_HEADER.pack(MAGIC, 0, *fields), stored), stored))

    def claimant(self) -> Claimant:
        """Of a claim."""
        return msgspec.json.decode(self.payload, type=Claimant)

    def release(self) -> Release:
        """Of a release."""
        return msgspec.json.decode(self.payload, type=Release)


def decode_entry(sequence: int, data: bytes) -> Entry:
    """The entry with this sequence. Raises `EntryDamaged`."""
    if len(data) < HEADER_BYTES or data[:4] != MAGIC:
        raise EntryDamaged(sequence, "no entry of a replicated ledger")
    header = _HEADER.unpack_from(data)
    _, _, version, kind, encoding, _, claim, after, file_number, part, parts, offset, size, _ = header
    if version != VERSION:
        raise EntryDamaged(sequence, f"format version {version}, this Postroom reads {VERSION}: upgrade it")
    stored = memoryview(data)[HEADER_BYTES:]
    if not crc_matches(data[:HEADER_BYTES], stored):
        raise EntryDamaged(sequence, "its checksum is wrong")
    if kind not in list(Kind) or encoding not in list(Encoding):
        what = f"kind {kind} with encoding {encoding} is unknown here: upgrade this Postroom"
        raise EntryDamaged(sequence, what)
    payload = stored if encoding == Encoding.PLAIN else _decompressed(sequence, stored, size)
    return Entry(Kind(kind), claim, after, payload, file_number, offset, part, parts)


def _compressed(payload: Bytes) -> tuple[Encoding, Bytes]:
    """As it is stored."""
    size = len(payload)
    if size >= COMPRESS_FROM_BYTES:
        middle = (size - SAMPLE_BYTES) // 2
        if _shrinks(payload[middle : middle + SAMPLE_BYTES]):
            stored = compress(payload, _LEVEL)
            if len(stored) < size:
                return Encoding.DEFLATE, stored
    return Encoding.PLAIN, payload


def _shrinks(sample: Bytes) -> bool:
    return len(compress(sample, _LEVEL)) <= len(sample) - len(sample) // LEAST_GAIN


def _decompressed(sequence: int, stored: Bytes, size: int) -> bytes:
    """What was `_compressed`; takes no more memory than its header says. Raises `EntryDamaged`."""
    if size > MAX_PAYLOAD_BYTES:
        raise EntryDamaged(sequence, f"its payload is said to have {size} bytes, more than any has")
    made = decompressobj(_RAW)
    try:
        payload = made.decompress(stored, size)
    except IsalError as error:  # type: ignore[misc]  # its stub has an instance for the class
        raise EntryDamaged(sequence, f"its payload can't be decompressed: {error}") from error
    if not made.eof or len(payload) != size:
        raise EntryDamaged(sequence, f"its payload isn't the {size} bytes that its header says")
    return payload


class Place(NamedTuple):
    """Where in the journal a block goes."""

    file_number: int
    offset: int


def parts_of_block(
    claim: bytes, after: int, place: Place, parts: Sequence[Bytes], most_bytes: int
) -> list[bytes]:
    """What is written there, as entries of at most so many bytes that follow on `after`."""
    return _in_parts(Entry(Kind.PART, claim, after, b"".join(parts), *place), most_bytes)


def parts_of_file(claim: bytes, after: int, name: str, data: bytes, most_bytes: int) -> list[bytes]:
    """A file beside the ledger, likewise."""
    return _in_parts(Entry(Kind.FILE, claim, after, name.encode() + b"\0" + data), most_bytes)


def _in_parts(whole: Entry, most_bytes: int) -> list[bytes]:
    size = most_bytes - HEADER_BYTES
    count = max(1, -(-len(whole.payload) // size))
    if count > MAX_PARTS:
        what = f"{len(whole.payload)} bytes in entries of {most_bytes} make more than {MAX_PARTS}"
        raise ValueError(what)
    view = memoryview(whole.payload)
    return [
        whole._replace(
            after=whole.after + part,
            payload=view[part * size : (part + 1) * size],
            part=part,
            parts=count,
            offset=whole.offset + part * size,
        ).encode()
        for part in range(count)
    ]
