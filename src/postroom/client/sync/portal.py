"""The thread behind the sync face: it runs the loop of one connection.

The connection is served while the application works or sleeps: heartbeats leave, prefetched messages come in.

AnyIO's portal takes twice as long for a call, and cancels none at Ctrl-C (docs/explanation/own-parts.md).
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from postroom.amqp.frames.outcomes import DeliveryState
from postroom.client.aio import closable as aio
from postroom.client.exceptions import IllegalStateException
from postroom.client.messages.base_message import DONE, Message, Receiver

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
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return _result(future)
        except BaseException:
            future.cancel()
            raise

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
    return receiver if isinstance(receiver, Outside) else Outside(portal, receiver)


class Outside:
    """The receiver of a message, as the blocking face has it."""

    def __init__(self, portal: Portal, inner: Receiver) -> None:
        self._portal = portal
        self._inner = inner

    def acknowledge(self, message: Message) -> Awaitable[None]:
        return self._portal.wait_for(lambda: self._inner.acknowledge(message))

    def send_outcome(self, message: Message, state: DeliveryState) -> Awaitable[None]:
        return self._portal.wait_for(lambda: self._inner.send_outcome(message, state))

    def check_open(self, message: Message) -> None:
        self._inner.check_open(message)

    def holds(self, message: Message) -> bool:
        return self._inner.holds(message)


def _run(made: Future[asyncio.AbstractEventLoop]) -> None:
    """Make a loop and run it until it is stopped, all in this thread: made or closed in the main thread of
    Windows, it would take the signals of the application's own loop."""
    try:
        loop = asyncio.new_event_loop()
    except BaseException as error:
        made.set_exception(error)
        return
    asyncio.set_event_loop(loop)
    made.set_result(loop)
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _result(future: Future[T]) -> T:
    """Wait for the result. On Windows, Ctrl-C ends no wait for a lock: it is looked for again and again."""
    if sys.platform == "win32":
        while not future.done():
            wait([future], SIGNAL_POLL_S)
    return future.result()
