"""Random histories of a queue manager of three members: crashes, hand-overs, silence, answers that are lost,
on an engine that refuses what is stale and on one that takes it. Nothing acknowledged is lost, nothing comes
back to life, whoever goes on. Planted defects are found."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from random import Random

import pytest

from postroom.ledger.errors import LedgerCorrupt, LedgerFailed
from postroom.ledger.ledger import Ledger
from postroom.replication import active as active_module
from postroom.replication.active import Active
from postroom.replication.entries import Entry, Place
from postroom.replication.errors import EngineUnavailable, MemberRefused, Overtaken
from postroom.replication.follower import Follower
from postroom.replication.member import EngineThread, Member
from tests.ledger.entry_records import put
from tests.ledger.workload import Snapshot, Workload, assert_bodies, assert_recovered
from tests.replication.memory_log import MemoryLog, Stream
from tests.replication.unit import CLAIM_AFTER_MS, Unit, engine_thread, first_active
from tests.sampling import spread

TAKE_OVERS = 12
NAMES = "abc"


class History:
    """Members that come and go, and a model of what was acknowledged."""

    def __init__(self, thread: EngineThread, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._thread = thread
        self._folder = folder
        self._stream = Stream(is_conditional=bool(seed % 2))
        self._units = [self._unit(name) for name in NAMES]
        self._work: Workload | None = None
        self._snapshots: dict[int, Snapshot] = {}
        self._acknowledged = 0
        self._stale: list[tuple[Unit, Ledger]] = []
        """Members that don't know yet that they aren't active any more."""

    def _unit(self, name: str) -> Unit:
        heartbeat_ms = self._random.choice([50, 600_000])
        return Unit(self._thread, self._stream, self._folder / name, heartbeat_ms=heartbeat_ms)

    def take_over(self) -> None:
        """Whoever comes first goes on: it has what was acknowledged, and at most the block behind that."""
        waiting = [unit for unit in self._units if all(unit is not stale for stale, _ in self._stale)]
        active = first_active(self._thread, waiting)[0]
        active.wait_until_active()
        try:
            ledger = active.open_ledger()
        except LedgerFailed:  # it was silent for too long already
            active.crash()
            self._replace(active)
            return
        position = ledger.recovered.next_position - 2  # the new epoch has one record
        if self._work is None:
            self._work = Workload(ledger.builder, self._random)
            self._work.define()
        else:
            assert position >= self._acknowledged, "an acknowledged block is gone"
            snapshot = self._snapshots[position]
            assert_recovered(ledger.recovered, snapshot)
            assert_bodies(ledger, snapshot)
            self._work.adopt(snapshot, ledger.builder)
        self._acknowledged = ledger.durable_through
        self._snapshots = {self._acknowledged: self._work.snapshot()}
        self._check_stale()
        self._run(active, ledger)

    def _check_stale(self) -> None:
        """Nothing of who has been overtaken is acknowledged; it comes back as a follower."""
        for unit, ledger in self._stale:
            put(ledger.builder, b"stale")
            with pytest.raises(LedgerFailed):
                ledger.flush()
            assert unit.lost
            unit.crash()
            self._replace(unit)
        self._stale = []

    def _replace(self, unit: Unit) -> None:
        self._units[self._units.index(unit)] = self._unit(unit.folder.name)

    def _run(self, unit: Unit, ledger: Ledger) -> None:
        """Blocks, and an end of the active member's time."""
        try:
            for _ in range(self._random.randrange(1, 30)):
                self._block(ledger)
            end = self._random.choice(["crash", "stop", "silence", "cut", "lost answer"])
            if end == "stop":
                unit.stop(self._random.choice(["", *NAMES]))
            elif end == "silence":
                self._thread.run(unit.silence())
                self._stale.append((unit, ledger))
                return
            else:
                unit.log.is_cut = end == "cut"
                unit.log.lost_answers = int(end == "lost answer")
                self._block(ledger)
                unit.crash()
        except LedgerFailed:
            unit.crash()
        self._replace(unit)

    def _block(self, ledger: Ledger) -> None:
        assert self._work is not None
        for _ in range(self._random.randrange(1, 25)):
            self._work.step()
        self._snapshots[ledger.builder.next_position - 1] = self._work.snapshot()
        self._acknowledged = ledger.flush()

    def end(self) -> None:
        for _, ledger in self._stale:
            ledger.abandon()
        for unit in self._units:
            unit.crash()


def run(folder: Path, seed: int) -> None:
    with engine_thread() as thread:
        history = History(thread, folder, seed)
        try:
            for _ in range(TAKE_OVERS):
                history.take_over()
        finally:
            history.end()


@pytest.mark.parametrize("seed", spread(range(6), 2))
def test_nothing_is_lost_and_nothing_comes_back(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)


def stall_readers(patch: pytest.MonkeyPatch) -> None:
    """Now and then what is in the log reaches readers so late that they take the active one for gone."""
    whole = MemoryLog.read

    async def read(self: MemoryLog, after: int) -> AsyncGenerator[tuple[int, bytes], None]:
        async for sequence, data in whole(self, after):
            if sequence % 40 == 39:
                await asyncio.sleep(2 * CLAIM_AFTER_MS / 1e3)
            yield sequence, data

    patch.setattr(MemoryLog, "read", read)


@pytest.mark.parametrize("seed", spread(range(2), 1))
def test_who_reads_late_reads_to_the_end(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stall_readers(monkeypatch)
    run(tmp_path, seed)


def acknowledges_before_the_engine(patch: pytest.MonkeyPatch) -> None:
    whole, tasks = Active.append_block, []

    async def append_block(self: Active, place: Place, parts: list[bytes]) -> None:
        tasks.append(asyncio.create_task(whole(self, place, parts)))

    patch.setattr(Active, "append_block", append_block)


def ignores_that_it_is_stale(patch: pytest.MonkeyPatch) -> None:
    async def append_next(self: Active, make: Callable[[int], list[bytes]]) -> None:
        after = self._order.sequence
        try:
            self._order.sequence = await self._log.append(after, make(after))
        except Overtaken:
            self._order.sequence += 1

    patch.setattr(Active, "_append_next", append_next)


def claims_without_reading_to_the_end(patch: pytest.MonkeyPatch) -> None:
    whole = Member._claim

    async def claim(self: Member) -> bool:
        self._order.sequence = await self._log.last()
        return await whole(self)

    patch.setattr(Member, "_claim", claim)
    stall_readers(patch)


def follower_skips_a_part(patch: pytest.MonkeyPatch) -> None:
    whole = Follower.apply

    def apply(self: Follower, entry: Entry) -> bool:
        return entry.offset % 23 != 7 and whole(self, entry)

    patch.setattr(Follower, "apply", apply)


def trims_what_others_need(patch: pytest.MonkeyPatch) -> None:
    async def trim(self: Active) -> None:
        await self._log.trim(self.sequence)

    patch.setattr(Active, "_trim", trim)
    patch.setattr(active_module, "TEND_S", 0.01)


def acknowledges_what_the_folder_alone_has(patch: pytest.MonkeyPatch) -> None:
    """As if its answers were lost, and nobody minded."""
    whole = MemoryLog.append

    async def append(self: MemoryLog, after: int, entries: list[bytes]) -> int:
        try:
            return await whole(self, after, entries)
        except EngineUnavailable:
            return after + len(entries)

    patch.setattr(MemoryLog, "append", append)


@pytest.mark.parametrize(
    "plant",
    [
        acknowledges_before_the_engine,
        ignores_that_it_is_stale,
        claims_without_reading_to_the_end,
        follower_skips_a_part,
        trims_what_others_need,
        acknowledges_what_the_folder_alone_has,
    ],
)
def test_a_planted_defect_is_found(
    tmp_path: Path, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(6):
        try:
            run(tmp_path / str(seed), seed)
        except (AssertionError, LedgerCorrupt, MemberRefused, KeyError, pytest.fail.Exception):
            return
    pytest.fail("the defect was not found")
