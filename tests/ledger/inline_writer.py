"""A writer without a thread."""

from typing import final

from postroom.ledger.storage.disk import Bytes, Disk, DiskFile
from postroom.ledger.storage.writer import do_job, failed

_Job = tuple[DiskFile, int, list[Bytes], bool]


@final
class InlineWriter:
    """Writes when it is asked whether it has: no thread."""

    completion_fd = -1

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._job: _Job | None = None

    def submit(self, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
        self._job = (file, offset, parts, sync_names)

    def over(self) -> bool:
        return self._job is not None

    def complete(self) -> bool:
        self.wait()
        return True

    def wait(self) -> None:
        job, self._job = self._job, None
        if job is None:
            raise RuntimeError("no job was submitted")
        try:
            do_job(self._disk, *job)
        except OSError as error:
            raise failed(error.errno, str(error)) from error

    def close(self) -> None:
        self._job = None
