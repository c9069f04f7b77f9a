"""The message store under crashes at the commit points."""

import pytest

from tests.simulation.storekeeping import StoreWorld

SEEDS_PER_TEST = 10
STEPS = 1500


@pytest.mark.parametrize("batch", range(4))
def test_what_the_message_store_answered_holds_under_crashes(batch: int) -> None:
    crashes = checks = 0
    for seed in range(1 + batch * SEEDS_PER_TEST, 1 + (batch + 1) * SEEDS_PER_TEST):
        world = StoreWorld(seed)
        try:
            world.run(STEPS)
        except Exception as broken:
            raise AssertionError(f"StoreWorld({seed}).run({STEPS}) failed") from broken
        crashes += world.crashes
        checks += world.keeper.checks
    assert crashes > SEEDS_PER_TEST and checks > SEEDS_PER_TEST * 50, "too little happened to mean anything"
