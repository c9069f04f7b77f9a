"""Publishes that wait for room: in every subscription, and in a quota that several are under."""

import pytest

from postroom.manager.kernel.quota_definition import QuotaDefinition
from tests.manager.topic_world import TopicWorld
from tests.manager.world import TestSink


def test_a_publish_waits_for_room_in_every_subscription(world: TopicWorld) -> None:
    topic = world.topic(max_messages=1)
    first = world.subscribe(name="a", durable=True)
    world.put(topic, b"1")
    second = world.subscribe(name="b", durable=True)
    producer = world.manager.open_producer("p", "c", "", 1000)
    sink = TestSink()
    token = world.put(topic, b"2", sink, producer=producer)
    world.turn()
    assert sink.accepted == sink.rejected == []
    assert (first.statistics.depth, second.statistics.depth) == (1, 0)
    consumer = world.consumer(first, 1)
    world.turn()
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    assert sink.accepted == [token]
    assert (first.statistics.depth, second.statistics.depth) == (1, 1)
    refused = TestSink()
    token = world.put(topic, b"3", refused, producer=producer)
    world.turn(2000)
    assert [condition for _, condition, _ in refused.rejected] == ["amqp:resource-limit-exceeded"]
    assert topic.statistics.received == 2


def test_a_publish_waits_no_longer_for_a_subscription_that_is_ending(world: TopicWorld) -> None:
    topic = world.topic(max_messages=1)
    consumer = world.subscriber()
    world.put(topic, b"1")
    world.turn()
    world.accept(consumer, world.held(consumer)[0], world.manager.begin(world.now_us))
    sink = TestSink()
    token = world.put(topic, b"2", sink, producer=world.manager.open_producer("p", "c", "", 1000))
    world.turn()
    assert sink.accepted == []
    world.close(consumer)
    world.turn()
    assert sink.accepted == [token] and not consumer.queue.deleted


def test_a_publish_needs_less_of_a_shared_quota_when_a_subscription_is_ending(world: TopicWorld) -> None:
    world.manager.create_quota(QuotaDefinition(name="room", messages_maximum=3), world.now_us)
    topic = world.topic(quota="room")
    ending, stays = (world.subscribe(name=name, durable=True) for name in "ab")
    world.put(topic, b"1", transaction=world.manager.begin(world.now_us))
    sink = TestSink()
    token = world.put(topic, b"2", sink, producer=world.manager.open_producer("p", "c", "", 1000))
    world.turn()
    assert sink.accepted == []
    world.manager.forsake(ending, world.now_us)
    world.turn()
    assert sink.accepted == [token] and not ending.deleted
    assert (ending.statistics.depth, stays.statistics.depth) == (1, 2)


def test_a_publish_that_waits_is_refused_when_it_needs_more_than_a_shared_quota(world: TopicWorld) -> None:
    world.manager.create_quota(QuotaDefinition(name="room", messages_maximum=2), world.now_us)
    topic = world.topic(quota="room")
    queues = [world.subscribe(name=name, durable=True) for name in "ab"]
    world.put(world.queue("box", quota="room"), b"1")
    sink = TestSink()
    world.put(topic, b"2", sink, producer=world.manager.open_producer("p", "c", "", 1000))
    world.turn()
    assert sink.rejected == []
    queues.append(world.subscribe(name="c", durable=True))
    world.turn()
    assert "3 entries" in sink.rejected[0][2]
    assert [queue.statistics.depth for queue in queues] == [0, 0, 0]


def test_entries_of_one_publish_may_be_more_than_a_shared_quota_holds(world: TopicWorld) -> None:
    quota = QuotaDefinition(name="small", messages_maximum=2)
    world.manager.create_quota(quota, world.now_us)
    topic = world.topic(quota="small")
    queues = [world.subscribe(name=f"s{number}", durable=True) for number in range(3)]
    sink = TestSink()
    world.put(topic, sink=sink)
    world.turn()
    assert "3 entries" in sink.rejected[0][2]
    world.manager.unsubscribe(queues[0], world.now_us)
    world.put(topic, sink=sink)
    world.turn()
    assert len(sink.accepted) == 1
    assert [queue.statistics.depth for queue in queues] == [0, 1, 1]


@pytest.mark.parametrize("policy", ["fifo", "preemptive"])
def test_a_publish_that_needs_more_room_than_there_is_holds_up_others_under_fifo_alone(
    world: TopicWorld, policy: str
) -> None:
    world.manager.create_quota(QuotaDefinition(name="room", messages_maximum=2, policy=policy), world.now_us)
    topic, box = world.topic(quota="room"), world.queue("box", quota="room")
    for name in "ab":
        world.subscribe(name=name, durable=True)
    sink = TestSink()
    consumer = world.consumer(box, 2)
    world.put(box, b"1")
    world.put(box, b"2")
    publisher, sender = (world.manager.open_producer(name, "c", "", 1000) for name in ("p", "s"))
    larger = world.put(topic, b"3", sink, producer=publisher)
    smaller = world.put(box, b"4", sink, producer=sender)
    world.turn()
    first, second = world.held(consumer)
    world.accept(consumer, first)
    world.turn()
    assert sink.accepted == ([smaller] if policy == "preemptive" else [])
    world.accept(consumer, second)
    world.turn()
    assert sink.accepted == [smaller if policy == "preemptive" else larger]
    world.manager.purge_queue("box", world.now_us)
    world.turn()
    assert set(sink.accepted) >= {larger}
