"""Who waits for room in several pools stands in each line by when it came: nobody waits in a circle."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.manager.kernel.consumer import Producer
from postroom.manager.kernel.quota_pool import STRETCH_SENDS, Line
from postroom.manager.producing.blocked_sends import BlockedSend
from postroom.manager.producing.put import Message
from postroom.manager.queues.queue import Queue
from tests.manager.topic_world import TopicWorld
from tests.manager.world import TestSink, World, a_head
from tests.sampling import examples

SENDS = 3 * STRETCH_SENDS
MAX_SIZE = 9


def take_one(world: TopicWorld, queue: Queue) -> None:
    """Consume one message, which makes room."""
    consumer = world.consumer(queue, 1)
    world.turn()
    world.accept(consumer, world.held(consumer)[0])
    world.close(consumer)
    world.turn()


def full_news(world: TopicWorld) -> tuple[Queue, Queue, Queue]:
    """A topic with two subscriptions that have room for one message each, and have it."""
    topic = world.topic(max_messages=1)
    first, second = (world.subscribe(name=name, durable=True) for name in "ab")
    world.put(topic, b"before")
    world.turn()
    return topic, first, second


def link(world: TopicWorld) -> Producer:
    return world.manager.open_producer("p", "c", "", 1000)


def test_two_publishes_of_one_link_do_not_wait_for_each_other() -> None:
    world, sink = TopicWorld(), TestSink()
    topic, first, second = full_news(world)
    sender = link(world)
    tokens = [world.put(topic, body, sink, producer=sender) for body in (b"1", b"2")]
    take_one(world, first)
    assert sink.accepted == []
    take_one(world, second)
    assert sink.accepted == tokens[:1]
    assert (first.statistics.depth, second.statistics.depth) == (1, 1)
    take_one(world, second)
    take_one(world, first)
    assert sink.accepted == tokens


def test_two_links_do_not_wait_for_each_other() -> None:
    """Each has a send that stands behind one of the other's, which may not overtake what it has before it."""
    world, sink = TopicWorld(), TestSink()
    topic, first, second = full_news(world)
    queue = world.queue("c", max_messages=5)
    one, other = link(world), link(world)
    tokens = [
        world.put(topic, b"1", sink, producer=one),
        world.put(queue, b"2", sink, producer=one),
        world.put(queue, b"3", sink, producer=other),
        world.put(topic, b"4", sink, producer=other),
    ]
    take_one(world, first)
    assert sink.accepted == []
    take_one(world, second)
    assert sink.accepted == tokens[:3]
    take_one(world, first)
    take_one(world, second)
    assert sink.accepted == tokens


def some_sends(sizes: list[int]) -> list[BlockedSend]:
    """Of a link each."""
    world = World()
    queue, sink, made = world.queue("q"), TestSink(), []
    for number in range(SENDS):
        producer = world.manager.open_producer("p", "c", "", 1000)
        size = sizes[number % len(sizes)]
        send = BlockedSend(producer, queue, Message(a_head(), bytes(size)), sink, number, None, 0)
        send.order, producer.waiting = number + 1, [send]
        made.append(send)
    return made


sizes = st.lists(st.integers(1, MAX_SIZE), min_size=1, max_size=7)
numbers = st.integers(0, SENDS - 1)
runs = st.tuples(st.one_of(st.just(0), numbers), numbers, st.integers(0, 2))


@given(sizes, st.randoms(use_true_random=False), st.lists(runs, min_size=2))
@settings(max_examples=examples(60), deadline=None)
def test_a_line_is_in_the_order_of_coming(
    sizes: list[int], random: Random, moves: list[tuple[int, int, int]]
) -> None:
    """Runs of sends go over to another line, or away, and some come back."""
    lines, where = [Line(), Line()], dict[BlockedSend, int]()
    sends = some_sends(sizes)
    for send in sends:
        where[send] = random.choice([0, 1])
        lines[where[send]].join(send)
    for start, end, to in moves:
        for send in sends[start:end]:
            if where[send] < 2:
                lines[where[send]].leave(send)
            where[send] = to
            if to < 2:
                lines[to].join(send)
        for number, line in enumerate(lines):
            check(line, [send for send in sends if where[send] == number])


def check(line: Line, expected: list[BlockedSend]) -> None:
    assert (line.sends(), line.count) == (expected, len(expected))
    first = expected[0] if expected else None
    assert line.first() is first
    assert not line.has_before(first.order if first is not None else SENDS)
    assert line.has_before(SENDS + 1) == bool(expected)
    for room_bytes in range(MAX_SIZE + 1):
        passed = 0
        for fitting in [send for send in expected if send.size <= room_bytes]:
            assert line.first_that_fits(room_bytes, passed) is fitting
            passed = fitting.order
        assert line.first_that_fits(room_bytes, passed) is None
