"""The active file: where the next block goes, and where the bodies of the ones before lie.

`Journal` decides and encodes; who writes is `writer.Writer`. See ``FORMAT.md``, "Journal".
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from postroom.ledger.format.block import BLOCK_HEADER_BYTES, SealedParts
from postroom.ledger.format.dictionary import Dictionary
from postroom.ledger.format.file_names import journal_name
from postroom.ledger.format.headers import FILE_HEADER_BYTES, FileHeader, Seal, encode_block, header_crc_of
from postroom.ledger.format.layout import BLOCK_DICTIONARY
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.disk import Bytes, Disk, DiskFile, is_no_space

EVENTS_GENERATIONS: Final = 2
"""An `.events` file stays until two later checkpoints are durable, so there are two of them at least."""

ZEROS_AHEAD_BYTES: Final = 2 << 20
"""The file's size runs ahead of the writing place by so much at most: a sync that doesn't have to make a new
size durable is a third shorter."""

ZEROS_AHEAD_SHARE: Final = 128
"""Nor by more than this part of what a file may need."""

RESERVE_STEPS: Final = 4
"""The reserve is topped up when a fourth of it is used."""


REFUSE_BELOW: Final = 2
"""When the disk gives no more and less than this part (one half) of the reserve, or of what is left free for
the background work, is there, puts are refused."""

EARLY_SHARE: Final = 16
"""While space is short, a file that has records of this part of the reserve is followed by the next: then it
can be sealed, and what has ended by these records can go."""

IDLE_SHARE: Final = 256
"""When nothing is written any more, already with this part."""

CHECKPOINT_SHARE: Final = 8
"""Of the free space for the background work, the part that a checkpoint takes beside the sealed records."""

RETRY_US: Final = 100_000
"""While space is short, the disk is asked again so often."""


class Job(NamedTuple):
    """One write for the writer thread."""

    file: DiskFile
    offset: int
    parts: list[Bytes]
    sync_names: bool
    parts_of: SealedParts
    file_number: int
    bodies_offset: int


class BlockTable:
    """For each block of a file: its first position, and where its parts lie. Grows at the end only."""

    def __init__(self) -> None:
        self.first_positions: list[int] = []
        self.records_bytes: list[int] = []
        self.bodies_offsets: list[int] = []
        self.bodies_bytes: list[int] = []
        self.last_positions: list[int] = []

    def add(
        self, positions: tuple[int, int], records_bytes: int, bodies_offset: int, bodies_bytes: int
    ) -> None:
        """A block, from its first position to its last; its arrivals, transitions and names end where its
        bodies heap begins. Readers in other threads see it whole or not.
        """
        self.records_bytes.append(records_bytes)
        self.bodies_offsets.append(bodies_offset)
        self.bodies_bytes.append(bodies_bytes)
        self.last_positions.append(positions[1])
        self.first_positions.append(positions[0])

    def block_of(self, position: int) -> tuple[int, int, int, int]:
        """(first position, last, offset of the bodies heap, bytes of it) of the block that holds `position`;
        (1, 0, 0, −1) if none does.
        """
        row = bisect_right(self.first_positions, position) - 1
        if row < 0 or position > self.last_positions[row]:
            return 1, 0, 0, -1
        return (
            self.first_positions[row],
            self.last_positions[row],
            self.bodies_offsets[row],
            self.bodies_bytes[row],
        )

    def records_of(self, position: int) -> tuple[int, int] | None:
        """(offset, bytes) of header, arrivals, transitions and names of the block that holds `position`."""
        row = bisect_right(self.first_positions, position) - 1
        if row < 0:
            return None
        size = BLOCK_HEADER_BYTES + self.records_bytes[row]
        return self.bodies_offsets[row] - size, size


class Journal:
    """Appends blocks to the active file and begins the next file when it is full."""

    def __init__(
        self, disk: Disk, options: LedgerOptions, header: FileHeader, dictionary: Dictionary
    ) -> None:
        self._disk = disk
        self._options = options
        self._ahead_bytes = min(ZEROS_AHEAD_BYTES, options.journal_file_bytes // ZEROS_AHEAD_SHARE)
        self.dictionary = dictionary
        self.durable_through = header.first_position - 1
        self.space_short = False
        """The disk gave no more reserve: what can go should go now."""
        self.space_low = False
        """And half of what there was is used: new puts must be refused, until there is all of it again."""
        self._retried_us = 0
        """When the disk was asked last for what it didn't have."""
        self._begin(header)

    def _begin(self, header: FileHeader) -> None:
        """The file exists from now on; its head goes out with the first block."""
        head = header.encode()
        identity = header.identity()
        parts = self.dictionary.as_block(header.first_position, header.time_us)
        block = encode_block(parts, identity, self.durable_through, header_crc_of(head), BLOCK_DICTIONARY)
        self.header = header
        self.identity = identity
        self.file = self._disk.create(journal_name(header.file_number))
        self.table = BlockTable()
        self.last_position = header.first_position - 1
        self._head: list[Bytes] = [head, block, parts.transitions, parts.names]
        self._offset = 0
        self._next_offset = FILE_HEADER_BYTES + len(block) + len(parts.transitions) + len(parts.names)
        self._last_crc = header_crc_of(block)
        self._written_through = -1
        self._reserved_to = 0
        self._size = 0
        self._records_bytes = 0
        self._reserve()

    def append(self, parts: SealedParts) -> Job:
        """The write that makes this block durable. One at a time: call `written` before the next."""
        size = BLOCK_HEADER_BYTES + len(parts.arrivals) + len(parts.transitions) + len(parts.names)
        if self._is_full(size + parts.bodies_bytes, parts.last_position < parts.first_position):
            self.file.extend(self._size)  # gives back what was reserved behind its end
            self._begin(self._next_header(parts))
        head = encode_block(parts, self.identity, self.durable_through, self._last_crc)
        out = [*self._head, head, parts.arrivals, parts.transitions, parts.names, *parts.bodies]
        job = Job(
            self.file,
            self._offset,
            out,
            bool(self._head),
            parts,
            self.identity.file_number,
            self._next_offset + size,
        )
        self._head = []
        self._records_bytes += size
        self._next_offset = self._offset = self._next_offset + size + parts.bodies_bytes
        self._last_crc = header_crc_of(head)
        self._written_through = self.durable_through
        self.last_position = parts.last_position
        for record in parts.dictionary:
            self.dictionary.apply(record)
        self._reserve()
        self._extend()
        return job

    def written(self, job: Job) -> None:
        """The job is durable: readers may have its bodies from the file."""
        parts = job.parts_of
        if parts.last_position >= parts.first_position:
            positions = (parts.first_position, parts.last_position)
            records_bytes = len(parts.arrivals) + len(parts.transitions) + len(parts.names)
            self.table.add(positions, records_bytes, job.bodies_offset, parts.bodies_bytes)
        self.durable_through = parts.last_position

    def seal(self) -> Seal:
        """What a successor's header says of the file so far."""
        return Seal(self.identity.file_number, self.identity.epoch, self.last_position, self._last_crc)

    def owes_marker(self) -> bool:
        """Whether readers beside the writer can't see yet that the last block is durable."""
        return self._written_through < self.durable_through

    def wants_next(self) -> bool:
        """Whether space is short and this file would be followed by the next if anything was written."""
        return self.space_short and self._is_full(BLOCK_HEADER_BYTES, True)

    def lacks_room_for_next(self) -> bool:
        """Whether space is short, and this file would be followed by the next if there was room for that."""
        return self.space_short and not self._head and self._is_early(True) and not self._has_room_for_next()

    def retry_reservation(self, now_us: int) -> None:
        """While space is short: whether the disk has some by now."""
        if self.space_short and not 0 <= now_us - self._retried_us < RETRY_US:
            self._retried_us = now_us
            self._reserve()

    def check_free_space(self) -> None:
        """Ask the disk now, short of space or not."""
        self.space_short = True
        self._reserve()

    def _is_full(self, block_bytes: int, idle: bool) -> bool:
        """Whether the next block goes to another file. While space is short that is so early, if there is
        room for it: only what is in sealed files can be given back."""
        if self._head:
            return False
        total = self._next_offset + block_bytes + EVENTS_GENERATIONS * self._records_bytes
        over = total > self._options.journal_file_bytes
        if not self.space_short:
            return over
        return (over or self._is_early(idle)) and self._has_room_for_next()

    def _is_early(self, idle: bool) -> bool:
        """Whether there is enough in this file to be followed by the next while space is short."""
        return self._records_bytes > self._options.reserve_bytes // (IDLE_SHARE if idle else EARLY_SHARE)

    def _has_room_for_next(self) -> bool:
        """Whether this file can be sealed and another begun with what this one gives back."""
        ours = max(0, self._reserved_to - self._next_offset)
        sealed = self._records_bytes + self._options.upkeep_bytes // CHECKPOINT_SHARE
        return self._disk.free_bytes() + ours >= sealed + self._options.reserve_bytes // EARLY_SHARE

    def _next_header(self, parts: SealedParts) -> FileHeader:
        number = self.identity.file_number + 1
        return self.header._replace(
            file_number=number, first_position=parts.first_position, time_us=parts.time_us, seal=self.seal()
        )

    def _extend(self) -> None:
        """Have the next write end within the file; readers take the zeros behind it for the end."""
        if self._size < self._next_offset:
            self._size = self._next_offset + self._ahead_bytes
            self.file.extend(self._size)

    def _reserve(self) -> None:
        """Keep space ahead of the writing place, and free what the background work needs; without it, say so
        and go on with what is left."""
        ahead = self._options.reserve_bytes
        left = max(0, self._reserved_to - self._next_offset)
        if ahead == 0 or (left >= ahead - ahead // RESERVE_STEPS and not self.space_short):
            return
        free, upkeep = self._disk.free_bytes(), self._options.upkeep_bytes
        if free - (ahead - left) >= upkeep and self._set_aside(left, ahead):
            self.space_short = self.space_low = False
            return
        self.space_short = True
        least = ahead // REFUSE_BELOW
        if left < least:
            self._set_aside(left, min(least, left + free - upkeep // REFUSE_BELOW))
            left = max(0, self._reserved_to - self._next_offset)
        if left < least or free < upkeep // REFUSE_BELOW:
            self.space_low = True

    def _set_aside(self, left: int, ahead: int) -> bool:
        """Reserve up to so much ahead of the writing place, where `left` is reserved; whether it could be
        had."""
        if ahead <= left:
            return True
        try:
            self.file.reserve(self._next_offset + left, ahead - left)
        except OSError as error:
            if not is_no_space(error):
                raise
            return False
        self._reserved_to = self._next_offset + ahead
        return True
