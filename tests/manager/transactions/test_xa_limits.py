"""What ends a branch before its time: limits, refused sends, time-outs, sessions that are gone; and who may
receive for branches beside whom."""

import pytest

from postroom.manager.kernel.errors import AccessRefused, DefinitionInvalid, NotAllowed, XaError
from postroom.manager.kernel.options import MAX_BRANCH_MESSAGES, ManagerOptions
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.manager.transactions.xa_branch import SPARE_DEADLINES, branches_of
from postroom.model.codes import Outcome
from postroom.model.xa import MAX_TIMEOUT_S, UNPREPARED, BranchState, XaCode, XaVerb, Xid, cell
from tests.manager.world import TestSink, World, a_head
from tests.manager.xa_world import (
    FAIL,
    JOIN,
    OTHER,
    RESUME,
    SUCCESS,
    SUSPEND,
    XID,
    Xa,
    bring,
    code_of,
    state_of,
)

# --- limits ---------------------------------------------------------------------------------------


def small(limit: int = 3) -> Xa:
    return Xa(World(ManagerOptions(max_branch_messages=limit)))


def test_the_limit_is_256_by_default() -> None:
    assert ManagerOptions().max_branch_messages == 256
    for wrong in (0, MAX_BRANCH_MESSAGES + 1):
        with pytest.raises(DefinitionInvalid, match="max_branch_messages"):
            ManagerOptions(max_branch_messages=wrong)


def test_one_message_too_many_put_rolls_it_back() -> None:
    xa = small()
    world, sink = xa.world, TestSink()
    queue = world.queue()
    branch = xa.start()
    for _ in range(4):
        world.put(queue, b"", sink, branch.transaction)
    assert xa.state() == BranchState.ROLLBACK_ONLY
    world.turn()
    assert [condition for _, condition, _ in sink.rejected] == ["amqp:resource-limit-exceeded"]
    assert queue.statistics.ended[Outcome.ROLLED_BACK] == 3
    with pytest.raises(XaError, match="max_branch_messages") as raised:
        xa.end()
    assert raised.value.code == XaCode.XA_RBOTHER
    assert code_of(xa.prepare) == XaCode.XA_RBOTHER
    assert code_of(xa.prepare) == XaCode.XAER_NOTA


def test_one_message_too_many_received_rolls_it_back() -> None:
    """Put and received count together; what was received returns, as all of it does in a rollback."""
    xa = small()
    world = xa.world
    queue, target = world.queue(), world.queue("target")
    for number in range(2):
        world.put(queue, b"%d" % number)
    consumer = world.consumer(queue, credit=2, xa=True)
    branch = xa.start()
    world.turn()
    for _ in range(2):
        world.put(target, transaction=branch.transaction)
    assert code_of(lambda: xa.end(consumer=consumer)) == XaCode.XA_RBOTHER
    assert (xa.state(), xa.session.branch) == (BranchState.ROLLBACK_ONLY, None)
    assert target.statistics.depth == 0
    world.credit(consumer, 2)
    assert world.turn() == [b"0", b"1"]
    assert {int(entry.failure_count) for entry in consumer.held} == {1}
    xa.rollback()
    assert xa.manager.branches() == []


def test_as_many_as_may_be() -> None:
    xa = small()
    world = xa.world
    queue = world.queue()
    world.put(queue)
    consumer = world.consumer(queue, credit=1, xa=True)
    branch = xa.start()
    world.turn()
    for _ in range(2):
        world.put(queue, transaction=branch.transaction)
    xa.end(consumer=consumer)
    assert xa.prepare() == XaCode.XA_OK


def test_a_publish_counts_for_each_subscription() -> None:
    xa = small(1)
    world, sink = xa.world, TestSink()
    topic = world.queue("news", kind="topic")
    for name in ("a", "b"):
        world.queue(f"news::{name}", kind="subscription", topic="news", subscription=name)
    world.put(topic, b"", sink, xa.start().transaction)
    world.turn()
    assert len(sink.rejected) == 1
    assert code_of(xa.end) == XaCode.XA_RBOTHER


def test_branches_are_bounded() -> None:
    xa = Xa(World(ManagerOptions(max_branches=1)))
    xa.start()
    xa.end()
    with pytest.raises(XaError, match="max_branches") as raised:
        xa.start(OTHER)
    assert raised.value.code == XaCode.XAER_RMERR
    xa.rollback()
    xa.start(OTHER)


def test_memories_of_rolled_back_branches_are_bounded() -> None:
    """They don't count as branches; the oldest is forgotten first."""
    xa = Xa(World(ManagerOptions(max_branches=1, max_rolled_back_branches=2)))
    xids = [Xid(1, b"%d" % number, b"b") for number in range(3)]
    for xid in xids:
        xa.start(xid)
        xa.end(xid, FAIL)
    assert [row.xid for row in xa.manager.branches()] == xids[1:]
    assert code_of(lambda: xa.prepare(xids[0])) == XaCode.XAER_NOTA
    assert code_of(lambda: xa.prepare(xids[1])) == XaCode.XA_RBROLLBACK


# --- sends that wait, sends that are refused -------------------------------------------------------


def test_a_branch_is_not_ended_while_its_sends_wait_for_room(xa: Xa, world: World) -> None:
    queue, sink = world.queue(max_messages=1), TestSink()
    patient = world.manager.open_producer("patient", "test", "", 1000)
    world.put(queue, b"first")
    branch = xa.start()
    token = world.put(queue, b"second", sink, branch.transaction, patient)
    world.turn()
    for flags in (SUCCESS, SUSPEND):
        with pytest.raises(NotAllowed, match="wait for room"):
            xa.end(flags=flags)
    assert xa.state() == BranchState.ACTIVE
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    assert sink.accepted == [token]
    xa.end()
    xa.commit(one_phase=True)
    world.credit(consumer, 1)
    assert world.turn() == [b"second"]


def test_failing_it_refuses_the_sends_that_wait(xa: Xa, world: World) -> None:
    queue, sink = world.queue(max_messages=1), TestSink()
    patient = world.manager.open_producer("patient", "test", "", 1000)
    world.put(queue, b"first")
    token = world.put(queue, b"second", sink, xa.start().transaction, patient)
    xa.end(flags=FAIL)
    world.turn()
    assert [(refused, condition) for refused, condition, _ in sink.rejected] == [
        (token, "amqp:transaction:rollback")
    ]
    assert blocked_sends_of(world.manager.core).count == 0


def test_a_refused_send_that_nobody_hears_of_fails_the_branch(xa: Xa, world: World) -> None:
    queue = world.queue(max_message_bytes=1)
    transaction = xa.start().transaction
    xa.manager.put(
        xa.manager.open_producer("p", "", ""),
        queue,
        a_head(),
        b"too large",
        TestSink(),
        -1,
        world.now_us,
        transaction,
    )
    assert xa.state() == BranchState.ROLLBACK_ONLY
    assert code_of(xa.end) == XaCode.XA_RBOTHER


def test_a_refused_send_does_not_harm_a_branch_that_has_been_ended(xa: Xa, world: World) -> None:
    queue = world.queue(max_message_bytes=1)
    transaction = xa.start().transaction
    world.put(queue, b"1", transaction=transaction)
    for then in (lambda: xa.end(), lambda: xa.prepare()):
        then()
        xa.manager.put(
            xa.manager.open_producer("p", "", ""),
            queue,
            a_head(),
            b"large",
            TestSink(),
            -1,
            world.now_us,
            transaction,
        )
        xa.manager.put(
            xa.manager.open_producer("p", "", ""),
            queue,
            a_head(),
            b"2",
            TestSink(),
            -1,
            world.now_us,
            transaction,
        )
    assert xa.state() == BranchState.PREPARED
    xa.commit()
    world.consumer(queue, credit=10)
    assert world.turn() == [b"1"]


# --- bind restrictions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "access", "comes", "allowed"),
    [
        (True, "exclusive", False, False),
        (True, "shared", False, False),
        (False, "shared", True, False),
        (False, "exclusive", True, True),
        (True, "exclusive", True, True),
        (True, "shared", True, True),
        (False, "shared", False, True),
        (False, "exclusive", False, True),
    ],
)
def test_who_binds_with_whom(world: World, there: bool, access: str, comes: bool, allowed: bool) -> None:
    """semantics.md 2.2."""
    queue = world.queue(access=access)
    first = world.consumer(queue, xa=there)
    if allowed:
        world.consumer(queue, xa=comes)
    else:
        with pytest.raises(AccessRefused, match="XA"):
            world.consumer(queue, xa=comes)
    world.browser(queue)  # takes nothing, so it is in nobody's way
    world.close(first)


def test_the_restriction_looks_at_present_binds(world: World) -> None:
    queue = world.queue()
    first = world.consumer(queue, xa=True)
    with pytest.raises(AccessRefused):
        world.consumer(queue)
    world.close(first)
    world.consumer(queue)


def test_binds_of_branches_are_subject_to_the_number_of_consumers(world: World) -> None:
    queue = world.queue(max_consumers=1)
    world.consumer(queue, xa=True)
    with pytest.raises(AccessRefused, match="max_consumers"):
        world.consumer(queue, xa=True)


# --- time-outs and sessions that are gone ---------------------------------------------------------


@pytest.mark.parametrize("state", BranchState, ids=lambda state: state.name)
def test_silence_ends_what_is_not_prepared(world: World, state: BranchState) -> None:
    xa = Xa(world)
    bring(xa, state)
    world.turn(ms=world.options.branch_idle_timeout_ms)
    answer = cell(XaVerb.TIME_OUT, state)
    assert xa.state() == answer.to
    if state in UNPREPARED:
        assert code_of(lambda: xa.start(flags=JOIN)) == XaCode.XA_RBTIMEOUT
        assert code_of(lambda: xa.commit(one_phase=True)) == XaCode.XA_RBTIMEOUT


def test_a_branch_that_timed_out_is_ended_with_that(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1, xa=True)
    xa.start()
    world.turn()
    world.turn(ms=300_000)
    assert code_of(lambda: xa.end(consumer=consumer)) == XaCode.XA_RBTIMEOUT
    assert xa.session.branch is None
    world.credit(consumer, 1)
    assert world.turn() == [b"1"]  # what was received for it has gone back
    assert code_of(xa.rollback) == XaCode.XA_OK


def test_work_and_verbs_put_the_time_out_off(world: World) -> None:
    xa, queue = Xa(world), world.queue()
    branch = xa.start()
    idle = Xa(world)
    idle.start(OTHER)
    idle.end(OTHER)
    world.turn(ms=200_000)
    world.put(queue, transaction=branch.transaction)
    world.turn(ms=200_000)
    assert idle.state(OTHER) == BranchState.ROLLBACK_ONLY
    assert xa.state() == BranchState.ACTIVE
    xa.end()
    world.turn(ms=200_000)
    assert xa.state() == BranchState.IDLE
    world.turn(ms=100_000)
    assert xa.state() == BranchState.ROLLBACK_ONLY
    assert queue.statistics.depth == 0


def test_time_outs_can_be_off() -> None:
    world = World(ManagerOptions(branch_idle_timeout_ms=0))
    xa = Xa(world)
    xa.start()
    world.turn(ms=10_000_000)
    assert xa.state() == BranchState.ACTIVE
    assert world.manager.next_deadline_us() == 0


def test_a_branch_that_is_not_prepared_within_its_timeout_is_rolled_back(world: World) -> None:
    """Whatever is done in it meanwhile; a prepared one waits for its decision, others for their own times."""
    queue = world.queue()
    parties = [Xa(world) for _ in range(4)]
    busy, prepared, shorter, default = (Xid(7, b"timed", bytes([number])) for number in range(4))
    transaction = parties[0].start(busy, timeout_s=10).transaction
    world.put(queue, transaction=parties[1].start(prepared, timeout_s=10).transaction)
    parties[1].end(prepared)
    assert parties[1].prepare(prepared) == XaCode.XA_OK
    parties[2].start(shorter, timeout_s=5)
    parties[3].start(default)
    for _ in range(9):
        world.turn(ms=1000)
        world.put(queue, transaction=transaction)
    assert [xa.state(xid) for xa, xid in zip(parties, (busy, prepared, shorter, default), strict=True)] == [
        *(BranchState.ACTIVE, BranchState.PREPARED, BranchState.ROLLBACK_ONLY, BranchState.ACTIVE),
    ]
    assert world.manager.next_deadline_us() == world.now_us + 1_000_000
    world.turn(ms=1000)
    assert parties[0].state(busy) == BranchState.ROLLBACK_ONLY
    assert code_of(lambda: parties[0].end(busy)) == XaCode.XA_RBTIMEOUT
    assert code_of(lambda: parties[2].end(shorter)) == XaCode.XA_RBTIMEOUT
    parties[1].commit(prepared)
    assert queue.statistics.depth == 1


def test_a_timeout_may_be_longer_than_silence_and_no_other_session_changes_it(world: World) -> None:
    xa, other = Xa(world), Xa(world)
    xa.start(timeout_s=1000)
    xa.end()
    other.start(flags=JOIN, timeout_s=1)
    other.end()
    world.turn(ms=999_000)
    assert xa.state() == BranchState.IDLE
    world.turn(ms=1000)
    assert code_of(xa.prepare) == XaCode.XA_RBTIMEOUT


def test_deadlines_that_mean_nothing_any_more_are_dropped(world: World) -> None:
    xa = Xa(world)
    for _ in range(1000):
        xa.start(timeout_s=1_000_000)
        xa.end()
        xa.rollback()
    assert len(branches_of(world.manager.core)._deadlines) <= SPARE_DEADLINES + 2
    assert world.manager.next_deadline_us() == 0


@pytest.mark.parametrize("timeout_s", [-1, MAX_TIMEOUT_S + 1])
def test_a_timeout_that_can_not_be(xa: Xa, timeout_s: int) -> None:
    assert code_of(lambda: xa.start(timeout_s=timeout_s)) == XaCode.XAER_INVAL
    assert xa.session.branch is None


@pytest.mark.parametrize("state", BranchState, ids=lambda state: state.name)
def test_a_lost_session_takes_with_it_what_it_had_not_prepared(world: World, state: BranchState) -> None:
    xa = Xa(world)
    if state == BranchState.ACTIVE:
        xa.start()
    else:
        bring(xa, state)
    xa.close(lost=True)
    assert xa.state() == cell(XaVerb.SESSION_LOST, state).to
    if state in UNPREPARED:
        assert code_of(xa.prepare) == XaCode.XA_RBCOMMFAIL


def test_what_was_received_comes_back_redelivered_when_the_session_is_lost(xa: Xa, world: World) -> None:
    """As by a lost link: delivered again and flagged, but nobody has failed."""
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1, xa=True)
    xa.start()
    world.turn()
    xa.end(consumer=consumer)
    world.close(consumer, lost=True)
    xa.close(lost=True)
    after = world.consumer(queue, credit=1)
    assert world.turn() == [b"1"]
    (entry,) = after.held
    assert (entry.delivery_count, entry.failure_count) == (1, 0)


def test_a_lost_session_does_not_take_what_another_has_joined(xa: Xa, world: World) -> None:
    other = Xa(world)
    xa.start()
    xa.end()
    other.start(XID, JOIN)
    xa.close(lost=True)
    assert xa.state() == BranchState.ACTIVE
    other.close(lost=True)
    assert xa.state() == BranchState.ROLLBACK_ONLY


@pytest.mark.parametrize("state", BranchState, ids=lambda state: state.name)
def test_an_orderly_close_leaves_branches_alone(world: World, state: BranchState) -> None:
    xa = Xa(world)
    if state == BranchState.ACTIVE:
        xa.start()
    else:
        bring(xa, state)
    xa.close()
    assert xa.state() == cell(XaVerb.SESSION_CLOSED, state).to
    xa.close(lost=True)  # once is enough
    assert xa.state() == cell(XaVerb.SESSION_CLOSED, state).to
    if state == BranchState.ACTIVE:
        Xa(world).start(XID, RESUME)


def test_an_orderly_close_while_sends_wait_gives_the_branch_up(xa: Xa, world: World) -> None:
    queue = world.queue(max_messages=1)
    world.put(queue)
    patient = world.manager.open_producer("patient", "test", "", 1000)
    world.put(queue, b"waits", transaction=xa.start().transaction, producer=patient)
    xa.close()
    assert xa.state() == BranchState.ROLLBACK_ONLY
    assert blocked_sends_of(world.manager.core).count == 0


def test_what_administrators_see(xa: Xa, world: World) -> None:
    world.put(world.queue(), transaction=xa.start().transaction)
    began_us = world.now_us
    world.turn(ms=5)
    xa.end()
    world.turn(ms=5)
    (row,) = xa.manager.branches()
    assert (row.xid, row.state, row.puts, row.receipts) == (XID, BranchState.IDLE, 1, 0)
    assert (row.container, row.user) == ("container", "user")
    assert row.since_us == row.active_us == began_us + 5000
    assert state_of(xa.manager, OTHER) == BranchState.NONEXISTENT
