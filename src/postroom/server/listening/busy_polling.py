"""Waiting awake: while answers are followed by the next request at once, the loop asks for it again and again
instead of going to sleep.

A processor that sleeps takes tens of microseconds to wake, on a virtual machine above all; a client with one
message in flight pays them for each. Polling takes processor time from others, so it begins only after some
gaps in a row that were shorter than its bound, and one longer gap ends it. As long as gaps are short, other
threads give the interpreter back sooner, too: a request waits for it several times.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Final

SHORT_GAPS: Final = 4
"""So many in a row, and the next is polled through."""
PROMPT_SWITCH_S: Final = 0.00002
"""How long another thread keeps the interpreter meanwhile."""


class BusyPolling:
    """Of one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit_us: int,
        is_idle: Callable[[], bool],
        clock_us: Callable[[], int],
    ) -> None:
        """Polls for at most `limit_us` in a gap (0: never), and no longer than `is_idle`. ``clock_us`` gives
        time that only passes."""
        self._loop: Final = loop
        self._limit_us: Final = limit_us
        self._is_idle: Final = is_idle
        self._clock_us: Final = clock_us
        self._idle_since_us = 0
        self._short_gaps = 0
        self._polls = False
        self._usual_switch_s: Final = sys.getswitchinterval()

    def begin_gap(self) -> None:
        """There is nothing to do, and nothing on its way to the disk."""
        if self._limit_us == 0:
            return
        self._idle_since_us = self._clock_us()
        if self._short_gaps >= SHORT_GAPS and not self._polls:
            self._polls = True
            self._loop.call_soon(self._poll)

    def end_gap(self) -> None:
        """There is something to do."""
        if self._idle_since_us == 0:
            return
        is_short = self._clock_us() - self._idle_since_us <= self._limit_us
        self._idle_since_us = 0
        if not is_short and self._short_gaps == SHORT_GAPS:
            sys.setswitchinterval(self._usual_switch_s)
        elif is_short and self._short_gaps == SHORT_GAPS - 1:
            sys.setswitchinterval(PROMPT_SWITCH_S)
        self._short_gaps = min(self._short_gaps + 1, SHORT_GAPS) if is_short else 0

    def _poll(self) -> None:
        """The loop looks at its sockets between this call and the next."""
        if self._is_idle() and self._clock_us() - self._idle_since_us <= self._limit_us:
            self._loop.call_soon(self._poll)
        else:
            self._polls = False
