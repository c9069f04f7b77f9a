"""Seeds with a Spark query that consumes beside all other clients."""

import pytest

from tests.sampling import spread
from tests.simulation.seeds import played
from tests.simulation.spark_queries import QueryWorld

SEEDS_PER_TEST = 20
BATCHES = 3
SAMPLE = 4
"""Of a batch, in `make test`."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_assigned_is_read_once_and_by_nobody_else(batch: int) -> None:
    crashes = taken = 0
    seeds = spread(range(1 + batch * SEEDS_PER_TEST, 1 + (batch + 1) * SEEDS_PER_TEST), SAMPLE)
    for seed in seeds:
        try:
            world = played(QueryWorld, seed)
        except Exception as broken:
            again = f"python -m tests.simulation.spark_queries --seed {seed}"
            raise AssertionError(f"seed {seed} failed; replay it with: {again}") from broken
        crashes += world.crashes
        assert world.table is not None
        taken += len(world.table.rows)
    assert crashes > len(seeds), "too few crashes for the run to mean anything"
    assert taken > len(seeds), "too few messages taken for the run to mean anything"


def test_the_slowest_ends_when_there_is_no_room_for_its_history() -> None:
    world = QueryWorld(1)
    (spark,) = world.manager.spark_subscriptions.all.values()
    world.ledger.leases.also_reason = "bytes"
    world.broker.end_turn(world.now_us)
    assert (spark.over, spark.reason) == (True, "bytes")
    world.broker.end_turn(world.now_us)
    assert world.ledger.leases.also_reason == ""
