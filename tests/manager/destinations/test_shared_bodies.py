"""What the subscriptions to a topic share: the body, in memory and on its way there, and the routing set."""

from postroom.ledger.format.records import SET_BASE, RecordType
from postroom.manager.destinations.topic_subscriptions import subscriptions_of
from postroom.manager.kernel.entry import ENTRY_OVERHEAD_BYTES
from postroom.manager.kernel.options import ManagerOptions
from tests.manager.topic_world import TopicWorld


def test_bodies_in_memory_are_counted_once(world: TopicWorld) -> None:
    topic = world.topic()
    consumers = [world.subscriber(client=f"c{number}", credit=0) for number in range(5)]
    core = world.manager.core
    world.put(topic, b"x" * 1000)
    world.turn()
    assert core.memory.cached_bytes == 1000
    world.put(topic, b"y" * 100, durable=False)
    world.turn()
    assert core.memory.volatile_bytes == 100 + 5 * ENTRY_OVERHEAD_BYTES
    for consumer in consumers:
        world.credit(consumer, 2)
    assert len(world.turn()) == 10
    assert core.memory.cached_bytes == 0
    assert core.memory.volatile_bytes == 100 + 5 * ENTRY_OVERHEAD_BYTES
    for consumer in consumers:
        for entry in world.held(consumer):
            world.accept(consumer, entry)
    world.turn()
    assert (
        core.memory.cached_bytes,
        core.memory.volatile_bytes,
        core.memory.live_entries,
        core.memory.shared_bodies,
    ) == (0, 0, 0, {})


def test_a_body_that_many_wait_for_is_read_once(world: TopicWorld) -> None:
    topic = world.topic()
    queues = [world.subscribe(name=f"s{number}", durable=True) for number in range(20)]
    for number in range(3):
        world.put(topic, str(number).encode())
    world.turn()
    assert world.manager.core.memory.live_entries == 0
    consumers = [world.consumer(queue, 10) for queue in queues]
    assert len(world.turn()) == 60
    assert world.fetches == 1
    assert world.manager.core.memory.shared_reads == {} and world.manager.core.memory.cached_bytes == 0
    assert all(len(consumer.held) == 3 and consumer.queue.bodies.awaited == 0 for consumer in consumers)


def test_a_damaged_body_ends_the_entries_of_all_subscriptions(world: TopicWorld) -> None:
    topic = world.topic()
    queues = [world.subscribe(name=f"s{number}", durable=True) for number in range(3)]
    for number in range(3):
        world.put(topic, str(number).encode())
    world.turn()
    world.damaged.add(int(world.arrivals[1]["position"]))
    consumers = [world.consumer(queue, 10) for queue in queues]
    assert sorted(world.turn()) == [b"0"] * 3 + [b"2"] * 3
    assert world.manager.core.memory.shared_reads == {}
    for consumer in consumers:
        assert ("DISCARD", "DELETED", "DISCARDED") in world.events(consumer.queue)
        assert (consumer.queue.statistics.depth, consumer.queue.bodies.awaited) == (2, 0)


def test_a_drain_waits_for_the_body_that_another_has_asked_for(world: TopicWorld) -> None:
    topic = world.topic()
    queues = [world.subscribe(name=f"s{number}", durable=True) for number in range(2)]
    world.put(topic)
    world.turn()
    first, second = (world.consumer(queue) for queue in queues)
    world.credit(first, 1)
    world.credit(second, 1, drain=True)
    assert world.drained == []
    assert world.turn() == [b"body"] * 2
    assert world.drained == [second]


def test_sets_are_few_and_in_force_as_long_as_they_are_used() -> None:
    world = TopicWorld(ManagerOptions(max_routing_sets=2))
    topics = [world.topic(f"t{number}") for number in range(3)]
    for topic in topics:
        world.subscribe(topic.name, name=f"{topic.name}-1", durable=True)
        world.subscribe(topic.name, name=f"{topic.name}-2", durable=True)
    for topic in (*topics, topics[2], topics[0]):
        world.put(topic)
    world.turn()
    assert len(world.sets()) == 4  # that of the first was dropped, and defined anew
    dropped = [row["holder"] for row in world.transitions if row["type"] == RecordType.ROUTING_SET_DROPPED]
    assert dropped == [SET_BASE, SET_BASE + 1]
    assert len(subscriptions_of(world.manager.core).routing_sets) == 2


def test_a_body_of_another_subscription_serves_one_that_may_not_go_to_everybody(world: TopicWorld) -> None:
    """What was excluded stands before it, so that each consumer looks for its own; the body is in memory."""
    topic = world.topic()
    _, own = world.subscriber(client="other", credit=0), world.subscriber(client="own", credit=1)
    world.put(topic, b"first")
    world.turn()
    world.fail(own, world.held(own)[0], not_here=True)
    world.put(topic, b"second")
    world.credit(own, 1)
    assert world.turn() == [b"second"]
    world.release(own, world.held(own)[0])
    world.credit(own, 1)
    assert world.turn() == [b"second"]
