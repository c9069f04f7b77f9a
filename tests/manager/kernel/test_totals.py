"""Counters of the queue manager as a whole."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from postroom.manager.destinations import totals
from postroom.manager.kernel.statistics import SLOT_NAMES
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import World

QUEUES = ("a", "b")


def totals_of(world: World) -> dict[str, int]:
    return totals.totals(world.manager.core)


def held(world: World) -> int:
    return sum(int(queue.statistics.depth) for queue in world.manager.queues.values())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(QUEUES), st.sampled_from([0, 50])),
        st.tuples(
            st.sampled_from(["take", "accept", "purge", "delete"]), st.sampled_from(QUEUES), st.just(0)
        ),
        st.tuples(st.just("wait"), st.just("a"), st.just(0)),
    ),
    max_size=30,
)


def step(world: World, what: str, name: str, delay_ms: int) -> None:
    queue: Any = world.manager.queues.get(name) or world.queue(name)
    if what == "put":
        world.put(queue, b"body", delay_ms=delay_ms)
    elif what == "take" and not queue.attached.consumers:
        world.consumer(queue, credit=2)
    elif what == "accept":
        for consumer in queue.attached.consumers:
            for entry in world.held(consumer):
                world.accept(consumer, entry)
    elif what == "purge":
        world.manager.purge_queue(name, world.now_us)
    elif what == "delete":
        world.manager.delete_queue(name, False, False, world.now_us)
    world.turn(60 if what == "wait" else 0)


@given(STEPS)
def test_sums_over_all_queues_are_exact_and_know_the_highest_depth(steps: list[tuple[str, str, int]]) -> None:
    world, highest, put = World(), 0, 0
    for what, name, delay_ms in steps:
        before = held(world)
        step(world, what, name, delay_ms)
        put += what == "put"
        highest = max(highest, before + (what == "put"), held(world))
        shown = totals_of(world)
        for slot in SLOT_NAMES[1:]:
            counts = [queue.statistics.slots()[slot] for queue in world.manager.queues.values()]
            assert shown[f"messages_{slot}"] == sum(count for count, _ in counts)
            assert shown[f"bytes_{slot}"] == sum(size for _, size in counts)
        assert shown["messages_current"] + shown["messages_pending"] == held(world)
        assert (shown["messages_high"], shown["bytes_high"]) == (highest, 4 * highest)
        assert shown["messages_received"] == put
    totals.reset(world.manager.core)
    assert totals_of(world)["messages_high"] == held(world)


def test_what_is_there_after_a_restart_is_held_by_all() -> None:
    world = LedgerWorld()
    for name in QUEUES:
        world.put(world.queue(name), b"body")
    world.turn()
    world.restart()
    shown = totals_of(world)
    assert (shown["messages_current"], shown["messages_high"], shown["messages_received"]) == (2, 2, 0)
