"""Writers that say too early that a block is durable. The rest of the broker is honest, and believes them."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

from postroom.cli import main
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.disk import Bytes, Disk, DiskFile, RealDisk
from postroom.ledger.storage.writer import do_job
from postroom.server import start

Job = tuple[DiskFile, int, list[Bytes], bool]


class EarlyWriter:
    """Signals that a job is over when it is handed over; a thread does the jobs, `batch` at a time."""

    batch = 2
    """A block is written when the next one comes, so that its answers are surely out before."""

    def __init__(self, disk: Disk) -> None:
        self.completion_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._disk = disk
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
        """The bug: the promise comes before the deed."""
        self._jobs.put((file, offset, parts, sync_names))
        os.eventfd_write(self.completion_fd, 1)

    def over(self) -> bool:
        """Always."""
        return True

    def complete(self) -> bool:
        """Always over."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.completion_fd)
        return True

    def wait(self) -> None:
        """Always over."""
        self.complete()

    def close(self) -> None:
        """Does what is left."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: list[Job] = []
        while True:
            job = self._jobs.get()
            waiting += [job] if job is not None else []
            if job is None or len(waiting) >= self.batch:
                for each in waiting:
                    do_job(self._disk, *each)
                waiting = []
            if job is None:
                return


class LateWriter(EarlyWriter):
    """Leaves the last blocks unwritten: a kill finds them in memory only."""

    batch = 20


def serve_with(writer: type[EarlyWriter]) -> None:
    """Runs the command with this writer in the honest one's place."""

    def open_ledger(folder: Path, options: LedgerOptions, now_us: int) -> Ledger:
        disk = RealDisk(folder)
        return Ledger.open(folder, options, now_us, disk=disk, writer=writer(disk))

    start.Ledger = SimpleNamespace(open=open_ledger)  # type: ignore[assignment,misc]
    main(prog_name="postroom")
