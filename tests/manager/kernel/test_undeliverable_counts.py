"""Why messages could not be delivered, counted by reason, of which clients may make up any number."""

from postroom.manager.kernel.statistics import (
    MAX_REASON_CHARS,
    MAX_REASONS,
    NO_REASON,
    OTHER_REASON,
    Counters,
)
from postroom.manager.undeliverable.dead_letters import OVER_LIMIT
from tests.manager.world import World


def test_by_reason() -> None:
    world = World()
    world.queue("dead")
    queue = world.queue(dead_letter_queue="dead", redelivery_limit=0)
    for _ in range(3):
        world.put(queue)
    consumer = world.consumer(queue, 3)
    world.turn()
    first, second, third = world.held(consumer)
    world.manager.reject(consumer, first, "app:bad", "", world.now_us)
    world.manager.reject(consumer, second, "", "", world.now_us)
    world.fail(consumer, third)
    world.turn()
    counted = world.manager.core.counters.undeliverable
    assert counted == {"app:bad": 1, NO_REASON: 1, OVER_LIMIT: 1}


def test_what_clients_make_up_is_bounded() -> None:
    counters = Counters()
    for number in range(MAX_REASONS + 5):
        counters.count_undeliverable(f"app:{number}")
    counters.count_undeliverable("app:0")
    counters.count_undeliverable("x" * (MAX_REASON_CHARS + 1))
    assert len(counters.undeliverable) == MAX_REASONS + 1
    assert counters.undeliverable[OTHER_REASON] == 6
    assert counters.undeliverable["app:0"] == 2
