"""A disk whose power is cut before an operation."""

from collections.abc import Callable, Iterator
from random import Random

from tests.simulation.disk import SimDisk


class CutDisk(SimDisk):
    """Calls back before each operation that changes something."""

    before: Callable[[str], None] | None = None

    def check_alive(self, what: str) -> None:
        super().check_alive(what)
        if self.before is not None:
            self.before(what)

    def survivors(self, random: Random) -> Iterator[SimDisk]:
        """What the next process may find now: after a power cut, and sometimes also after a kill."""
        survivor = self.crash(random)
        self.dead = False
        yield survivor
        if random.random() < 0.3:
            yield self.copy()
