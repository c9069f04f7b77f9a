"""Bounds and administration: what is refused, with which error, and what happens at each limit."""

from typing import Any

import pytest

from postroom.manager.destinations.tables import destinations_of
from postroom.manager.kernel.effects import Effects
from postroom.manager.kernel.errors import (
    DefinitionInvalid,
    LimitExceeded,
    ManagerError,
    NameNotAllowed,
    QueueDeleted,
    QueueExists,
    QueueInUse,
    QueueNotFound,
)
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.model.codes import Outcome
from tests.manager.world import MS, TestSink, World

NO_ROOM = "amqp:resource-limit-exceeded"
TOO_LARGE = "amqp:link:message-size-exceeded"


@pytest.mark.parametrize(
    ("definition", "taken", "condition"),
    [
        ({"max_messages": 2}, 2, NO_ROOM),
        ({"max_messages": 0}, 0, NO_ROOM),
        ({"max_bytes": 25}, 2, NO_ROOM),
        ({"max_message_bytes": 9}, 0, TOO_LARGE),
        ({"max_message_bytes": 10}, 4, ""),
        ({}, 4, ""),
    ],
)
def test_a_put_over_a_limit_is_refused(
    world: World, definition: dict[str, Any], taken: int, condition: str
) -> None:
    queue, sink = world.queue(**definition), TestSink()
    tokens = [world.put(queue, b"0123456789", sink=sink) for _ in range(4)]
    world.turn(10)
    assert sink.accepted == tokens[:taken]
    assert [(token, got) for token, got, _ in sink.rejected] == [(t, condition) for t in tokens[taken:]]
    assert queue.statistics.received == taken


def test_pending_entries_occupy_the_limit(world: World) -> None:
    queue, sink = world.queue(max_messages=2), TestSink()
    world.put(queue)
    world.put(queue, delay_ms=50)
    world.consumer(queue, credit=1)
    world.turn()
    world.put(queue, sink=sink)
    world.turn(10)
    assert len(sink.rejected) == 1


def test_expired_messages_make_room_when_the_queue_is_full(world: World) -> None:
    queue, sink = world.queue(max_messages=1), TestSink()
    world.put(queue, ttl_ms=10)
    world.now_us += 10 * MS
    token = world.put(queue, sink=sink)
    world.turn()
    assert sink.accepted == [token]


def test_non_persistent_messages_are_bounded_in_memory() -> None:
    world = World(ManagerOptions(max_volatile_bytes=2_000))
    queue, sink = world.queue(), TestSink()
    for _ in range(4):
        world.put(queue, bytes(500), sink, durable=False)
    world.turn()
    assert (len(sink.accepted), [condition for _, condition, _ in sink.rejected]) == (2, [NO_ROOM] * 2)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    assert world.manager.core.memory.volatile_bytes == 0


def test_the_queue_manager_limits_messages_of_every_queue() -> None:
    world = World(ManagerOptions(max_message_bytes=5))
    queue, sink = world.queue(max_message_bytes=50), TestSink()
    world.put(queue, b"123456", sink)
    world.turn()
    assert sink.rejected[0][1] == TOO_LARGE


BAD_DEFINITIONS: list[tuple[dict[str, Any], type[ManagerError]]] = [
    ({"name": ""}, NameNotAllowed),
    ({"name": "x" * 256}, NameNotAllowed),
    ({"name": "é" * 128}, NameNotAllowed),
    ({"name": "a\nb"}, NameNotAllowed),
    ({"name": "a\x00b"}, NameNotAllowed),
    ({"name": "q", "access": "private"}, DefinitionInvalid),
    ({"name": "q", "max_messages": -2}, DefinitionInvalid),
    ({"name": "q", "max_bytes": -5}, DefinitionInvalid),
    ({"name": "q", "max_consumers": 0}, DefinitionInvalid),
    ({"name": "q", "redelivery_delay_ms": -2}, DefinitionInvalid),
    ({"name": "q", "redelivery_limit": -7}, DefinitionInvalid),
    ({"name": "q", "dead_letter_queue": "a\tb"}, NameNotAllowed),
]


@pytest.mark.parametrize(("definition", "error"), BAD_DEFINITIONS)
def test_bad_definitions_are_refused(
    world: World, definition: dict[str, Any], error: type[ManagerError]
) -> None:
    with pytest.raises(error):
        world.manager.create_queue(QueueDefinition(**definition), world.now_us)
    assert world.manager.queues == {}
    assert world.builder.empty()


def test_creating_again_is_idempotent_only_with_the_same_definition(world: World) -> None:
    queue = world.queue()
    assert world.queue() is queue
    with pytest.raises(QueueExists):
        world.queue(max_messages=5)


def test_queues_are_limited_in_number() -> None:
    world = World(ManagerOptions(max_queues=2, max_auto_created_queues=1))
    world.manager.queue_for_attach("auto", world.now_us)
    with pytest.raises(LimitExceeded, match="max_auto_created_queues"):
        world.manager.queue_for_attach("auto2", world.now_us)
    world.queue("two")
    with pytest.raises(LimitExceeded, match="max_queues"):
        world.queue("three")


def test_attaching_creates_a_queue_unless_the_name_is_reserved_or_the_policy_forbids(world: World) -> None:
    assert world.manager.queue_for_attach("new", world.now_us).definition.auto_created
    with pytest.raises(NameNotAllowed, match="belong to the broker"):
        world.manager.queue_for_attach("$private", world.now_us)
    closed = World(ManagerOptions(auto_create=False))
    with pytest.raises(QueueNotFound):
        closed.manager.queue_for_attach("new", closed.now_us)


def test_idle_auto_created_queues_go() -> None:
    world = World(ManagerOptions(auto_created_idle_ms=1000))
    queue = world.manager.queue_for_attach("auto", world.now_us)
    consumer = world.consumer(queue)
    world.turn(5_000)
    assert "auto" in world.manager.queues
    world.close(consumer)
    world.put(queue)
    world.turn(5_000)
    assert "auto" in world.manager.queues
    world.manager.purge_queue("auto", world.now_us)
    world.turn(2_000)
    assert world.manager.queues == {}
    assert destinations_of(world.manager.core).auto_created == 0


def test_an_idle_queue_stays_while_somebody_is_attached_who_may_put() -> None:
    world = World(ManagerOptions(auto_created_idle_ms=1000))
    queue, topic = (
        world.manager.queue_for_attach("auto", world.now_us),
        world.manager.topic_for_attach("news", world.now_us),
    )
    producers = [world.manager.open_producer("p", "c", "", -1, node, TestSink()) for node in (queue, topic)]
    world.turn(30_000)
    assert not queue.deleted and not topic.deleted
    for producer in producers:
        world.manager.close_producer(producer, world.now_us)
    world.turn(500)
    assert not queue.deleted and not topic.deleted
    world.turn(3_000)
    assert queue.deleted and topic.deleted and world.detached == []
    with pytest.raises(QueueDeleted, match="queue 'auto' has been deleted"):
        world.put(queue)


def test_a_queue_can_be_redefined(world: World) -> None:
    queue, sink = world.queue(max_messages=1), TestSink()
    world.put(queue)
    world.manager.update_queue(QueueDefinition(name="q", max_messages=2), world.now_us)
    world.put(queue, sink=sink)
    world.put(queue, sink=sink)
    world.turn(10)
    assert (len(sink.accepted), len(sink.rejected)) == (1, 1)
    world.consumer(queue)
    with pytest.raises(QueueInUse, match="access can't change"):
        world.manager.update_queue(QueueDefinition(name="q", access="exclusive"), world.now_us)


def test_purge_ends_what_is_available_or_delayed_and_leaves_what_is_held() -> None:
    world = World(ManagerOptions(live_head=5))
    queue = world.queue()
    for _ in range(20):
        world.put(queue)
    world.put(queue, delay_ms=1000)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    assert world.manager.purge_queue("q", world.now_us) == 19
    assert queue.statistics.ended[Outcome.PURGED] == 19
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    assert (queue.statistics.depth, queue.statistics.depth_bytes) == (0, 0)
    assert world.turn(5_000) == []


def test_deleting_a_queue_detaches_its_consumers_and_ends_its_entries() -> None:
    world = World(ManagerOptions(live_head=5))
    queue = world.queue()
    for _ in range(20):
        world.put(queue)
    consumer, browser = world.consumer(queue, credit=3), world.browser(queue)
    world.turn()
    assert world.manager.delete_queue("q", False, False, world.now_us) == 20
    world.turn()
    condition = "amqp:resource-deleted"
    assert world.detached == [(consumer.sink, condition), (browser.sink, condition)]
    assert queue.statistics.ended[Outcome.DELETED] == 20
    assert world.manager.queues == {}


def test_conditional_deletion(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    with pytest.raises(QueueInUse, match="has 1 messages"):
        world.manager.delete_queue("q", False, True, world.now_us)
    world.consumer(queue)
    with pytest.raises(QueueInUse, match="has 1 consumers"):
        world.manager.delete_queue("q", True, False, world.now_us)
    with pytest.raises(QueueNotFound):
        world.manager.delete_queue("nowhere", False, False, world.now_us)


def test_effects_say_when_there_is_nothing_to_do(world: World) -> None:
    assert world.manager.take_effects().empty()
    world.put(world.queue())
    effects = world.manager.take_effects()
    assert not effects.empty()
    assert Effects().empty()
