"""XA over the queue manager: every cell of verb and state, who works on a branch, recover."""

import itertools
from collections.abc import Callable

import pytest

from postroom.manager.kernel.errors import NotAllowed, TransactionRolledBack, XaError
from postroom.model.xa import BranchState, XaCode, XaVerb, Xid, cell
from tests.manager.world import TestSink, World
from tests.manager.xa_world import (
    END_SCAN,
    FAIL,
    JOIN,
    NOFLAGS,
    OTHER,
    RESUME,
    START_SCAN,
    SUCCESS,
    SUSPEND,
    XID,
    Xa,
    bring,
    code_of,
)

# --- the table ------------------------------------------------------------------------------------

VERBS: dict[XaVerb, Callable[[Xa], object]] = {
    XaVerb.START: lambda xa: xa.start(),
    XaVerb.JOIN: lambda xa: xa.start(flags=JOIN),
    XaVerb.RESUME: lambda xa: xa.start(flags=RESUME),
    XaVerb.END: lambda xa: xa.end(flags=SUCCESS),
    XaVerb.FAIL: lambda xa: xa.end(flags=FAIL),
    XaVerb.SUSPEND: lambda xa: xa.end(flags=SUSPEND),
    XaVerb.PREPARE: lambda xa: xa.prepare(),
    XaVerb.COMMIT: lambda xa: xa.commit(),
    XaVerb.COMMIT_ONE_PHASE: lambda xa: xa.commit(one_phase=True),
    XaVerb.ROLLBACK: lambda xa: xa.rollback(),
    XaVerb.FORGET: lambda xa: xa.forget(),
    XaVerb.HEURISTIC_COMMIT: lambda xa: xa.heuristic_commit(),
    XaVerb.HEURISTIC_ROLLBACK: lambda xa: xa.heuristic_rollback(),
    XaVerb.DELETE: lambda xa: xa.delete(),
}
ENDS = (XaVerb.END, XaVerb.FAIL, XaVerb.SUSPEND)


@pytest.mark.parametrize(
    ("verb", "state"),
    list(itertools.product(VERBS, BranchState)),
    ids=lambda part: part.name if isinstance(part, (XaVerb, BranchState)) else None,
)
def test_a_cell(world: World, verb: XaVerb, state: BranchState) -> None:
    xa = Xa(world)
    bring(xa, state)
    answer = cell(verb, state)
    if verb in ENDS and state == BranchState.ACTIVE:  # it is another's: see the test below
        assert code_of(lambda: VERBS[verb](xa)) == XaCode.XAER_PROTO
        assert xa.state() == state
        return
    assert code_of(lambda: VERBS[verb](xa)) == answer.code
    assert xa.state() == answer.to


@pytest.mark.parametrize("verb", ENDS, ids=lambda verb: verb.name)
def test_a_session_ends_its_own_branch(xa: Xa, verb: XaVerb) -> None:
    xa.start()
    VERBS[verb](xa)
    assert xa.state() == cell(verb, BranchState.ACTIVE).to
    assert xa.session.branch is None


@pytest.mark.parametrize("flags", [SUCCESS, JOIN | RESUME, -1])
def test_start_has_one_of_three_flags(xa: Xa, flags: int) -> None:
    assert code_of(lambda: xa.start(flags=flags)) == XaCode.XAER_INVAL


@pytest.mark.parametrize("flags", [NOFLAGS, SUCCESS | FAIL, SUCCESS | SUSPEND, JOIN, -1])
def test_end_has_one_of_three_flags(xa: Xa, flags: int) -> None:
    xa.start()
    assert code_of(lambda: xa.end(flags=flags)) == XaCode.XAER_INVAL
    assert xa.state() == BranchState.ACTIVE


def test_the_condition_of_an_error_and_what_it_says(xa: Xa) -> None:
    with pytest.raises(XaError, match=f"XAER_NOTA: there is no branch {XID}") as raised:
        xa.prepare()
    assert raised.value.condition == "postroom:xa-error"


# --- sessions and branches ------------------------------------------------------------------------


def test_a_session_works_on_one_branch_at_a_time(xa: Xa) -> None:
    xa.start()
    for flags in (NOFLAGS, JOIN, RESUME):
        assert code_of(lambda flags=flags: xa.start(OTHER, flags)) == XaCode.XAER_PROTO  # type: ignore[misc]
    assert code_of(lambda: xa.start(XID, JOIN)) == XaCode.XAER_PROTO
    xa.end()
    xa.start(OTHER)
    assert [row.xid for row in xa.manager.branches()] == [XID, OTHER]  # it may own many


def test_local_work_of_the_session_is_in_the_way(xa: Xa) -> None:
    xa.session.local_work = True
    assert code_of(xa.start) == XaCode.XAER_OUTSIDE
    xa.session.local_work = False
    assert code_of(xa.start) == XaCode.XA_OK


def test_several_sessions_work_on_one_branch(xa: Xa, world: World) -> None:
    queue, other = world.queue(), Xa(world)
    branch = xa.start()
    assert other.start(XID, JOIN) is branch
    world.put(queue, b"1", transaction=branch.transaction)
    xa.end()
    assert xa.state() == BranchState.ACTIVE
    world.put(queue, b"2", transaction=branch.transaction)
    assert code_of(xa.prepare) == XaCode.XAER_PROTO
    other.end()
    assert xa.state() == BranchState.IDLE
    xa.commit(one_phase=True)
    world.consumer(queue, credit=10)
    assert world.turn() == [b"1", b"2"]


def test_a_branch_that_others_work_on_cannot_be_suspended(xa: Xa, world: World) -> None:
    other = Xa(world)
    xa.start()
    other.start(XID, JOIN)
    assert code_of(lambda: xa.end(flags=SUSPEND)) == XaCode.XAER_PROTO
    other.end()
    assert code_of(lambda: xa.end(flags=SUSPEND)) == XaCode.XA_OK


def test_failing_it_fails_it_for_all_who_work_on_it(xa: Xa, world: World) -> None:
    queue, other, sink = world.queue(), Xa(world), TestSink()
    branch = xa.start()
    other.start(XID, JOIN)
    world.put(queue, transaction=branch.transaction)
    xa.end(flags=FAIL)
    world.put(queue, b"late", sink, branch.transaction)
    world.turn()
    assert [condition for _, condition, _ in sink.rejected] == [TransactionRolledBack.condition]
    assert code_of(other.end) == XaCode.XA_RBROLLBACK
    assert other.session.branch is None
    assert queue.statistics.depth == 0


def test_another_session_may_resume_a_suspended_branch(xa: Xa, world: World) -> None:
    xa.start()
    xa.end(flags=SUSPEND)
    other = Xa(world)
    other.start(XID, RESUME)
    assert xa.state() == BranchState.ACTIVE
    assert code_of(xa.end) == XaCode.XAER_PROTO
    assert code_of(other.end) == XaCode.XA_OK


def test_what_is_sent_with_the_transaction_of_an_ended_branch_is_refused(xa: Xa, world: World) -> None:
    queue, sink = world.queue(), TestSink()
    branch = xa.start()
    world.put(queue, b"in it", transaction=branch.transaction)
    xa.end()
    world.put(queue, b"too late", sink, branch.transaction)
    world.turn()
    assert [condition for _, condition, _ in sink.rejected] == [NotAllowed.condition]
    assert queue.statistics.depth == 1


def test_the_end_of_a_suspended_branch_takes_nothing_that_came_meanwhile(xa: Xa, world: World) -> None:
    queue = world.queue()
    consumer = world.consumer(queue, credit=10, xa=True)
    xa.start()
    xa.end(flags=SUSPEND)
    world.put(queue)
    world.turn()
    xa.end(consumer=consumer)
    assert len(consumer.held) == 1
    assert xa.prepare() == XaCode.XA_RDONLY


# --- recover --------------------------------------------------------------------------------------


def test_recover_tells_of_what_is_in_doubt_to_any_session(xa: Xa, world: World) -> None:
    queue = world.queue()
    xids = [Xid(1, b"%d" % number, b"b") for number in range(4)]
    for xid in xids:
        world.put(queue, transaction=xa.start(xid).transaction)
        xa.end(xid)
    xa.prepare(xids[0])
    xa.heuristic_rollback(xids[1])
    xa.start(OTHER)
    assert Xa(world).recover() == xids[:2]


def test_a_scan(xa: Xa) -> None:
    bring(xa, BranchState.PREPARED)
    for flags in (NOFLAGS, END_SCAN):
        assert code_of(lambda flags=flags: xa.recover(flags)) == XaCode.XAER_INVAL  # type: ignore[misc]
    assert xa.recover(START_SCAN) == [XID]
    assert xa.recover(NOFLAGS) == []
    assert xa.recover(START_SCAN) == [XID]  # begun anew
    assert xa.recover(END_SCAN) == []
    assert code_of(lambda: xa.recover(NOFLAGS)) == XaCode.XAER_INVAL
    assert xa.recover(START_SCAN | END_SCAN) == [XID]
    assert code_of(lambda: xa.recover(END_SCAN)) == XaCode.XAER_INVAL
    assert code_of(lambda: xa.recover(START_SCAN | SUCCESS)) == XaCode.XAER_INVAL


# --- heuristic decisions --------------------------------------------------------------------------


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_an_administrator_decides(xa: Xa, world: World, prepared: bool, committed: bool) -> None:
    queue, target = world.queue(), world.queue("target")
    world.put(queue, b"received")
    consumer = world.consumer(queue, credit=1, xa=True)
    branch = xa.start()
    world.put(target, b"sent", transaction=branch.transaction)
    world.turn()
    xa.end(consumer=consumer)
    if prepared:
        xa.prepare()
    if committed:
        xa.heuristic_commit()
    else:
        xa.heuristic_rollback()
    world.turn()
    assert (queue.statistics.depth, target.statistics.depth) == ((0, 1) if committed else (1, 0))
    code = XaCode.XA_HEURCOM if committed else XaCode.XA_HEURRB
    for _ in range(2):  # it stays until forgotten
        assert code_of(xa.commit) == code
        assert code_of(xa.rollback) == code
        assert xa.recover() == [XID]
        (row,) = xa.manager.branches()
        assert (row.puts, row.receipts) == (0, 0)
    xa.forget()
    assert xa.recover() == []
    assert code_of(xa.forget) == XaCode.XAER_NOTA


def test_heuristic_branches_survive_their_session(xa: Xa, world: World) -> None:
    world.put(world.queue(), transaction=xa.start().transaction)
    xa.end()
    xa.heuristic_commit()
    xa.close(lost=True)
    assert xa.state() == BranchState.HEURISTICALLY_COMMITTED
