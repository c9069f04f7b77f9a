"""The folder of the operating system."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from postroom.ledger.storage.disk import RealDisk

FILES = 300
LISTINGS = 200
THREADS = 4


def test_threads_that_list_a_folder_at_once_each_see_all_of_it(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    names = [f"{number:03}.events" for number in range(FILES)]
    for name in names:
        disk.create(name).close()

    def wrong(_: int) -> int:
        return sum(disk.names() != names for _ in range(LISTINGS))

    with ThreadPoolExecutor(THREADS) as threads:
        assert sum(threads.map(wrong, range(THREADS))) == 0


def test_a_removed_folder_is_listed_as_empty(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "ledger")
    (tmp_path / "ledger").rmdir()
    assert disk.names() == []


def test_names_that_could_not_be_synced_once_are_never_taken_for_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says it once."""
    disk = RealDisk(tmp_path)

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Errno 5"):
        disk.sync_names()
    monkeypatch.undo()
    with pytest.raises(OSError, match="Errno 5"):
        disk.sync_names()
