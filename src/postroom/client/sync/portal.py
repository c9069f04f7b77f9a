"""The thread behind the sync face: it runs the loop of one connection.

The connection is served while the application works or sleeps: heartbeats leave, prefetched messages come in.

AnyIO's portal takes twice as long for a call, and cancels none at Ctrl-C (docs/explanation/own-parts.md).
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from postroom.amqp.frames.outcomes import DeliveryState
from postroom.client.aio import closable as aio
from postroom.client.aio.consumer import MessageConsumer
from postroom.client.durations import check_duration
from postroom.client.exceptions import LOG, IllegalStateException, MessageFormatException
from postroom.client.messages.base_message import DONE, Message, Receiver
from postroom.client.sessions.deliveries import Deliveries

T = TypeVar("T")
Inner = TypeVar("Inner")
Closes = TypeVar("Closes", bound=aio.Closable)

MAX_CALLBACK_THREADS: Final = 64
"""Listeners that can be called at a time; a session calls one."""
SIGNAL_POLL_S: Final = 0.1
"""So long Ctrl-C may go unnoticed where it doesn't end a wait."""


class Portal:
    """A thread with an event loop; :meth:`call` runs coroutines there and waits for them."""

    def __init__(self) -> None:
        self._callers = ThreadPoolExecutor(MAX_CALLBACK_THREADS, "postroom-listener")
        self._posted: deque[Callable[[], None]] = deque()
        self._is_woken = False
        made: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=_run, args=(made,), name="postroom-client", daemon=True)
        self._thread.start()
        self._loop = made.result()

    @classmethod
    def open(cls, start: Callable[[], Coroutine[Any, Any, T]]) -> tuple[Portal, T]:
        """A new thread, and what ``start()`` returned in it; no thread is left when that fails."""
        portal = cls()
        try:
            return portal, portal.call(start())
        except BaseException:
            portal.stop()
            raise

    def callback(self, function: Callable[..., Any] | None) -> Any:
        """``function``, a listener of the application, as a coroutine function that runs it in a thread
        apart, where it may call everything.
        """
        if function is None:
            return None

        async def outside(*arguments: Any) -> None:
            for argument in arguments:
                self.received(argument)
            context = contextvars.copy_context()
            await self._loop.run_in_executor(self._callers, context.run, function, *arguments)

        return outside

    def received(self, message: T) -> T:
        """``message``, whose outcomes now wait, as everything of this face does."""
        if isinstance(message, Message) and message.receiver is not None:
            message.receiver = outside(self, message.receiver)
        return message

    def do(self, function: Callable[[], None]) -> None:
        """Call ``function`` in the thread, while there is one."""

        async def there() -> None:
            function()

        if self.is_running:
            self.call(there())

    def wait_for(self, action: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Do something in the thread that may be awaited there."""

        async def there() -> None:
            await action()

        self.call(there())
        return DONE

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` in the thread and return its result, or raise its exception.

        When the waiting thread is interrupted (KeyboardInterrupt), the coroutine is cancelled.
        """
        if not self.is_running:
            coroutine.close()
            raise IllegalStateException("the connection is closed")
        call = _Call(self._loop, coroutine)
        self._loop.call_soon_threadsafe(call.start)
        try:
            call.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)
            raise
        return call.result()

    def receive(self, consumer: MessageConsumer, timeout_s: float | None) -> Message | None:
        """The next message of `consumer`: without a change of threads where one is here already."""
        check_duration("timeout_s", timeout_s)
        message = consumer._take(self.post) if self.is_running else None
        if message is None:
            message = self.call(consumer.receive(timeout_s))
        return self.received(message)

    def next(self, loop: AsyncIterator[T]) -> T:
        """The next one of a loop, which ends with the thread."""

        async def there() -> T:
            return await anext(loop)

        if not self.is_running:
            raise StopIteration
        try:
            return self.received(self.call(there()))
        except StopAsyncIteration:
            raise StopIteration from None

    def next_message(self, consumer: MessageConsumer) -> Message:
        """The same of a loop over a consumer."""
        try:
            message = consumer._take(self.post) if self.is_running else None
        except MessageFormatException as failure:
            LOG.warning("%s", failure)
            message = None
        return self.next(consumer) if message is None else self.received(message)

    def post(self, action: Callable[[], None]) -> None:
        """Have `action`, which fails in no way, done in the thread, after what was posted or called before;
        what comes in quick succession wakes the thread once.
        """
        self._posted.append(action)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._do_posted)
            except RuntimeError:
                raise IllegalStateException("the connection is closed") from None

    def _do_posted(self) -> None:
        self._is_woken = False  # first: who posts from now on wakes us again
        for _ in range(len(self._posted)):
            self._posted.popleft()()

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
        self._callers.shutdown(wait=False)


class Face(Generic[Inner]):
    """Something of the sync face: its asyncio twin, and the thread in which that is called."""

    def __init__(self, portal: Portal, inner: Inner) -> None:
        self._portal = portal
        self._inner = inner


class Closable(Face[Closes]):
    """Something that ``with`` closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close it; when it is closed already, do nothing."""
        if self._portal.is_running:
            self._portal.call(self._inner.close())


def outside(portal: Portal, receiver: Receiver) -> Receiver:
    """A message may have it already: one that was received and sent on."""
    return Outside(portal, receiver) if isinstance(receiver, Deliveries) else receiver


class Outside:
    """The receiver of a message, as the blocking face has it."""

    def __init__(self, portal: Portal, inner: Deliveries) -> None:
        self._portal = portal
        self._inner = inner

    def acknowledge(self, message: Message) -> Awaitable[None]:
        if self._portal.is_running and self._inner.post_acknowledgement(message, self._portal.post):
            return DONE
        return self._portal.wait_for(lambda: self._inner.acknowledge(message))

    def send_outcome(self, message: Message, state: DeliveryState) -> Awaitable[None]:
        if self._portal.is_running and self._inner.post_outcome(message, state, self._portal.post):
            return DONE
        return self._portal.wait_for(lambda: self._inner.send_outcome(message, state))

    def check_open(self, message: Message) -> None:
        self._inner.check_open(message)

    def holds(self, message: Message) -> bool:
        return self._inner.holds(message)


def _run(made: Future[asyncio.AbstractEventLoop]) -> None:
    """Make a loop and run it until it is stopped, all in this thread: made or closed in the main thread of
    Windows, it would take the signals of the application's own loop."""
    try:
        loop = new_loop()
    except BaseException as error:
        made.set_exception(error)
        return
    asyncio.set_event_loop(loop)
    made.set_result(loop)
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class _Call(Generic[T]):
    """A coroutine that runs in a loop, and the thread that waits for its end: with less to do than a future
    of `concurrent.futures` chained to a task."""

    __slots__ = ("_coroutine", "_ended", "_loop", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self._ended = Lock()
        self._ended.acquire()

    def start(self) -> None:
        """In the loop."""
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # it may be that nobody waits for it any more
        self._ended.release()

    def cancel(self) -> None:
        """In the loop, after `start`."""
        assert self._task is not None
        self._task.cancel()

    def wait(self) -> None:
        """Until it has ended. On Windows, Ctrl-C ends no wait for a lock: it is looked for again and
        again."""
        if sys.platform == "win32":
            while not self._ended.acquire(timeout=SIGNAL_POLL_S):
                pass
        else:
            self._ended.acquire()

    def result(self) -> T:
        """What it returned, or raises what it raised."""
        assert self._task is not None
        return self._task.result()


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop that there is here."""
    try:
        import uvloop
    except ImportError:  # it is for Linux
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
