"""Files of acts: what outlives the history that it was recorded in.

Before history goes, its acts are appended here, block by block, each with its CRCs and that of the block
before; files are begun anew above a size, and dropped whole. What must be there the superblock tells. See
``FORMAT.md``, "Acts file".
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from isal.isal_zlib import crc32

from postroom.ledger.errors import LedgerCorrupt, UnknownFormat
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import Listing, acts_name
from postroom.ledger.format.headers import crc_matches, header_crc_of, with_crc
from postroom.ledger.format.layout import ACTS_BLOCK, ACTS_MAGIC, ARRIVAL_DTYPE, TRANSITION_DTYPE, Array
from postroom.ledger.format.records import FORMAT_VERSION
from postroom.ledger.storage.completeness import OTHER_LEDGER, OTHER_NUMBER
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.superblock import Superblock

_NO_ARRIVALS: Final = np.zeros(0, ARRIVAL_DTYPE)
_ACCEPT: Final = "to go on without, run `postroom ledger accept`"


@dataclass(frozen=True, slots=True)
class ActsBlock:
    """Acts that went into a file at once, in the order of their positions."""

    first_position: int
    last_position: int
    last_time_us: int
    end: int
    """Where it ends in its file."""
    crc: int
    """Its header_crc, by which the next block names it."""
    previous_crc: int
    chunk: Chunk
    """Its records."""


@dataclass(frozen=True, slots=True)
class ActsFile:
    """What a look at a file says; of one without a whole block all but the number is 0."""

    number: int
    end: int = 0
    """Where its last whole block ends."""
    last_position: int = 0
    first_time_us: int = 0
    last_time_us: int = 0
    previous_crc: int = 0
    """What its first block names: the last one of the file before."""
    crc: int = 0
    """Of its last block."""
    is_torn: bool = False
    """There is something behind its last whole block: a crash cut that off."""

    def with_block(self, block: ActsBlock) -> "ActsFile":
        """The file with one block more."""
        return replace(
            self,
            end=block.end,
            last_position=block.last_position,
            first_time_us=self.first_time_us or int(block.chunk.transitions["time_us"][0]),
            last_time_us=block.last_time_us,
            previous_crc=self.previous_crc if self.end else block.previous_crc,
            crc=block.crc,
        )


def encode_acts(ledger_id: bytes, file: ActsFile, previous_crc: int, chunk: Chunk) -> tuple[bytes, ActsFile]:
    """The bytes of a block that is to stand at the end of a file, and the file with it. `chunk` has nothing
    but acts, one at least, whose details are all that it has of names."""
    records, names = chunk.transitions, chunk.names.tobytes()
    content = records.tobytes() + names
    first, last = int(records["position"][0]), int(records["position"][-1])
    time_us = int(records["time_us"][-1])
    head = with_crc(
        ACTS_BLOCK.struct.pack(
            *(ACTS_MAGIC, 0, FORMAT_VERSION, file.number, ledger_id, first, last, time_us),
            *(len(records), len(names), crc32(content), previous_crc, b""),
        )
    )
    data = head + content
    block = ActsBlock(first, last, time_us, file.end + len(data), header_crc_of(head), previous_crc, chunk)
    return data, file.with_block(block)


def acts_blocks(disk: Disk, number: int, ledger_id: bytes) -> Iterator[ActsBlock]:
    """The blocks of a file up to the first that isn't whole. Raises ``LedgerCorrupt`` for a file of another
    ledger or number, ``UnknownFormat``."""
    where = disk.describe(acts_name(number))
    data = memoryview(disk.open(acts_name(number)).view())
    before: ActsBlock | None = None
    while (block := _block(data, before, where, number, ledger_id)) is not None:
        yield block
        before = block


def _block(
    data: memoryview, before: ActsBlock | None, where: str, number: int, ledger_id: bytes
) -> ActsBlock | None:
    """The block behind another; None if there is no whole one that follows on it."""
    start = 0 if before is None else before.end
    content = start + ACTS_BLOCK.size_bytes
    head = bytes(data[start:content])
    if len(head) < ACTS_BLOCK.size_bytes or not crc_matches(head):
        return None
    fields = ACTS_BLOCK.struct.unpack(head)
    magic, crc, version, file_number, owner, first, last, time_us, *rest = fields
    count, names_bytes, content_crc, previous, _ = rest
    if magic != ACTS_MAGIC:
        return None
    if version != FORMAT_VERSION:
        raise UnknownFormat(where, version, FORMAT_VERSION)
    if owner != ledger_id:
        raise LedgerCorrupt(where, start, OTHER_LEDGER)
    if file_number != number:
        raise LedgerCorrupt(where, start, OTHER_NUMBER)
    names = content + count * TRANSITION_DTYPE.itemsize
    end = names + names_bytes
    follows = before is None or (previous == before.crc and first > before.last_position)
    if not follows or end > len(data) or crc32(data[content:end]) != content_crc:
        return None
    records: Array = np.frombuffer(data[content:names], TRANSITION_DTYPE)
    chunk = Chunk(_NO_ARRIVALS, records, np.frombuffer(data[names:end], np.uint8))
    return ActsBlock(first, last, time_us, end, crc, previous, chunk)


def find_acts_files(disk: Disk, ledger_id: bytes) -> list[ActsFile]:
    """What there is in a folder, ascending. Raises ``LedgerCorrupt`` for a file of another ledger."""
    return [_inspect(disk, number, ledger_id) for number in Listing(disk.names()).acts]


def _inspect(disk: Disk, number: int, ledger_id: bytes) -> ActsFile:
    file = ActsFile(number)
    for block in acts_blocks(disk, number, ledger_id):
        file = file.with_block(block)
    behind = bytes(memoryview(disk.open(acts_name(number)).view())[file.end :])
    return replace(file, is_torn=bool(behind.strip(b"\0")))


def last_act(files: list[ActsFile]) -> ActsFile | None:
    """The newest file with a block."""
    return next((file for file in reversed(files) if file.end), None)


def require_acts(disk: Disk, superblock: Superblock, files: list[ActsFile]) -> None:
    """Whether the files of acts are there, and whole, that the superblock vouches for. Raises
    ``LedgerCorrupt``."""
    if not superblock.acts_through:
        return
    crc, through, expected = 0, 0, superblock.acts_first_file
    for file in files:
        if file.number < superblock.acts_first_file:
            continue  # dropped, or accepted as it is
        if file.number != expected:
            raise _missing(disk, expected)
        is_first = file.number == superblock.acts_first_file
        if not is_first and file.end and file.previous_crc != crc:
            raise _damaged(disk, files[files.index(file) - 1], f"what {acts_name(file.number)} follows on")
        crc, through = file.crc or crc, file.last_position or through
        expected += 1
    if expected == superblock.acts_first_file:
        raise _missing(disk, expected)
    if through < superblock.acts_through:
        raise _damaged(disk, files[-1], f"acts up to position {superblock.acts_through} that were durable")


def _missing(disk: Disk, number: int) -> LedgerCorrupt:
    return LedgerCorrupt(disk.describe(acts_name(number)), 0, f"missing, with the acts in it: {_ACCEPT}")


def _damaged(disk: Disk, file: ActsFile, what: str) -> LedgerCorrupt:
    reason = f"damaged or cut short: {what} is not there: {_ACCEPT}"
    return LedgerCorrupt(disk.describe(acts_name(file.number)), file.end, reason)


def acceptable_acts(files: list[ActsFile]) -> tuple[int, int]:
    """Of the newest files that follow on one another: the number of the first with acts, and the last act's
    position."""
    first, through, number, previous = 0, 0, 0, 0
    for file in reversed(files):
        if number and (file.number != number - 1 or (file.end and through and file.crc != previous)):
            break
        number = file.number
        if file.end:
            first, through, previous = number, through or file.last_position, file.previous_crc
    return first, through
