"""Exclusive access, bind limits, suspended links."""

import pytest

from postroom.manager.kernel.errors import AccessRefused, LimitExceeded, NotAllowed, QueueNotFound
from postroom.manager.kernel.options import ManagerOptions
from tests.manager.world import TestSink, World

SECOND_US = 1_000_000


def test_of_an_exclusive_queue_the_first_is_active_and_others_follow_in_bind_order(world: World) -> None:
    queue = world.queue(access="exclusive")
    first, second, third = (world.consumer(queue, credit=10) for _ in range(3))
    world.put(queue, b"1")
    world.put(queue, b"2")
    world.turn()
    assert (len(first.held), len(second.held), len(third.held)) == (2, 0, 0)
    world.close(first)
    world.turn()
    assert (len(second.held), len(third.held)) == (2, 0)


def test_standby_can_be_refused(world: World) -> None:
    queue = world.queue(access="exclusive", standby=False)
    world.consumer(queue)
    with pytest.raises(AccessRefused, match="exclusive and has its consumer"):
        world.consumer(queue)


def test_a_consumer_can_ask_for_exclusive_access(world: World) -> None:
    queue = world.queue()
    alone = world.consumer(queue, exclusive=True)
    with pytest.raises(AccessRefused):
        world.consumer(queue)
    world.close(alone)
    world.consumer(queue)
    with pytest.raises(AccessRefused, match="none can have it exclusively"):
        world.consumer(queue, exclusive=True)


def test_consumers_are_limited_by_queue_and_queue_manager() -> None:
    world = World(ManagerOptions(max_consumers=3))
    queue = world.queue(max_consumers=2)
    consumers = [world.consumer(queue), world.consumer(queue)]
    with pytest.raises(AccessRefused, match="max_consumers"):
        world.consumer(queue)
    other = world.queue("other")
    world.consumer(other)
    with pytest.raises(LimitExceeded):
        world.consumer(other)
    world.close(consumers[0])
    world.consumer(queue)


def test_browsers_do_not_count_as_consumers(world: World) -> None:
    queue = world.queue(access="exclusive", standby=False, max_consumers=1)
    world.consumer(queue)
    world.browser(queue)
    assert queue.statistics.consumers == 1


def test_a_suspended_link_keeps_what_it_holds_until_it_resumes(world: World) -> None:
    queue = world.queue()
    for body in (b"1", b"2", b"3"):
        world.put(queue, body)
    consumer = world.consumer(queue, credit=2)
    world.turn()
    held = world.held(consumer)
    assert world.manager.suspend_consumer(consumer, 10 * SECOND_US, world.now_us)
    world.consumer(queue, credit=10)
    assert world.turn(5_000) == [b"3"]
    sink = TestSink()
    assert world.manager.resume_consumer(consumer, sink, world.now_us) == held
    world.accept(consumer, held[0])
    assert consumer.sink is sink
    assert (queue.statistics.consumed, world.manager.core.counters.suspended) == (1, 0)


def test_a_suspended_link_that_runs_out_is_lost(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.manager.suspend_consumer(consumer, SECOND_US, world.now_us)
    world.turn(999)
    assert queue.attached.consumers == [consumer]
    world.turn(1)
    assert queue.attached.consumers == []
    with pytest.raises(NotAllowed, match="not suspended"):
        world.manager.resume_consumer(consumer, TestSink(), world.now_us)
    world.consumer(queue, credit=1)
    world.turn()
    assert world.last(b"1").delivery_count == 1
    assert [event for event, _, _ in world.events()] == ["ACQUIRE", "SUSPEND", "LINK_LOST", "ACQUIRE"]


def test_suspended_links_are_bounded_in_count_and_time() -> None:
    world = World(ManagerOptions(max_suspended_links=1, max_suspend_ms=100))
    queue = world.queue()
    first, second = world.consumer(queue), world.consumer(queue)
    assert world.manager.suspend_consumer(first, 3600 * SECOND_US, world.now_us)
    assert not world.manager.suspend_consumer(second, SECOND_US, world.now_us)
    assert first.suspended_until_us == world.now_us + 100_000


def test_a_suspended_consumer_of_an_exclusive_queue_makes_way(world: World) -> None:
    queue = world.queue(access="exclusive")
    first, second = world.consumer(queue, credit=5), world.consumer(queue, credit=5)
    world.manager.suspend_consumer(first, SECOND_US, world.now_us)
    world.put(queue, b"1")
    world.turn()
    assert len(second.held) == 1
    world.manager.resume_consumer(first, TestSink(), world.now_us)
    world.credit(first, 5)
    world.put(queue, b"2")
    world.turn()
    assert (len(first.held), len(second.held)) == (0, 2)


def test_no_consumer_binds_to_a_deleted_queue(world: World) -> None:
    queue = world.queue()
    world.manager.delete_queue("q", False, False, world.now_us)
    with pytest.raises(QueueNotFound):
        world.consumer(queue)
