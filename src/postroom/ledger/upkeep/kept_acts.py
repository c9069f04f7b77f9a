"""Acts stay longer than the history that they were recorded in: they are put by before it goes."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from postroom.ledger.format.expand import Chunk
from postroom.ledger.format.file_names import acts_name
from postroom.ledger.format.layout import ARRIVAL_DTYPE, Array, rows_at
from postroom.ledger.format.records import RecordType
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.acts_files import ActsFile, acceptable_acts, encode_acts, last_act
from postroom.ledger.storage.disk import Disk
from postroom.ledger.storage.events_image import EventsImage
from postroom.ledger.storage.superblock import SuperblockFile

FILE_SHARE: Final = 16
"""A file of acts is followed by the next when it is larger than this part of what all may have, or spans more
than this part of the time that acts stay."""

SHARE_US: Final = 1_000_000 // FILE_SHARE

LARGEST_FILE_BYTES: Final = 16 << 20
BLOCK_ACTS: Final = 4096
"""Acts that go into one block at most."""


class KeptActs:
    """The files of acts of a ledger that is open. For one thread at a time."""

    def __init__(self, disk: Disk, options: LedgerOptions, superblock: SuperblockFile) -> None:
        self._disk = disk
        self._options = options
        self._superblock = superblock
        self._file_bytes = min(options.acts_retention_bytes // FILE_SHARE, LARGEST_FILE_BYTES)
        self._files: list[ActsFile] = []
        self._inspected_through = 0
        """The last position of history that was looked at for acts."""

    def begin(self, files: list[ActsFile]) -> None:
        """Take up the files as recovery found them: what a killed process left in the cache becomes durable
        before anything is built on it."""
        self._files = list(files)
        if files:
            self._disk.update(acts_name(files[-1].number)).sync()
            self._disk.sync_names()

    @property
    def through(self) -> int:
        """No act up to there is wanted any more: it is in a file, or its history had gone before."""
        newest = last_act(self._files)
        return max(
            newest.last_position if newest else 0,
            self._superblock.current.first_position - 1,
            self._inspected_through,
        )

    def keep(self, image: EventsImage) -> None:
        """Put by the acts of a file of history, the oldest first; they are durable on return."""
        if self._options.acts_retention_bytes and image.last_position > self.through:
            for chunk in _acts_of(image, self.through):
                self._append(chunk)
            self._inspected_through = image.last_position

    def drops_history(self, last_position: int) -> None:
        """Note that history goes up to there, and what has become of its acts."""
        vouched, newest = self._superblock.current, last_act(self._files)
        first = vouched.acts_first_file
        if not vouched.acts_through:  # now something is
            first = max(first, acceptable_acts(self._files)[0])
        self._superblock.drops(last_position, first, newest.last_position if newest else 0)

    def _append(self, chunk: Chunk) -> None:
        newest, file = last_act(self._files), self._file_for(chunk)
        ledger_id = self._superblock.current.ledger_id
        data, made = encode_acts(ledger_id, file, newest.crc if newest else 0, chunk)
        name = acts_name(file.number)
        is_new = file.end == 0
        handle = self._disk.create(name) if is_new else self._disk.update(name)
        handle.write_at(file.end, [data])  # what a failure leaves there is written over by the next attempt
        handle.sync()
        handle.close()
        if is_new:
            self._disk.sync_names()
        self._files = [*(one for one in self._files if one.number != file.number), made]

    def _file_for(self, chunk: Chunk) -> ActsFile:
        """The file that a block goes to: the newest, or the one after it."""
        floor = max(self._superblock.current.acts_first_file, 1)
        if not self._files:
            return ActsFile(floor)
        newest = self._files[-1]
        span_us = int(chunk.transitions["time_us"][-1]) - newest.first_time_us
        is_old = self._options.acts_retention_s and span_us > self._options.acts_retention_s * SHARE_US
        if newest.is_torn or newest.end > self._file_bytes or (newest.end and is_old):
            return ActsFile(max(newest.number + 1, floor))
        return newest

    def drop_old(self, now_us: int) -> bool:
        """Drop what is beyond the bounds on acts; whether there was any."""
        gone = self._excess(now_us)
        if not gone:
            return False
        left = self._files[len(gone) :]
        newest = last_act(left)
        self._superblock.drops_acts(gone[-1].number + 1, newest.last_position if newest else 0)
        for file in gone:
            self._disk.remove(acts_name(file.number))
            self._files.remove(file)
        self._disk.sync_names()
        return True

    def _excess(self, now_us: int) -> list[ActsFile]:
        """The oldest files, as many as must go; the newest only by its age, or where none is wanted."""
        most, age_s = self._options.acts_retention_bytes, self._options.acts_retention_s
        horizon_us = now_us - age_s * 1_000_000 if age_s else 0
        over = sum(file.end for file in self._files) - most
        gone = []
        for file in self._files:
            is_newest = file is self._files[-1]
            is_old = file.last_time_us < horizon_us and file.end > 0
            if not is_old and (over <= 0 or (is_newest and most)):
                break
            gone.append(file)
            over -= file.end
        while gone and len(gone) < len(self._files) - 1 and not self._files[len(gone)].end:
            gone.append(self._files[len(gone)])  # torn: what is left begins with acts
        return gone


def _acts_of(image: EventsImage, after: int) -> Iterator[Chunk]:
    """The acts of a file behind a position, some at a time."""
    records = image.own_transitions()
    found = np.flatnonzero((image.own_types == RecordType.ADMINISTRATIVE_ACT) & (records["position"] > after))
    names = np.frombuffer(image.names, np.uint8)
    for start in range(0, len(found), BLOCK_ACTS):
        yield _with_own_names(rows_at(records, found[start : start + BLOCK_ACTS]).copy(), names)


def _with_own_names(records: Array, names: Array) -> Chunk:
    """Records with nothing in their heap but their details."""
    starts, lengths = records["detail_offset"].tolist(), records["detail_len"].tolist()
    details = [names[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    records["detail_offset"] = np.cumsum([0, *lengths[:-1]])
    return Chunk(np.zeros(0, ARRIVAL_DTYPE), records, np.concatenate(details))
