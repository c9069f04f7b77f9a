"""What tells a program to stop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType, TracebackType
from typing import Any, Final, Self

__all__ = ["Signals", "until"]

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Within it, SIGINT and SIGTERM call ``hear`` in the loop; in the main thread, which alone gets them."""

    def __init__(self, hear: Callable[[], None]) -> None:
        self._hear = hear
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self._hear)

        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


async def until(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do ``work`` until it is done, or the event is set, which cancels it; whether it was done."""
    doing = asyncio.create_task(work)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((doing, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))
    if doing.cancelled():
        return False
    doing.result()
    return True
