"""Consumers with selectors: what they get, in which order, and that nothing is judged twice."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.manager.consuming.selection import MAX_LEFT_CURSORS
from postroom.manager.kernel.errors import SelectorRefused
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.selector_cursor import search_memory_of
from tests.manager.messages import got, judgements, put, texts, turn
from tests.manager.world import World
from tests.sampling import examples

SMALL = ManagerOptions(live_head=10, min_live_head=4, body_cache_bytes=2000, fetch_entries=8)

TINY = ManagerOptions(live_head=5, min_live_head=2, body_cache_bytes=60, fetch_entries=3)


@pytest.fixture(params=[ManagerOptions(), SMALL], ids=["in memory", "packed"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def fill(world: World, queue: Any, count: int, colors: int = 5) -> None:
    for number in range(count):
        put(world, queue, str(number), color=number % colors)
    world.turn()


def test_a_selector_takes_its_own_in_order_and_leaves_the_rest(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 100)
    consumer = world.consumer(queue, selector="color = 3", credit=50)
    assert turn(world) == [str(number) for number in range(3, 100, 5)]
    assert judgements(queue) == 100
    rest = world.consumer(queue, credit=100)
    assert turn(world) == [str(number) for number in range(100) if number % 5 != 3]
    assert len(consumer.held) == 20 and len(rest.held) == 80


def test_a_bad_selector_is_refused_with_its_place(world: World) -> None:
    queue = world.queue()
    with pytest.raises(SelectorRefused, match="character 9"):
        world.consumer(queue, selector="color = OR")
    assert not queue.attached.consumers and not queue.selectors.cursors


def test_an_empty_selector_selects_everything(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 3)
    world.consumer(queue, selector=" ", credit=5)
    assert turn(world) == ["0", "1", "2"] and not queue.selectors.cursors


def test_new_messages_are_judged_as_they_come(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 40)
    consumer = world.consumer(queue, selector="color = 9", credit=5)
    assert turn(world) == []
    put(world, queue, "no", color=1)
    put(world, queue, "yes", color=9)
    assert turn(world) == ["yes"]
    assert judgements(queue) == 42
    assert consumer.credit == 4


def test_consumers_of_one_selector_share_its_judgements(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 60)
    first = world.consumer(queue, selector="color = 1", credit=3)
    second = world.consumer(queue, selector="color = 1", credit=4)
    turn(world)
    assert sorted(got(world, first) + got(world, second), key=int) == ["1", "6", "11", "16", "21", "26", "31"]
    assert judgements(queue) <= 60
    world.close(first)
    world.credit(second, 100)
    turn(world)
    assert judgements(queue) <= 60


def test_a_consumer_for_each_receive_does_not_start_again(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 60)
    for wanted in ("2", "7", "12"):
        consumer = world.consumer(queue, selector="color = 2", credit=1)
        assert turn(world) == [wanted]
        world.accept(consumer, world.held(consumer)[0])
        world.close(consumer)
    put(world, queue, "high", color=2, head={"priority": 8})
    world.turn()
    consumer = world.consumer(queue, selector="color = 2", credit=2)
    assert turn(world) == ["high", "17"]
    world.close(consumer)
    consumer = world.consumer(queue, selector="color = 2", credit=20)
    assert turn(world) == ["high", *(str(number) for number in range(17, 60, 5))]
    assert judgements(queue) == 61


def test_only_so_many_cursors_are_kept_for_nobody(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 10)
    for color in range(MAX_LEFT_CURSORS + 3):
        world.close(world.consumer(queue, selector=f"color = {color}", credit=1))
        world.turn()
    stays = world.consumer(queue, selector="color = 99", credit=1)
    assert len(queue.selectors.cursors) == MAX_LEFT_CURSORS + 1 and queue.selectors.in_use == 1
    world.close(stays)
    assert list(queue.selectors.cursors)[-1] == "color = 99" and queue.selectors.in_use == 0


def test_what_comes_back_is_not_judged_again(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 50)
    consumer = world.consumer(queue, selector="color = 2", credit=3)
    other = world.consumer(queue, selector="color = 4", credit=1)
    assert sorted(turn(world)) == ["12", "2", "4", "7"]
    before = judgements(queue)
    for entry in world.held(consumer):
        world.release(consumer, entry)
    world.turn(100)
    world.credit(consumer, 3)
    assert turn(world) == ["2", "7", "12"]
    assert judgements(queue) <= before + 50  # the rest of the walk, perhaps, but nothing of it twice
    world.credit(consumer, 100)
    world.credit(other, 100)
    turn(world)
    assert judgements(queue) <= 100


def test_what_was_away_when_the_selector_passed_is_judged_when_it_returns(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 30)
    plain = world.consumer(queue, credit=10)
    assert len(turn(world)) == 10
    selecting = world.consumer(queue, selector="color = 0", credit=2)
    assert turn(world) == ["10", "15"]
    for entry in world.held(plain):
        world.release(plain, entry)
    world.turn()
    world.credit(plain, 0)
    world.credit(selecting, 1)
    assert turn(world, 100) == ["0"]
    world.credit(selecting, 10)
    assert turn(world) == ["5", "20", "25"]
    assert judgements(queue) <= 30


def test_higher_priorities_come_first(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 20)
    put(world, queue, "high", color=3, head={"priority": 9})
    put(world, queue, "other", color=4, head={"priority": 9})
    consumer = world.consumer(queue, selector="color = 3", credit=2)
    assert turn(world) == ["high", "3"]
    put(world, queue, "higher", color=3, head={"priority": 7})
    world.turn()
    world.credit(consumer, 2)
    assert turn(world) == ["higher", "8"]


def test_a_selector_of_header_fields_reads_no_body() -> None:
    world = World(ManagerOptions(live_head=4, min_live_head=4, body_cache_bytes=0))
    queue = world.queue()
    for number in range(50):
        put(world, queue, str(number), head={"priority": 5 if number == 40 else 4})
    world.turn()
    consumer = world.consumer(queue, selector="JMSPriority = 5 AND JMSDeliveryMode = 'PERSISTENT'")
    world.credit(consumer, 10, drain=True)
    assert turn(world) == ["40"]
    assert world.fetches == 1 and world.drained == [consumer]


def test_drain_answers_when_nothing_more_matches(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 60)
    consumer = world.consumer(queue, selector="color = 3")
    world.credit(consumer, 100, drain=True)
    assert len(turn(world)) == 12
    assert world.drained == [consumer] and consumer.credit == 0
    nothing = world.consumer(queue, selector="color = 77")
    world.credit(nothing, 1, drain=True)
    assert turn(world) == [] and world.drained == [consumer, nothing]


def test_a_drain_without_credit_is_answered_while_bodies_are_read() -> None:
    world = World(ManagerOptions(live_head=4, min_live_head=2, body_cache_bytes=0))
    queue = world.queue()
    fill(world, queue, 30)
    consumer = world.consumer(queue, selector="color = 1", credit=1)
    assert consumer.waits
    world.credit(consumer, 0, drain=True)
    assert turn(world) == [] and world.drained == [consumer]


def test_a_plain_drain_does_not_wait_for_a_long_search() -> None:
    world = World(ManagerOptions(live_head=10, min_live_head=4, body_cache_bytes=0, fetch_entries=8))
    queue = world.queue()
    fill(world, queue, 100)
    world.consumer(queue, selector="color = 77", credit=1)
    for _ in range(3):
        world.manager.fetched([], [], world.now_us)
    plain = world.consumer(queue)
    world.credit(plain, 2, drain=True)
    world.turn()
    assert world.drained[0] is plain


def test_expired_entries_are_not_selected(world: World) -> None:
    queue = world.queue()
    for number in range(40):
        put(world, queue, str(number), color=1, head={"ttl_ms": 5 if number % 2 else -1})
    world.turn()
    consumer = world.consumer(queue, selector="color = 1")
    world.now_us += 10_000
    world.credit(consumer, 100)
    assert turn(world) == [str(number) for number in range(0, 40, 2)]
    world.turn(5_000)
    assert queue.statistics.depth == 20


def test_max_unsettled_holds_a_selecting_consumer_back() -> None:
    world = World(ManagerOptions(max_unsettled_per_consumer=2, live_head=4, min_live_head=2))
    queue = world.queue()
    fill(world, queue, 30)
    consumer = world.consumer(queue, selector="color = 1", credit=10)
    assert turn(world) == ["1", "6"]
    world.accept(consumer, world.held(consumer)[0])
    assert turn(world) == ["11"]


def test_undeliverable_here_goes_to_another_of_the_same_selector(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 20)
    first = world.consumer(queue, selector="color = 1", credit=1)
    assert turn(world) == ["1"]
    world.fail(first, world.held(first)[0], not_here=True)
    world.credit(first, 1)
    assert turn(world) == ["6"]
    second = world.consumer(queue, selector="color = 1", credit=1)
    assert turn(world) == ["1"] and got(world, second) == ["1"]


def test_transactions_take_and_give_back_in_place(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 40)
    consumer = world.consumer(queue, selector="color = 2", credit=3)
    turn(world)
    transaction = world.manager.begin(world.now_us)
    for entry in world.held(consumer):
        world.accept(consumer, entry, transaction)
    put(world, queue, "in it", color=2, transaction=transaction)
    world.manager.rollback(transaction, world.now_us)
    world.credit(consumer, 3)
    assert turn(world) == ["2", "7", "12"]
    transaction = world.manager.begin(world.now_us)
    put(world, queue, "committed", color=2, transaction=transaction)
    world.manager.commit(transaction, world.now_us)
    world.credit(consumer, 100)
    assert turn(world)[-1] == "committed"


def test_a_delivery_count_in_a_selector_is_looked_at_anew(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 3)
    fresh = world.consumer(queue, selector="JMSXDeliveryCount = 1", credit=1)
    assert turn(world) == ["0"]
    world.fail(fresh, world.held(fresh)[0])
    world.credit(fresh, 1)
    assert turn(world) == ["1"]
    world.consumer(queue, selector="JMSXDeliveryCount > 1", credit=5)
    assert turn(world) == ["0"]


def test_standby_of_an_exclusive_queue_takes_over_with_its_selector(world: World) -> None:
    queue = world.queue(access="exclusive")
    fill(world, queue, 20)
    first = world.consumer(queue, selector="color = 1", credit=1)
    second = world.consumer(queue, selector="color = 2", credit=10)
    assert turn(world) == ["1"]
    world.close(first)
    assert turn(world) == ["2", "7", "12", "17"] and len(second.held) == 4


def test_one_turn_judges_only_so_much() -> None:
    world = World(ManagerOptions(max_judgements_per_turn=10, fetch_entries=20))
    queue = world.queue()
    fill(world, queue, 95)
    world.consumer(queue, selector="color = 77", credit=1)
    assert judgements(queue) <= 10 + world.options.fetch_entries
    assert world.manager.next_deadline_us() != 0
    world.turn()
    assert judgements(queue) == 95


def test_a_deep_queue_is_walked_once_while_messages_keep_coming() -> None:
    world = World(SMALL)
    queue = world.queue()
    fill(world, queue, 3000, colors=1000)
    consumer = world.consumer(queue, selector="color = 999")
    seen: list[str] = []
    for number in range(300):
        put(world, queue, f"new {number}", color=999 if number % 100 == 0 else 0)
        world.credit(consumer, 1)
        seen += turn(world)
    assert seen[:6] == ["999", "1999", "2999", "new 0", "new 100", "new 200"]
    assert judgements(queue) == 3300
    chunks = sum(len(band.backlog.chunks) for band in queue.bands)
    assert chunks <= 300 // 10, "arrivals that nobody wants don't make chunks of their own"


def test_browsing_with_a_selector(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 60)
    browser = world.browser(queue, selector="color = 3")
    world.credit(browser, 5)
    assert turn(world) == ["3", "8", "13", "18", "23"]
    world.credit(browser, 100, drain=True)
    assert turn(world) == [str(number) for number in range(28, 60, 5)]
    assert world.drained == [browser] and queue.statistics.current == 60


COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3), st.integers(3, 5)),
        st.tuples(st.just("credit"), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.just("release"), st.integers(0, 3), st.integers(0, 5)),
        st.tuples(st.just("accept"), st.integers(0, 3), st.integers(0, 5)),
        st.tuples(st.just("reopen"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("turn"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=examples(150), deadline=None)
@given(st.booleans(), COMMANDS)
def test_random_consumers_lose_nothing(packed: bool, commands: list[tuple[str, int, int]]) -> None:
    world = World(TINY if packed else None)
    queue = world.queue()
    wanted = ["color = 0", "color = 0", "color > 1", ""]
    consumers = [world.consumer(queue, selector=each) for each in wanted]
    sent = 0
    done: list[str] = []
    for command, who, number in commands:
        consumer = consumers[who]
        if command == "put":
            put(world, queue, str(sent), color=who, head={"priority": number})
            sent += 1
        elif command == "credit":
            world.credit(consumer, number)
        elif command in ("release", "accept") and consumer.held:
            held = world.held(consumer)
            entry = held[number % len(held)]
            if command == "accept":
                world.turn()
                done += texts([world.bodies[entry.body_serial]])
                world.accept(consumer, entry)
            else:
                world.release(consumer, entry)
        elif command == "reopen":
            world.close(consumer)
            consumers[who] = world.consumer(queue, selector=wanted[who])
        else:
            world.turn(50)
    for consumer in consumers:
        world.close(consumer)
    world.turn()
    last = world.consumer(queue)
    world.credit(last, 1000, drain=True)
    rest = texts(world.turn())
    assert sorted(done + rest, key=int) == [str(number) for number in range(sent)]
    assert world.drained[-1] is last


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(3, 5)), max_size=60), st.integers(1, 5))
def test_each_selector_judges_each_entry_once(messages: list[tuple[int, int]], credit: int) -> None:
    world = World(TINY)
    queue = world.queue()
    for number, (color, priority) in enumerate(messages):
        put(world, queue, str(number), color=color, head={"priority": priority})
    world.turn()
    consumers = {each: world.consumer(queue, selector=f"color = {each}") for each in range(3)}
    plain = world.consumer(queue)
    for round_number in range(20):
        for consumer in consumers.values():
            world.credit(consumer, credit)
        if round_number % 3 == 0:
            world.credit(plain, 1)
        world.turn(50)
        for consumer in (*consumers.values(), plain):
            for entry in world.held(consumer):
                if (entry.serial + round_number) % 3:
                    world.release(consumer, entry)
                else:
                    world.accept(consumer, entry)
    for cursor in queue.selectors.cursors.values():
        assert cursor.judgements <= len(messages)
    for color, consumer in consumers.items():
        expected = {str(number) for number, (each, _) in enumerate(messages) if each == color}
        assert set(got(world, consumer)) <= expected


def test_those_who_do_not_want_an_arrival_are_not_searched_again(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 20)
    consumers = [world.consumer(queue, selector=f"number = {number}", credit=1) for number in range(20)]
    world.turn()
    before = [int(cursor.searches) for cursor in queue.selectors.cursors.values()]
    put(world, queue, "for 7", number=7)
    assert turn(world) == ["for 7"] and got(world, consumers[7]) == ["for 7"]
    after = [int(cursor.searches) for cursor in queue.selectors.cursors.values()]
    assert [number for number in range(20) if after[number] != before[number]] == [7]


def test_what_searches_keep_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind more that nobody wants than are made objects, so that all of them search what is packed."""
    world = World(
        ManagerOptions(
            live_head=4, min_live_head=2, body_cache_bytes=0, max_search_bytes=300, fetch_bytes=200
        )
    )
    queue = world.queue()
    for _ in range(ManagerOptions().fetch_entries):
        put(world, queue, "nobody's", color=9)
    selectors = [f"color = {color} AND TRUE" for color in range(5)]
    for consumer in [world.consumer(queue, selector=selector, credit=9) for selector in selectors]:
        assert turn(world) == []
        world.close(consumer)
    fill(world, queue, 100)
    memory, read = search_memory_of(world.manager.core), world._read
    reading: list[tuple[int, int]] = []

    def watched(wanted: list[BodyPlace]) -> list[Body]:
        reading.append((int(memory.reading_bytes), len(memory.waiting)))
        return read(wanted)

    monkeypatch.setattr(world, "_read", watched)
    consumers = [world.consumer(queue, selector=selector, credit=9) for selector in selectors]
    seen = turn(world)
    assert 300 <= max(size for size, _ in reading) <= 300 + 200 + 100
    assert max(waiting for _, waiting in reading) > 0
    assert memory.kept_bytes <= 300 + 100 * len(consumers) and memory.reading_bytes == 0
    assert [len(got(world, consumer)) for consumer in consumers] == [9] * 5 and len(seen) == 45
    for consumer in consumers:
        world.credit(consumer, 100)
    assert len(turn(world)) == 55
    for consumer in consumers:
        world.close(consumer)
    world.turn()
    for number in range(MAX_LEFT_CURSORS):
        world.close(world.consumer(queue, selector=f"other = {number}"))
    assert (memory.kept_bytes, memory.reading_bytes) == (0, 0)


def test_what_one_selector_says_of_many_entries_is_kept_once(world: World) -> None:
    queue = world.queue()
    fill(world, queue, 50)
    one = world.consumer(queue, selector="color < 9", credit=20)
    turn(world)
    assert len({id(entry.verdicts) for entry in one.held}) == 1
    other = world.consumer(queue, selector="color = 3", credit=2)
    for entry in list(one.held):
        world.release(one, entry)
    assert turn(world) != [] and len(other.held) == 2
    (cursor,) = [each for each in queue.selectors.cursors.values() if each.selector.text == "color < 9"]
    assert all(entry.verdicts[int(cursor.id)] for entry in other.held)
    assert all(len(entry.verdicts) == 2 for entry in other.held)
    assert judgements(queue) <= 100


@pytest.mark.parametrize("live_head", [0, 100])
def test_what_cannot_be_judged_for_damage_is_not_wanted_and_stays(live_head: int) -> None:
    """Others get theirs; it ends when somebody is to have it."""
    world = World(ManagerOptions(live_head=live_head, body_cache_bytes=0))
    queue = world.queue()
    fill(world, queue, 3)
    world.damaged = {int(world.arrivals[1]["position"])}
    choosing = world.consumer(queue, selector="color < 9", credit=5)
    assert turn(world) == ["0", "2"]
    assert (queue.statistics.depth, len(choosing.held)) == (3, 2)
    world.consumer(queue, selector="color > 9", credit=5)
    assert turn(world) == [] and queue.statistics.depth == 3
    put(world, queue, "3", color=3)
    assert turn(world) == ["3"]
    world.consumer(queue, credit=5)
    assert turn(world) == [] and queue.statistics.depth == 3
    assert world.events(queue)[-1] == ("DISCARD", "DELETED", "DISCARDED")


@pytest.mark.parametrize("live_head", [0, 2, 100])
def test_what_is_wanted_and_turns_out_to_be_damaged_ends(live_head: int) -> None:
    """A selector that needs no section judges without the body."""
    world = World(ManagerOptions(live_head=live_head, body_cache_bytes=0))
    queue = world.queue()
    fill(world, queue, 5)
    world.damaged = {int(world.arrivals[number]["position"]) for number in (0, 3)}
    consumer = world.consumer(queue, selector="JMSPriority >= 0", credit=9)
    assert turn(world) == ["1", "2", "4"]
    assert [event for event in world.events(queue) if event[0] == "DISCARD"] == [
        ("DISCARD", "DELETED", "DISCARDED")
    ] * 2
    assert (queue.statistics.depth, queue.bodies.missing) == (3, 0)
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    world.turn()
    assert queue.statistics.depth == 0 and not queue.selectors.cursors["JMSPriority >= 0"].bodies
