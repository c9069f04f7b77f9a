"""Publish and subscribe: who gets what, what is written, and the rules of JMS about subscriptions."""

from dataclasses import replace
from typing import Any

import pytest

from postroom.amqp.message.sections import Data, Message
from postroom.ledger.format.records import SET_BASE
from postroom.manager.destinations.routing import slows_down
from postroom.manager.kernel.errors import (
    DestinationPaused,
    LimitExceeded,
    NameNotAllowed,
    NotAllowed,
    QueueDeleted,
    QueueExists,
    QueueInUse,
    QueueNotFound,
    SubscriptionInUse,
)
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.model.codes import Outcome
from postroom.model.settings import restored
from tests.manager.store_face import StoreFace
from tests.manager.topic_world import TopicWorld
from tests.manager.world import TestSink, a_head


def test_every_subscription_gets_its_own_entry_of_one_arrival(world: TopicWorld) -> None:
    topic = world.topic()
    consumers = [world.subscriber(client=f"c{number}") for number in range(3)]
    world.put(topic, b"one")
    world.put(topic, b"two")
    assert world.turn() == [b"one"] * 3 + [b"two"] * 3
    assert len(world.arrivals) == 2
    assert world.sets() == [[consumer.queue.id for consumer in consumers]]
    first, second = world.arrivals
    assert first["routing_set"] == second["routing_set"] == SET_BASE
    assert first["parent_queue"] == topic.id and first["parent_serial"] == 0
    for consumer in consumers[:2]:
        world.accept(consumer, world.held(consumer)[0])
    world.close(consumers[2], lost=True)
    world.turn()
    assert [consumer.queue.statistics.consumed for consumer in consumers] == [1, 1, 0]
    assert topic.statistics.received == 2 and topic.statistics.received_bytes == 6


def test_a_single_subscription_needs_no_set(world: TopicWorld) -> None:
    topic = world.topic()
    consumer = world.subscriber()
    world.put(topic)
    assert world.turn() == [b"body"]
    assert world.sets() == []
    assert world.arrivals[0]["routing_set"] == consumer.queue.id


def test_without_a_link_what_would_wait_for_room_is_refused(world: TopicWorld) -> None:
    """Settings of the topic hold as for a send: its priority, its time to live, its window of duplicates."""
    topic = world.manager.topic(world.topic(priority_override=7, duplicate_window=10).name)
    consumer = world.subscriber(credit=0)
    world.manager.update_queue(replace(consumer.queue.definition, max_messages=1), world.now_us)

    def publish(number: int, body: bytes = b"body") -> int:
        head = a_head(message_id=str(number))
        return world.manager.publish(world._producer, topic, head, body, world.now_us)

    assert publish(1) == 1
    assert publish(1) == 0
    with pytest.raises(LimitExceeded, match="no room"):
        publish(2)
    assert (topic.statistics.received, blocked_sends_of(world.manager.core).bytes) == (1, 0)
    world.manager.set_credit(consumer, 10, False, world.now_us)
    assert world.turn() == [b"body"]
    assert [delivery.entry.priority for delivery in world.delivered] == [7]
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    assert publish(2) == 1
    world.turn()
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    world.manager.pause(topic, "production", world.now_us)
    with pytest.raises(DestinationPaused, match="production is paused"):
        publish(3)


@pytest.mark.parametrize("chunked", [False, True])
def test_without_subscription_the_ledger_tells_of_the_arrival_alone(world: TopicWorld, chunked: bool) -> None:
    topic = world.topic()
    sink = TestSink()
    if chunked:
        upload = world.manager.begin_upload(world._producer)
        world.manager.upload_chunk(upload, b"x" * 1000, world.now_us)
        world.manager.finish_upload(upload, topic, a_head(), sink, 7, world.now_us)
    else:
        world.put(topic, b"nobody", sink)
    assert world.turn() == []
    assert len(sink.accepted) == 1
    assert world.sets() == [[]]
    arrival = world.arrivals[0]
    assert (arrival["body_len"], arrival["flags"], arrival["parent_queue"]) == (0, 1, topic.id)
    assert topic.unrouted == 1
    assert topic.statistics.depth == 0


def test_who_subscribes_later_gets_only_what_is_published_later(world: TopicWorld) -> None:
    topic = world.topic()
    first = world.subscriber(client="a")
    world.put(topic, b"1")
    world.turn()
    second = world.subscriber(client="b")
    world.put(topic, b"2")
    world.turn()
    world.close(first)
    world.turn()
    world.put(topic, b"3")
    world.turn()
    assert world.got() == {first.queue.name: [b"1", b"2"], second.queue.name: [b"2", b"3"]}
    assert first.queue.deleted and first.queue.name not in world.manager.queues


def test_a_durable_subscription_keeps_what_comes_while_nobody_consumes(world: TopicWorld) -> None:
    topic = world.topic()
    queue = world.subscribe(name="sub", durable=True)
    assert queue.name == "news::me/sub"
    for number in range(3):
        world.put(topic, str(number).encode())
    world.turn()
    consumer = world.consumer(queue, 10)
    assert world.turn() == [b"0", b"1", b"2"]
    world.accept(consumer, world.held(consumer)[0])
    world.close(consumer)
    world.turn()
    again = world.subscribe(name="sub", durable=True)
    assert again is queue
    world.consumer(again, 10)
    assert world.turn() == [b"1", b"2"]


def test_consumers_of_a_shared_subscription_compete(world: TopicWorld) -> None:
    topic = world.topic()
    one = world.subscriber(name="s", shared=True, client="")
    two = world.subscriber(name="s", shared=True, client="")
    assert one.queue is two.queue and one.queue.name == "news::~s"
    for number in range(4):
        world.put(topic, str(number).encode())
    assert world.turn() == [b"0", b"1", b"2", b"3"]
    assert len(one.held) == len(two.held) == 2
    world.close(one)
    world.turn()
    assert not two.queue.deleted
    world.close(two)
    world.turn()
    assert two.queue.deleted


def test_names_of_durable_and_other_shared_subscriptions_are_apart(world: TopicWorld) -> None:
    world.topic()
    volatile = world.subscriber(name="s", shared=True)
    durable = world.subscriber(name="s", shared=True, durable=True)
    assert volatile.queue is not durable.queue


@pytest.mark.parametrize(
    "other", [{"topic": "weather"}, {"no_local": True}, {"selector": "a = 1"}], ids=lambda o: next(iter(o))
)
def test_another_topic_selector_or_no_local_replaces_a_subscription_that_is_not_in_use(
    world: TopicWorld, other: dict[str, Any]
) -> None:
    news = world.topic()
    world.topic("weather")
    old = world.subscribe(name="s", durable=True)
    world.put(news, b"lost with it")
    world.turn()
    consumer = world.consumer(old)
    with pytest.raises(SubscriptionInUse, match="another topic, selector or no-local"):
        world.subscribe(**{"name": "s", "durable": True, **other})
    world.close(consumer)
    new = world.subscribe(**{"name": "s", "durable": True, **other})
    assert old.deleted and new is not old
    assert new.is_empty()
    assert world.manager.durable_subscription("me", "s") is new


def test_an_unshared_durable_subscription_has_one_consumer(world: TopicWorld) -> None:
    world.topic()
    world.subscriber(name="s", durable=True)
    with pytest.raises(SubscriptionInUse, match="in use"):
        world.subscribe(name="s", durable=True)


@pytest.mark.parametrize("shared", [False, True])
def test_shared_and_unshared_durable_subscriptions_may_not_have_one_name(
    world: TopicWorld, shared: bool
) -> None:
    world.topic()
    world.subscribe(name="s", durable=True, shared=shared)
    with pytest.raises(NotAllowed, match="unsubscribe it first"):
        world.subscribe(name="s", durable=True, shared=not shared)


def test_unsubscribe_ends_a_durable_subscription_nobody_uses(world: TopicWorld) -> None:
    topic = world.topic()
    consumer = world.subscriber(name="s", durable=True)
    queue = consumer.queue
    with pytest.raises(SubscriptionInUse):
        world.manager.unsubscribe(queue, world.now_us)
    world.close(consumer)
    world.put(topic)
    world.manager.unsubscribe(queue, world.now_us)
    world.turn()
    assert queue.deleted and queue.statistics.depth == 0
    with pytest.raises(QueueNotFound, match="no durable subscription 's'"):
        world.manager.durable_subscription("me", "s")


def test_no_local_leaves_out_what_the_same_client_publishes(world: TopicWorld) -> None:
    topic = world.topic()
    mine = world.subscriber(client="me", no_local=True)
    all_of_it = world.subscriber(client="me")
    me = world.manager.open_producer("p", "me", "")
    other = world.manager.open_producer("p", "other", "")
    world.put(topic, b"mine", producer=me)
    world.put(topic, b"other", producer=other)
    world.turn()
    assert world.got() == {mine.queue.name: [b"other"], all_of_it.queue.name: [b"mine", b"other"]}
    assert [arrival["routing_set"] for arrival in world.arrivals] == [all_of_it.queue.id, SET_BASE]


def test_patterns(world: TopicWorld) -> None:
    for name in ("a", "a.b", "a.c", "a.b.c"):
        world.topic(name)
    patterns = ("a", "a.*", "a.#", "#", "*.b", "a.*.c", "x.*")
    queues = {pattern: world.subscribe(pattern, name=pattern, durable=True) for pattern in patterns}
    for name in ("a", "a.b", "a.c", "a.b.c"):
        world.put(world.manager.topic(name), name.encode())
    world.turn()
    found = {pattern: int(queue.statistics.depth) for pattern, queue in queues.items()}
    assert found == {"a": 1, "a.*": 2, "a.#": 4, "#": 4, "*.b": 1, "a.*.c": 1, "x.*": 0}
    world.manager.unsubscribe(queues["a.#"], world.now_us)
    late = world.subscribe("*", name="late", durable=True)
    world.put(world.manager.topic("a"), b"again")
    world.turn()
    assert late.statistics.depth == 1 and queues["#"].statistics.depth == 5


def test_wildcards_can_be_subscribed_to_but_not_published_to(world: TopicWorld) -> None:
    with pytest.raises(NameNotAllowed, match="pattern of topics"):
        world.topic("a.*")
    with pytest.raises(NameNotAllowed, match="pattern of topics"):
        world.manager.topic_for_attach("a.#", world.now_us)
    with pytest.raises(NameNotAllowed, match="make it the last"):
        world.subscribe("a.#.b")


def test_a_name_is_a_queue_or_a_topic(world: TopicWorld) -> None:
    world.queue("q")
    world.topic("t")
    with pytest.raises(QueueExists, match="topic 't'"):
        world.queue("t")
    with pytest.raises(QueueExists, match="queue 'q'"):
        world.topic("q")
    with pytest.raises(QueueNotFound, match="is a queue's"):
        world.manager.topic_for_attach("q", world.now_us)
    with pytest.raises(QueueNotFound, match="is a topic's"):
        world.manager.queue_for_attach("t", world.now_us)
    with pytest.raises(NameNotAllowed, match="subscribing"):
        world.queue("t::x")


def test_topics_are_created_on_attach_within_the_limit_and_go_when_idle(world: TopicWorld) -> None:
    world = TopicWorld(ManagerOptions(max_auto_created_queues=1, auto_created_idle_ms=1000))
    consumer = world.subscriber("made")
    topic = world.manager.topic("made")
    with pytest.raises(Exception, match="max_auto_created_queues"):
        world.subscribe("one.more")
    world.turn(5000)
    assert not topic.deleted
    world.close(consumer)
    world.turn(5000)
    assert topic.deleted and "made" not in world.manager.topics


def test_publish_in_a_transaction_appears_with_its_commit(world: TopicWorld) -> None:
    topic = world.topic()
    consumers = [world.subscriber(client=f"c{number}") for number in range(2)]
    rolled_back, committed = world.manager.begin(world.now_us), world.manager.begin(world.now_us)
    world.put(topic, b"no", transaction=rolled_back)
    world.put(topic, b"yes", transaction=committed)
    assert world.turn() == []
    assert [consumer.queue.statistics.depth for consumer in consumers] == [2, 2]
    world.manager.rollback(rolled_back, world.now_us)
    world.manager.commit(committed, world.now_us)
    assert world.turn() == [b"yes", b"yes"]
    assert [consumer.queue.statistics.depth for consumer in consumers] == [1, 1]


def test_a_subscription_that_goes_with_a_transaction_open_ends_with_it(world: TopicWorld) -> None:
    topic = world.topic()
    consumer = world.subscriber()
    stays = world.subscriber(client="stays")
    world.put(topic, b"taken")
    world.turn()
    transaction = world.manager.begin(world.now_us)
    world.put(topic, b"given", transaction=transaction)
    world.accept(consumer, world.held(consumer)[0], transaction)
    world.close(consumer)
    world.put(topic, b"after")
    world.turn()
    assert not consumer.queue.deleted and consumer.queue.statistics.depth == 2
    world.manager.commit(transaction, world.now_us)
    world.turn()
    assert consumer.queue.deleted and consumer.queue.statistics.depth == 0
    assert world.got()[stays.queue.name] == [b"taken", b"after", b"given"]


def test_a_subscription_that_goes_with_something_locked_ends_when_the_lock_does(world: TopicWorld) -> None:
    topic = world.topic()
    consumer = world.subscriber(credit=0)
    queue = consumer.queue
    world.put(topic, b"locked")
    world.turn()
    store = StoreFace(world, queue.name)
    lock, _ = store.lock()
    world.close(consumer)
    world.turn(2000)
    assert not queue.deleted
    store.unlock(lock)
    world.turn(2000)
    assert queue.deleted and queue.statistics.depth == 0


def test_unborn_messages_are_born_on_every_subscription(world: TopicWorld) -> None:
    topic = world.topic()
    world.subscriber(client="a")
    world.subscriber(client="b")
    world.put(topic, b"later", delay_ms=500)
    assert world.turn() == []
    assert world.turn(500) == [b"later", b"later"]


@pytest.mark.parametrize("chunked", [False, True])
def test_selectors_choose_at_routing(world: TopicWorld, chunked: bool) -> None:
    topic = world.topic()
    plain = world.subscribe(name="all", durable=True)
    urgent = world.subscribe(name="urgent", durable=True, selector="JMSPriority > 5 AND colour = 'red'")
    for priority, colour in ((9, "red"), (9, "blue"), (4, "red")):
        sections = Message(application_properties={"colour": colour}, body=Data([b"x" * 10])).encode()
        if chunked:
            upload = world.manager.begin_upload(world._producer)
            world.manager.upload_chunk(upload, sections, world.now_us)
            head = a_head(priority=priority)
            world.manager.finish_upload(upload, topic, head, TestSink(), 7, world.now_us)
        else:
            world.put(topic, sections, priority=priority)
    world.turn()
    assert (plain.statistics.depth, urgent.statistics.depth) == (3, 1)
    assert topic.statistics.received == 3


def test_deleting_a_topic_ends_its_subscriptions(world: TopicWorld) -> None:
    topic = world.topic()
    consumer = world.subscriber(name="s", durable=True)
    by_pattern = world.subscribe("*", name="p", durable=True)
    with pytest.raises(QueueInUse, match="1 consumers"):
        world.manager.delete_topic("news", True, world.now_us)
    assert world.manager.delete_topic("news", False, world.now_us) == 1
    world.turn()
    assert topic.deleted and consumer.queue.deleted and not by_pattern.deleted
    assert world.detached == [(consumer.sink, "amqp:resource-deleted")]


def test_a_publish_to_a_deleted_topic_is_refused(world: TopicWorld) -> None:
    topic, sink = world.topic(), TestSink()
    producer = world.manager.open_producer("p", "c", "", -1, topic, sink)
    world.manager.delete_topic("news", False, world.now_us)
    world.turn()
    assert world.detached == [(sink, "amqp:resource-deleted")]
    with pytest.raises(QueueDeleted, match="topic 'news' has been deleted"):
        world.put(topic, producer=producer)
    world.manager.close_producer(producer, world.now_us)
    assert "news" not in world.manager.topics


def test_dead_letters_can_go_to_a_topic(world: TopicWorld) -> None:
    topic = world.topic("dead")
    queue = world.queue("q", dead_letter_queue="dead")
    for durable in (True, False):
        world.put(queue, b"bad", durable=durable)
    first = world.consumer(queue, 10)
    world.turn()
    world.manager.reject(first, world.held(first)[0], "app:nobody", "", world.now_us)
    world.turn()
    assert queue.statistics.ended[Outcome.DISCARDED] == 1
    readers = [world.subscriber("dead", client=f"c{number}") for number in range(3)]
    world.put(queue, b"worse")
    world.turn()
    for entry in world.held(first):
        world.manager.reject(first, entry, "app:bad", "", world.now_us)
    world.turn()
    assert {name: len(bodies) for name, bodies in world.got().items() if name != "q"} == {
        reader.queue.name: 2 for reader in readers
    }
    assert queue.statistics.ended[Outcome.DEAD_LETTERED] == 2
    assert topic.statistics.depth == 0
    for reader in readers:
        for entry in world.held(reader):
            world.accept(reader, entry)
    world.turn()
    core = world.manager.core
    assert (
        core.memory.cached_bytes,
        core.memory.volatile_bytes,
        core.memory.live_entries,
        core.memory.shared_bodies,
    ) == (0, 0, 0, {})


def test_a_paused_subscription_refuses_the_publish_for_all(world: TopicWorld) -> None:
    topic = world.topic()
    queues = [world.subscribe(name=f"s{number}", durable=True) for number in range(2)]
    for paused in (queues[1], topic):
        world.manager.pause(paused, "production", world.now_us)
        sink = TestSink()
        world.put(topic, sink=sink)
        world.turn()
        assert [condition for _, condition, _ in sink.rejected] == ["amqp:illegal-state"]
        assert "production is paused" in sink.rejected[0][2]
        world.manager.resume(paused, "production", world.now_us)
    world.put(topic)
    world.turn()
    assert [queue.statistics.depth for queue in queues] == [1, 1]


def test_a_publish_that_nobody_gets_still_needs_an_open_transaction(world: TopicWorld) -> None:
    topic = world.topic()
    transaction = world.manager.begin(world.now_us)
    world.manager.rollback(transaction, world.now_us)
    sink = TestSink()
    world.put(topic, sink=sink, transaction=transaction)
    world.turn()
    assert [condition for _, condition, _ in sink.rejected] == ["amqp:transaction:unknown-id"]


def test_a_topic_slows_senders_down_while_a_subscription_is_above_its_threshold(world: TopicWorld) -> None:
    topic = world.topic(messages_threshold_high=2, messages_threshold_low=1)
    first = world.subscribe(name="a", durable=True)
    world.subscribe(name="b", durable=True)
    core = world.manager.core
    for slowed in (False, False, True):
        world.put(topic)
        world.turn()
        assert slows_down(core, topic) is slowed
    for name in (first.name, f"{topic.name}::me/b"):
        assert slows_down(core, topic)
        world.manager.purge_queue(name, world.now_us)
    assert not slows_down(core, topic)


def test_a_definition_is_written_without_what_is_usual() -> None:
    definition = QueueDefinition(name="q", max_messages=5)
    assert definition.to_ledger() == {"name": "q", "kind": "queue", "max_messages": 5}
    assert restored(QueueDefinition, definition.to_ledger()) == definition
