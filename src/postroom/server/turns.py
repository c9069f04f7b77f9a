"""Who works when: bytes that arrived wait in inboxes, and a bounded turn takes from each in rotation.

A turn ends after `TURN_FRAMES` frames or `TURN_US`, then its records go to the ledger and each connection
that has output gets one write. So a flood on one connection delays the others by one turn, not by its
length.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from postroom.server.clock import monotonic_us

TURN_FRAMES: Final = 256
TURN_US: Final = 1000
PIECE_BYTES: Final = 16 << 10
"""Taken from one inbox before the next connection has its go."""


class Worker(Protocol):
    """A connection as the scheduler sees it."""

    def work(self, limit_bytes: int) -> int:
        """Take up to ``limit_bytes`` from the inbox; the number of events that came of them."""

    def has_work(self) -> bool: ...


class TurnEnd(Protocol):
    """What must happen after each turn, and whether anything may be taken in at all."""

    def end_turn(self) -> None: ...

    def between_pieces(self) -> None:
        """Within a turn: what has become durable meanwhile need not wait for the turn's end."""

    def may_take_in(self) -> bool:
        """False while too many bytes wait for the disk: inboxes are left alone until it has caught up."""


class Turns:
    """Runs the turns of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: TurnEnd) -> None:
        self._loop = loop
        self._end = end
        self._ready: deque[Worker] = deque()
        self._scheduled = False

    def wake(self, worker: Worker) -> None:
        """``worker`` has something in its inbox. Call once, when the inbox stops being empty."""
        self._ready.append(worker)
        self.schedule()

    def schedule(self) -> None:
        """Have a turn soon even with no bytes to take: something else has changed."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def go_on(self) -> None:
        """Have a turn soon if there are bytes to take and they may be taken."""
        if self._ready and self._end.may_take_in():
            self.schedule()

    def _run(self) -> None:
        self._scheduled = False
        self._take_in()
        self._end.end_turn()
        self.go_on()

    def _take_in(self) -> None:
        ready, may_take_in = self._ready, self._end.may_take_in
        deadline_us = monotonic_us() + TURN_US
        frames = 0
        while ready and may_take_in():
            worker = ready.popleft()
            frames += worker.work(PIECE_BYTES)
            if worker.has_work():
                ready.append(worker)
            self._end.between_pieces()
            if frames >= TURN_FRAMES or monotonic_us() >= deadline_us:
                return
