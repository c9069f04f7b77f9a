"""Entries of the log: what members append, byte for byte.

An entry is a header of 60 bytes and a payload. All numbers are little-endian.

====== ===== =============== ==========================================================================
offset bytes field           meaning
====== ===== =============== ==========================================================================
0      4     magic           ``PRLE``
4      4     crc             CRC-32 of header (with 0 here) and payload
8      1     version         1
9      1     kind            `Kind`
10     2     reserved        0
12     16    claim           random id of the claim under which it is appended; a claim's own
28     8     after           sequence of the entry that its writer knew to be the last
36     4     file_number     of a block's part: the journal file that it goes to
40     2     part            of a part: its number within the block's or file's, from 0
42     2     parts           of a part: how many there are
44     8     offset          of a block's part: where in the journal file it goes
52     8     reserved        0
====== ===== =============== ==========================================================================

The payload of a block's part is bytes of the journal file, from `offset` on; of a claim and a release JSON.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from postroom.ledger.format.headers import crc_matches, with_crc
from postroom.ledger.storage.disk import Bytes
from postroom.replication.errors import EntryDamaged

MAGIC: Final = b"PRLE"
VERSION: Final = 1
_HEADER: Final = struct.Struct("<4sIBBH16sQIHHQQ")
HEADER_BYTES: Final = _HEADER.size
CLAIM_ID_BYTES: Final = 16
NO_CLAIM: Final = bytes(CLAIM_ID_BYTES)
MAX_PARTS: Final = 0xFFFF


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
        """Header and payload."""
        place = (self.file_number, self.part, self.parts, self.offset, 0)
        fields = (VERSION, self.kind, 0, self.claim, self.after, *place)
        return b"".join((with_crc(_HEADER.pack(MAGIC, 0, *fields), self.payload), self.payload))

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
    _, _, version, kind, _, claim, after, file_number, part, parts, offset, _ = _HEADER.unpack_from(data)
    if version != VERSION:
        raise EntryDamaged(sequence, f"format version {version}, this Postroom reads {VERSION}: upgrade it")
    payload = memoryview(data)[HEADER_BYTES:]
    if not crc_matches(data[:HEADER_BYTES], payload):
        raise EntryDamaged(sequence, "its checksum is wrong")
    if kind not in list(Kind):
        raise EntryDamaged(sequence, f"kind {kind} is unknown here: upgrade this Postroom")
    return Entry(Kind(kind), claim, after, payload, file_number, offset, part, parts)


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
