"""Who reads a file from its front on has its next pieces requested, each once; nobody else."""

from pathlib import Path

import pytest

from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.storage.read_ahead import AHEAD_BYTES, MAX_FILES, NEAR_BYTES, STEP_BYTES, ReadAhead
from postroom.testing.disk import MemoryDisk

BATCH = 90_000


class NotingFile:
    """Notes what is requested."""

    def __init__(self) -> None:
        self.requested: list[tuple[int, int]] = []

    def read_ahead(self, offset: int = 0, size: int = 0) -> None:
        self.requested.append((offset, size))


def read(ahead: ReadAhead, file: NotingFile, starts: list[int], name: str = "f") -> None:
    for start in starts:
        ahead.have_read(name, file, start, start + BATCH)  # type: ignore[arg-type]


@pytest.mark.parametrize("gap", [0, 1, NEAR_BYTES])
def test_from_the_front_on_each_piece_is_requested_once(gap: int) -> None:
    ahead, file = ReadAhead(), NotingFile()
    starts = [number * (BATCH + gap) for number in range(50)]
    read(ahead, file, starts)
    ends = [offset + size for offset, size in file.requested]
    assert all(size == STEP_BYTES for _, size in file.requested)
    assert all(offset >= end for (offset, _), end in zip(file.requested[1:], ends, strict=False)), (
        "none twice"
    )
    last = starts[-1] + BATCH
    assert last + AHEAD_BYTES <= ends[-1] or gap > STEP_BYTES - BATCH
    assert ends[-1] <= last + AHEAD_BYTES + STEP_BYTES


def test_here_and_there_requests_nothing() -> None:
    ahead, file = ReadAhead(), NotingFile()
    read(ahead, file, [0, BATCH + NEAR_BYTES + 1, 50, 900_000_000, 0])
    assert file.requested == []


def test_files_are_told_apart_and_forgotten() -> None:
    ahead, file = ReadAhead(), NotingFile()
    for number in range(MAX_FILES + 1):
        read(ahead, file, [0], f"file {number}")
    read(ahead, file, [BATCH], "file 0")
    assert file.requested == [], "the first has been forgotten"
    read(ahead, file, [BATCH], f"file {MAX_FILES}")
    assert file.requested == [(2 * BATCH, STEP_BYTES)]


def test_every_disk_takes_it(tmp_path: Path) -> None:
    for disk in (MemoryDisk(), RealDisk(tmp_path)):
        disk.create("f").read_ahead(0, STEP_BYTES)
