"""Reading a journal file block by block, and deciding where it ends (`recovery_cases`)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt, UnknownRecord
from postroom.ledger.format.block import (
    BLOCK_HEADER_BYTES,
    BODY_TRAILER_BYTES,
    CHUNK_LIST_HEADER_BYTES,
    CHUNK_REFERENCE_BYTES,
    CHUNKED_OFFSET,
)
from postroom.ledger.format.headers import (
    FILE_HEADER_BYTES,
    BlockHeader,
    FileHeader,
    Identity,
    Seal,
    decode_block_header,
    decode_file_header,
)
from postroom.ledger.format.layout import ARRIVAL_DTYPE, BLOCK_DICTIONARY, TRANSITION_DTYPE, Array
from postroom.ledger.format.records import BLOCK_MAGIC, ArrivalFlag, RecordType
from postroom.ledger.storage.recovery_cases import TAIL_CASES, BlockFact, SealFact, TailVerdict

_MAGIC_BYTES: Final = BLOCK_MAGIC.to_bytes(4, "little")
_U32: Final = 4


class FoundBlock(NamedTuple):
    """A valid block and where it starts in the file."""

    offset: int
    header: BlockHeader


@dataclass
class Scan:
    """A journal file as far as it counts."""

    header: FileHeader
    dictionary: FoundBlock
    blocks: list[FoundBlock] = field(default_factory=list)
    """Data blocks, those without records included."""
    end: int = 0
    """Byte behind the last block that counts."""
    verdict: TailVerdict = TailVerdict.CLEAN

    def seal(self) -> Seal:
        """Where the file ends, as its successor must say it."""
        last = self.blocks[-1].header if self.blocks else self.dictionary.header
        return Seal(self.header.file_number, self.header.epoch, last.next_position() - 1, last.header_crc)

    def last_time_us(self) -> int:
        return self.blocks[-1].header.time_us if self.blocks else self.header.time_us

    def has(self, seal: Seal) -> bool:
        """Whether the block that a seal names is one of its blocks."""
        wanted = (seal.position, seal.crc)
        blocks = (block.header for block in (*reversed(self.blocks), self.dictionary))
        return any((block.next_position() - 1, block.header_crc) == wanted for block in blocks)


def scan_journal(name: str, data: memoryview, seal: Seal | None) -> Scan | None:
    """Read a journal up to its end: by its seal, or, for the newest file, where the valid blocks end.

    Returns None if the head is damaged or without a first block (the caller decides by `cases.HEAD_CASES`).
    Raises LedgerCorrupt with the place of what is damaged.
    """
    header = decode_file_header(bytes(data[:FILE_HEADER_BYTES]))
    if header is None:
        return None
    identity = header.identity()
    head = read_block(data, FILE_HEADER_BYTES, identity, header.first_position, header.crc)
    if head is None or not head.header.is_dictionary():
        return None
    scan = Scan(header, head, end=head.offset + head.header.block_bytes())
    _scan_blocks(name, data, seal, scan)
    return scan


def _scan_blocks(name: str, data: memoryview, seal: Seal | None, scan: Scan) -> None:
    identity = scan.header.identity()
    last = scan.dictionary.header
    while True:
        place = _seal_fact(seal, last, scan)
        block = read_block(data, scan.end, identity, last.next_position(), last.header_crc)
        fact = BlockFact.VALID if block is not None else _block_fact(data, scan.end)
        if block is not None and seal is None and _is_torn_last(data, block):
            fact = BlockFact.DAMAGED_BODIES
        damaged = fact is BlockFact.DAMAGED and place is not SealFact.AT_SEAL
        successor = damaged and find_successor(data, scan.end, identity, last.next_position())
        verdict = TAIL_CASES[place, fact, successor]
        if verdict is not TailVerdict.NEXT_BLOCK or block is None:
            break
        scan.blocks.append(block)
        last = block.header
        scan.end = block.offset + last.block_bytes()
    if verdict.name.startswith("REFUSE"):
        raise LedgerCorrupt(name, scan.end, _REASONS[verdict].format(last.next_position()))
    scan.verdict = verdict


_REASONS: Final = {
    TailVerdict.REFUSE_DAMAGED: "the block that begins at position {} is damaged, and valid blocks follow it",
    TailVerdict.REFUSE_SHORT: "the next file says that this one goes on, but the block of {} is missing",
    TailVerdict.REFUSE_OTHER_HISTORY: "the next file names another last block than that before position {}",
}


def _seal_fact(seal: Seal | None, last: BlockHeader, scan: Scan) -> SealFact:
    if seal is None:
        return SealFact.NO_SEAL
    position = last.next_position() - 1
    if position == seal.position and last.header_crc == seal.crc:
        return SealFact.AT_SEAL
    # A block without records has the position of the one before it: only beyond it is the seal passed.
    return SealFact.PAST_SEAL if position > seal.position else SealFact.BEFORE_SEAL


def _block_fact(data: memoryview, offset: int) -> BlockFact:
    if offset >= len(data):
        return BlockFact.END
    return BlockFact.DAMAGED if np.frombuffer(data[offset:], np.uint8).any() else BlockFact.ZEROS


def read_block(
    data: memoryview, offset: int, identity: Identity, position: int, previous_crc: int
) -> FoundBlock | None:
    """The block at `offset` if it is the one that continues the chain at `position`; records checked, bodies
    not."""
    header = decode_block_header(bytes(data[offset : offset + BLOCK_HEADER_BYTES]))
    if header is None or header[2:5] != identity or header.first_position != position:
        return None
    if header.previous_crc != previous_crc or offset + header.block_bytes() > len(data):
        return None
    start = offset + BLOCK_HEADER_BYTES
    if crc32(data[start : start + header.records_bytes()]) != header.records_crc:
        return None
    if header.flags & ~BLOCK_DICTIONARY:
        raise UnknownRecord(header.first_position, f"block flag {header.flags & ~BLOCK_DICTIONARY}")
    return FoundBlock(offset, header)


def _is_torn_last(data: memoryview, block: FoundBlock) -> bool:
    """Whether nothing lies behind the block and its bodies are not all there."""
    end = block.offset + block.header.block_bytes()
    nothing_behind = not any(data[end : end + 1]) and _block_fact(data, end) is not BlockFact.DAMAGED
    return nothing_behind and not bodies_intact(data, block)


def void_bytes(data: memoryview, end: int) -> int:
    """How many bytes behind the end of a journal aren't there for nothing: up to the last that isn't zero."""
    return len(bytes(data[end:]).rstrip(b"\0"))


def find_successor(data: memoryview, offset: int, identity: Identity, position: int) -> bool:
    """Whether behind a damaged block that begins at `position` lies a valid header of the same file.

    It was written after the damaged block was durable. A client can't forge one without the ledger's id.
    """
    return any(
        header[2:5] == identity and header.first_position >= position
        for header in _headers_behind(bytes(data[offset + 1 :]))
    )


def count_blocks(data: memoryview, ledger_id: bytes | None, file_number: int) -> int:
    """How many headers of data blocks lie in a file without a valid head; two: its head had been durable.

    `ledger_id` None: of whatever ledger (nothing tells which it was).
    """
    return sum(
        ledger_id in (None, header.ledger_id)
        and header.file_number == file_number
        and not header.is_dictionary()
        for header in _headers_behind(bytes(data))
    )


def _headers_behind(haystack: bytes) -> Iterator[BlockHeader]:
    at = haystack.find(_MAGIC_BYTES)
    while at >= 0:
        header = decode_block_header(haystack[at : at + BLOCK_HEADER_BYTES])
        if header is not None:
            yield header
        at = haystack.find(_MAGIC_BYTES, at + 1)


def arrivals_of(data: memoryview, block: FoundBlock) -> Array:
    """The block's arrivals, in place."""
    return np.frombuffer(data, ARRIVAL_DTYPE, block.header.arrivals, block.offset + BLOCK_HEADER_BYTES)


def transitions_of(data: memoryview, block: FoundBlock) -> Array:
    """The block's transitions, in place."""
    start = block.offset + BLOCK_HEADER_BYTES + block.header.arrivals * ARRIVAL_DTYPE.itemsize
    return np.frombuffer(data, TRANSITION_DTYPE, block.header.transitions, start)


def bodies_start(block: FoundBlock) -> int:
    """Where in the file the block's bodies heap starts."""
    return block.offset + BLOCK_HEADER_BYTES + block.header.records_bytes()


def bodies_intact(data: memoryview, block: FoundBlock) -> bool:
    """Whether every piece in the block's bodies heap has its CRC."""
    start = bodies_start(block)
    heap = data[start : start + block.header.bodies_bytes]
    arrivals, transitions = arrivals_of(data, block), transitions_of(data, block)
    own = arrivals[(arrivals["flags"] & _OWN_MASK) == int(ArrivalFlag.BODY_STORED)]
    chunked = (own["body_offset"] & CHUNKED_OFFSET) != 0
    chunks = transitions[(transitions["type"] == RecordType.BODY_CHUNK) & (transitions["detail_len"] > 0)]
    pieces = np.concatenate([own["body_offset"][~chunked], chunks["detail_offset"]]).tolist()
    lengths = np.concatenate([own["body_len"][~chunked], chunks["detail_len"]]).tolist()
    lists = (own["body_offset"][chunked] & (CHUNKED_OFFSET - 1)).tolist()
    return all(piece_intact(heap, *piece) for piece in zip(pieces, lengths, strict=True)) and all(
        chunk_list_bytes(heap, offset) > 0 for offset in lists
    )


_OWN_MASK: Final = int(ArrivalFlag.BODY_STORED | ArrivalFlag.BODY_SHARED)


def piece_intact(heap: memoryview, offset: int, length: int) -> bool:
    """Whether the body or chunk at `offset` of a heap is followed by its CRC."""
    end = offset + length
    if end + BODY_TRAILER_BYTES > len(heap):
        return False
    return crc32(heap[offset:end]) == int.from_bytes(heap[end : end + BODY_TRAILER_BYTES], "little")


def chunk_list_bytes(heap: memoryview, offset: int) -> int:
    """Size of the chunk list at `offset` of a heap; 0 if it is damaged."""
    if offset + CHUNK_LIST_HEADER_BYTES > len(heap):
        return 0
    count = int.from_bytes(heap[offset : offset + _U32], "little")
    crc = int.from_bytes(heap[offset + _U32 : offset + CHUNK_LIST_HEADER_BYTES], "little")
    size = CHUNK_LIST_HEADER_BYTES + count * CHUNK_REFERENCE_BYTES
    references = heap[offset + CHUNK_LIST_HEADER_BYTES : offset + size]
    if len(references) != count * CHUNK_REFERENCE_BYTES or crc32(references) != crc:
        return 0
    return size
