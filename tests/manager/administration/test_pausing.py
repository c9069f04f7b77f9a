"""Pausing production, insertion and consumption: what each stops, what it lets through, and what resumes."""

import pytest

from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.destinations.switches import CONSUMPTION, INSERTION, PRODUCTION, switches_of
from postroom.manager.kernel.errors import DefinitionInvalid, SwitchUnknown
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.manager import QueueManager
from postroom.manager.queues.queue import Queue
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import TestSink, World

ILLEGAL_STATE = "amqp:illegal-state"


def pause(world: World, queue: Queue, switch: str) -> None:
    world.manager.pause(queue, switch, world.now_us)


def resume(world: World, queue: Queue, switch: str) -> None:
    world.manager.resume(queue, switch, world.now_us)


def waiting(queue: Queue) -> dict[str, int]:
    """Messages by slot, those that are not empty."""
    return {name: count for name, (count, _) in queue.statistics.slots().items() if count}


@pytest.mark.parametrize("switch", [PRODUCTION, INSERTION])
def test_a_paused_destination_refuses_sends_and_takes_them_when_resumed(world: World, switch: str) -> None:
    queue, sink = world.queue(), TestSink()
    pause(world, queue, switch)
    token = world.put(queue, sink=sink)
    world.turn()
    ((refused, condition, text),) = sink.rejected
    assert (refused, condition) == (token, ILLEGAL_STATE)
    assert f"'q' takes no messages: {switch} is paused" in text
    resume(world, queue, switch)
    world.put(queue, sink=sink)
    world.turn()
    assert len(sink.accepted) == 1
    assert waiting(queue) == {"current": 1}


def test_paused_production_lets_through_what_is_under_way(world: World) -> None:
    queue = world.queue(redelivery_delay_ms=100)
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"committed", transaction=transaction)
    world.put(queue, b"born", delay_ms=50)
    world.turn()
    pause(world, queue, PRODUCTION)
    world.manager.commit(transaction, world.now_us)
    world.turn(60)
    assert waiting(queue) == {"current": 2}


def test_paused_insertion_holds_back_commits_births_and_returns_until_it_is_resumed(world: World) -> None:
    queue = world.queue(redelivery_delay_ms=100)
    consumer = world.consumer(queue)
    for body in (b"failed", b"released", b"seen"):
        world.put(queue, body)
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"committed", transaction=transaction)
    world.put(queue, b"born", delay_ms=50)
    world.credit(consumer, 2)
    assert world.turn() == [b"failed", b"released"]
    failed, released = world.held(consumer)

    pause(world, queue, INSERTION)
    world.manager.commit(transaction, world.now_us)
    world.release(consumer, released)
    world.fail(consumer, failed)
    world.turn(60)
    assert waiting(queue) == {"current": 1, "redelivery_delay": 1, "paused": 3}
    world.turn(60)  # the redelivery delay ends, too
    assert waiting(queue) == {"current": 1, "paused": 4}
    world.credit(consumer, 10)
    assert world.turn() == [b"seen"]  # what was visible can be consumed

    resume(world, queue, INSERTION)
    assert world.turn() == [b"failed", b"released", b"committed", b"born"]
    assert waiting(queue) == {"unacknowledged": 5}


def test_the_limit_and_the_expiry_are_judged_when_insertion_is_resumed(world: World) -> None:
    queue = world.queue(redelivery_limit=0, dead_letter_queue="dead")
    consumer = world.consumer(queue, credit=2)
    world.put(queue, b"fails")
    world.put(queue, b"expires", ttl_ms=1000)
    world.turn()
    first, second = world.held(consumer)
    pause(world, queue, INSERTION)
    world.fail(consumer, first)
    world.release(consumer, second)
    world.turn()
    assert waiting(queue) == {"paused": 2}
    world.turn(1001)
    assert waiting(queue) == {"paused": 1}  # an expired one goes in its time
    resume(world, queue, INSERTION)
    world.turn()
    assert waiting(queue) == {}
    assert waiting(world.manager.queue("dead")) == {"current": 1}


def test_dead_letters_to_a_destination_whose_insertion_is_paused_wait_there(world: World) -> None:
    queue, dead = world.queue(redelivery_limit=0, dead_letter_queue="dead"), world.queue("dead")
    consumer = world.consumer(queue, credit=1)
    world.put(queue, b"one")
    world.turn()
    pause(world, dead, INSERTION)
    world.fail(consumer, world.held(consumer)[0])
    world.turn()
    assert waiting(dead) == {"paused": 1}
    other = world.consumer(dead, credit=1)
    assert world.turn() == []
    resume(world, dead, INSERTION)
    assert world.turn() == [b"one"]
    assert len(other.held) == 1


def test_production_stays_paused_when_only_insertion_is_resumed(world: World) -> None:
    queue, sink = world.queue(), TestSink()
    pause(world, queue, PRODUCTION)
    pause(world, queue, INSERTION)
    resume(world, queue, INSERTION)
    world.put(queue, sink=sink)
    world.turn()
    assert len(sink.rejected) == 1


def test_paused_consumption_is_an_empty_queue_to_consumers_and_none_to_browsers(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"one")
    pause(world, queue, CONSUMPTION)
    consumer = world.consumer(queue)
    world.credit(consumer, 1, drain=True)
    world.browser(queue, credit=5)
    late = world.consumer(queue, credit=1)
    world.put(queue, b"two")
    world.turn()
    assert consumer in world.drained  # a receive without waiting returns nothing
    assert [delivery.body for delivery in world.delivered if delivery.copied] == [b"one", b"two"]
    assert not late.held
    assert waiting(queue) == {"current": 2}
    resume(world, queue, CONSUMPTION)
    assert world.turn() == [b"one"]
    assert len(late.held) == 1


def test_a_consumer_that_held_something_before_the_pause_can_settle_it(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    pause(world, queue, CONSUMPTION)
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    assert queue.is_empty()


def test_a_topic_is_paused_with_all_its_subscriptions_those_to_come_included(world: World) -> None:
    node = world.manager.create_queue(QueueDefinition(name="news", kind="topic"), world.now_us)
    early = world.manager.subscribe(Subscribing("news", "a", "early", durable=True), world.now_us)
    sink = TestSink()
    pause(world, node, CONSUMPTION)
    late = world.manager.subscribe(Subscribing("news", "a", "late", durable=True), world.now_us)
    for queue in (early, late):
        world.consumer(queue, credit=1)
    world.put(node, b"item", sink=sink)
    assert world.turn() == []
    resume(world, node, CONSUMPTION)
    assert world.turn() == [b"item", b"item"]
    pause(world, node, PRODUCTION)
    world.put(node, sink=sink)
    world.turn()
    assert [condition for _, condition, _ in sink.rejected] == [ILLEGAL_STATE]


def test_an_unknown_switch_is_named(world: World) -> None:
    with pytest.raises(SwitchUnknown, match="no 'everything' to pause: production, insertion, consumption"):
        pause(world, world.queue(), "everything")


def test_the_switches_are_shown_as_flags_and_states(world: World) -> None:
    queue = world.queue()
    pause(world, queue, PRODUCTION)
    assert switches_of(queue) == {
        "production_paused": True,
        "production_state": "Production-Paused",
        "insertion_paused": False,
        "insertion_state": "Insertion-Enabled",
        "consumption_paused": False,
        "consumption_state": "Consumption-Enabled",
    }


@pytest.mark.parametrize(
    ("own", "template", "broker", "paused"),
    [
        ("default", "default", False, False),
        ("default", "default", True, True),
        ("default", "true", False, True),
        ("default", "false", True, False),
        ("true", "false", False, True),
        ("false", "true", True, False),
    ],
)
def test_start_up_defers_from_the_destination_to_the_template_to_the_broker(
    own: str, template: str, broker: bool, paused: bool
) -> None:
    defaults = QueueDefinition(name="default", insertion_paused_at_startup=template)
    world = World(ManagerOptions(queue_defaults=defaults, insertion_paused_at_startup=broker))
    queue = world.queue(insertion_paused_at_startup=own)
    assert queue.switches.insertion_paused is paused
    assert not queue.switches.consumption_paused


def test_a_start_up_flag_is_one_of_three() -> None:
    with pytest.raises(DefinitionInvalid, match="consumption_paused_at_startup is 'yes'"):
        QueueDefinition(name="q", consumption_paused_at_startup="yes").check()


def _with_something_paused(world: LedgerWorld, **definition: object) -> None:
    """One message that came back, and one committed, both under a pause of insertion."""
    queue = world.queue("q", **definition)
    world.put(queue, b"back")
    consumer = world.consumer(queue, credit=1)
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"new", transaction=transaction)
    world.turn()
    pause(world, queue, INSERTION)
    world.manager.commit(transaction, world.now_us)
    world.release(consumer, world.held(consumer)[0])
    world.turn()
    assert waiting(queue) == {"paused": 2}


def _of(manager: QueueManager) -> Queue:
    return manager.queue("q")


def test_a_restart_lifts_a_pause_and_what_it_held_back_stands_in_its_place() -> None:
    world = LedgerWorld()
    _with_something_paused(world)
    world.restart()
    queue = _of(world.manager)
    world.consumer(queue, credit=5)
    assert world.turn() == [b"back", b"new"]


def test_a_queue_that_starts_paused_keeps_back_what_the_restart_returns() -> None:
    world = LedgerWorld()
    queue = world.queue("q")
    world.put(queue, b"held")
    world.consumer(queue, credit=1)
    world.turn()
    definition = QueueDefinition(name="q", insertion_paused_at_startup="true")
    world.manager.update_queue(definition, world.now_us)
    assert not queue.switches.insertion_paused  # it says how the queue starts, not how it is
    world.turn()
    world.restart()
    queue = _of(world.manager)
    assert waiting(queue) == {"paused": 1}
    resume(world, queue, INSERTION)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"held"]
    assert world.delivered[-1].delivery_count == 1
