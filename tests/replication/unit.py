"""Members in one process: each with a folder, on one log in memory, ledgers that write through it."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from postroom.ledger.errors import LedgerFailed
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.replication.member import EngineThread, Member
from postroom.replication.options import ReplicationOptions
from tests.ledger.workload import START_US
from tests.replication.memory_log import MemoryLog, Stream

SMALL = LedgerOptions(journal_file_bytes=64 << 10, reserve_bytes=0, retention_bytes=0)
WAIT_S = 60.0
CLAIM_AFTER_MS = 300


class Unit:
    """One member."""

    def __init__(
        self,
        thread: EngineThread,
        stream: Stream,
        folder: Path,
        heartbeat_ms: int = 50,
        claim_after_ms: int = CLAIM_AFTER_MS,
        lost_answers: int = 0,
        **settings: object,
    ) -> None:
        """``settings``: of `ReplicationOptions`, as the two before."""
        self.folder = folder
        self.log = MemoryLog(stream)
        self.log.lost_answers = lost_answers
        options = ReplicationOptions(
            ("memory",),
            folder.name,
            heartbeat_ms=heartbeat_ms,
            stop_after_ms=100,
            claim_after_ms=claim_after_ms,
            **settings,  # type: ignore[arg-type]
        )
        self.files: dict[str, bytes] = {}
        urls = [f"amqp://{folder.name}"]
        self.member = Member(self.log, options, folder, SMALL, urls, self.files.__setitem__)
        self.lost: list[LedgerFailed] = []
        self.member.when_lost = self.lost.append
        self._thread = thread
        self.task = thread.run(self._follow())
        self._ledger: Ledger | None = None

    async def _follow(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self.member.follow())

    def wait_until_active(self) -> None:
        """Until it has claimed. Raises what keeps it from following."""
        self._thread.run(asyncio.wait_for(_outcome(self.task), WAIT_S))

    def wait_until_read(self, sequence: int) -> None:
        """Until it has that entry."""
        self._thread.run(asyncio.wait_for(self._read(sequence), WAIT_S))

    async def _read(self, sequence: int) -> None:
        while self.member.sequence < sequence:
            await asyncio.sleep(0.001)
            if self.task.done():
                await self.task

    def open_ledger(self) -> Ledger:
        """Of a member that is active."""
        self._ledger = self.member.open_ledger(self._thread, START_US)
        return self._ledger

    def stop(self, to: str = "") -> None:
        """In order."""
        self._let_go()
        if self._ledger is not None:
            self._ledger.close()
        self._thread.run(self.member.end(to))

    async def silence(self) -> None:
        """It is paused, so that others take it for gone, but for what it is made to do."""
        assert self.member.active is not None
        await self.member.active.stop()

    def crash(self) -> None:
        """As SIGKILL: nothing more leaves for the log."""
        self.log.is_cut = True
        self._let_go()
        if self._ledger is not None:
            self._ledger.abandon()
        self._thread.run(self.member.end())

    def _let_go(self) -> None:
        self._thread.run(_cancelled(self.task))


async def _outcome(task: "asyncio.Task[None]") -> None:
    await task


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})


@contextlib.contextmanager
def engine_thread() -> Iterator[EngineThread]:
    thread = EngineThread()
    try:
        yield thread
    finally:
        thread.stop()


def first_active(thread: EngineThread, units: list[Unit]) -> list[Unit]:
    """Wait until one of them is; that one first."""

    async def wait() -> None:
        await asyncio.wait([unit.task for unit in units], timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)

    thread.run(wait())
    return sorted(units, key=lambda unit: not unit.task.done())
