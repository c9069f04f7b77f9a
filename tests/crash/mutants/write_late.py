"""``python -m tests.crash.mutants.write_late``: answers at once, and writes only every so many turns."""

import itertools

from postroom.cli import main
from postroom.server.broker import Broker
from tests.crash.mutants.release_early import release_early

TURNS_A_WRITE = 50
honest_submit = Broker._submit
turns = itertools.count(1)


def submit_late(self: Broker) -> None:
    """Leaves the records where they are, most of the time."""
    if next(turns) % TURNS_A_WRITE == 0:
        honest_submit(self)


if __name__ == "__main__":
    Broker._release = release_early  # type: ignore[method-assign]
    Broker._submit = submit_late  # type: ignore[method-assign]
    main()
