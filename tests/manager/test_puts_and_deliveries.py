"""Puts, deliveries in order and in turn, credit, drain, and settling."""

import pytest

from postroom.manager.consuming.settlement import Modification
from postroom.manager.kernel.errors import NotHeld
from postroom.manager.kernel.options import ManagerOptions
from tests.manager.world import MS, TestSink, World, a_head


def test_a_put_is_accepted_by_effect_and_consecutive_tokens_are_one_range(world: World) -> None:
    queue, sink = world.queue(), TestSink()
    tokens = [world.put(queue, sink=sink) for _ in range(3)]
    effects = world.manager.take_effects()
    assert [(run.first, run.last) for run in effects.accepted] == [(tokens[0], tokens[-1])]
    assert effects.accepted[0].sink is sink


def test_a_presettled_put_gets_no_answer(world: World) -> None:
    queue, sink = world.queue(), TestSink()
    world.manager.put(
        world.manager.open_producer("p", "c", "u"), queue, a_head(), b"x", sink, -1, world.now_us
    )
    world.turn()
    assert (sink.accepted, sink.rejected, queue.statistics.current) == ([], [], 1)


def test_order_is_arrival_within_priority_and_priority_first(world: World) -> None:
    queue = world.queue()
    for priority, body in [(4, b"a"), (0, b"low"), (9, b"high"), (4, b"b"), (9, b"high2")]:
        world.put(queue, body, priority=priority)
    world.consumer(queue, credit=10)
    assert world.turn() == [b"high", b"high2", b"a", b"b", b"low"]


def test_priorities_above_nine_count_as_nine(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"nine", priority=9)
    world.put(queue, b"more", priority=200)
    world.consumer(queue, credit=10)
    assert world.turn() == [b"nine", b"more"]


def test_credit_bounds_deliveries(world: World) -> None:
    queue = world.queue()
    for body in (b"1", b"2", b"3"):
        world.put(queue, body)
    consumer = world.consumer(queue, credit=2)
    assert world.turn() == [b"1", b"2"]
    assert (consumer.credit, consumer.assigned) == (0, 2)
    world.credit(consumer, 5)
    assert world.turn() == [b"3"]
    assert consumer.credit == 4


def test_a_waiting_consumer_gets_a_new_message_at_once(world: World) -> None:
    queue = world.queue()
    world.consumer(queue, credit=1)
    world.turn()
    world.put(queue, b"new")
    assert world.turn() == [b"new"]


def test_competing_consumers_take_turns(world: World) -> None:
    queue = world.queue()
    consumers = [world.consumer(queue, credit=100) for _ in range(3)]
    for number in range(9):
        world.put(queue, b"%d" % number)
    world.turn()
    assert [len(consumer.held) for consumer in consumers] == [3, 3, 3]


def test_one_without_credit_is_passed_over(world: World) -> None:
    queue = world.queue()
    first, second = world.consumer(queue, credit=1), world.consumer(queue, credit=10)
    for _ in range(4):
        world.put(queue)
    world.turn()
    assert (len(first.held), len(second.held)) == (1, 3)


def test_accept_ends_the_entry_and_is_answered(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.manager.accept(consumer, entry, world.now_us, 77)
    world.turn()
    assert isinstance(consumer.sink, TestSink)
    assert consumer.sink.settled == [77]
    assert (queue.statistics.depth, queue.statistics.consumed) == (0, 1)
    assert world.events()[-2:] == [
        ("ACQUIRE", "GET_UNCONFIRMED", "NONE"),
        ("CONFIRM", "DELETED", "CONSUMED"),
    ]


def test_settling_twice_is_refused(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.accept(consumer, entry)
    with pytest.raises(NotHeld, match="not held by this consumer"):
        world.accept(consumer, entry)


def test_another_consumer_cannot_settle(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    consumer, other = world.consumer(queue, credit=1), world.consumer(queue)
    world.turn()
    (entry,) = consumer.held
    with pytest.raises(NotHeld):
        world.release(other, entry)


def test_released_goes_back_to_its_place_with_counts_unchanged(world: World) -> None:
    queue = world.queue()
    for body in (b"1", b"2", b"3"):
        world.put(queue, body)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    first, second = world.held(consumer)
    world.release(consumer, second)
    world.release(consumer, first)
    world.credit(consumer, 3)
    assert world.turn() == [b"1", b"2", b"3"]
    assert world.last(b"1").delivery_count == 0


def test_failed_goes_back_to_its_place_with_both_counts_up(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    world.put(queue, b"2")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.fail(consumer, entry)
    world.credit(consumer, 2)
    assert world.turn() == [b"1", b"2"]
    assert world.last(b"1").delivery_count == 1
    assert (entry.delivery_count, entry.failure_count) == (1, 1)


def test_modified_annotations_travel_with_the_next_delivery(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.manager.modify(consumer, entry, Modification(False, False, {"x-opt-seen": 1}), world.now_us)
    world.credit(consumer, 1)
    world.turn()
    assert world.last(b"1").annotations == {"x-opt-seen": 1}
    assert world.last(b"1").delivery_count == 0


def test_undeliverable_here_keeps_an_entry_from_this_consumer_only(world: World) -> None:
    queue = world.queue()
    for body in (b"1", b"2"):
        world.put(queue, body)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.fail(consumer, entry, not_here=True)
    world.credit(consumer, 5)
    assert world.turn() == [b"2"]
    other = world.consumer(queue, credit=5)
    assert world.turn() == [b"1"]
    assert other.held == {entry}


def test_a_new_link_may_get_what_an_old_one_could_not(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.fail(consumer, entry, not_here=True)
    world.close(consumer)
    assert (queue.selectors.exclusions, entry.excluded) == (0, None)
    world.consumer(queue, credit=1)
    assert world.turn() == [b"1"]


def test_presettled_deliveries_end_the_entry(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1, presettled=True)
    assert world.turn() == [b"1"]
    assert (len(consumer.held), queue.statistics.depth) == (0, 0)
    assert world.events()[-1] == ("GET", "DELETED", "CONSUMED")


def test_drain_gives_what_is_there_and_uses_up_the_rest(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue)
    world.credit(consumer, 10, drain=True)
    assert world.turn() == [b"1"]
    assert (consumer.credit, world.drained) == (0, [consumer])


def test_drain_waits_for_bodies_on_disk() -> None:
    world = World(ManagerOptions(body_cache_bytes=0))
    queue = world.queue()
    for number in range(5):
        world.put(queue, b"%d" % number)
    world.turn()
    consumer = world.consumer(queue)
    world.credit(consumer, 10, drain=True)
    assert world.turn() == [b"0", b"1", b"2", b"3", b"4"]
    assert world.drained == [consumer]
    assert world.fetches == 1


def test_drain_of_an_empty_queue_is_answered(world: World) -> None:
    consumer = world.consumer(world.queue())
    world.credit(consumer, 3, drain=True)
    world.turn()
    assert world.drained == [consumer]


def test_unsettled_deliveries_are_bounded() -> None:
    world = World(ManagerOptions(max_unsettled_per_consumer=2))
    queue = world.queue()
    for number in range(4):
        world.put(queue, b"%d" % number)
    consumer = world.consumer(queue, credit=10)
    assert world.turn() == [b"0", b"1"]
    world.accept(consumer, world.held(consumer)[0])
    assert world.turn() == [b"2"]


def test_a_turn_is_bounded_and_the_rest_follows_in_the_next() -> None:
    world = World(ManagerOptions(max_deliveries_per_turn=3))
    queue = world.queue()
    for number in range(8):
        world.put(queue, b"%d" % number)
    world.turn()
    world.consumer(queue, credit=100)
    assert len(world.manager.take_effects().deliveries) == 3
    assert world.manager.next_deadline_us() <= world.now_us
    assert len(world.turn()) == 5


def test_lost_link_returns_everything_and_counts_only_deliveries(world: World) -> None:
    queue = world.queue(redelivery_limit=0)
    for number in range(3):
        world.put(queue, b"%d" % number)
    consumer = world.consumer(queue, credit=3)
    world.turn()
    entries = world.held(consumer)
    world.close(consumer, lost=True)
    assert [(entry.delivery_count, entry.failure_count) for entry in entries] == [(1, 0)] * 3
    world.consumer(queue, credit=3)
    assert world.turn() == [b"0", b"1", b"2"]


def test_lost_link_charges_the_limit_where_the_queue_says_so(world: World) -> None:
    queue = world.queue(lost_link_counts=True)
    world.put(queue)
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.close(consumer, lost=True)
    assert (entry.delivery_count, entry.failure_count) == (1, 1)


def test_what_was_never_sent_is_not_counted(world: World) -> None:
    queue = world.queue()
    world.put(queue)
    world.turn()
    consumer = world.consumer(queue, credit=1)
    (entry,) = consumer.held
    world.close(consumer, lost=True)  # before the block with its ACQUIRE is durable
    assert entry.delivery_count == 0


def test_orderly_detach_releases(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = consumer.held
    world.close(consumer)
    assert entry.delivery_count == 0
    assert consumer.closed
    world.turn()
    assert world.events()[-1][0] == "RELEASE"
    assert world.holder_events()[-1] == (9, "CONSUMER")


def test_released_again_and_again_backs_off(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    pauses = []
    for _ in range(6):
        start = world.now_us
        while not consumer.held:
            world.turn(1)
        pauses.append((world.now_us - start) // MS)
        world.release(consumer, world.held(consumer)[0])
        world.credit(consumer, 1)
    assert pauses[-1] >= 4 * max(pauses[2], 1)
    assert pauses[0] <= 1


def test_while_one_backs_off_others_get_the_message(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=10)
    for _ in range(3):
        world.turn()
        world.release(consumer, world.held(consumer)[0])
    assert consumer.backoff_us > world.now_us
    other = world.consumer(queue, credit=1)
    assert world.turn() == [b"1"]
    assert len(other.held) == 1
