"""The ledger's writer of an active member: a block is durable when the engine has acknowledged it.

Only then the folder gets it, too: so a folder never has what the log hasn't. The folder's copy is synced when
a file ends, and when the ledger is closed; what a power cut takes of it is read from the log again.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from postroom.ledger.errors import LedgerFailed
from postroom.ledger.format.headers import FILE_HEADER_BYTES, decode_file_header
from postroom.ledger.storage.disk import Bytes, Disk, DiskFile
from postroom.ledger.storage.writer import Completion
from postroom.replication.active import Active
from postroom.replication.entries import Place


class ReplicatedWriter:
    """See `postroom.ledger.storage.writer.Writer`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        active: Active,
        disk: Disk,
        save: Callable[[int, bytes], None],
    ) -> None:
        """`loop` runs in another thread and is the active's; `save` notes how far the folder is, durably."""
        self._loop: Final = loop
        self._active: Final = active
        self._disk: Final = disk
        self._save: Final = save
        self._completion: Final = Completion()
        self.completion_fd = self._completion.fd
        self._file: DiskFile | None = None
        self._number = 0
        self._error: LedgerFailed | None = None

    def submit(self, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
        job = self._write(file, offset, parts)
        asyncio.run_coroutine_threadsafe(job, self._loop)

    def over(self) -> bool:
        return self._completion.is_there()

    def complete(self) -> bool:
        if not self._completion.take():
            return False
        if self._error is not None:
            raise self._error
        return True

    def wait(self) -> None:
        self._completion.wait()
        self.complete()

    def close(self) -> None:
        if self.completion_fd < 0:
            return
        if self._error is None:
            asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result()
        self._completion.close()
        self.completion_fd = -1

    async def _write(self, file: DiskFile, offset: int, parts: list[Bytes]) -> None:
        """The job; whatever becomes of it is told."""
        try:
            begins = file is not self._file
            if begins:
                header = decode_file_header(bytes(parts[0][:FILE_HEADER_BYTES]))
                assert header is not None, "a file begins with its header"
                self._number = header.file_number
            await self._active.append_block(Place(self._number, offset), parts)
            file.write_at(offset, parts)
            before, self._file = self._file, file
            if begins:
                if before is not None:
                    before.sync()
                await self._settle()
        except LedgerFailed as error:
            self._error = error
        except Exception as error:
            self._error = LedgerFailed(
                f"this member's folder can't be written: {error}; the process must end"
            )
            self._error.__cause__ = error
        self._completion.signal()

    async def _settle(self) -> None:
        """Everything that the log has is durable in the folder, names included."""
        if self._file is not None:
            self._file.sync()
            self._disk.sync_names()
        self._active.saved = self._active.sequence
        self._save(self._active.saved, self._active.claim)
