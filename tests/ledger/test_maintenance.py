"""What the thread of background work does about a disk that fails: it goes on, or says that the process must
end."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from postroom.ledger.errors import LedgerCorrupt, LedgerFailed
from postroom.ledger.format.file_names import journal_name
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.disk import RealDisk
from tests.ledger.entry_records import put
from tests.ledger.ledger_maker import START_US
from tests.waiting import wait_for


class FailingDisk:
    """A real one, which lists no names while there is an ``error``."""

    def __init__(self, folder: Path) -> None:
        self._disk = RealDisk(folder)
        self.error: Exception | None = None

    def names(self) -> list[str]:
        if self.error is not None:
            raise self.error
        return self._disk.names()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)


def opened(disk: FailingDisk, failing_s: int = 60) -> Ledger:
    options = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, maintenance_failing_s=failing_s)
    return Ledger.open(disk.folder, options, START_US, disk=disk)


def fill(ledger: Ledger) -> None:
    """Two files, of which one waits for the other."""
    for number in range(400):
        put(ledger.builder, os.urandom(500))
        if number % 10 == 0:
            ledger.flush()


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_after_a_fault_that_passes_all_is_sealed(tmp_path: Path, number: int) -> None:
    disk = FailingDisk(tmp_path)
    ledger = opened(disk)
    disk.error = OSError(number, os.strerror(number))
    fill(ledger)
    wait_for(lambda: ledger.maintenance_error is not None)
    assert ledger.behind
    disk.error = None
    wait_for(lambda: ledger.maintenance_error is None and not ledger.behind)
    assert ledger.maintenance_failure is None
    assert not (tmp_path / journal_name(1)).exists()
    ledger.close()


def test_a_fault_that_stays_ends_the_process_once_files_wait(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path)
    ledger = opened(disk, failing_s=0)
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    fill(ledger)
    wait_for(lambda: ledger.maintenance_failure is not None)
    assert isinstance(ledger.maintenance_failure, LedgerFailed)
    assert "background work has failed for 0 s: [Errno 5]" in str(ledger.maintenance_failure)
    disk.error = None
    ledger.close()


def test_damage_cannot_pass(tmp_path: Path) -> None:
    disk = FailingDisk(tmp_path)
    ledger = opened(disk)
    disk.error = LedgerCorrupt("a file", 0, "damaged")
    fill(ledger)
    wait_for(lambda: ledger.maintenance_failure is not None)
    assert ledger.maintenance_failure is disk.error
    disk.error = None
    ledger.close()
