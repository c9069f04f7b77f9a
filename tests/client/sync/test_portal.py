"""The thread behind the blocking face: its loop is its own from the first to the last."""

import asyncio
import threading

import pytest

from postroom.client import IllegalStateException
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

    monkeypatch.setattr(asyncio, "new_event_loop", Loop)

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

    monkeypatch.setattr(asyncio, "new_event_loop", fail)
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

    def wait(futures: list[object], timeout_s: float) -> None:
        waits.append(timeout_s)
        if len(waits) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("postroom.client.sync.portal.wait", wait)
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
