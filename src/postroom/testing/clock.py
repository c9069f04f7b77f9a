"""The time of day of a broker under test: it stands still, and tests move it."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from postroom.model.message import MessageHead

MAX_TIME_US: Final = 1 << 62
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


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

    def shift(self, head: MessageHead) -> None:
        """Clients say by the machine's clock when a message expires or is born: it is as far from now by this
        one."""
        ahead_us = self.now_us() - time.time_ns() // 1000
        if head.expiry_us:
            head.expiry_us = head.properties_expiry_us = _within(head.expiry_us + ahead_us, MAX_TIME_US)
        if head.delivery_time_ms:
            head.delivery_time_ms = _within(head.delivery_time_ms + ahead_us // 1000, MAX_TIME_US // 1000)

    def wait_s(self, due_us: int) -> float | None:
        left_us = max(0, due_us - self.now_us())
        return left_us / 1e6 if self.running or left_us == 0 else None


def _within(time: int, latest: int) -> int:
    """Never 0, which says that there is none."""
    return min(max(1, time), latest)


def time_of(time_us: int) -> datetime:
    """µs since 1970 as a time in UTC; the last that Python has for those that are later."""
    return _EPOCH + timedelta(microseconds=min(int(time_us), _LAST_US))
