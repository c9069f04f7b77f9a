"""Waiting awake: while answers are followed by the next request at once, the loop asks for it again and again
instead of going to sleep.

A processor that sleeps takes tens of microseconds to wake, on a virtual machine above all; a client with one
message in flight pays them for each. Polling takes processor time from others, so it begins only after some
gaps in a row that were shorter than its bound, and one longer gap ends it.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from postroom.server.clock import monotonic_us

SHORT_GAPS: Final = 4
"""So many in a row, and the next is polled through."""


class BusyPolling:
    """Of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_us: int, is_idle: Callable[[], bool]) -> None:
        """Polls for at most `limit_us` in a gap (0: never), and no longer than `is_idle`."""
        self._loop: Final = loop
        self._limit_us: Final = limit_us
        self._is_idle: Final = is_idle
        self._idle_since_us = 0
        self._short_gaps = 0
        self._polls = False

    def begin_gap(self) -> None:
        """There is nothing to do, and nothing on its way to the disk."""
        if self._limit_us == 0:
            return
        self._idle_since_us = monotonic_us()
        if self._short_gaps >= SHORT_GAPS and not self._polls:
            self._polls = True
            self._loop.call_soon(self._poll)

    def end_gap(self) -> None:
        """There is something to do."""
        if self._idle_since_us == 0:
            return
        is_short = monotonic_us() - self._idle_since_us <= self._limit_us
        self._short_gaps = min(self._short_gaps + 1, SHORT_GAPS) if is_short else 0
        self._idle_since_us = 0

    def _poll(self) -> None:
        """The loop looks at its sockets between this call and the next."""
        if self._is_idle() and monotonic_us() - self._idle_since_us <= self._limit_us:
            self._loop.call_soon(self._poll)
        else:
            self._polls = False
