"""A thread with an event loop of its own, and how other threads have it do something."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from postroom.client.sync.portal import new_loop
from postroom.testing.errors import BrokerFailed

T = TypeVar("T")
PATIENCE_S: Final = 30.0
"""The longest that a test waits for the broker."""


class LoopThread:
    """Runs until it is closed."""

    def __init__(self) -> None:
        self.loop: Final = new_loop()
        self._thread = threading.Thread(target=self._run, name="postroom-testing", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        return self.loop.is_closed() or not self._thread.is_alive()

    def run(self, job: Callable[[], Coroutine[Any, Any, T]], limit_s: float = PATIENCE_S) -> T:
        """The result of ``job``, run on the loop. Raises what it raises; BrokerFailed after ``limit_s``."""
        if self.closed:
            raise BrokerFailed("the broker is closed")
        if threading.current_thread() is self._thread:
            raise BrokerFailed(
                "code that runs within the broker can't ask it anything: it would wait for itself"
            )
        running = asyncio.run_coroutine_threadsafe(job(), self.loop)
        try:
            return running.result(limit_s)
        except TimeoutError:
            if running.done():  # its own
                raise
            running.cancel()
            raise BrokerFailed(f"the broker has not come to rest within {limit_s:g} s") from None

    def close(self) -> None:
        """End the loop and the thread."""
        if not self.closed:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()
