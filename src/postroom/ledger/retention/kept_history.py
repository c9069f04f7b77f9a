"""What must stay of the ledger for its readers, and how far back it still reaches.

The one thing that the broker's thread, which grants leases, shares with the one that lets files go. Whether
a file may go is asked and noted in one step, so that no lease is granted on what is just going.
"""

import threading
from collections.abc import Iterable
from typing import Final, NamedTuple

NEVER: Final = (1 << 64) - 1
"""A position that no record has: nothing must stay."""


class Floors(NamedTuple):
    """Files with positions from here on stay: events files, and bodies as they were written."""

    events: int
    bodies: int


NO_FLOORS: Final = Floors(NEVER, NEVER)


def lowest(floors: Iterable[Floors]) -> Floors:
    """What keeps all that any of these keep."""
    found = [NO_FLOORS, *floors]
    return Floors(min(one.events for one in found), min(one.bodies for one in found))


class Held(NamedTuple):
    """Bytes that would be free were it not for leases, in a file that ends at this position."""

    last_position: int
    size_bytes: int


class Keep:
    """Floors under the files, and what has gone from beneath them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.floors = NO_FLOORS
        self.events_gone = 0
        """The last position whose events file has gone; behind it the history is whole."""
        self.bodies_gone = 0
        """The last position whose bodies were rewritten without their dead; behind it all are there."""
        self.held_events: tuple[Held, ...] = ()
        self.held_bodies: tuple[Held, ...] = ()
        self.has_news = False
        """What leases hold was counted again since somebody looked."""

    def hold(self, floors: Floors) -> bool:
        """Keep what these say from now on; whether more may go than before."""
        with self._lock:
            before, self.floors = self.floors, floors
        return floors.events > before.events or floors.bodies > before.bodies

    def claim(self, position: int, with_bodies: bool) -> bool:
        """Keep everything from this position on, unless some of it has gone; whether that was done."""
        with self._lock:
            if position <= self.last_gone(with_bodies):
                return False
            self.floors = lowest([self.floors, Floors(position, position if with_bodies else NEVER)])
            return True

    def last_gone(self, with_bodies: bool) -> int:
        """The last position that is not there any more: its events, or its bodies too."""
        return max(self.events_gone, self.bodies_gone) if with_bodies else self.events_gone

    def reaches(self, events_gone: int, bodies_gone: int) -> None:
        """What was found gone at the start."""
        self.events_gone, self.bodies_gone = events_gone, bodies_gone

    def may_drop_events(self, last_position: int) -> bool:
        """Whether an events file that ends there may go; if so it counts as gone."""
        with self._lock:
            may = last_position < self.floors.events
            self.events_gone = max(self.events_gone, last_position) if may else self.events_gone
        return may

    def may_drop_bodies(self, last_position: int) -> bool:
        """Whether the dead in a file of bodies that ends there may go; if so they count as gone."""
        with self._lock:
            may = last_position < self.floors.bodies
            self.bodies_gone = max(self.bodies_gone, last_position) if may else self.bodies_gone
        return may

    def holds_bodies(self, last_position: int) -> bool:
        """Whether a file of bodies that ends there must stay as it is."""
        return last_position >= self.floors.bodies

    def count_events(self, held: list[Held]) -> None:
        """The events files that would have gone were it not for leases."""
        self._count(tuple(held), self.held_bodies)

    def count_bodies(self, held: list[Held]) -> None:
        """The dead in files of bodies that would have been rewritten were it not for leases."""
        self._count(self.held_events, tuple(held))

    def _count(self, events: tuple[Held, ...], bodies: tuple[Held, ...]) -> None:
        if (events, bodies) != (self.held_events, self.held_bodies):
            self.held_events, self.held_bodies = events, bodies
            self.has_news = True


def whole_since(files: list[tuple[int, int, int]], end: int) -> int:
    """First position of the run of files, without a gap, that ends with the last; `end` if there are none.

    Each file is (first number, last number, first position), ascending.
    """
    first, expected = end, None
    for first_number, last_number, position in reversed(files):
        if expected is not None and last_number != expected:
            break
        first, expected = position, first_number - 1
    return first
