"""Any number of seeds of three queue managers, and a fault before every step of a batch: ``python -m
tests.simulation.channels --seeds 1000``; one again: ``… --seed 17``.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial

from tests.simulation.channels.runs import FAULTS, PAIRS, run_seed, sweep
from tests.simulation.seeds import chosen, parser_of, run_all

FIRST_SEEDS = 20
"""So many before the sweeps: what is broken by much shows at once."""


def runs(seeds: range, sweeps: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """Name and deed of every run."""
    first, rest = seeds[:FIRST_SEEDS], seeds[FIRST_SEEDS:]
    for seed in first:
        yield f"seed {seed}", partial(run_seed, seed)
    for kind in PAIRS if sweeps else ():
        for fault in FAULTS:
            yield f"{kind}, {fault}", partial(sweep, kind, fault, 1)
    for seed in rest:
        yield f"seed {seed}", partial(run_seed, seed)


def main() -> int:
    """What the arguments ask for; the exit code."""
    arguments = parser_of("python -m tests.simulation.channels", __doc__).parse_args()
    return run_all(runs(chosen(arguments), arguments.seed is None), arguments)


if __name__ == "__main__":
    sys.exit(main())
