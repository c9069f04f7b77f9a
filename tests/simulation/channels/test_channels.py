"""Channels: a fault before every step of a batch, and three queue managers with faults at random."""

from functools import partial

import pytest

from tests.sampling import WHOLE, spread
from tests.simulation.channels.runs import FAULTS, PAIRS, run_seed, run_with_fault, steps_of, sweep

SEEDS_PER_TEST = 20
BATCHES = 4
SAMPLE = 4
"""Seeds of a batch, in `make test`."""
SAMPLED_STEPS = 4
"""Before which a fault comes there, of each kind of fault and each scenario."""


@pytest.mark.sample(10)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", PAIRS)
def test_a_fault_before_every_step_of_a_batch_loses_and_doubles_nothing(kind: str, fault: str) -> None:
    assert steps_of(PAIRS[kind](), 1) > 60, "too little happens for the run to mean anything"
    played = sweep(kind, fault, 1, partial(spread, most=SAMPLED_STEPS))
    assert played > 30 if WHOLE else played == SAMPLED_STEPS


@pytest.mark.parametrize("kind", PAIRS)
def test_where_nothing_fails_nothing_is_lost(kind: str) -> None:
    for seed in spread(range(5), 2):
        run_with_fault(PAIRS[kind](), seed, 0, lambda world: None)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_promises_hold_between_three_queue_managers(batch: int) -> None:
    faults = checks = 0
    seeds = spread(range(1 + batch * SEEDS_PER_TEST, 1 + (batch + 1) * SEEDS_PER_TEST), SAMPLE)
    for seed in seeds:
        try:
            world = run_seed(seed)
        except Exception as broken:
            again = f"python -m tests.simulation.channels --seed {seed}"
            raise AssertionError(f"seed {seed} failed; replay it with: {again}") from broken
        faults += world.faults
        checks += world.oracle.checks
    assert faults > len(seeds), "too few faults for the run to mean anything"
    assert checks > len(seeds) * 50, "too little traffic for the run to mean anything"
