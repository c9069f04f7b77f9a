"""The two clocks of the server, in µs: what time it is, and how much has passed."""

import time
from typing import Final, Protocol

STEP_US: Final = 1_000_000
"""A clock that is set by less is not noticed: the queue manager holds its own still for so long."""
MAX_WAIT_S: Final = 60.0
"""So late may it be noticed that the clock was set forward."""


class Clock(Protocol):
    """The time of day, as one broker has it."""

    ahead_us: int
    """How much it is ahead of the machine's clock, since that was set back."""
    forward_us: int
    """How much the machine's clock was set forward since somebody looked and set this to 0."""

    def now_us(self) -> int:
        """µs since 1970."""

    def wait_s(self, due_us: int) -> float | None:
        """How long to wait before looking whether it is ``due_us``; None: time doesn't pass by itself."""


class WallClock:
    """The time of day, which doesn't go back: when somebody sets the machine's clock back, the broker's time
    goes on from where it was, as fast as time passes. So births, expiries, delays and leases come when they
    should, counted from now. When the clock is set forward, the time follows it.
    """

    def __init__(self) -> None:
        self._wall_us = 0
        self._monotonic_us = 0
        self.ahead_us = 0
        """How much the time is ahead of the machine's clock."""
        self.forward_us = 0
        """How far the clock was set forward since somebody looked and set this to 0."""

    def now_us(self) -> int:
        """µs since 1970."""
        wall_us, passed_us = time.time_ns() // 1000, monotonic_us()
        step_us = wall_us - self._wall_us - (passed_us - self._monotonic_us)
        if (step_us <= -STEP_US or step_us >= STEP_US) and self._wall_us:
            self.ahead_us = max(0, self.ahead_us - step_us)
            self.forward_us += max(0, step_us)
        self._wall_us, self._monotonic_us = wall_us, passed_us
        return wall_us + self.ahead_us

    def wait_s(self, due_us: int) -> float | None:
        return min(max(0, due_us - self.now_us()) / 1e6, MAX_WAIT_S)


WALL: Final = WallClock()
"""Of this process."""


def wall_us() -> int:
    """Time of day since 1970: what the ledger and expiry go by. May jump forward."""
    return WALL.now_us()


def monotonic_us() -> int:
    """Time that only passes: what heartbeats and turns go by."""
    return time.monotonic_ns() // 1000
