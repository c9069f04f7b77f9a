"""The packed tail: order, chunks, tombstones, places, bodies read back from disk."""

import json

import pytest

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.memory import BodyMissing
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.queues.backlog import Backlog
from postroom.manager.queues.queue import Queue
from postroom.model.packed import CHUNK_ENTRIES, PACKED_BYTES
from tests.manager.world import DAMAGE, UNREADABLE, UNREADABLE_DELAY_MS, World


def a_queue() -> Queue:
    return Queue(1, QueueDefinition(name="q"), 1000, HeldByAll())


def serials(entries: list[Entry]) -> list[int]:
    return [int(entry.serial) for entry in entries]


def filled(count: int) -> Backlog:
    backlog = Backlog(a_queue(), 4)
    for serial in range(1, count + 1):
        backlog.append(serial, serial, 0, serial * 7, 100, 3)
    return backlog


def test_entries_come_back_in_order_across_chunks() -> None:
    backlog = filled(CHUNK_ENTRIES + 10)
    assert len(backlog.chunks) == 1
    taken = []
    while backlog.count:
        taken += serials(backlog.take(1000))
    assert taken == list(range(1, CHUNK_ENTRIES + 11))
    assert backlog.chunks == []


def test_a_taken_entry_has_every_field() -> None:
    backlog = Backlog(a_queue(), 4)
    backlog.append(9, 9, 123_456, 0xFFFF_FFF0, 0x9000_0001, 3)
    (entry,) = backlog.take(5)
    fields = (entry.serial, entry.body_serial, entry.expiry_us, entry.body_offset, entry.body_len)
    assert fields == (9, 9, 123_456, 0xFFFF_FFF0, 0x9000_0001)
    assert (entry.priority, entry.flags, entry.place, entry.ordinal) == (4, 3, 9, 0)


def test_counts_and_places_are_kept() -> None:
    queue = a_queue()
    backlog = Backlog(queue, 4)
    backlog.append(1, 1, 0, 0, 10, 3)
    for serial, place, ordinal in [(5, 20, 0), (3, 20, 1), (30, 30, 0)]:
        entry = Entry(queue, serial, 4, 3, 0, 0, 10, None)
        entry.place, entry.ordinal = place, ordinal
        entry.delivery_count, entry.failure_count = 2, 70_000
        backlog.append_entry(entry, False)
    taken = backlog.take(10)
    assert [(int(e.place), int(e.ordinal)) for e in taken] == [(1, 0), (20, 0), (20, 1), (30, 0)]
    assert (taken[1].delivery_count, taken[1].failure_count) == (2, 0xFFFF)


def test_objects_keep_their_identity_in_the_backlog() -> None:
    queue = a_queue()
    backlog = Backlog(queue, 4)
    backlog.append(1, 1, 0, 0, 10, 3)
    kept = Entry(queue, 2, 4, 0, 0, 0, 10, b"in memory")
    backlog.append_entry(kept, True)
    assert backlog.take(10)[1] is kept


def test_tombstones_are_skipped() -> None:
    backlog = filled(10)
    (chunk,) = backlog.sealed()
    for index in (0, 4, 9):
        backlog.bury(chunk, index)
    assert (backlog.count, chunk.left()) == (7, 7)
    assert serials(backlog.take(100)) == [2, 3, 4, 6, 7, 8, 9]
    assert (backlog.count, backlog.chunks) == (0, [])


def test_what_is_taken_in_order_leaves_nothing_behind() -> None:
    backlog = filled(10)
    (chunk,) = backlog.sealed()
    for index in (2, 0, 1, 3):
        assert chunk.first_at(index + 1, 0) == index
        backlog.take_at(chunk, index)
    assert (chunk.head, chunk.dead_count, chunk.left(), backlog.count) == (4, 0, 6, 6)
    assert backlog.find(3, 0) is None and backlog.find(5, 0) == (chunk, 4)
    assert serials(backlog.take(3)) == [5, 6, 7]


def test_a_chunk_of_which_all_has_ended_hides_nothing_behind_it() -> None:
    backlog = filled(1)
    (chunk,) = backlog.sealed()
    backlog.bury(chunk, 0)
    backlog.append(2, 2, 0, 0, 100, 3)
    assert serials(backlog.take(5)) == [2]
    assert (backlog.count, backlog.chunks) == (0, [])


def test_a_zone_knows_its_earliest_expiry() -> None:
    backlog = Backlog(a_queue(), 4)
    for serial in range(1, 601):
        backlog.append(serial, serial, 1000 + serial if serial % 2 else 0, 0, 10, 3)
    assert backlog.min_expiry_us() == 1001
    assert backlog.with_expired(1000) == []
    (chunk,) = backlog.with_expired(1300)
    assert [int(z) for z in chunk.zones] == [1001, 1257, 1513]
    assert chunk.expired_in(0, 1010, 100) == [0, 2, 4, 6, 8]
    assert chunk.zones[0] == 1011
    for index in (0, 2, 4, 6, 8):
        backlog.bury(chunk, index)
    assert chunk.expired_in(0, 1030, 2) == [10, 12]
    assert chunk.zones[0] == 1015


def test_memory_of_ten_million_is_bounded() -> None:
    """40 bytes each and nothing else that grows with the number."""
    backlog = filled(CHUNK_ENTRIES * 2)
    assert [len(chunk.data) for chunk in backlog.chunks] == [CHUNK_ENTRIES * PACKED_BYTES] * 2
    assert all(not chunk.zones and not chunk.objects and not chunk.places for chunk in backlog.chunks)


@pytest.mark.parametrize("live_head", [1, 3, 1000])
@pytest.mark.parametrize("cache_bytes", [0, 30, 1 << 20])
def test_consumers_get_everything_in_order_whatever_is_in_memory(live_head: int, cache_bytes: int) -> None:
    world = World(
        ManagerOptions(live_head=live_head, body_cache_bytes=cache_bytes, fetch_entries=4, fetch_bytes=64)
    )
    queue = world.queue()
    expected = []
    for number in range(60):
        body = b"%02d" % number * (1 + number % 20)
        world.put(queue, body, durable=number % 7 != 0)
        expected.append(body)
        if number % 10 == 0:
            world.turn()
    consumer = world.consumer(queue)
    bodies = []
    for _ in range(40):
        world.credit(consumer, 2)
        bodies += world.turn()
        for entry in world.held(consumer):
            world.accept(consumer, entry)
    assert bodies == expected
    core = world.manager.core
    assert (core.memory.cached_bytes, core.memory.volatile_bytes, core.memory.live_entries) == (0, 0, 0)


def test_bodies_are_read_so_many_at_a_time_that_a_block_has_some_for_each_of_many_consumers() -> None:
    world = World(ManagerOptions(body_cache_bytes=0))
    queue = world.queue()
    for number in range(600):
        world.put(queue, b"%d" % number)
    world.turn()
    consumers = [world.consumer(queue, credit=15) for _ in range(40)]
    bodies = [body for _ in range(4) for body in world.turn()]
    assert bodies == [b"%d" % number for number in range(600)]
    assert {len(consumer.held) for consumer in consumers} == {15}
    assert world.fetches == 2


def test_bodies_are_fetched_only_when_their_block_is_durable() -> None:
    world = World(ManagerOptions(live_head=0, body_cache_bytes=0))
    queue = world.queue()
    world.turn()
    world.put(queue, b"1")
    world.consumer(queue, credit=1)
    effects = world.manager.take_effects()
    assert (effects.fetches, effects.deliveries) == ([], [])
    assert world.turn() == [b"1"]


def test_an_entry_that_ends_while_its_body_is_read_is_not_delivered() -> None:
    world = World(ManagerOptions(live_head=0, body_cache_bytes=0))
    queue = world.queue()
    world.put(queue, b"1")
    world.turn()
    world.consumer(queue, credit=1)
    (fetch,) = world.manager.take_effects().fetches
    world.manager.purge_queue("q", world.now_us)
    world.manager.fetched(fetch.entries, [b"1"], world.now_us)
    assert world.turn() == []
    assert queue.bodies.missing == 0


def test_returned_entries_stand_before_the_backlog() -> None:
    world = World(ManagerOptions(live_head=2, body_cache_bytes=0))
    queue = world.queue()
    for number in range(10):
        world.put(queue, b"%d" % number)
    world.turn()
    first: Consumer = world.consumer(queue, credit=4)
    world.turn()
    for entry in world.held(first)[1:3]:
        world.release(first, entry)
    world.consumer(queue, credit=10)
    assert world.turn() == [b"1", b"2", b"4", b"5", b"6", b"7", b"8", b"9"]


def test_a_live_entry_without_its_body_stops_the_turn() -> None:
    world = World(ManagerOptions(live_head=0, body_cache_bytes=0))
    queue = world.queue()
    world.put(queue, b"1")
    world.turn()
    world.consumer(queue, credit=1)
    (fetch,) = world.manager.take_effects().fetches
    with pytest.raises(BodyMissing, match="has a body of 1 bytes, but 0 were read"):
        world.manager.fetched(fetch.entries, [b""], world.now_us)


def test_an_entry_whose_body_is_damaged_is_discarded_and_the_others_go_out() -> None:
    world = World(ManagerOptions(live_head=0, body_cache_bytes=0))
    queue = world.queue(dead_letter_queue="dead")
    for number in range(3):
        world.put(queue, b"%d" % number)
    world.turn()
    consumer = world.consumer(queue, credit=3)
    (fetch,) = world.manager.take_effects().fetches
    world.manager.fetched(fetch.entries, [b"0", DAMAGE, b"2"], world.now_us)
    assert world.turn() == [b"0", b"2"]
    assert ("DISCARD", "DELETED", "DISCARDED") in world.events(queue)
    fields = {
        "condition": "postroom:body-damaged",
        "description": "00000001.bodies at byte 77: the body is damaged",
    }
    assert [json.loads(detail) for detail in world.details if b"body-damaged" in detail] == [fields]
    assert "dead" not in world.manager.queues, "what stood there would share the damaged body"
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    assert (queue.statistics.depth, queue.bodies.missing) == (0, 0)


@pytest.mark.parametrize("selector", ["", "color IS NULL"])
@pytest.mark.parametrize("live_head", [0, 100])
def test_an_entry_whose_body_the_disk_does_not_give_waits_and_is_asked_for_again(
    live_head: int, selector: str
) -> None:
    world = World(ManagerOptions(live_head=live_head, body_cache_bytes=0))
    queue = world.queue()
    for number in range(3):
        world.put(queue, b"%d" % number)
    world.turn()
    world.damage, world.damaged = UNREADABLE, {int(world.arrivals[1]["position"])}
    world.consumer(queue, credit=3, selector=selector)
    assert world.turn() == [b"0", b"2"]
    assert (queue.statistics.depth, queue.bodies.missing) == (3, 0)
    assert world.turn(UNREADABLE_DELAY_MS) == []
    world.damaged.clear()
    assert world.turn(UNREADABLE_DELAY_MS) == [b"1"]


def test_damage_to_an_entry_that_has_ended_meanwhile_changes_nothing() -> None:
    world = World(ManagerOptions(live_head=0, body_cache_bytes=0))
    queue = world.queue()
    world.put(queue, b"1")
    world.turn()
    world.consumer(queue, credit=1)
    (fetch,) = world.manager.take_effects().fetches
    world.manager.purge_queue("q", world.now_us)
    world.manager.fetched(fetch.entries, [DAMAGE], world.now_us)
    assert world.turn() == []
    assert "DISCARD" not in [event for event, _, _ in world.events(queue)]


def test_a_higher_priority_without_body_is_fetched_though_lower_ones_have_theirs() -> None:
    world = World(ManagerOptions(body_cache_bytes=100, fetch_entries=8))
    queue = world.queue()
    for number in range(12):
        world.put(queue, b"%02d" % number * 5, priority=0)
    world.turn()
    consumer = world.consumer(queue, credit=1)
    assert world.turn() == [b"00" * 5]
    world.put(queue, b"x" * 200, priority=9)
    world.turn()
    world.credit(consumer, 2)
    assert world.turn() == [b"x" * 200, b"01" * 5]


def test_what_stands_far_behind_excluded_entries_is_fetched() -> None:
    world = World(ManagerOptions(body_cache_bytes=0, fetch_entries=4))
    queue = world.queue()
    for number in range(30):
        world.put(queue, b"%02d" % number)
    world.turn()
    consumer = world.consumer(queue, credit=10)
    world.turn()
    for entry in world.held(consumer):
        world.fail(consumer, entry, not_here=True)
    world.credit(consumer, 30)
    assert world.turn() == [b"%02d" % number for number in range(10, 30)]
    world.consumer(queue, credit=20)
    assert world.turn() == [b"%02d" % number for number in range(10)]
