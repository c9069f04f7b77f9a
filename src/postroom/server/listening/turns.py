"""Who works when: bytes that arrived wait in inboxes, and a bounded turn takes from each in rotation.

A turn ends after `TURN_FRAMES` frames or `TURN_US`, then its records go to the ledger and each connection
that has output gets one write. So a flood on one connection delays the others by one turn, not by its
length. Nor by blocks of its size: while others send little, the block that fills is kept short for them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from postroom.server.clock import monotonic_us
from postroom.server.listening.busy_polling import BusyPolling

TURN_FRAMES: Final = 256
TURN_US: Final = 1000
PIECE_BYTES: Final = 16 << 10
"""Taken from one inbox before the next connection has its go."""
PIECE_EVENTS: Final = 8
LARGE_PIECE_BYTES: Final = 128 << 10
"""Of larger messages as much as makes so many events, up to so much: a go has its own cost."""
SHARED_BLOCK_BYTES: Final = 48 << 10
"""A flood adds no more to a block that those who send little share with it: each of them waits for the block
in flight and for its own, so what a sync of this size takes is what a flood costs them. Still long enough for
the disk to keep up with the loop."""
LITTLE_BYTES: Final = 4 << 10
"""Who has no more than this in its inbox when its go comes, and a message in it, sends little."""
SHARED_FOR_US: Final = 20_000
"""After so long without any such go the flood has the blocks for itself again."""
MUCH_FOR_US: Final = 20_000
"""So long after it had more than that in its inbox nobody sends little: where many flood at once, each often
has only a few messages there when its go comes."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Worker:
    """A connection as the scheduler sees it. Its methods are the subclass's to write; a protocol in its place
    would have each attribute looked up by name, in compiled code too."""

    def __init__(self) -> None:
        self.inbox_bytes = 0
        """What has arrived and waits for its go."""
        self.much_until_us = 0
        """Until then it counts as one that sends much."""
        self.piece_bytes = PIECE_BYTES
        """What it may take in at its next go, while it shares blocks with nobody who sends little."""

    def work(self, limit_bytes: int) -> int:
        """Take up to ``limit_bytes`` from the inbox; the number of events that came of them."""
        raise NotImplementedError

    def has_work(self) -> bool:
        """Whether there is anything in the inbox that may be taken."""
        raise NotImplementedError

    @property
    def messages_in(self) -> int:
        """How many messages have come from it."""
        raise NotImplementedError


class TurnEnd(Protocol):
    """What must happen after each turn, and whether anything may be taken in at all."""

    def end_turn(self) -> None: ...

    def between_pieces(self) -> None:
        """Within a turn: what has become durable meanwhile need not wait for the turn's end."""

    def may_take_in(self) -> bool:
        """False while too many bytes wait for the disk: inboxes are left alone until it has caught up."""

    def in_flight(self) -> bool:
        """Whether a block is on its way to the disk; `go_on` is called when it is there."""

    def next_block_bytes(self) -> int:
        """What waits to be sent off when that one is durable."""


class Turns:
    """Runs the turns of one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        end: TurnEnd,
        busy_poll_us: int,
        clock_us: Callable[[], int] = monotonic_us,
    ) -> None:
        """``clock_us`` gives time that only passes, in µs."""
        self._loop = loop
        self._clock_us: Final = clock_us
        self._end = end
        self._ready: deque[Worker] = deque()
        self._scheduled = False
        self._modest: Worker | None = None
        """Who has sent little last."""
        self._shared_until_us = 0
        self._polling: Final = BusyPolling(loop, busy_poll_us, self.quiet, clock_us)

    def wake(self, worker: Worker) -> None:
        """``worker`` has something in its inbox. Call once, when the inbox stops being empty."""
        self._ready.append(worker)
        self.schedule()

    def schedule(self) -> None:
        """Have a turn soon even with no bytes to take: something else has changed."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def quiet(self) -> bool:
        """Whether no turn is to come, and no inbox waits for one."""
        return not self._scheduled and not self._ready

    def go_on(self) -> None:
        """Have a turn soon if there are bytes to take and they may be taken."""
        if self._ready and self._end.may_take_in():
            self.schedule()

    def _run(self) -> None:
        self._scheduled = False
        self._polling.end_gap()
        all_held = self._take_in()
        self._end.end_turn()
        in_flight = self._end.in_flight()
        if not (all_held and in_flight):
            self.go_on()
        if self.quiet() and not in_flight:
            self._polling.begin_gap()

    def _take_in(self) -> bool:
        """Whether all that is left must wait until the block in flight is durable."""
        ready, may_take_in = self._ready, self._end.may_take_in
        held: list[Worker] = []
        now_us = self._clock_us()
        deadline_us = now_us + TURN_US
        frames = 0
        while ready and may_take_in():
            worker = ready.popleft()
            if self._must_wait(worker, now_us):
                held.append(worker)
                continue
            frames += self._have_its_go(worker, now_us)
            if worker.has_work():
                ready.append(worker)
            self._end.between_pieces()
            if frames >= TURN_FRAMES or self._clock_us() >= deadline_us:
                break
        all_held = bool(held) and not ready
        ready.extend(held)
        return all_held

    def _must_wait(self, worker: Worker, now_us: int) -> bool:
        """Whether ``worker`` sends much, others send little, and the block that they share is full."""
        if now_us >= self._shared_until_us or worker is self._modest or worker.inbox_bytes <= LITTLE_BYTES:
            return False
        return self._end.next_block_bytes() >= SHARED_BLOCK_BYTES

    def _have_its_go(self, worker: Worker, now_us: int) -> int:
        """Take a piece of its inbox; the number of events. Outcomes of a receiver wait for no block."""
        waiting_bytes, before = worker.inbox_bytes, worker.messages_in
        if waiting_bytes > LITTLE_BYTES:
            worker.much_until_us = now_us + MUCH_FOR_US
        events = worker.work(worker.piece_bytes if now_us >= self._shared_until_us else PIECE_BYTES)
        if events:
            mean_bytes = max(0, waiting_bytes - worker.inbox_bytes) // events
            worker.piece_bytes = min(max(PIECE_BYTES, PIECE_EVENTS * mean_bytes), LARGE_PIECE_BYTES)
        if now_us >= worker.much_until_us and worker.messages_in != before:
            self._modest = worker
            self._shared_until_us = now_us + SHARED_FOR_US
        return events
