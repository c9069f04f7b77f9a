"""Local transactions: one record decides; what comes back after a rollback and what stays."""

import pytest

from postroom.manager.consuming.settlement import Modification
from postroom.manager.kernel.errors import (
    LimitExceeded,
    QueueInUse,
    TransactionRolledBack,
    TransactionTimedOut,
    TransactionUnknown,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.model.codes import Outcome, State
from tests.manager.decisions import decisions
from tests.manager.world import TestSink, World, a_head


def test_puts_are_invisible_until_the_commit(world: World) -> None:
    queue, sink = world.queue(), TestSink()
    world.consumer(queue, credit=10)
    transaction = world.manager.begin(world.now_us)
    tokens = [world.put(queue, b"%d" % i, sink, transaction) for i in range(3)]
    assert world.turn() == []
    assert sink.accepted == tokens  # the presumptive outcome comes before the discharge
    assert queue.statistics.slots()["uncommitted_put"] == (3, 3)
    world.manager.commit(transaction, world.now_us)
    assert world.turn() == [b"0", b"1", b"2"]
    ((event, groups),) = decisions(world)
    assert event == "CONFIRM"
    serials = [int(row["position"]) for row in world.arrivals]
    assert groups == [(queue.id, State.PUT_UNCONFIRMED, State.AVAILABLE, [(serials[0], serials[2])])]


def test_ranges_are_exact(world: World) -> None:
    queue, other = world.queue(), world.queue("other")
    transaction = world.manager.begin(world.now_us)
    for target in (queue, other, queue, queue):
        world.put(target, transaction=transaction)
    world.manager.commit(transaction, world.now_us)
    world.turn()
    serials = [int(row["position"]) for row in world.arrivals]
    ((_, groups),) = decisions(world)
    assert [ranges for _, _, _, ranges in groups] == [
        [(serials[0], serials[0]), (serials[2], serials[3])],
        [(serials[1], serials[1])],
    ]


def test_committed_puts_stand_behind_what_arrived_before_the_commit(world: World) -> None:
    queue = world.queue()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"t1", transaction=transaction)
    world.put(queue, b"plain")
    world.put(queue, b"t2", transaction=transaction)
    world.manager.commit(transaction, world.now_us)
    world.put(queue, b"after")
    world.consumer(queue, credit=10)
    assert world.turn() == [b"plain", b"t1", b"t2", b"after"]


def test_rollback_ends_the_puts(world: World) -> None:
    queue = world.queue()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, transaction=transaction)
    world.manager.rollback(transaction, world.now_us)
    world.turn()
    assert (queue.statistics.depth, queue.statistics.ended[Outcome.ROLLED_BACK]) == (0, 1)
    assert decisions(world)[0][0] == "UNDO"
    assert world.holder_events()[-1] == (9, "LOCAL_TRANSACTION")


def test_receipts_end_with_the_commit(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    world.put(queue)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    transaction = world.manager.begin(world.now_us)
    for entry in world.held(consumer):
        world.accept(consumer, entry, transaction)
    assert queue.statistics.slots()["uncommitted_get"] == (2, 8)
    world.manager.commit(transaction, world.now_us)
    world.turn()
    assert (queue.statistics.depth, queue.statistics.consumed) == (0, 2)


def test_after_a_rollback_settled_deliveries_return_and_unsettled_ones_stay(world: World) -> None:
    queue = world.queue()
    for body in (b"settled", b"unsettled"):
        world.put(queue, body)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    settled, unsettled = world.held(consumer)
    transaction = world.manager.begin(world.now_us)
    world.manager.accept(consumer, settled, world.now_us, -1, transaction)
    world.manager.accept(consumer, unsettled, world.now_us, 5, transaction)
    world.manager.rollback(transaction, world.now_us)
    world.turn()
    assert consumer.held == {unsettled}
    assert (settled.delivery_count, settled.failure_count, unsettled.delivery_count) == (1, 1, 0)
    world.accept(consumer, unsettled)
    world.credit(consumer, 1)
    assert world.turn() == [b"settled"]


def test_an_unsettled_delivery_returns_if_its_consumer_is_gone(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    transaction = world.manager.begin(world.now_us)
    world.manager.accept(consumer, world.held(consumer)[0], world.now_us, 5, transaction)
    world.close(consumer, lost=True)
    world.manager.rollback(transaction, world.now_us)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"1"]


def test_other_outcomes_take_effect_with_the_commit(world: World) -> None:
    queue = world.queue(dead_letter_queue="dead")
    for body in (b"release", b"fail", b"reject"):
        world.put(queue, body)
    consumer = world.consumer(queue, credit=3)
    world.turn()
    release, fail, reject = world.held(consumer)
    transaction = world.manager.begin(world.now_us)
    world.manager.release(consumer, release, world.now_us, -1, transaction)
    world.manager.modify(consumer, fail, Modification(True, False, {"x": 1}), world.now_us, -1, transaction)
    world.manager.reject(consumer, reject, "app:bad", "no", world.now_us, -1, transaction)
    assert queue.statistics.current == 0
    world.manager.commit(transaction, world.now_us)
    world.credit(consumer, 5)
    assert world.turn() == [b"release", b"fail"]
    assert (world.last(b"fail").delivery_count, world.last(b"fail").annotations) == (1, {"x": 1})
    assert world.manager.queue("dead").statistics.current == 1


def test_unborn_messages_of_a_transaction_are_born_after_both(world: World) -> None:
    queue = world.queue()
    world.consumer(queue, credit=5)
    early, late = world.manager.begin(world.now_us), world.manager.begin(world.now_us)
    world.put(queue, b"early", transaction=early, delay_ms=100)
    world.put(queue, b"late", transaction=late, delay_ms=10)
    world.manager.commit(early, world.now_us)
    assert world.turn(50) == []
    world.manager.commit(late, world.now_us)
    assert world.turn() == [b"late"]
    assert world.turn(50) == [b"early"]


def test_a_transaction_is_decided_once(world: World) -> None:
    transaction = world.manager.begin(world.now_us)
    world.manager.commit(transaction, world.now_us)
    with pytest.raises(TransactionUnknown):
        world.manager.commit(transaction, world.now_us)
    world.manager.rollback(transaction, world.now_us)  # without effect
    queue, sink = world.queue(), TestSink()
    world.put(queue, sink=sink, transaction=transaction)
    world.turn()
    assert sink.rejected[0][1] == "amqp:transaction:unknown-id"


def test_an_empty_transaction_writes_nothing(world: World) -> None:
    world.manager.commit(world.manager.begin(world.now_us), world.now_us)
    world.manager.rollback(world.manager.begin(world.now_us), world.now_us)
    assert world.builder.empty()


def test_a_transaction_that_grows_too_large_can_only_be_rolled_back() -> None:
    world = World(ManagerOptions(max_transaction_entries=2))
    queue, sink = world.queue(), TestSink()
    transaction = world.manager.begin(world.now_us)
    for _ in range(3):
        world.put(queue, sink=sink, transaction=transaction)
    world.turn()
    assert [condition for _, condition, _ in sink.rejected] == ["amqp:resource-limit-exceeded"]
    with pytest.raises(TransactionRolledBack, match="max_transaction_entries"):
        world.manager.commit(transaction, world.now_us)
    assert queue.statistics.ended[Outcome.ROLLED_BACK] == 2


def test_a_refused_presettled_put_spoils_the_commit(world: World) -> None:
    queue = world.queue(max_messages=0)
    transaction = world.manager.begin(world.now_us)
    producer = world.manager.open_producer("p", "c", "u")
    from tests.manager.world import a_head

    world.manager.put(producer, queue, a_head(), b"x", TestSink(), -1, world.now_us, transaction)
    with pytest.raises(TransactionRolledBack, match="pre-settled message"):
        world.manager.commit(transaction, world.now_us)


def test_an_open_transaction_times_out() -> None:
    world = World(ManagerOptions(transaction_timeout_ms=100))
    queue = world.queue()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, transaction=transaction)
    world.turn(99)
    assert queue.statistics.depth == 1
    world.turn(1)
    assert queue.statistics.ended[Outcome.ROLLED_BACK] == 1
    with pytest.raises(TransactionTimedOut, match="time-out"):
        world.manager.commit(transaction, world.now_us)


def test_open_transactions_are_limited() -> None:
    world = World(ManagerOptions(max_transactions=1))
    first = world.manager.begin(world.now_us)
    with pytest.raises(LimitExceeded):
        world.manager.begin(world.now_us)
    world.manager.rollback(first, world.now_us)
    world.manager.begin(world.now_us)


def test_a_queue_with_uncommitted_work_cannot_be_deleted(world: World) -> None:
    queue = world.queue()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, transaction=transaction)
    with pytest.raises(QueueInUse, match="held by transactions"):
        world.manager.delete_queue("q", False, False, world.now_us)
    world.manager.rollback(transaction, world.now_us)
    world.manager.delete_queue("q", False, False, world.now_us)


def test_rolled_back_failures_count_to_the_limit(world: World) -> None:
    queue = world.queue(redelivery_limit=0, dead_letter_queue="dead")
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    transaction = world.manager.begin(world.now_us)
    world.accept(consumer, world.held(consumer)[0], transaction)
    world.manager.rollback(transaction, world.now_us)
    assert world.manager.queue("dead").statistics.current == 1


def test_commits_stand_in_order_in_the_backlog() -> None:
    world = World(ManagerOptions(live_head=2, body_cache_bytes=0))
    queue = world.queue()
    for number in range(4):
        world.put(queue, b"p%d" % number)
    transaction = world.manager.begin(world.now_us)
    for number in range(4):
        world.put(queue, b"t%d" % number, transaction=transaction)
        world.put(queue, b"q%d" % number)
    world.turn()
    world.manager.commit(transaction, world.now_us)
    world.put(queue, b"end")
    world.turn()
    consumer = world.consumer(queue, credit=20)
    expected = [b"p0", b"p1", b"p2", b"p3", b"q0", b"q1", b"q2", b"q3", b"t0", b"t1", b"t2", b"t3", b"end"]
    assert world.turn() == expected
    for entry in reversed(world.held(consumer)):
        world.release(consumer, entry)
    world.credit(consumer, 20)
    world.turn()
    assert [delivery.body for delivery in world.delivered[-13:]] == expected


def test_a_lost_connection_rolls_back_without_delay_or_failure() -> None:
    world = World()
    queue = world.queue(redelivery_delay_ms=60_000)
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = world.held(consumer)
    transaction = world.manager.begin(world.now_us)
    world.accept(consumer, entry, transaction)
    world.manager.rollback(transaction, world.now_us, lost=True)
    assert (entry.delivery_count, entry.failure_count) == (1, 0)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"1"]


def test_a_blocked_presettled_put_that_vanishes_with_its_link_spoils_the_commit() -> None:
    world = World()
    queue = world.queue(max_messages=1)
    world.put(queue)
    producer = world.manager.open_producer("p", "c", "", 10_000)
    transaction = world.manager.begin(world.now_us)
    world.manager.put(producer, queue, a_head(), b"x", TestSink(), -1, world.now_us, transaction)
    assert world.manager.withdraw_sends(producer, world.now_us) == [-1]
    with pytest.raises(TransactionRolledBack, match="vanished"):
        world.manager.commit(transaction, world.now_us)


def test_what_the_server_refuses_spoils_the_commit(world: World) -> None:
    transaction = world.manager.begin(world.now_us)
    world.manager.spoil(transaction, "a pre-settled message was no message", world.now_us)
    with pytest.raises(TransactionRolledBack, match="no message"):
        world.manager.commit(transaction, world.now_us)


def test_nobody_waits_for_provisional_work(world: World) -> None:
    """Its records are written when somebody waits for others, or when the transaction is decided."""
    queue, core = world.queue(), world.manager.core
    world.turn()
    before = core.durability.wanted_through()
    transaction = world.manager.begin(world.now_us)
    for number in range(3):
        world.put(queue, b"%d" % number, transaction=transaction)
    assert (core.durability.wanted_through(), world.builder.next_position > before + 3) == (before, True)
    effects = world.manager.take_effects()
    assert (len(effects.provisional), effects.accepted) == (3, [])  # one for each sink
    world.manager.commit(transaction, world.now_us)
    assert core.durability.wanted_through() == world.builder.next_position - 1


def test_a_record_that_somebody_waits_for_takes_the_provisional_ones_before_it_along(world: World) -> None:
    queue, core = world.queue(), world.manager.core
    transaction = world.manager.begin(world.now_us)
    world.put(queue, transaction=transaction)
    world.put(queue)
    plain = world.builder.next_position - 1
    world.put(queue, transaction=transaction)
    assert core.durability.wanted_through() == plain
