"""The transaction manager crashes before and after every step, and recovers; its log fails; it is misused."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from postroom.client.aio import TransactionManager
from postroom.client.exceptions import (
    DecisionLogException,
    IllegalStateException,
    TransactionRolledBackException,
)
from postroom.client.transactions.two_phase import Step, TransactionStatus
from postroom.model.xa import XaCode, XaFlag, Xid
from tests.client.fake_broker import asynchronous
from tests.twophase.fakes import (
    COMMITTED,
    ROLLED_BACK,
    Crash,
    FakeResource,
    World,
    both,
    recover,
    transact,
)

pytestmark = pytest.mark.usefixtures("small_files")
C = XaCode
STATUS = TransactionStatus
FOREIGN = Xid(7, b"somebody", b"else")


def steps_of(names: str, tmp_path: Path) -> int:
    """How many steps a transaction has that goes well."""
    world = World(tmp_path / "dry", names)
    asyncio.run(transact(world))
    return len(world.steps)


async def crash_and_recover(world: World) -> None:
    """Until a life goes to its end; crashes in recoveries included."""
    with pytest.raises(Crash):
        await transact(world)
    await recover(world)


def test_a_crash_at_any_step_leaves_both_or_neither(tmp_path: Path) -> None:
    outcomes = []
    for at in range(1, steps_of("ab", tmp_path) + 1):
        world = World(tmp_path / f"{at}")
        world.crash_at = at
        asyncio.run(crash_and_recover(world))
        outcomes.append(set(world.outcomes().values()))
        decided = (Step.DECIDED, "") in world.steps
        assert outcomes[-1] == {COMMITTED} if decided else outcomes[-1] <= {ROLLED_BACK, "nothing"}
    assert {COMMITTED} in outcomes and {ROLLED_BACK} in outcomes


def test_a_crash_in_a_recovery_leaves_both_or_neither(tmp_path: Path) -> None:
    """Every step of the first life, and after it every step of its recovery."""
    for at in range(1, steps_of("ab", tmp_path) + 1):
        for further in range(1, 5):
            world = World(tmp_path / f"{at}-{further}")
            asyncio.run(_crash_twice(world, at, further))
            assert "in doubt" not in world.outcomes().values()
            assert len({what for what in world.outcomes().values() if what != "nothing"}) <= 1


async def _crash_twice(world: World, at: int, further: int) -> None:
    world.crash_at = at
    with pytest.raises(Crash):
        await transact(world)
    world.crash_at = at + further
    with contextlib.suppress(Crash):
        await recover(world)
    world.crash_at = 0
    await recover(world)


@asynchronous
async def test_recovery_touches_nothing_of_others(tmp_path: Path) -> None:
    world = World(tmp_path)
    other = World(tmp_path / "other")
    other.managers = world.managers
    world.managers["a"].fails["commit"] = C.XAER_RMFAIL
    await transact(world)
    world.managers["a"].fails.clear()
    world.managers["a"].foreign(FOREIGN)
    async with other.manager() as manager:
        report = await manager.recover(*world.resources())
    assert (report.committed, report.rolled_back) == ([], [])
    assert len(world.managers["a"].prepared) == 2
    await recover(world)
    assert world.managers["a"].prepared == {FOREIGN}


class Waiting(FakeResource):
    """A session whose promise takes as long as the test wants."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.is_called, self.may_answer = asyncio.Event(), asyncio.Event()

    async def prepare(self, xid: Xid) -> XaCode:
        self.is_called.set()
        await self.may_answer.wait()
        return await super().prepare(xid)


@asynchronous
async def test_recovery_leaves_transactions_under_way_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    slow = Waiting(world.managers["b"])
    async with world.manager() as manager:

        async def run() -> None:
            async with manager.transaction(FakeResource(world.managers["a"]), slow):
                pass

        task = asyncio.create_task(run())
        await slow.is_called.wait()
        report = await manager.recover(*world.resources())
        assert report.rolled_back == []
        assert manager.unfinished() == []
        slow.may_answer.set()
        await task
    assert world.outcomes() == both(COMMITTED)


class Slow(FakeResource):
    """A session whose answer to recover comes as late as the test wants."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.is_called, self.may_answer = asyncio.Event(), asyncio.Event()

    async def recover(self, flags: XaFlag = XaFlag.TMSTARTRSCAN | XaFlag.TMENDRSCAN) -> list[Xid]:
        found = await super().recover(flags)
        self.is_called.set()
        await self.may_answer.wait()
        return found


@asynchronous
async def test_what_was_under_way_when_a_recovery_looked_is_left_alone(tmp_path: Path) -> None:
    """It has ended when the answer comes."""
    world = World(tmp_path)
    voting, slow = Waiting(world.managers["b"]), Slow(world.managers["a"])
    async with world.manager() as manager:

        async def run() -> None:
            async with manager.transaction(FakeResource(world.managers["a"]), voting):
                pass

        task = asyncio.create_task(run())
        await voting.is_called.wait()
        recovering = asyncio.create_task(manager.recover(slow))
        await slow.is_called.wait()
        voting.may_answer.set()
        await task
        slow.may_answer.set()
        report = await recovering
        assert (report.committed, report.rolled_back) == ([], [])
    assert world.outcomes() == both(COMMITTED)


@asynchronous
async def test_a_cancelled_commit_goes_to_its_end(tmp_path: Path) -> None:
    world = World(tmp_path)
    slow = Waiting(world.managers["b"])
    async with world.manager() as manager:
        transaction = manager.transaction(FakeResource(world.managers["a"]), slow)

        async def run() -> None:
            async with transaction:
                pass

        task = asyncio.create_task(run())
        await slow.is_called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        slow.may_answer.set()
        while transaction.status is not STATUS.COMMITTED:
            await asyncio.sleep(0)
    assert world.outcomes() == both(COMMITTED)


# --- the log, and misuse


@asynchronous
async def test_a_full_log_rolls_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with TransactionManager(tmp_path / "log", max_unfinished=0) as manager:
        with pytest.raises(TransactionRolledBackException, match="its bound"):
            async with manager.transaction(*world.resources()):
                pass
    assert world.outcomes() == both(ROLLED_BACK)


@asynchronous
async def test_when_the_log_fails_the_outcome_is_left_to_its_next_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    world = World(tmp_path)
    async with world.manager() as manager:
        transaction = manager.transaction(*world.resources())
        with monkeypatch.context() as patched, pytest.raises(DecisionLogException):
            patched.setattr(os, "fdatasync", fail)
            async with transaction:
                pass
        assert transaction.status is STATUS.UNKNOWN
        assert world.outcomes() == both("in doubt")
        with pytest.raises(DecisionLogException):
            await manager.recover(*world.resources())
    await recover(world)
    assert len(set(world.outcomes().values())) == 1
    assert "in doubt" not in world.outcomes().values()


@asynchronous
async def test_given_up_by_hand(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.managers["b"].fails["commit"] = C.XAER_RMFAIL
    async with world.manager() as manager:
        async with manager.transaction(*world.resources()) as transaction:
            pass
        await manager.forget(transaction.gtrid)
        assert manager.unfinished() == []


@asynchronous
async def test_misuse_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    closed = world.manager()
    with pytest.raises(IllegalStateException, match="not open"):
        closed.transaction()
    async with closed as manager:
        await manager.open()
        with pytest.raises(DecisionLogException, match="in use"):
            await world.manager().open()
        async with manager.transaction() as transaction:
            pass
        assert transaction.status is STATUS.COMMITTED
        with pytest.raises(IllegalStateException, match="begins once"):
            await transaction.__aenter__()
        with pytest.raises(IllegalStateException, match="takes no resource in"):
            await transaction.enlist(world.resources()[0])
        with pytest.raises(IllegalStateException):
            transaction.set_rollback_only()
    await manager.close()


@asynchronous
async def test_a_resource_can_come_in_later(tmp_path: Path) -> None:
    world = World(tmp_path)
    first, second = world.resources()
    async with world.manager() as manager, manager.transaction(first) as transaction:
        await transaction.enlist(second)
    assert world.outcomes() == both(COMMITTED)


@asynchronous
async def test_no_two_transactions_have_the_same_id(tmp_path: Path) -> None:
    world = World(tmp_path)
    ids = []
    for _ in range(3):
        async with world.manager() as manager:
            ids += [manager.transaction().gtrid for _ in range(3)]
    assert len(set(ids)) == 9
