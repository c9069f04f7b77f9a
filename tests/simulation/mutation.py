"""What a planted bug is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """``old`` stands once in ``path`` of the package, ``new`` is the bug; so many ``seeds`` of ``module``
    suffice to find it, or, where any are named, these ``tests`` of pytest."""

    path: str
    old: str
    new: str
    seeds: int = 300
    module: str = "tests.simulation"
    tests: tuple[str, ...] = ()
