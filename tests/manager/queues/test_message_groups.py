"""Message groups: one consumer for the messages of a group, as long as it stays."""

from dataclasses import replace

import pytest

from postroom.manager.kernel.errors import DefinitionInvalid
from postroom.manager.kernel.options import MAX_GROUP_BUCKETS, ManagerOptions
from postroom.manager.queues.message_groups import FIRST_IN_GROUP, GROUP_WINDOW
from tests.manager.messages import deliveries_to, got, put, text_of, turn
from tests.manager.world import World

CLOSES = 0xFFFF_FFFF
"""JMSXGroupSeq −1, as AMQP's unsigned group-sequence has it."""


@pytest.fixture(params=[ManagerOptions(), ManagerOptions(live_head=4, min_live_head=2, body_cache_bytes=60)])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


def test_a_group_stays_with_its_consumer(world: World) -> None:
    queue = world.queue(group_buckets=1024)
    consumers = [world.consumer(queue) for _ in range(3)]
    for number in range(30):
        put(world, queue, f"{number % 5}:{number}", group=f"g{number % 5}")
    world.turn()
    for _ in range(30):
        for consumer in consumers:
            world.credit(consumer, 1)
            world.turn()
    owner: dict[str, int] = {}
    for at, consumer in enumerate(consumers):
        texts = got(world, consumer)
        for text in texts:
            assert owner.setdefault(text.split(":")[0], at) == at
        for group in set(owner):
            mine = [int(text.split(":")[1]) for text in texts if text.split(":")[0] == group]
            assert mine == sorted(mine)
    assert len(owner) == 5 and len(set(owner.values())) == 3 and queue.statistics.unacknowledged == 30


def test_messages_without_group_go_to_anybody(world: World) -> None:
    queue = world.queue(group_buckets=16)
    first, second = world.consumer(queue, credit=2), world.consumer(queue, credit=2)
    for number in range(4):
        put(world, queue, str(number))
    world.turn()
    assert len(first.held) == len(second.held) == 2


def test_others_are_served_past_a_group_whose_consumer_is_busy(world: World) -> None:
    queue = world.queue(group_buckets=16)
    owner = world.consumer(queue, credit=1)
    put(world, queue, "first", group="g")
    world.turn()
    other = world.consumer(queue, credit=5)
    for text in ("second", "third"):
        put(world, queue, text, group="g")
    put(world, queue, "free")
    assert turn(world) == ["free"] and got(world, other) == ["free"]
    world.credit(owner, 5)
    assert turn(world) == ["second", "third"]


def test_behind_too_many_of_a_busy_group_all_wait() -> None:
    world = World()
    queue = world.queue(group_buckets=16)
    world.consumer(queue, credit=1)
    for number in range(GROUP_WINDOW + 20):
        put(world, queue, str(number), group="g")
    put(world, queue, "free")
    world.turn()
    other = world.consumer(queue)
    world.credit(other, 5, drain=True)
    assert turn(world) == [] and world.drained == [other]


def test_one_less_of_a_busy_group_lets_the_next_go() -> None:
    world = World()
    queue = world.queue(group_buckets=16)
    owner = world.consumer(queue, credit=1)
    for number in range(GROUP_WINDOW + 2):
        put(world, queue, str(number), group="g")
    put(world, queue, "free")
    world.turn()
    other = world.consumer(queue, credit=5)
    assert turn(world) == [] and got(world, other) == []
    world.credit(owner, 1)
    assert turn(world) == ["1", "free"] and got(world, other) == ["free"]


def test_an_entry_that_comes_back_is_ahead_of_what_was_passed(world: World) -> None:
    queue = world.queue(group_buckets=16)
    owner, other = world.consumer(queue, credit=1), world.consumer(queue)
    put(world, queue, "owned", group="g")
    assert turn(world) == ["owned"]
    put(world, queue, "alone")
    world.credit(other, 1)
    assert turn(world) == ["alone"]
    put(world, queue, "waits", group="g")
    world.credit(other, 1)
    assert turn(world) == []
    world.release(other, world.held(other)[0])
    assert turn(world) == ["alone"] and len(owner.held) == 1


def test_priorities_and_groups(world: World) -> None:
    queue = world.queue(group_buckets=16)
    owner = world.consumer(queue, credit=1)
    put(world, queue, "owned", group="g")
    assert turn(world) == ["owned"]
    for text, priority in (("low", 1), ("high", 8)):
        put(world, queue, text, group="other", head={"priority": priority})
        put(world, queue, f"{text} owned", group="g", head={"priority": priority})
    world.consumer(queue, credit=5)
    assert turn(world) == ["high", "low"]
    world.credit(owner, 5)
    assert turn(world) == ["high owned", "low owned"]


def test_the_group_of_a_consumer_that_goes_is_free(world: World) -> None:
    queue = world.queue(group_buckets=16)
    first = world.consumer(queue, credit=1)
    for number in range(3):
        put(world, queue, str(number), group="g")
    assert turn(world) == ["0"]
    second = world.consumer(queue, credit=5)
    assert turn(world) == []
    world.close(first)
    assert turn(world) == ["0", "1", "2"] and len(second.held) == 3


def test_the_first_of_a_group_says_so(world: World) -> None:
    queue = world.queue(group_buckets=16)
    first = world.consumer(queue, credit=2)
    for number in range(3):
        put(world, queue, str(number), group="g")
    world.turn()
    flags = [(each.annotations or {}).get(FIRST_IN_GROUP) for each in deliveries_to(world, first)]
    assert flags == [True, None]
    world.close(first)
    second = world.consumer(queue, credit=1)
    world.turn()
    assert deliveries_to(world, second)[0].annotations == {FIRST_IN_GROUP: True}


def test_a_negative_sequence_closes_the_group(world: World) -> None:
    queue = world.queue(group_buckets=16)
    first = world.consumer(queue, credit=2)
    put(world, queue, "open", group="g", sequence=1)
    put(world, queue, "last", group="g", sequence=CLOSES)
    assert turn(world) == ["open", "last"]
    second = world.consumer(queue, credit=2)
    put(world, queue, "next", group="g", sequence=1)
    assert turn(world) == ["next"] and got(world, second) == ["next"]
    assert (world.last(deliveries_to(world, second)[0].body).annotations or {})[FIRST_IN_GROUP] is True
    assert len(first.held) == 2


def test_a_group_with_selectors(world: World) -> None:
    queue = world.queue(group_buckets=16)
    red = world.consumer(queue, selector="color = 'red'", credit=1)
    put(world, queue, "0", group="g", color="red")
    assert turn(world) == ["0"]
    red_too = world.consumer(queue, selector="color = 'red'", credit=5)
    blue = world.consumer(queue, selector="color = 'blue'", credit=5)
    for number in range(1, 6):
        put(world, queue, str(number), group="g", color="red" if number % 2 == 0 else "blue")
    world.turn()
    assert (got(world, red), got(world, red_too), got(world, blue)) == (["0"], [], ["1", "3", "5"])
    world.credit(red, 9)
    assert turn(world) == ["2", "4"]


def test_buckets_bound_what_is_remembered(world: World) -> None:
    queue = world.queue(group_buckets=1)
    first, second = world.consumer(queue, credit=50), world.consumer(queue, credit=50)
    for number in range(10):
        put(world, queue, str(number), group=f"group {number}")
    world.turn()
    assert sorted((len(first.held), len(second.held))) == [0, 10]
    with pytest.raises(DefinitionInvalid, match="group_buckets"):
        world.queue("too many", group_buckets=MAX_GROUP_BUCKETS + 1)


def test_the_number_of_buckets_can_change(world: World) -> None:
    queue = world.queue(group_buckets=1024)
    first = world.consumer(queue, credit=1)
    for number in range(6):
        put(world, queue, str(number), group="g")
    assert turn(world) == ["0"]
    world.manager.update_queue(replace(queue.definition, group_buckets=3), world.now_us)
    second = world.consumer(queue, credit=1)
    assert turn(world) == ["1"]
    for consumer in (first, second):
        world.credit(consumer, 2)
        world.turn()
    assert (got(world, first), got(world, second)) == (["0"], ["1", "2", "3"])


def test_without_the_option_groups_mean_nothing(world: World) -> None:
    queue = world.queue()
    consumers = [world.consumer(queue, credit=1) for _ in range(2)]
    for number in range(2):
        put(world, queue, str(number), group="g")
    world.turn()
    assert [text_of(each.body) for each in world.delivered] == ["0", "1"]
    assert all(len(consumer.held) == 1 for consumer in consumers)
