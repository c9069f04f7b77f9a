"""Spans on their way to the collector: as many as the configuration allows, sent by a thread of their own.

A collector that is away harms nobody: its spans wait, those that come when there is no more room are dropped
and counted, and what one batch can't be sent of for long is given up.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from postroom.server.logs import log
from postroom.server.threads import TendedThread
from postroom.server.tracing.spans import Span

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
"""After a request that failed the next waits, twice as long each time."""
GIVE_UP_S: Final = 300.0
"""A batch that couldn't be sent for so long is dropped: it may be what the collector refuses."""
STOP_S: Final = 5.0
"""So long the end of the broker waits for what is left to be sent."""

NO_ROOM: Final = "no-room"
NOT_SENT: Final = "not-sent"
"""Why spans were dropped."""


class SpanExporter(Protocol):
    """Sends spans to a collector."""

    def export(self, spans: Sequence[Span]) -> str:
        """Send them; "" when the collector has them, or else why it hasn't."""


class SpanQueue:
    """Spans that wait, and the thread that sends them, from `start` to `stop`."""

    def __init__(self, exporter: SpanExporter, max_spans: int, batch_spans: int) -> None:
        self._exporter: Final = exporter
        self._max_spans: Final = max_spans
        self._batch_spans: Final = batch_spans
        self._spans: Final[deque[Span]] = deque()
        self._changed: Final = threading.Condition()
        self._stopping = False
        self.thread: Final = TendedThread("postroom-spans", self._run)
        self._failed_s = 0.0
        """When the batch that comes next failed first; 0: it has not."""
        self.exported = 0
        self.dropped: Final = {NO_ROOM: 0, NOT_SENT: 0}

    @property
    def waiting(self) -> int:
        return len(self._spans)

    def start(self) -> None:
        self.thread.start()

    def add(self, spans: Sequence[Span]) -> None:
        """These are to be sent; those for which there is no room are dropped."""
        with self._changed:
            room = max(0, self._max_spans - len(self._spans))
            self._spans.extend(spans[:room])
            self.dropped[NO_ROOM] += max(0, len(spans) - room)
            self._changed.notify()

    def stop(self) -> None:
        """Send what is left, if that is done soon."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self.thread.join(STOP_S)  # a request may be in work for longer, and ends with the process
        self.dropped[NOT_SENT] += len(self._spans)
        if self._spans:
            log(logging.WARNING, "spans-not-sent", spans=len(self._spans))

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._spans or self._stopping)
                batch = [self._spans[at] for at in range(min(len(self._spans), self._batch_spans))]
            if not batch:
                return
            if self._send(batch):
                pause_s = FIRST_PAUSE_S
                continue
            with self._changed:
                if self._changed.wait_for(lambda: self._stopping, pause_s):
                    return
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _send(self, batch: list[Span]) -> bool:
        """Whether the batch has gone, or is given up."""
        reason = self._exporter.export(batch)
        now_s = time.monotonic()
        if reason and not self._failed_s:
            log(logging.WARNING, "trace-export-failed", reason=reason, spans=len(self._spans))
            self._failed_s = now_s
        if reason and now_s - self._failed_s < GIVE_UP_S:
            return False
        with self._changed:
            for _ in batch:
                self._spans.popleft()
        if reason:
            self.dropped[NOT_SENT] += len(batch)
        else:
            self.exported += len(batch)
            if self._failed_s:
                log(logging.INFO, "trace-export-works", spans=len(self._spans))
        self._failed_s = now_s if reason else 0.0
        return True
