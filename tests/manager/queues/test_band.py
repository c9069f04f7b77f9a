"""A band against a sorted list: taking from anywhere, giving back, looking."""

from hypothesis import given
from hypothesis import strategies as st

from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.queues.band import SWEEP_AT
from postroom.manager.queues.queue import Queue

COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 40)),
        st.tuples(st.just("take"), st.integers(0, 200)),
        st.tuples(st.just("take first"), st.integers(1, 20)),
        st.tuples(st.just("give back"), st.integers(0, 200)),
        st.tuples(st.just("give back another object"), st.integers(0, 200)),
        st.tuples(st.just("born"), st.integers(0, 3)),
    ),
    max_size=120,
)


def an_entry(queue: Queue, place: int) -> Entry:
    return Entry(queue, place, 4, 0, 0, 0, 0, b"")


@given(COMMANDS)
def test_like_a_sorted_list(commands: list[tuple[str, int]]) -> None:
    queue = Queue(1, QueueDefinition(name="q"), 1 << 20, HeldByAll())
    band = queue.band(4)
    here: dict[int, Entry] = {}
    held: list[Entry] = []
    last = 0
    for command, number in commands:
        if command == "push":
            for _ in range(number):
                last += 1
                here[last] = an_entry(queue, last)
                band.push(here[last])
        elif command == "born":
            last += 1
            here[last] = an_entry(queue, last)
            band.give_back(here[last])
        elif command.startswith("give back") and held:
            entry = held.pop(number % len(held))
            if command != "give back":
                entry = an_entry(queue, int(entry.place))  # as one that was packed while somebody held it
            here[entry.place] = entry
            band.give_back(entry)
            assert band.find(entry.place, 0) is entry
        elif command.startswith("take") and here:
            for _ in range(number if command == "take first" else 1):
                if here:
                    place = min(here) if command == "take first" else sorted(here)[number % len(here)]
                    held.append(here.pop(place))
                    band.pop(held[-1])
        check(band, here, last)


def check(band: object, here: dict[int, Entry], last: int) -> None:
    from postroom.manager.queues.band import Band

    assert isinstance(band, Band)
    in_order = [here[place] for place in sorted(here)]
    assert band.live_count() == len(here)
    assert band.first() is (in_order[0] if in_order else None)
    assert band.waiting() == in_order
    middle = last // 2
    assert band.after(middle, 0, 5) == [entry for entry in in_order if entry.place > middle][:5]
    for place in (1, middle, last):
        assert band.find(place, 0) is here.get(place)


def test_taking_from_the_middle_sweeps_in_time() -> None:
    queue = Queue(1, QueueDefinition(name="q"), 1 << 20, HeldByAll())
    band = queue.band(4)
    entries = [an_entry(queue, place) for place in range(1, 2001)]
    for entry in entries:
        band.push(entry)
    for entry in entries[1:1900]:
        band.pop(entry)
    assert len(band.live) <= 2 * band.live_count() + SWEEP_AT
    for entry in entries[1:1900]:
        band.give_back(entry)
    for entry in entries[2:1890]:
        band.pop(entry)
    assert len(band.returned) <= 2 * band.live_count() + SWEEP_AT
    assert [entry.place for entry in band.waiting()[:3]] == [1, 2, 1891]


def test_what_comes_back_as_another_object_takes_the_gap_of_the_one_it_was() -> None:
    """Held entries may be packed meanwhile. At its place two would stand, and the gap be found first."""
    queue = Queue(1, QueueDefinition(name="q"), 1 << 20, HeldByAll())
    band = queue.band(4)
    first, second = an_entry(queue, 1), an_entry(queue, 2)
    for entry in (first, second):
        band.give_back(entry)
    band.pop(second)
    again = an_entry(queue, 2)
    band.give_back(again)
    assert band.find(2, 0) is again and band.waiting() == [first, again] and band.live_count() == 2
    assert len(band.returned) == 2


def test_a_queue_has_the_bands_that_it_has_used() -> None:
    first, second = (Queue(id, QueueDefinition(name="q"), 1 << 20, HeldByAll()) for id in (1, 2))
    first.band(4).push(an_entry(first, 1))
    assert first.band(4) is first.bands[4] and first.top_band() is first.bands[4]
    assert [band.vacant for band in first.bands] == [priority != 4 for priority in range(10)]
    assert [int(band.priority) for band in first.bands] == list(range(10))
    assert all(band.vacant for band in second.bands) and second.top_band() is None
