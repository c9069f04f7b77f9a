"""Browsing: copies in order, nothing taken, each seen once."""

import pytest

from postroom.ledger.storage.body_requests import Body
from postroom.manager.kernel.options import ManagerOptions
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import DAMAGE, World


def test_a_browser_sees_everything_in_order_and_takes_nothing(world: World) -> None:
    queue = world.queue()
    for priority, body in [(4, b"a"), (9, b"high"), (4, b"b")]:
        world.put(queue, body, priority=priority)
    browser = world.browser(queue)
    world.credit(browser, 10, drain=True)
    assert world.turn() == [b"high", b"a", b"b"]
    assert all(delivery.copied for delivery in world.delivered)
    assert (world.drained, queue.statistics.current) == ([browser], 3)
    assert {event for event, _, _ in world.events()} == set()


def test_a_browser_with_little_credit_goes_on_where_it_was(world: World) -> None:
    queue = world.queue()
    for body in (b"1", b"2", b"3"):
        world.put(queue, body)
    browser = world.browser(queue, credit=2)
    assert world.turn() == [b"1", b"2"]
    world.credit(browser, 2)
    assert world.turn() == [b"3"]
    world.put(queue, b"4")
    assert world.turn() == [b"4"]


def test_held_and_expired_entries_are_not_seen(world: World) -> None:
    queue = world.queue()
    world.put(queue, b"held")
    world.put(queue, b"old", ttl_ms=5)
    world.put(queue, b"free")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    assert len(consumer.held) == 1
    world.now_us += 6_000
    browser = world.browser(queue, credit=10)
    assert world.turn() == [b"free"]
    assert browser.credit == 9


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
def test_a_browser_reads_the_backlog_from_disk_in_batches(count: int) -> None:
    world = World(ManagerOptions(live_head=10, body_cache_bytes=0))
    queue = world.queue()
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        world.put(queue, body)
    world.turn()
    browser = world.browser(queue)
    world.credit(browser, 2000, drain=True)
    assert world.turn() == bodies
    assert world.drained == [browser]
    assert queue.statistics.current == count


def test_browsing_while_others_consume_sees_each_entry_at_most_once(world: World) -> None:
    world = World(ManagerOptions(live_head=4, fetch_entries=3))
    queue = world.queue()
    for number in range(30):
        world.put(queue, b"%02d" % number)
    world.turn()
    browser, consumer = world.browser(queue), world.consumer(queue)
    seen: list[bytes] = []
    for _ in range(10):
        world.credit(browser, 2)
        world.credit(consumer, 3)
        world.turn()
        for entry in world.held(consumer):
            world.accept(consumer, entry)
    seen = [delivery.body for delivery in world.delivered if delivery.copied]
    assert seen == sorted(set(seen))
    assert queue.statistics.consumed == 30


def test_bodies_of_a_batch_are_bounded_in_bytes() -> None:
    world = World(ManagerOptions(live_head=1, body_cache_bytes=0, fetch_bytes=2500))
    queue = world.queue()
    for number in range(9):
        world.put(queue, b"%d" % number * 1000)
    world.turn()
    browser = world.browser(queue)
    world.credit(browser, 100, drain=True)
    assert len(world.turn()) == 9
    assert world.fetches == 3


@pytest.mark.parametrize("missing", [b"", DAMAGE])
def test_a_copy_whose_body_has_gone_or_is_damaged_is_left_out(missing: Body) -> None:
    world = World(ManagerOptions(live_head=1, body_cache_bytes=0))
    queue = world.queue()
    for number in range(3):
        world.put(queue, b"%d" % number)
    world.turn()
    browser = world.browser(queue)
    world.credit(browser, 10, drain=True)
    (fetch,) = world.manager.take_effects().fetches
    world.manager.fetched(fetch.entries, [b"0", missing, b"2"], world.now_us)
    assert world.turn() == [b"0", b"2"]
    assert world.drained == [browser]


def test_after_a_restart_a_browser_sees_objects_and_packed_entries_in_one_order() -> None:
    """What was born or committed before a restart comes back as objects, perhaps behind packed ones."""
    world = LedgerWorld()
    queue = world.queue("q")
    world.put(queue, b"first")
    world.put(queue, b"born", delay_ms=4)
    world.turn(10)
    world.put(queue, b"last")
    world.turn()
    world.restart()
    browser = world.browser(world.manager.queue("q"))
    world.credit(browser, 10, drain=True)
    assert world.turn() == [b"first", b"born", b"last"]
