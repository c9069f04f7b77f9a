"""Publishes over the real ledger: what restart, checkpoint, compaction and verification make of sets."""

from pathlib import Path

import pytest

from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.options import QueueDefinition
from postroom.model.codes import Outcome
from tests.manager.ledger_topics import SUBSCRIPTIONS, TopicWorld
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import recount


@pytest.fixture(params=[False, True], ids=["journal", "maintained"])
def maintained(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def world() -> TopicWorld:
    return TopicWorld()


def restart(world: TopicWorld, maintained: bool) -> None:
    if maintained:
        world.maintain()
    world.restart()


def test_what_is_published_is_there_for_everybody_after_a_restart(
    world: TopicWorld, maintained: bool, tmp_path: Path
) -> None:
    world.publish(*(b"%d" % number * 1000 for number in range(100)))
    first, second = world.subscriber(0), world.subscriber(1, 3)
    world.turn()
    for entry in world.held(first):
        world.accept(first, entry)
    world.accept(second, world.held(second)[0])
    world.turn()
    restart(world, maintained)
    restart(world, maintained)
    assert world.subscription(0).statistics.depth == 0
    assert world.subscription(1).statistics.depth == 99
    assert {int(world.subscription(number).statistics.depth) for number in range(2, SUBSCRIPTIONS)} == {100}
    world.subscriber(1)
    world.subscriber(SUBSCRIPTIONS - 1)
    delivered = world.turn()
    assert sorted(delivered) == sorted(
        [b"%d" % number * 1000 for number in range(1, 100)] + [b"%d" % number * 1000 for number in range(100)]
    )
    assert [delivery.delivery_count for delivery in world.delivered if delivery.body == b"1" * 1000] == [1, 0]
    world.check_whole(tmp_path)


def test_a_set_in_force_is_used_again_after_a_restart(world: TopicWorld, maintained: bool) -> None:
    world.publish(b"1")
    restart(world, maintained)
    before = world.builder.next_position
    world.publish(b"2")
    arrival_and_producer = 2
    assert world.builder.next_position == before + arrival_and_producer
    assert world.depths() == {2}


def test_a_body_goes_when_the_last_has_let_go_of_it(world: TopicWorld, tmp_path: Path) -> None:
    large = [bytes([number]) * 20_000 for number in range(20)]
    world.publish(*large)
    for number in range(1, SUBSCRIPTIONS):
        world.manager.purge_queue(world.subscription(number).name, world.now_us)
    world.turn()
    world.maintain()
    world.subscriber(0)
    assert world.turn() == large
    world.restart()
    kept = world.subscriber(0)
    assert world.turn() == large
    for entry in world.held(kept)[:19]:
        world.accept(kept, entry)
    world.turn()
    world.restart()
    world.publish(*(b"x" * 20_000 for _ in range(8)))
    world.maintain()
    sizes = sum(len(world.disk.open(name).view()) for name in world.disk.names() if "bodies" in name)
    assert sizes < 20 * 20_000
    world.check_whole(tmp_path)


def test_unborn_and_uncommitted_publishes_at_a_restart(world: TopicWorld, maintained: bool) -> None:
    world.publish(b"later", delay_ms=1000)
    transaction = world.manager.begin(world.now_us)
    world.put(world.manager.topic("news"), b"never", transaction=transaction)
    committed = world.manager.begin(world.now_us)
    world.put(world.manager.topic("news"), b"decided", transaction=committed)
    world.manager.commit(committed, world.now_us)
    world.turn()
    restart(world, maintained)
    assert world.depths() == {2}
    world.subscriber(5)
    assert world.turn() == [b"decided"]
    assert world.turn(1000) == [b"later"]
    ended = [int(world.subscription(number).statistics.ended[Outcome.ROLLED_BACK]) for number in (0, 299)]
    assert ended == [1, 1]


def test_a_dead_letter_keeps_the_body_that_it_shared(world: TopicWorld, maintained: bool) -> None:
    world.publish(b"bad" * 1000)
    consumer = world.subscriber(7)
    world.turn()
    world.manager.reject(consumer, world.held(consumer)[0], "app:bad", "no good", world.now_us)
    world.turn()
    world.purge_all()
    restart(world, maintained)
    world.consumer(world.manager.queue("dead"), 1)
    assert world.turn() == [b"bad" * 1000]


def test_what_is_not_persistent_is_lost_on_every_subscription(world: TopicWorld, maintained: bool) -> None:
    world.publish(b"gone", durable=False)
    world.publish(b"stays")
    restart(world, maintained)
    assert world.depths() == {1}
    queue = world.subscription(3)
    assert queue.statistics.ended[Outcome.LOST] == 1
    assert recount(queue)["current"] == 1


def test_subscriptions_that_are_not_durable_end_with_a_restart(world: TopicWorld, tmp_path: Path) -> None:
    volatile = world.subscription(0, name="", durable=False)
    world.consumer(volatile)
    world.publish(b"x")
    world.restart()
    assert volatile.name not in world.manager.queues
    assert len(world.manager.queues) == SUBSCRIPTIONS
    world.publish(b"y")
    assert world.depths() == {2}
    world.check_whole(tmp_path)


def test_every_entry_is_a_row_and_every_publish_one_arrival(world: TopicWorld) -> None:
    world.publish(b"1", b"2")
    world.manager.create_queue(QueueDefinition(name="empty", kind="topic"), world.now_us)
    world.put(world.manager.topic("empty"), b"nobody")
    world.turn()
    rows = world.rows()
    assert len(rows) == 2 * SUBSCRIPTIONS
    assert len({serial for _, serial, *_ in rows}) == 2
    topic_set_and_arrival = 3
    assert world.builder.next_position - 1 == max(position for position, *_ in rows) + topic_set_and_arrival


def test_bodies_that_come_in_pieces_are_shared_too(world: TopicWorld, maintained: bool) -> None:
    pieces = [bytes([number]) * 5000 for number in range(4)]
    upload = world.manager.begin_upload(world._producer)
    for piece in pieces:
        world.manager.upload_chunk(upload, piece, world.now_us)
    from tests.manager.world import TestSink, a_head

    world.manager.finish_upload(upload, world.manager.topic("news"), a_head(), TestSink(), 1, world.now_us)
    world.turn()
    restart(world, maintained)
    for number in range(0, SUBSCRIPTIONS, 50):
        world.subscriber(number)
    assert world.turn() == [b"".join(pieces)] * 6
    assert world.fetches == 1


def test_publishes_and_puts_between_them_keep_their_own_bodies_after_a_restart() -> None:
    """As many entries by sets as the file has arrivals: each is of its own arrival."""
    world = LedgerWorld()
    world.manager.create_queue(QueueDefinition(name="news", kind="topic"), world.now_us)
    plain = world.queue("plain")
    for name in ("a", "b"):
        wanted = Subscribing(topic="news", client="c", name=name, durable=True)
        world.manager.subscribe(wanted, world.now_us)
    world.put(plain, b"put")
    world.put(world.manager.topic("news"), b"published")
    world.turn()
    world.restart()
    subscribed = world.manager.durable_subscription("c", "a")
    assert subscribed.statistics.depth_bytes == len(b"published")
    world.consumer(subscribed, credit=10)
    world.consumer(world.manager.queue("plain"), credit=10)
    assert sorted(world.turn()) == [b"published", b"put"]
    totals = {row.queue: (row.arrived, row.arrived_bytes) for row in world.recover().totals}
    assert totals[int(subscribed.id)] == (1, len(b"published"))


def test_a_durable_subscription_that_is_ending_is_gone_after_a_restart(world: TopicWorld) -> None:
    consumer = world.subscriber(7)
    world.publish(b"1")
    transaction = world.manager.begin(world.now_us)
    world.accept(consumer, world.held(consumer)[0], transaction)
    world.close(consumer)
    world.manager.forsake(consumer.queue, world.now_us)
    world.turn()
    assert consumer.queue.name in world.manager.queues
    world.restart()
    assert consumer.queue.name not in world.manager.queues
