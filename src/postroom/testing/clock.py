"""The time of day of a broker under test: it stands still, and tests move it."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SettableClock:
    """Begins with the machine's time. It stands until it is set; or, ``running``, goes on from there."""

    def __init__(self, running: bool = False) -> None:
        self.running: Final = running
        self.ahead_us = 0
        self.forward_us = 0
        self._base_us = time.time_ns() // 1000
        self._began_ns = time.monotonic_ns()

    def now_us(self) -> int:
        return self._base_us + ((time.monotonic_ns() - self._began_ns) // 1000 if self.running else 0)

    def set(self, now_us: int) -> None:
        """It is so late now, or later already."""
        self._base_us += max(0, now_us - self.now_us())

    def wait_s(self, due_us: int) -> float | None:
        left_us = max(0, due_us - self.now_us())
        return left_us / 1e6 if self.running or left_us == 0 else None


def time_of(time_us: int) -> datetime:
    """µs since 1970 as a time in UTC."""
    return _EPOCH + timedelta(microseconds=int(time_us))
