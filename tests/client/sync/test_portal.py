"""The thread behind the blocking face: its loop is its own from the first to the last."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from postroom.client import IllegalStateException
from postroom.client.sync import portal as portal_module
from postroom.client.sync.portal import Portal


def test_the_loop_is_made_and_closed_in_its_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows a loop that is made, or closed, in the main thread takes the signals of the loop there."""
    threads: list[threading.Thread] = []

    class Loop(asyncio.SelectorEventLoop):
        def __init__(self) -> None:
            threads.append(threading.current_thread())
            super().__init__()

        def close(self) -> None:
            threads.append(threading.current_thread())
            super().close()

    monkeypatch.setattr(portal_module, "new_loop", Loop)

    async def where() -> threading.Thread:
        return threading.current_thread()

    portal = Portal()
    runs_in = portal.call(where())
    portal.stop()
    assert not portal.is_running and not runs_in.is_alive()
    assert threads == [runs_in, runs_in] and runs_in is not threading.current_thread()
    portal.stop()
    with pytest.raises(IllegalStateException):
        portal.call(where())


def test_without_a_loop_there_is_no_portal_and_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(portal_module, "new_loop", fail)
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="Too many open files"):
        Portal()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_where_a_wait_hears_no_signal_it_is_done_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where Ctrl-C ends no wait for a lock; results and errors are what they are elsewhere."""
    monkeypatch.setattr("sys.platform", "win32")
    waits: list[float] = []

    class Interrupted:
        """A lock of which the first wait is interrupted, as Ctrl-C does."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self.release = self._lock.release

        def acquire(self, timeout: float = -1) -> bool:
            if timeout >= 0:
                waits.append(timeout)
                if len(waits) == 1:
                    raise KeyboardInterrupt
            return self._lock.acquire(timeout=timeout)

    monkeypatch.setattr(portal_module, "Lock", Interrupted)
    portal = Portal()
    cancelled, started = threading.Event(), threading.Event()

    async def sleeps() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def fails() -> None:
        raise TimeoutError("of the coroutine")

    with pytest.raises(KeyboardInterrupt):
        portal.call(sleeps())
    portal.call(asyncio.sleep(0))
    assert not started.is_set() or cancelled.wait(10)
    with pytest.raises(TimeoutError, match="of the coroutine"):
        portal.call(fails())
    portal.stop()
    assert waits and waits[0] > 0


def test_what_is_posted_is_done_in_order_and_before_what_is_called_after_it() -> None:
    """By one wake of the thread where it comes in quick succession."""
    portal = Portal()
    done: list[int] = []
    wakes = 0
    is_held, let_go = threading.Event(), threading.Event()

    async def hold() -> None:
        nonlocal wakes
        wake = portal._loop.call_soon_threadsafe

        def counted(*arguments: Any, **options: Any) -> asyncio.Handle:
            nonlocal wakes
            wakes += 1
            return wake(*arguments, **options)

        monkey.setattr(portal, "_loop", Watched(portal._loop, counted))
        is_held.set()
        let_go.wait(10)

    with pytest.MonkeyPatch.context() as monkey:
        holder = threading.Thread(target=portal.call, args=(hold(),))
        holder.start()
        assert is_held.wait(10)
        for number in range(100):
            portal.post(partial(done.append, number))
        assert (done, wakes) == ([], 1)
        let_go.set()
        holder.join(10)

        async def so_far() -> list[int]:
            return list(done)

        assert portal.call(so_far()) == list(range(100))
        portal.post(partial(done.append, 100))
        assert portal.call(so_far())[-1] == 100
    portal.stop()
    with pytest.raises(IllegalStateException, match="the connection is closed"):
        portal.post(done.clear)


class Watched:
    """A loop, but for one method."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call_soon_threadsafe: Callable[..., Any]) -> None:
        self._loop = loop
        self.call_soon_threadsafe = call_soon_threadsafe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)
