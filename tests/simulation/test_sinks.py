"""Seeds with a Spark job that writes beside all other clients."""

import pytest

from tests.sampling import spread
from tests.simulation.seeds import played
from tests.simulation.sinks import SparkWorld

SEEDS_PER_TEST = 20
BATCHES = 3
SAMPLE = 4
"""Of a batch, in `make test`."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_batches_are_there_once_and_whole(batch: int) -> None:
    crashes = commits = 0
    seeds = spread(range(1 + batch * SEEDS_PER_TEST, 1 + (batch + 1) * SEEDS_PER_TEST), SAMPLE)
    for seed in seeds:
        try:
            world = played(SparkWorld, seed)
        except Exception as broken:
            again = f"python -m tests.simulation.sinks --seed {seed}"
            raise AssertionError(f"seed {seed} failed; replay it with: {again}") from broken
        crashes += world.crashes
        commits += world.job.commits
    assert crashes > len(seeds), "too few crashes for the run to mean anything"
    assert commits > len(seeds), "too few batches for the run to mean anything"
