"""Any number of seeds: ``python -m tests.simulation --seeds 1000``; one again: ``… --seed 17``."""

import sys

from tests.simulation.seeds import command
from tests.simulation.world import World


def counts(world: World) -> dict[str, int]:
    """What is told of all worlds together."""
    return {
        "crashes": world.crashes,
        "promises checked": world.oracle.checks,
        "times that a full disk refused messages": world.refusals,
    }


if __name__ == "__main__":
    sys.exit(command("python -m tests.simulation", __doc__, World, counts))
