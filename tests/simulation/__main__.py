"""Any number of seeds: ``python -m tests.simulation --seeds 1000``; one again: ``python -m tests.simulation --seed 17``."""

import argparse
import logging
import sys
import traceback

from tests.simulation.world import World

STEPS = 1200


def run_seed(seed: int, steps: int = STEPS) -> World:
    """Run one seed to its end; raises whatever broke."""
    logging.disable(logging.CRITICAL)
    world = World(seed)
    world.run(steps)
    return world


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many, from --first")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="run only this one and show what happened")
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    seeds = (
        [arguments.seed]
        if arguments.seed is not None
        else range(arguments.first, arguments.first + arguments.seeds)
    )
    failed = crashes = checks = 0
    for seed in seeds:
        try:
            world = run_seed(seed, arguments.steps)
        except Exception:
            failed += 1
            traceback.print_exc()
            print(
                f"seed {seed} failed; replay it with: python -m tests.simulation --seed {seed} --steps {arguments.steps}"
            )
        else:
            crashes += world.crashes
            checks += world.oracle.checks
    print(
        f"{len(seeds) - failed} seeds passed, {failed} failed; {crashes} crashes, {checks} promises checked"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
