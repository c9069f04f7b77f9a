"""The world itself: one queue manager without channels, its power failing at every step."""

import pytest

from tests.sampling import spread
from tests.simulation.channels.runs import run_with_fault, steps_of
from tests.simulation.channels.scenarios import node
from tests.simulation.channels.world import Scenario
from tests.simulation.oracle import Broken


def local() -> Scenario:
    """Messages that go nowhere else."""
    return Scenario(
        nodes={"LONDON": node([{"name": "orders"}], [])},
        tasks=[("LONDON", "orders", 12, False)],
        expected={"orders": ("LONDON", "orders")},
    )


def test_one_queue_manager_keeps_what_it_has_accepted() -> None:
    for step in spread(range(steps_of(local(), 1)), 20):
        world = run_with_fault(local(), 1, step, lambda world: world.crash("LONDON"))
        assert world.oracle.checks > 12


def test_the_oracle_misses_what_is_taken_away() -> None:
    world = run_with_fault(local(), 1, 0, lambda world: None)
    message = next(sent for sent in world.oracle.sent.values() if sent.durable)
    message.seen.clear()
    with pytest.raises(Broken, match=f"message {message.id} to orders is nowhere"):
        world.oracle.final({}, set(), True)
