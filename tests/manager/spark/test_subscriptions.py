"""Spark subscriptions: what is assigned, confirmed, and given back."""

from typing import Any

import pytest

from postroom.manager.destinations.totals import totals
from postroom.manager.kernel.errors import (
    CheckpointReplaced,
    PositionRefused,
    QueueInUse,
    SparkSubscriptionExists,
    SparkSubscriptionNotFound,
    SubscriptionEnded,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.subscription import SparkSubscription, SparkSubscriptionDefinition
from postroom.model.codes import Event, HolderKind, State
from tests.manager.messages import member
from tests.manager.over_ledger import LedgerWorld

ACQUIRED = (Event.ACQUIRE, HolderKind.SPARK_SUBSCRIPTION, State.GET_UNCONFIRMED)


@pytest.fixture
def world() -> LedgerWorld:
    return LedgerWorld(ManagerOptions(max_assigned_per_turn=100, live_head=8, min_live_head=2))


def subscribe(world: LedgerWorld, queue: str = "q", **settings: Any) -> SparkSubscription:
    definition = SparkSubscriptionDefinition("s", queue, **settings)
    spark = world.manager.spark_subscriptions.create(definition, world.now_us, "me")
    world.turn()
    return spark


def the(world: LedgerWorld) -> SparkSubscription:
    return world.manager.spark_subscriptions.find("s")


def fill(world: LedgerWorld, queue: Queue, count: int, **head: Any) -> None:
    for _ in range(count):
        world.put(queue, **head)
    world.turn()


def assigned(world: LedgerWorld) -> list[tuple[int, int]]:
    """(position, serial) of all that was ever assigned, as a reader of the ledger sees it."""
    return [
        (position, serial)
        for position, serial, _, _, kind, event, to, _ in world.rows()
        if (event, kind, to) == ACQUIRED
    ]


def confirm(world: LedgerWorld, position: int) -> int:
    ended = world.manager.spark_subscriptions.confirm("s", the(world).checkpoint, position, world.now_us)
    world.turn()
    return ended


def test_what_waits_and_what_comes_is_assigned_in_order_by_few_records(world: LedgerWorld) -> None:
    queue = world.queue()
    fill(world, queue, 300)
    spark = subscribe(world)
    world.turn()
    found = assigned(world)
    assert [serial for _, serial in found] == sorted(serial for _, serial in found)
    assert len(found) == spark.held.count == 300
    assert len({position for position, _ in found}) < 20
    fill(world, queue, 5)
    assert (spark.held.count, queue.statistics.current, queue.statistics.unacknowledged) == (305, 0, 305)
    assert spark.assigned == assigned(world)[-1][0]


def test_a_position_ends_exactly_what_was_assigned_there_or_before(world: LedgerWorld) -> None:
    queue = world.queue()
    spark = subscribe(world)
    for _ in range(4):
        fill(world, queue, 3)
    positions = sorted({position for position, _ in assigned(world)})
    assert len(positions) == 4
    assert confirm(world, positions[1]) == 6
    assert confirm(world, positions[1]) == confirm(world, positions[0]) == 0
    assert (spark.confirmed, spark.held.count, queue.statistics.consumed) == (positions[1], 6, 6)
    with pytest.raises(PositionRefused):
        confirm(world, spark.assigned + 1)


@pytest.mark.parametrize("maintained", [False, True])
def test_a_restart_keeps_what_is_held_and_at_which_position(world: LedgerWorld, maintained: bool) -> None:
    queue = world.queue()
    fill(world, queue, 150)
    subscribe(world)
    fill(world, queue, 7)
    world.manager.spark_subscriptions.register("s", "c1", False, world.now_us)
    world.turn()
    before = assigned(world)
    cut = before[100][0]
    if maintained:
        world.maintain()
    world.restart()
    world.turn()
    spark = the(world)
    assert (spark.held.count, spark.checkpoint, spark.assigned) == (157, "c1", before[-1][0])
    assert confirm(world, cut) == sum(1 for position, _ in before if position <= cut)
    world.restart()
    world.turn()
    assert confirm(world, spark.assigned) == sum(1 for position, _ in before if position > cut)
    assert world.manager.queue("q").is_empty()


def test_peaks_begin_with_all_that_was_there_at_the_start(world: LedgerWorld) -> None:
    """Also with what the start itself ends: no peak is lowered by what is restored after that."""
    queue = world.queue()
    fill(world, queue, 4)
    subscribe(world, window=2)
    transaction = world.manager.begin(world.now_us)
    for _ in range(3):
        world.put(queue, transaction=transaction)
    world.turn()
    world.restart()
    shown = world.manager.queue("q").statistics.snapshot()
    everything = totals(world.manager.core)
    assert (shown["messages_current"], shown["messages_unacknowledged"]) == (2, 2)
    assert shown["messages_high"] == everything["messages_high"] == 7
    assert (
        shown["bytes_high"]
        == everything["bytes_high"]
        == shown["bytes_current_then"] + shown["bytes_pending_then"]
    )
    fill(world, world.manager.queue("q"), 4)
    assert world.manager.queue("q").statistics.snapshot()["messages_high"] == 8


def test_the_window_bounds_what_it_holds_and_confirming_makes_room(world: LedgerWorld) -> None:
    queue = world.queue()
    fill(world, queue, 30)
    spark = subscribe(world, window=10)
    assert (spark.held.count, queue.statistics.current) == (10, 20)
    confirm(world, spark.assigned)
    assert (spark.held.count, queue.statistics.current) == (10, 10)


def test_its_end_gives_everything_back_to_its_place(world: LedgerWorld) -> None:
    queue = world.queue()
    fill(world, queue, 250)
    spark = subscribe(world, lease_s=60)
    confirm(world, assigned(world)[49][0])
    left = spark.held.count
    world.turn(61_000)
    assert (queue.statistics.current, queue.statistics.unacknowledged) == (left, 0)
    with pytest.raises(SubscriptionEnded) as refused:
        world.manager.spark_subscriptions.plan("s", "", world.now_us)
    assert refused.value.info["lost_last"] == spark.assigned
    world.consumer(queue, credit=1000)
    world.turn()
    serials = [int(each.entry.serial) for each in world.delivered]
    assert serials == sorted(serials)
    assert len(serials) == left
    world.manager.spark_subscriptions.delete("s", world.now_us)
    with pytest.raises(SparkSubscriptionNotFound):
        the(world)


def test_one_checkpoint_at_a_time(world: LedgerWorld) -> None:
    world.queue()
    subscribe(world)
    service, now_us = world.manager.spark_subscriptions, world.now_us
    service.register("s", "a", False, now_us)
    for refused in (
        lambda: service.register("s", "b", False, now_us),
        lambda: service.plan("s", "b", now_us),
        lambda: service.confirm("s", "b", 0, now_us),
    ):
        with pytest.raises(CheckpointReplaced) as error:
            refused()
        assert error.value.info == {"registered": "a", "confirmed": the(world).confirmed}
    assert service.plan("s", "b", now_us, "confirmed").checkpoint == "a"
    assert service.register("s", "b", True, now_us).checkpoint == "b"
    with pytest.raises(SparkSubscriptionExists):
        service.create(SparkSubscriptionDefinition("s", "q", window=1), now_us)


def test_a_queue_goes_with_its_subscriptions_only_if_forced(world: LedgerWorld) -> None:
    queue = world.queue()
    fill(world, queue, 300)
    subscribe(world)
    with pytest.raises(QueueInUse):
        world.manager.delete_queue("q", False, False, world.now_us)
    assert world.manager.delete_queue("q", False, False, world.now_us, True) == 300
    world.turn()
    world.restart()
    assert not world.manager.spark_subscriptions.all


def test_a_queue_that_a_client_made_stays_while_one_that_has_ended_is_known() -> None:
    options = ManagerOptions(auto_created_idle_ms=1000)
    world = LedgerWorld(options)
    queue = world.manager.queue_for_attach("q", world.now_us)
    assert queue.definition.auto_created
    subscribe(world, lease_s=60)
    world.turn(61_000)
    world.turn(61_000)
    assert not queue.attached.consumers
    assert not queue.deleted
    world.restart()
    world.turn()
    assert the(world).reason == "time"
    world.manager.spark_subscriptions.delete("s", world.now_us)
    world.turn()
    for _ in range(2):
        world.turn(61_000)
    assert not world.manager.queues


def test_a_restart_leaves_a_lease_an_hour(world: LedgerWorld) -> None:
    """Its query couldn't speak while the broker was away."""
    queue = world.queue()
    fill(world, queue, 5)
    subscribe(world, lease_s=7200)
    world.now_us += 8_000_000_000
    world.restart()
    world.turn()
    assert the(world).held.count == 5
    world.turn(3_599_000)
    assert the(world).ended_us == 0
    world.turn(2_000)
    assert (the(world).reason, the(world).held.count) == ("time", 0)
    world.restart()
    world.turn()
    assert the(world).reason == "time"
    assert world.manager.queue("q").statistics.current == 5


def test_a_subscription_that_was_going_back_goes_on_after_a_crash(world: LedgerWorld) -> None:
    queue = world.queue()
    fill(world, queue, 250)
    subscribe(world)
    world.turn()
    world.manager.spark_subscriptions.delete("s", world.now_us)  # a turn's part of it
    world.manager.take_effects()
    assert 0 < queue.statistics.unacknowledged < 250
    world.restart()
    world.turn()
    assert world.manager.queue("q").statistics.current == 250
    assert not world.manager.queue("q").packed_holders
    world.restart()
    assert not world.manager.queue("q").packed_holders


def test_one_that_is_deleted_while_it_still_gives_back_does_not_come_again_after_a_crash(
    world: LedgerWorld,
) -> None:
    queue = world.queue()
    fill(world, queue, 250)
    subscribe(world)
    world.turn()
    world.manager.spark_subscriptions.let_history_go("space", world.now_us)  # a turn's part of it
    assert 0 < the(world).held.count < 250
    world.manager.spark_subscriptions.delete("s", world.now_us)
    world.manager.take_effects()
    assert queue.statistics.unacknowledged > 0
    world.restart()
    assert not world.manager.spark_subscriptions.all
    world.turn()
    assert world.manager.queue("q").statistics.current == 250
    assert not world.manager.queue("q").packed_holders


def test_non_persistent_messages_are_lost_and_their_positions_still_count(world: LedgerWorld) -> None:
    queue = world.queue()
    fill(world, queue, 3, durable=False)
    spark = subscribe(world)
    last = int(spark.assigned)
    world.restart()
    world.turn()
    world.restart()
    world.turn()
    assert (the(world).held.count, the(world).assigned) == (0, last)
    assert confirm(world, last) == 0


def test_it_takes_its_turn_beside_others(world: LedgerWorld) -> None:
    queue = world.queue()
    consumer = world.consumer(queue, credit=100)
    spark = subscribe(world)
    fill(world, queue, 40)
    assert (len(consumer.held), spark.held.count) == (20, 20)


def test_what_is_behind_another_of_its_unit_waits_and_is_assigned_when_that_is_confirmed() -> None:
    world = LedgerWorld(ManagerOptions())
    queue, spark_subscriptions = world.queue(unit_of_order=True), world.manager.spark_subscriptions
    spark = subscribe(world)
    for text in "first", "second":
        member(world, queue, text)
        world.turn()
    assert spark.held.count == 1
    assert spark_subscriptions.oldest_waiting(spark) > spark.confirmed
    spark_subscriptions.register("s", "a", False, world.now_us)
    confirm(world, int(spark.assigned))
    world.turn()
    assert spark.held.count == 1
    assert spark_subscriptions.oldest_waiting(spark) == 0
