"""The transaction manager over resource managers that fail in every way at every step."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from postroom.client.exceptions import (
    HeuristicCommitException,
    HeuristicMixedException,
    HeuristicRollbackException,
    JMSException,
    TransactionRolledBackException,
    XAException,
)
from postroom.client.transactions.two_phase import Step, TransactionStatus
from postroom.model.xa import XaCode, Xid
from tests.client.fake_broker import asynchronous
from tests.twophase.fakes import (
    COMMITTED,
    HEURISTIC,
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
REFUSALS = [code for code in XaCode if code < 0 or 100 <= code <= 107]


@asynchronous
async def test_all_commit_after_all_have_promised_and_the_decision_is_on_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    transaction = await transact(world)
    assert transaction.status is STATUS.COMMITTED
    assert world.outcomes() == both(COMMITTED)
    assert [step for step, _ in world.steps] == [
        *[Step.STARTING, Step.STARTED] * 2,
        *[Step.ENDING, Step.ENDED] * 2,
        *[Step.PREPARING, Step.PREPARED] * 2,
        *[Step.DECIDING, Step.DECIDED],
        *[Step.COMMITTING, Step.COMMITTED] * 2,
        Step.FINISHED,
    ]


@asynchronous
async def test_nobody_commits_before_the_decision_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    resources = world.resources()
    done: list[object] = world.managers["a"].verbs
    world.managers["b"].verbs = world.managers["a"].verbs
    sync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (sync(fd), done.append("synced")))
    await transact(world, resources)
    end = "synced"  # of the log's close
    assert done == [*["recover", "start"] * 2, *["end"] * 2, *["prepare"] * 2, "synced", *["commit"] * 2, end]


@asynchronous
async def test_an_exception_rolls_all_back_and_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.manager() as manager:
        with pytest.raises(ZeroDivisionError):
            async with manager.transaction(*world.resources()) as transaction:
                raise ZeroDivisionError
    assert transaction.status is STATUS.ROLLED_BACK
    assert world.outcomes() == both(ROLLED_BACK)


@asynchronous
async def test_what_is_marked_for_rollback_is_rolled_back(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.manager() as manager:
        with pytest.raises(TransactionRolledBackException, match="marked"):
            async with manager.transaction(*world.resources()) as transaction:
                transaction.set_rollback_only()
    assert world.outcomes() == both(ROLLED_BACK)


@asynchronous
async def test_one_resource_needs_no_log(tmp_path: Path) -> None:
    world = World(tmp_path, "a")
    transaction = await transact(world)
    assert transaction.status is STATUS.COMMITTED
    assert world.managers["a"].verbs == ["recover", "start", "end", "commit one phase"]
    assert Step.DECIDING not in [step for step, _ in world.steps]


@pytest.mark.parametrize("readers", ["a", "b", "ab"])
@asynchronous
async def test_who_has_only_read_hears_no_more(tmp_path: Path, readers: str) -> None:
    world = World(tmp_path)
    for name in readers:
        world.managers[name].is_read_only = True
    transaction = await transact(world)
    assert transaction.status is STATUS.COMMITTED
    assert world.outcomes() == {name: "read 1" if name in readers else COMMITTED for name in "ab"}
    assert (Step.DECIDED in [step for step, _ in world.steps]) == (readers != "ab")


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("verb", ["end", "prepare"])
@pytest.mark.parametrize("name", "abc")
@asynchronous
async def test_one_that_refuses_is_the_end_of_all(tmp_path: Path, name: str, verb: str, code: XaCode) -> None:
    world = World(tmp_path, "abc")
    world.managers[name].fails[verb] = code
    with pytest.raises(TransactionRolledBackException) as refused:
        await transact(world)
    assert isinstance(refused.value.__cause__, XAException)
    assert refused.value.__cause__.error_code == code
    world.managers[name].fails.clear()
    await recover(world)
    assert set(world.outcomes().values()) <= {ROLLED_BACK, "nothing"}


@pytest.mark.parametrize("name", "abc")
@asynchronous
async def test_a_start_that_is_refused_leaves_nothing_open(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, "abc")
    world.managers[name].fails["start"] = C.XAER_RMFAIL
    with pytest.raises(XAException):
        await transact(world)
    assert set(world.outcomes().values()) <= {ROLLED_BACK, "nothing"}


@pytest.mark.parametrize("name", "abc")
@asynchronous
async def test_a_start_whose_answer_is_lost_is_undone(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, "abc")
    world.managers[name].loses_answer_of = "start"
    with pytest.raises(XAException):
        await transact(world)
    assert world.outcomes()[name] == ROLLED_BACK
    assert set(world.outcomes().values()) <= {ROLLED_BACK, "nothing"}


@pytest.mark.parametrize("name", "ab")
@asynchronous
async def test_a_vote_that_is_lost_is_a_no_and_recovery_undoes_it(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    world.managers[name].loses_answer_of = "prepare"
    world.managers[name].fails["rollback"] = C.XAER_RMFAIL
    with pytest.raises(TransactionRolledBackException):
        await transact(world)
    assert world.outcomes()[name] == "in doubt"
    world.managers[name].fails.clear()
    await recover(world)
    assert set(world.outcomes().values()) == {ROLLED_BACK}


@pytest.mark.parametrize("code", [C.XAER_RMFAIL, C.XA_RETRY, C.XAER_PROTO, C.XAER_INVAL])
@pytest.mark.parametrize("names", ["a", "b", "ab"])
@asynchronous
async def test_who_cannot_be_told_is_told_by_the_next_recovery(
    tmp_path: Path, names: str, code: XaCode
) -> None:
    world = World(tmp_path)
    for name in names:
        world.managers[name].fails["commit"] = code
    async with world.manager() as manager:
        async with manager.transaction(*world.resources()) as transaction:
            pass
        assert transaction.status is STATUS.COMMITTED
        assert transaction.unheard == list(names)
        assert [decision.gtrid for decision in manager.unfinished()] == [transaction.gtrid]
        failed = await manager.recover(*world.resources())
        assert [error.error_code for error in failed.unreachable] == [code] * len(names)
        assert len(manager.unfinished()) == 1
        for name in names:
            world.managers[name].fails.clear()
        report = await manager.recover(*world.resources())
        assert len(report.committed) == len(names)
        assert manager.unfinished() == []
    assert world.outcomes() == both(COMMITTED)


@pytest.mark.parametrize("name", "ab")
@asynchronous
async def test_a_commit_whose_answer_is_lost_is_found_done(tmp_path: Path, name: str) -> None:
    world = World(tmp_path)
    world.managers[name].loses_answer_of = "commit"
    async with world.manager() as manager:
        async with manager.transaction(*world.resources()) as transaction:
            pass
        assert transaction.unheard == [name]
        report = await manager.recover(*world.resources())
        assert (report.committed, report.rolled_back, report.heuristics) == ([], [], [])
        assert manager.unfinished() == []
    assert world.outcomes() == both(COMMITTED)


@asynchronous
async def test_the_next_transaction_tells_who_was_not_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    async with world.manager() as manager:
        world.managers["a"].fails["commit"] = C.XAER_RMFAIL
        async with manager.transaction(*world.resources()):
            pass
        world.managers["a"].fails.clear()
        world.managers["b"].loses_answer_of = "prepare"
        world.managers["b"].fails["rollback"] = C.XAER_RMFAIL
        with pytest.raises(TransactionRolledBackException):
            async with manager.transaction(*world.resources()):
                pass
        world.managers["b"].loses_answer_of = ""
        world.managers["b"].fails.clear()
        assert manager.unfinished() == []
        assert world.outcomes() == {"a": "committed 1+rolled back 1", "b": "in doubt"}
        for _ in range(2):
            async with manager.transaction(*world.resources()):
                pass
    assert world.outcomes() == both("committed 3+rolled back 1")
    assert world.managers["b"].verbs.count("recover") == 2, "only where something may be left"


@asynchronous
async def test_a_transaction_begins_with_what_a_crash_has_left(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.crash_at = 10  # after the promise of the first
    with pytest.raises(Crash):
        await transact(world)
    assert world.outcomes()["a"] == "in doubt"
    await transact(world)
    assert world.outcomes() == {"a": "committed 1+rolled back 1", "b": COMMITTED}


@asynchronous
async def test_one_that_is_away_keeps_the_decision_in_the_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.managers["b"].fails["commit"] = C.XAER_RMFAIL
    await transact(world)
    world.managers["b"].is_unreachable = True
    async with world.manager() as manager:
        report = await manager.recover(*world.resources())
        assert [error.error_code for error in report.unreachable] == [C.XAER_RMFAIL]
        assert len(manager.unfinished()) == 1
    # Nor does a recovery of the others alone end it.
    async with world.manager() as manager:
        await manager.recover(world.resources()[0])
        assert len(manager.unfinished()) == 1
    world.managers["b"].is_unreachable = False
    world.managers["b"].fails.clear()
    await recover(world)
    assert world.outcomes() == both(COMMITTED)


# --- one phase


@pytest.mark.parametrize("code", [code for code in XaCode if 100 <= code <= 107])
@asynchronous
async def test_one_phase_rolled_back(tmp_path: Path, code: XaCode) -> None:
    world = World(tmp_path, "a")
    world.managers["a"].fails["commit one phase"] = code
    with pytest.raises(TransactionRolledBackException):
        await transact(world)
    assert world.outcomes() == {"a": ROLLED_BACK}


@pytest.mark.parametrize("code", [C.XAER_RMFAIL, C.XAER_RMERR, C.XAER_NOTA, C.XAER_PROTO])
@asynchronous
async def test_one_phase_with_an_unknown_outcome_says_so(tmp_path: Path, code: XaCode) -> None:
    world = World(tmp_path, "a")
    world.managers["a"].fails["commit one phase"] = code
    async with world.manager() as manager:
        transaction = manager.transaction(*world.resources())
        with pytest.raises(XAException) as failed:
            async with transaction:
                pass
    assert failed.value.error_code == code
    assert transaction.status is STATUS.UNKNOWN


# --- heuristics


class Meddler(FakeResource):
    """A session with a resource manager where somebody decides between the promise and the decision."""

    code = C.XA_HEURRB

    async def prepare(self, xid: Xid) -> XaCode:
        code = await super().prepare(xid)
        self._decided(xid, self.code.name)
        if self.code in HEURISTIC:
            self.manager.heuristics[xid] = self.code
        return code


def meddling(world: World, name: str, code: XaCode) -> FakeResource:
    meddler = Meddler(world.managers[name])
    meddler.code = code
    return meddler


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((C.XA_HEURRB, None), HeuristicMixedException),
        ((None, C.XA_HEURMIX), HeuristicMixedException),
        ((None, C.XA_HEURHAZ), HeuristicMixedException),
        ((C.XAER_NOTA, None), HeuristicMixedException),
        ((C.XA_HEURRB, C.XA_HEURRB), HeuristicRollbackException),
        ((C.XA_HEURRB, C.XA_HEURMIX), HeuristicMixedException),
        ((C.XA_HEURCOM, None), None),
        ((C.XA_HEURCOM, C.XA_HEURCOM), None),
        ((C.XA_HEURCOM, C.XA_HEURRB), HeuristicMixedException),
    ],
)
@asynchronous
async def test_decided_otherwise_while_it_was_to_commit(
    tmp_path: Path, codes: tuple[XaCode | None, ...], expected: type[JMSException] | None
) -> None:
    world = World(tmp_path)
    against = [code for code in codes if code not in (None, C.XA_HEURCOM)]
    resources = [
        FakeResource(world.managers[name]) if code is None else meddling(world, name, code)
        for name, code in zip("ab", codes, strict=True)
    ]
    async with world.manager() as manager:
        with pytest.raises(expected) if expected is not None else contextlib.nullcontext():
            async with manager.transaction(*resources) as transaction:
                pass
        decided = [C.XA_HEURHAZ if code == C.XAER_NOTA else code for code in against]
        assert [outcome.code for outcome in manager.heuristics()] == decided
        assert {outcome.decision for outcome in manager.heuristics()} <= {"commit"}
        assert manager.unfinished() == []
    assert all(not known.heuristics for known in world.managers.values()), "nobody forgot"
    async with world.manager() as manager:
        assert len(manager.heuristics()) == len(against)
        await manager.forget(transaction.gtrid)
        assert manager.heuristics() == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (C.XA_HEURCOM, HeuristicMixedException),
        (C.XA_HEURMIX, HeuristicMixedException),
        (C.XA_HEURRB, TransactionRolledBackException),
    ],
)
@asynchronous
async def test_decided_otherwise_while_it_was_to_roll_back(
    tmp_path: Path, code: XaCode, expected: type[JMSException]
) -> None:
    world = World(tmp_path)
    world.managers["b"].fails["prepare"] = C.XA_RBOTHER
    async with world.manager() as manager:
        with pytest.raises(expected):
            async with manager.transaction(meddling(world, "a", code), FakeResource(world.managers["b"])):
                pass
        expects = [] if code == C.XA_HEURRB else [(code, "rollback")]
        assert [(outcome.code, outcome.decision) for outcome in manager.heuristics()] == expects
    assert not world.managers["a"].heuristics


@asynchronous
async def test_committed_by_somebody_while_it_was_to_roll_back(tmp_path: Path) -> None:
    world = World(tmp_path, "a")
    world.managers["a"].fails = {"rollback": C.XA_HEURCOM, "forget": C.XAER_NOTA}
    async with world.manager() as manager:
        with pytest.raises(HeuristicCommitException):
            async with manager.transaction(*world.resources()):
                raise ZeroDivisionError


@asynchronous
async def test_recovery_reports_what_was_decided_otherwise(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.managers["b"].fails["commit"] = C.XAER_RMFAIL
    await transact(world)
    world.managers["b"].fails.clear()
    (xid,) = world.managers["b"].prepared
    world.managers["b"].prepared.clear()
    world.managers["b"].heuristics[xid] = C.XA_HEURRB
    world.managers["b"].loses_answer_of = "forget"
    async with world.manager() as manager:
        report = await manager.recover(*world.resources())
        assert [outcome.code for outcome in report.heuristics] == [C.XA_HEURRB]
        assert manager.heuristics() == report.heuristics
        assert manager.unfinished() == []
