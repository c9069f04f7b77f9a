"""The one integrity check on a frozen ledger: on just those bytes that a copy of it has."""

import mmap
from pathlib import Path
from typing import Final, cast

from postroom.ledger.copying.frozen import Frozen, FrozenFile
from postroom.ledger.recovery.recovery import inspect
from postroom.ledger.storage.disk import Disk
from postroom.ledger.verification.integrity import Covered, covered_by


def check_frozen(frozen: Frozen, folder: Path) -> Covered:
    """Whether it is whole; `folder` is where it is from. Raises ``LedgerCorrupt`` with the first damage."""
    disk = cast(Disk, _FrozenDisk(frozen, folder))
    return covered_by(disk, inspect(disk))


class _FrozenDisk:
    """As much of a `Disk` as an inspection, which changes nothing, asks of it."""

    def __init__(self, frozen: Frozen, folder: Path) -> None:
        self._files: Final = {file.name: file for file in frozen.files}
        self._folder: Final = folder

    def describe(self, name: str) -> str:
        return str(self._folder / name)

    def names(self) -> list[str]:
        return sorted(self._files)

    def open(self, name: str) -> "_FrozenView":
        if name not in self._files:
            raise FileNotFoundError(name)
        return _FrozenView(self._files[name])


class _FrozenView:
    """As much of a `DiskFile`."""

    def __init__(self, file: FrozenFile) -> None:
        self._file: Final = file

    def read_at(self, offset: int, size: int) -> bytes:
        return self._file.read_at(offset, size)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        data = self._file.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def view(self) -> bytes | mmap.mmap:
        file = self._file
        if isinstance(file.source, bytes):
            return file.source
        if file.zeros_from < file.size_bytes:  # the writer has come further since
            return file.read_at(0, file.size_bytes)
        return file.source.view()

    def read_ahead(self, offset: int = 0, size: int = 0) -> None:
        """Who owns the frozen ledger has it open, and reads it."""

    def size_bytes(self) -> int:
        return self._file.size_bytes

    def identity(self) -> None:
        return None

    def close(self) -> None:
        """The frozen ledger's owner closes it."""
