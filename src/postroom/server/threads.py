"""Threads beside the broker's loop: none of them ends unseen, and none of them ends the broker.

What ends a thread's work is logged, and the work begins again after a pause; an alarm names it as long as it
fails. The loop itself is watched by such a thread, which says where it stands when it doesn't go round.
"""

import logging
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final

from postroom.server.logs import LOGGER_NAME, log

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Pauses before failed work begins again double."""
LASTING_S: Final = 60.0
"""Work that has gone on for so long doesn't count as failing any more."""
INSPECTED_EVERY_S: Final = 1.0
STALLED_INSPECTIONS: Final = 10
"""The loop stands still if it hasn't gone round between so many inspections. They are counted, since time
passes while the whole process is stopped, too."""


class TendedThread:
    """Runs `work` until that returns, and again where it raises instead."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name: Final = name
        self._work: Final = work
        self._failure = ""
        self._began_s = 0.0
        self._ending: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def failure(self) -> str:
        """Why its work has ended lately without an end being wanted; "" if it hasn't. In any thread."""
        return self._failure if time.monotonic() - self._began_s < LASTING_S else ""

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        """Until its work has returned, which isn't begun again. One that was never started has ended."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            self._began_s = time.monotonic()
            try:
                self._work()
                return
            except Exception as error:
                if not self.failure:
                    pause_s = FIRST_PAUSE_S
                self._began_s, self._failure = time.monotonic(), str(error) or type(error).__name__
                logging.getLogger(LOGGER_NAME).critical(
                    "thread-failed",
                    extra={"fields": {"thread": self.name, "again_s": pause_s}},
                    exc_info=error,
                )
            if self._ending.wait(pause_s):
                return
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class LoopWatch:
    """Says when the loop of the thread that makes it stands still, where, and when it goes on. After
    longer it may be given up."""

    def __init__(
        self,
        ticked: Callable[[], object],
        give_up: Callable[[], None] | None = None,
        give_up_s: float = 0.0,
    ) -> None:
        """`ticked` is another each time the loop has gone round. `give_up` is called, once and in another
        thread, after `give_up_s`, but not before it was said."""
        self._ticked: Final = ticked
        self._give_up: Final = give_up
        self._give_up_inspections: Final = max(STALLED_INSPECTIONS, math.ceil(give_up_s / INSPECTED_EVERY_S))
        self._watched: Final = threading.get_ident()
        self._ended: Final = threading.Event()
        self.thread: Final = TendedThread("postroom-loop-watch", self._inspect)
        self.inspected_every_s = INSPECTED_EVERY_S

    def __enter__(self) -> "LoopWatch":
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self.thread.join()

    def _inspect(self) -> None:
        seen: object = None
        inspections, since_s = 0, time.monotonic()
        while not self._ended.wait(self.inspected_every_s):
            now_s, ticked = time.monotonic(), self._ticked()
            if ticked != seen:
                if inspections >= STALLED_INSPECTIONS:
                    log(logging.WARNING, "loop-goes-on", seconds=round(now_s - since_s, 1))
                seen, inspections, since_s = ticked, 0, now_s
                continue
            inspections += 1
            if inspections in (STALLED_INSPECTIONS, self._give_up_inspections):
                stalled_s = round(now_s - since_s, 1)
                log(logging.CRITICAL, "loop-stalled", seconds=stalled_s, where=self._where())
            if self._give_up is not None and inspections == self._give_up_inspections:
                self._give_up()

    def _where(self) -> str:
        """The functions that its thread is in, the innermost last."""
        frame = sys._current_frames().get(self._watched)
        stack = traceback.extract_stack(frame) if frame is not None else []
        places = (f"{each.filename.rpartition('postroom/')[2]}:{each.lineno}" for each in stack)
        return " > ".join(f"{place} {each.name}" for place, each in zip(places, stack, strict=True))
