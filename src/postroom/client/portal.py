"""The thread behind the sync face: it runs the loop of one connection.

The connection is served while the application works or sleeps: heartbeats leave, prefetched messages come in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from postroom.client.exceptions import IllegalStateException

T = TypeVar("T")


class Portal:
    """A thread with an event loop; :meth:`call` runs coroutines there and waits for them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="postroom-client", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, start: Callable[[], Coroutine[Any, Any, T]]) -> tuple[Portal, T]:
        """A new thread, and what ``start()`` returned in it; no thread is left when that fails."""
        portal = cls()
        try:
            return portal, portal.call(start())
        except BaseException:
            portal.stop()
            raise

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` in the thread and return its result, or raise its exception.

        When the waiting thread is interrupted (KeyboardInterrupt), the coroutine is cancelled.
        """
        if not self.is_running:
            coroutine.close()
            raise IllegalStateException("the connection is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def is_running(self) -> bool:
        """False after :meth:`stop`."""
        return not self._loop.is_closed()

    def stop(self) -> None:
        """End the thread; a second call does nothing."""
        if not self.is_running:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
