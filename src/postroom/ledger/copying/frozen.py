"""A ledger's files as they are at one moment, beside the broker that goes on writing.

All of them are opened while none comes or goes. A file that is open can be read to its end, whatever
retention, sealing or compaction do to its name meanwhile; no lock is taken, and nothing is left behind by
whoever dies. What is had so is what a power cut at that moment would have left: recovery takes it.
"""

import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from postroom.ledger.errors import LedgerCorrupt, LedgerError
from postroom.ledger.format.file_names import SUPERBLOCK_NAME, Listing
from postroom.ledger.reading.reader import SNAPSHOT_ATTEMPTS, NoLedger, QuietMark, holds_ledger
from postroom.ledger.reading.segments import folder_of
from postroom.ledger.storage.disk import Disk, DiskFile, zeros_from
from postroom.ledger.verification.integrity import files_of

SPARE_FILES: Final = 256
"""Open files that are left to the rest of the process."""


class NeverQuiet(LedgerError):
    """Files came and went whenever we looked."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}: files came and went in {SNAPSHOT_ATTEMPTS} looks: try again")


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """One file, up to where it ended at that moment."""

    name: str
    size_bytes: int
    source: DiskFile | bytes
    zeros_from: int
    """What is behind this byte was zeros, ahead of the writer, who has come further since."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the file's end."""
        size = min(size, self.size_bytes - offset)
        if isinstance(self.source, bytes):
            return self.source[offset : offset + size]
        written = max(0, min(size, self.zeros_from - offset))
        data = self.source.read_at(offset, written)
        return data if len(data) < written else data + bytes(size - written)


@dataclass(frozen=True, slots=True)
class Frozen:
    """Close it, so that what has gone meanwhile gives its space back."""

    files: list[FrozenFile]
    """The ledger's, what was wanted beside, and the superblock as the last: who has that has all."""

    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    def close(self) -> None:
        """Nothing more is read."""
        for file in self.files:
            if not isinstance(file.source, bytes):
                file.source.close()


def freeze(folder: Path, beside: tuple[str, ...] = ()) -> Frozen:
    """The ledger of a folder now, and those files beside it that are there, read before it.

    Raises ``NoLedger``, ``NeverQuiet``, ``LedgerCorrupt``, OSError.
    """
    if not holds_ledger(folder):
        raise NoLedger(folder)
    with folder_of(folder) as disk:
        first = [_whole(disk, name) for name in disk.names() if name in beside]
        for _ in range(SNAPSHOT_ATTEMPTS):
            found = _files_while_quiet(disk, folder)
            if found is not None:
                ledger, superblock = found
                return Frozen([*ledger, *first, superblock])
    raise NeverQuiet(folder)


def _files_while_quiet(disk: Disk, folder: Path) -> tuple[list[FrozenFile], FrozenFile] | None:
    """The files and the superblock; None if one came or went in between."""
    seen = QuietMark.of(disk)
    if seen.superblock is None:
        raise LedgerCorrupt(disk.describe(SUPERBLOCK_NAME), 0, "missing")
    superblock = _whole(disk, SUPERBLOCK_NAME)
    names = [name for name in files_of(seen.names) if name != SUPERBLOCK_NAME]
    _allow_open(len(names) + SPARE_FILES)
    files: list[FrozenFile] = []
    try:
        for name in sorted(names, key=lambda name: (is_journal(name), name)):
            file = disk.open(name)
            size = file.size_bytes()
            files.append(FrozenFile(name, size, file, zeros_from(file, size) if is_journal(name) else size))
        if QuietMark.of(disk) == seen:
            return files, superblock
    except FileNotFoundError:
        pass  # retention, or a seal's rename: looked at anew
    except BaseException:
        Frozen(files).close()
        raise
    Frozen(files).close()
    return None


def is_journal(name: str) -> bool:
    """Whether the file isn't sealed yet."""
    return bool(Listing([name]).journal)


def _whole(disk: Disk, name: str) -> FrozenFile:
    file = disk.open(name)
    data = file.read_at(0, file.size_bytes())
    file.close()
    return FrozenFile(name, len(data), data, len(data))


def _allow_open(files: int) -> None:
    """Have the system let this process open so many files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < files:
        most = files if hard == resource.RLIM_INFINITY else min(files, hard)
        if most > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
