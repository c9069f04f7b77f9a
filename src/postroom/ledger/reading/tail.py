"""A ledger looked at again and again beside its broker: each look reads only what was written since.

A `Watch` remembers of every sealed file what it is, and of the journal, which grows, where its last block
ends: from there it walks from header to header, without the records between. What a `JournalTail` knows of
its blocks also tells a reader elsewhere where to find a range of positions (`JournalHint`), so that it reads
these blocks and nothing else.
"""

import contextlib
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.block import ARRIVAL_BYTES, BLOCK_HEADER_BYTES
from postroom.ledger.format.dictionary import (
    CHANNELS,
    HOLDERS,
    PRODUCERS,
    QUEUES,
    SETS,
    Dictionary,
    kind_of,
    records_from,
)
from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import Listing, journal_name
from postroom.ledger.format.headers import (
    FILE_HEADER_BYTES,
    BlockHeader,
    FileHeader,
    Identity,
    Seal,
    decode_block_header,
    decode_file_header,
    require_known_version,
)
from postroom.ledger.format.layout import BLOCK_ROW_DTYPE, TRANSITION_DTYPE, Array
from postroom.ledger.format.records import RecordType
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.reader import FileOpener, FoundFile, LedgerSnapshot, stable_snapshot, up_to
from postroom.ledger.reading.segments import CHUNK_RECORDS, Segment, cut, folder_of, segment_of
from postroom.ledger.storage.disk import Disk, DiskFile
from postroom.ledger.storage.events_image import gather_records
from postroom.ledger.storage.journal_scan import FoundBlock, find_successor, read_block
from postroom.ledger.storage.superblock import Superblock

HINT_KINDS: Final = (QUEUES, SETS, HOLDERS, PRODUCERS, CHANNELS)
"""What the rows of a range speak of."""

KNOWN_FORCES: Final = 16
"""Places in a journal whose definitions in force are remembered: each reader goes on from its own."""

HINT: Final = struct.Struct("<QQQ")
"""First byte, end byte, bytes of the transitions; then transitions and their details."""


@dataclass(frozen=True, slots=True)
class JournalHint:
    """Where a range of positions lies in a journal, and what was in force before its first block."""

    start: int
    end: int
    """Bytes in the file, of whole blocks; the end excluded."""
    transitions: bytes
    details: bytes

    def encode(self) -> bytes:
        """As bytes, to go with a task."""
        return HINT.pack(self.start, self.end, len(self.transitions)) + self.transitions + self.details

    @classmethod
    def decode(cls, data: bytes) -> "JournalHint":
        """The inverse of `encode`."""
        start, end, size = HINT.unpack_from(data)
        return cls(start, end, data[HINT.size : HINT.size + size], data[HINT.size + size :])

    def definitions(self) -> Definitions:
        """What was in force before the first block."""
        return Definitions(
            np.frombuffer(self.transitions, TRANSITION_DTYPE), np.frombuffer(self.details, np.uint8)
        )


class JournalTail:
    """A journal, walked as far as it goes; `advance` goes on where the walk ended.

    Bodies aren't looked at, nor whether records are whole: a block counts only when a later one says that it
    was durable, and who reads it checks its CRC.
    """

    def __init__(self, number: int, header: FileHeader, dictionary: BlockHeader) -> None:
        self.number: Final = number
        self.header: Final = header
        self.durable_through = dictionary.durable_through
        self._dictionary: Final = dictionary
        self._last = dictionary
        self._last_offset = FILE_HEADER_BYTES
        self._firsts: array[int] = array("q")
        """Of each block with records: its first position, and below where it begins, its time, and the bytes
        of the records before it."""
        self._offsets: array[int] = array("q")
        self._times: array[int] = array("q")
        self._bytes_before: array[int] = array("q")
        self._ends: array[int] = array("q")
        """Of every block its last position, and its header's CRC."""
        self._crcs: array[int] = array("q")
        self._bytes = dictionary.records_bytes()
        self._in_force: OrderedDict[int, Dictionary] = OrderedDict()
        """What is in force before a block, for those that were asked for last."""

    @property
    def last_position(self) -> int:
        """Of the last block that is there, durable or not."""
        return self._last.next_position() - 1

    def continues(self, header: FileHeader, file: DiskFile) -> bool:
        """Whether this is still the file that was walked: a restored folder has another of that number."""
        if header != self.header:
            return False
        return decode_block_header(file.read_at(self._last_offset, BLOCK_HEADER_BYTES)) == self._last

    def advance(self, name: str, file: DiskFile, seal: Seal | None) -> None:
        """Walk the blocks that were added, up to the seal if another file follows.

        Raises ``LedgerCorrupt`` for a damaged block that others follow.
        """
        while seal is None or not self.has(seal):
            at = self._last_offset + self._last.block_bytes()
            header = self._next(file.read_at(at, BLOCK_HEADER_BYTES))
            if header is None and self._is_followed(file, at):
                header = self._next(file.read_at(at, BLOCK_HEADER_BYTES))  # it was being written
                if header is None:
                    raise LedgerCorrupt(name, at, _DAMAGED.format(self._last.next_position()))
            if header is None:
                return
            self._add(at, header)

    def has(self, seal: Seal) -> bool:
        """Whether the block that a seal names was walked."""
        at = bisect_left(self._ends, seal.position)
        while at < len(self._ends) and self._ends[at] == seal.position:  # those without records, too
            if self._crcs[at] == seal.crc:
                return True
            at += 1
        head = self._dictionary
        return head.next_position() - 1 == seal.position and head.header_crc == seal.crc

    def _next(self, raw: bytes) -> BlockHeader | None:
        """The header if it continues the chain."""
        header = decode_block_header(raw)
        last = self._last
        if header is None or header[2:5] != self.header.identity():
            return None
        if header.first_position != last.next_position() or header.previous_crc != last.header_crc:
            return None
        return header

    def _is_followed(self, file: DiskFile, at: int) -> bool:
        if not any(file.read_at(at, BLOCK_HEADER_BYTES)):
            return False
        rest = memoryview(file.read_at(at, max(0, file.size_bytes() - at)))
        return find_successor(rest, 0, self.header.identity(), self._last.next_position())

    def _add(self, at: int, header: BlockHeader) -> None:
        if header.next_position() > header.first_position:
            self._firsts.append(header.first_position)
            self._offsets.append(at)
            self._times.append(header.time_us)
            self._bytes_before.append(self._bytes)
        self._ends.append(header.next_position() - 1)
        self._crcs.append(header.header_crc)
        self._bytes += header.records_bytes()
        self.durable_through = max(self.durable_through, header.durable_through)
        self._last, self._last_offset = header, at

    def segment(self, seal: Seal | None) -> Segment:
        """The file's positions, up to its seal if another file follows."""
        last_time_us = self._times[-1] if self._times else self.header.time_us
        whole = segment_of(self.header, seal, self.last_position, last_time_us, self._bytes)
        return whole if seal is None else self.up_to(whole, seal.position)

    def up_to(self, segment: Segment, position: int) -> Segment:
        """A segment of it cut at a position, with the time and the bytes up to there."""
        if position >= segment.last_position:
            return segment
        block = bisect_right(self._firsts, position) - 1
        time_us = self._times[block] if block >= 0 else self.header.time_us
        following = block + 1
        size = self._bytes_before[following] if following < len(self._firsts) else self._bytes
        return replace(segment, last_position=position, last_time_us=time_us, records_bytes=size)

    def block_table(self) -> Array:
        """Where the bodies heaps of its blocks begin (BLOCK_ROW): as an `.events` file has it."""
        rows = np.zeros(len(self._firsts), BLOCK_ROW_DTYPE)
        starts, before = (
            np.array(self._offsets, np.int64),
            np.array([*self._bytes_before, self._bytes], np.int64),
        )
        rows["first_position"] = self._firsts
        rows["bodies_offset"] = starts + BLOCK_HEADER_BYTES + np.diff(before)
        ends = np.append(starts[1:], self._last_offset + self._last.block_bytes())
        rows["bodies_bytes"] = ends[: len(rows)] - rows["bodies_offset"].astype(np.int64)
        return rows

    def covers(self, segment: Segment, first: int, last: int) -> bool:
        """Whether it is the file of that segment, and positions first to last were walked."""
        header = self.header
        same = header.epoch_id == segment.epoch_id and header.first_position == segment.first_position
        return same and header.first_position <= first and last <= self.last_position

    def hint(self, file: DiskFile, first: int, last: int) -> JournalHint:
        """Where positions first to last lie, and what is in force before; they must have been walked."""
        block = bisect_right(self._firsts, first) - 1
        behind = bisect_right(self._firsts, last)
        end = self._last_offset + self._last.block_bytes()
        if behind < len(self._offsets):
            end = self._offsets[behind]
        return JournalHint(self._offsets[block], end, *self._force(file, block).encode())

    def _force(self, file: DiskFile, block: int) -> Dictionary:
        """What is in force before a block; what was deleted or closed in this file as a queue keeps its
        name."""
        before = max((known for known in self._in_force if known <= block), default=-1)
        force = self._in_force[before].copy() if before >= 0 else Dictionary()
        if before < 0:
            self._apply(force, file, FILE_HEADER_BYTES, self._dictionary)
        for offset in self._offsets[max(0, before) : block]:
            header = decode_block_header(file.read_at(offset, BLOCK_HEADER_BYTES))
            if header is not None:
                self._apply(force, file, offset, header)
        self._in_force[block] = force
        self._in_force.move_to_end(block)
        if len(self._in_force) > KNOWN_FORCES:
            self._in_force.popitem(last=False)
        return force

    def _apply(self, force: Dictionary, file: DiskFile, offset: int, header: BlockHeader) -> None:
        skipped = header.arrivals * ARRIVAL_BYTES
        data = file.read_at(offset + BLOCK_HEADER_BYTES + skipped, header.records_bytes() - skipped)
        transitions = np.frombuffer(data, TRANSITION_DTYPE, header.transitions)
        if not len(transitions) or transitions["type"].max() < RecordType.QUEUE_DEFINED:
            return
        names = memoryview(data)[transitions.nbytes :]
        for record in records_from(transitions, names):
            if kind_of(record.type) in HINT_KINDS and record.type != RecordType.QUEUE_DELETED:
                force.apply(record)


_DAMAGED: Final = "the block that begins at position {} is damaged, and valid blocks follow it"


class TailOpener(FileOpener):
    """Opens files for a look, and remembers them for the next."""

    def __init__(self) -> None:
        self.tails: dict[int, JournalTail] = {}
        self._sealed: dict[int, tuple[Seal, FoundFile]] = {}

    def newest(self, disk: Disk, number: int) -> FoundFile | None:
        tail = self._tail(disk, number, None)
        if tail is None:
            return super().newest(disk, number)
        return FoundFile(tail.segment(None), tail.header.seal, tail.durable_through, tail.has)

    def sealed(self, disk: Disk, seal: Seal, vouched: Superblock, listing: Listing) -> FoundFile:
        number = seal.file_number
        if number not in listing.events:
            tail = self._tail(disk, number, seal)
            if tail is not None and tail.has(seal):
                return FoundFile(tail.segment(seal), tail.header.seal, seal.position, tail.has)
            return super().sealed(disk, seal, vouched, listing)
        self.tails.pop(number, None)
        known = self._sealed.get(number)
        if known is None or known[0] != seal:
            known = self._sealed[number] = seal, super().sealed(disk, seal, vouched, listing)
        return known[1]

    def _tail(self, disk: Disk, number: int, seal: Seal | None) -> JournalTail | None:
        """The journal's tail, as far as it goes now or up to its seal; None if its head is damaged."""
        name = journal_name(number)
        file = disk.open(name)
        head = file.read_at(0, FILE_HEADER_BYTES)
        require_known_version(disk.describe(name), head)
        header = decode_file_header(head)
        if header is None:
            return None
        tail = self.tails.get(number)
        if tail is None or not tail.continues(header, file):
            tail = _begin(number, header, file)
            if tail is None:
                return None
            self.tails[number] = tail
        tail.advance(disk.describe(name), file, seal)
        return tail

    def forget(self, segments: list[Segment]) -> None:
        """What is no longer part of the ledger."""
        oldest, newest = segments[0].number, segments[-1].number
        for number in [n for n in self.tails if not oldest <= n <= newest]:
            del self.tails[number]
        for number in [n for n in self._sealed if not oldest <= n <= newest]:
            del self._sealed[number]


def _begin(number: int, header: FileHeader, file: DiskFile) -> JournalTail | None:
    raw = file.read_at(FILE_HEADER_BYTES, BLOCK_HEADER_BYTES)
    head = decode_block_header(raw)
    if head is None:
        return None
    data = memoryview(file.read_at(0, FILE_HEADER_BYTES + head.block_bytes()))
    block = read_block(data, FILE_HEADER_BYTES, header.identity(), header.first_position, header.crc)
    if block is None or not block.header.is_dictionary():
        return None
    return JournalTail(number, header, block.header)


class Watch:
    """A ledger's folder, looked at again and again. Raises as `LedgerReader`."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._opener: Final = TailOpener()
        self.snapshot_count = 0
        """How many have been taken."""

    def snapshot(self, durable_through: int | None = None) -> LedgerSnapshot:
        """What there is now, cut at what is durable: as the blocks say, or as the broker itself knows."""
        found = stable_snapshot(self.folder, self._opener)
        self.snapshot_count += 1
        newest = found.segments[-1]
        self._opener.forget(found.segments)
        tail = self._opener.tails.get(newest.number)
        durable = found.durable_through() if durable_through is None else durable_through
        end = up_to(newest, durable) if tail is None else tail.up_to(newest, durable)
        return LedgerSnapshot([*found.segments[:-1], end], found.newest)

    def block_table(self, number: int) -> tuple[int, int, Array] | None:
        """First and last position of a journal's blocks, and where their bodies lie; None for a file that the
        last look didn't walk."""
        tail = self._opener.tails.get(number)
        return None if tail is None else (tail.header.first_position, tail.last_position, tail.block_table())

    def hint(self, segment: Segment, first: int, last: int) -> JournalHint | None:
        """Where positions of a journal lie; None for a sealed file, or one that the last look didn't walk."""
        tail = self._opener.tails.get(segment.number)
        if segment.is_sealed or tail is None or not tail.covers(segment, first, last):
            return None
        with contextlib.suppress(FileNotFoundError), folder_of(self.folder) as disk:
            return tail.hint(disk.open(segment.name), first, last)
        return None  # sealed since the look


def journal_chunks(
    name: str, data: memoryview, segment: Segment, hint: JournalHint, first: int, last: int
) -> Iterator[tuple[Chunk, Definitions]]:
    """The records of positions first to last from the blocks of a hint, each chunk with what it speaks of.

    `data` are the file's bytes from `hint.start` to `hint.end`. Raises ``LedgerCorrupt`` if they aren't these
    blocks, or not whole.
    """
    known = hint.definitions()
    for blocks in _runs(name, data, segment, hint):
        arrivals, transitions, names = gather_records(blocks, data)
        chunk = Chunk(arrivals, transitions, np.frombuffer(names, np.uint8))
        known = known.and_those_behind(chunk)
        wanted = cut(chunk, first, last)
        if wanted.record_count:
            yield wanted, known


def _runs(name: str, data: memoryview, segment: Segment, hint: JournalHint) -> Iterator[list[FoundBlock]]:
    """The blocks in order, in runs that are read at once."""
    run: list[FoundBlock] = []
    records = 0
    for block in _blocks(name, data, segment, hint):
        run.append(block)
        records += block.header.arrivals + block.header.transitions
        if records >= CHUNK_RECORDS:
            yield run
            run, records = [], 0
    if run:
        yield run


def _blocks(name: str, data: memoryview, segment: Segment, hint: JournalHint) -> Iterator[FoundBlock]:
    identity = Identity(segment.ledger_id, segment.epoch, segment.number)
    at, before = 0, None
    while at < hint.end - hint.start:
        header = decode_block_header(bytes(data[at : at + BLOCK_HEADER_BYTES]))
        if header is not None and before is None:
            position, crc = header.first_position, header.previous_crc
        elif header is not None and before is not None:
            position, crc = before.next_position(), before.header_crc
        block = None if header is None else read_block(data, at, identity, position, crc)
        if block is None:
            raise LedgerCorrupt(name, hint.start + at, "the block that began here is damaged or gone")
        yield block
        before = block.header
        at += before.block_bytes()
