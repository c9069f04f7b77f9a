"""What a planted bug is."""

from dataclasses import dataclass
from typing import Final

WORLD: Final = ("tests/simulation/test_simulation.py",)
SINKS: Final = ("tests/simulation/test_sinks.py",)
SPARK_QUERIES: Final = ("tests/simulation/test_spark_queries.py",)
CHANNELS: Final = ("tests/simulation/channels/test_channels.py",)


@dataclass(frozen=True)
class Mutation:
    """``old`` stands once in ``path`` of the package, ``new`` is the bug, and one of these ``tests`` of `make
    test` finds it."""

    path: str
    old: str
    new: str
    tests: tuple[str, ...] = WORLD
