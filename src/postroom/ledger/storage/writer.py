"""Who makes a block durable, beside the event loop: one job at a time, signalled through a descriptor.

`NativeWriter` (C, no interpreter lock) where the extension was built, else `ThreadWriter`. A failed job
is fatal to the ledger: nothing is tried again.
"""

import os
import select
import threading
from queue import SimpleQueue
from typing import Protocol, final

from postroom.ledger.errors import LedgerFailed
from postroom.ledger.storage.disk import Bytes, Disk, DiskFile

try:
    from postroom.ledger.storage import _writer
except ImportError:  # built without a C compiler
    _writer = None  # type: ignore[assignment]


_Job = tuple[DiskFile, int, list[Bytes], bool]


class Writer(Protocol):
    """Writes parts at an offset and syncs; then, if asked, syncs the folder."""

    completion_fd: int
    """Readable when the job is over; −1 if there is no descriptor."""

    def submit(self, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
        """Start the job. Only when none is in flight."""

    def over(self) -> bool:
        """Whether the job is over, well or not; cheap, for asking often."""

    def complete(self) -> bool:
        """Whether the job is over; raises LedgerFailed if it failed."""

    def wait(self) -> None:
        """Until the job is over; raises LedgerFailed if it failed."""

    def close(self) -> None:
        """What was written is durable in the folder on return, also where a job is over before that; unless
        one has failed."""


def failed(code: int | None, reason: str) -> LedgerFailed:
    return LedgerFailed(
        f"writing or syncing the journal failed: {reason} (errno {code}); the process must end and restart"
    )


@final
class NativeWriter:
    """The C thread; see ``_writer.c``."""

    def __init__(self, disk: Disk) -> None:
        self._native = _writer.Writer()
        self._names_fd = disk.sync_fileno()
        self._file: DiskFile | None = None
        self.completion_fd = self._native.fileno()

    def submit(self, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
        self._native.submit(file.fileno(), offset, parts, self._names_fd if sync_names else -1)
        self._file = file  # keeps it open

    def over(self) -> bool:
        return self._native.over()

    def complete(self) -> bool:
        return self._finish(False)

    def wait(self) -> None:
        self._finish(True)

    def _finish(self, wait: bool) -> bool:
        code = self._native.finish(wait)
        if code:
            raise failed(code, os.strerror(code))
        return code is not None

    def close(self) -> None:
        self._native.close()


@final
class Completion:
    """That a job is over, said by one thread to another; ``fd`` is readable until that is taken."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._readable = select.poll()
        self._readable.register(self.fd, select.POLLIN)

    def signal(self) -> None:
        """The job is over."""
        os.eventfd_write(self.fd, 1)

    def is_there(self) -> bool:
        """Whether it is, and wasn't taken."""
        return bool(self._readable.poll(0))

    def take(self) -> bool:
        """The same, and it is taken."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return False
        return True

    def wait(self) -> None:
        """Until it is there."""
        self._readable.poll()

    def close(self) -> None:
        """Nobody waits any more."""
        os.close(self.fd)
        self.fd = -1


@final
class ThreadWriter:
    """The same in a Python thread. The loop's process should set a short switch interval."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._completion = Completion()
        self.completion_fd = self._completion.fd
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._error: OSError | None = None
        self._worker = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._worker.start()

    def submit(self, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
        self._jobs.put((file, offset, parts, sync_names))

    def over(self) -> bool:
        return self._completion.is_there()

    def complete(self) -> bool:
        if not self._completion.take():
            return False
        if self._error is not None:
            raise failed(self._error.errno, str(self._error))
        return True

    def wait(self) -> None:
        self._completion.wait()
        self.complete()

    def close(self) -> None:
        if self.completion_fd < 0:
            return
        self._jobs.put(None)
        self._worker.join()
        self._completion.close()
        self.completion_fd = -1

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                do_job(self._disk, *job)
            except OSError as error:
                self._error = error
            self._completion.signal()


def do_job(disk: Disk, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
    """Write, sync, and sync the folder's names if asked."""
    file.write_at(offset, parts)
    file.sync()
    if sync_names:
        disk.sync_names()


def native_available() -> bool:
    """Whether the C writer was built."""
    return _writer is not None


def request_prompt_wakeups() -> None:
    """Have the calling thread run soon after each wait: short time slices, and nice −10 where allowed.

    For threads that wait for sockets or disks. By default a thread of Linux that wakes while all processors
    are busy waits for several ms; a sync takes a fraction of one. Threads started later inherit both. Short
    slices need Linux 6.12; the nice value needs CAP_SYS_NICE or a limit (``LimitNICE`` of systemd), and one
    that was chosen for the process stays. Where the C writer wasn't built nothing changes.
    """
    if native_available():
        _writer.request_prompt_wakeups()


def new_writer(disk: Disk) -> Writer:
    """The best writer for this disk."""
    if native_available() and disk.sync_fileno() >= 0:
        return NativeWriter(disk)
    return ThreadWriter(disk)
