"""Any number of seeds of three queue managers, and a fault before every step of a batch: ``python -m
tests.simulation.channels --seeds 1000``; one again: ``… --seed 17``.
"""

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial

from tests.simulation.channels.runs import FAULTS, PAIRS, run_seed, sweep

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
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.channels", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many, from --first")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--stop", action="store_true", help="at the first run that fails")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    done = failures = 0
    for name, deed in runs(seeds, arguments.seed is None):
        done += 1
        try:
            deed()
        except Exception:
            failures += 1
            traceback.print_exc()
            print(f"failed: {name}")
            if arguments.stop:
                break
    print(f"{done - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
