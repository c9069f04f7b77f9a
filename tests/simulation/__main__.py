"""Any number of seeds: ``python -m tests.simulation --seeds 1000``; one again: ``… --seed 17``."""

import argparse
import logging
import sys
import traceback

from tests.simulation.world import World

STEPS = 1600


def run_seed(seed: int, steps: int = STEPS) -> World:
    """Run one seed to its end; raises whatever broke."""
    logging.disable(logging.CRITICAL)
    try:
        world = World(seed)
        world.run(steps)
    finally:
        logging.disable(logging.NOTSET)
    return world


def failed(seed: int, steps: int) -> bool:
    """Run one seed; say what broke and how to see it again."""
    try:
        world = run_seed(seed, steps)
    except Exception:
        traceback.print_exc()
        print(f"seed {seed} failed; replay it with: python -m tests.simulation --seed {seed} --steps {steps}")
        return True
    totals["crashes"] += world.crashes
    totals["promises checked"] += world.oracle.checks
    return False


totals = {"crashes": 0, "promises checked": 0}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many, from --first")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--stop", action="store_true", help="at the first seed that fails")
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    done = failures = 0
    for seed in seeds:
        done += 1
        failures += failed(seed, arguments.steps)
        if failures and arguments.stop:
            break
    print(f"{done - failures} passed, {failures} failed")
    print(", ".join(f"{number} {what}" for what, number in totals.items()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
