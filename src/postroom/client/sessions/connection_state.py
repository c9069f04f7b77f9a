"""What the sessions of a connection share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Final

from postroom.client.connection.options import ClientOptions
from postroom.client.connection.provider import ConnectionListener
from postroom.client.exceptions import LOG, IllegalStateException, JMSException
from postroom.client.messages.base_message import DONE
from postroom.client.messages.message import Message

MessageCallback = Callable[[Message], Awaitable[None] | None]
"""A message listener: a function, or in asyncio a coroutine function."""
FailureCallback = Callable[[Message, JMSException], Awaitable[None] | None]
"""Told of a message that was not sent."""
ExceptionListener = Callable[[JMSException], Awaitable[None] | None]

CALLED_FOR: Final[ContextVar[frozenset[object]]] = ContextVar("called_for", default=frozenset())
"""The sessions and connections in whose callback this task, or thread, is."""


async def call_back(callback: Callable[..., Awaitable[None] | None], *arguments: Any) -> None:
    """Call what the application gave us, and wait for it where it can be waited for."""
    result = callback(*arguments)
    if inspect.isawaitable(result):
        await result


def all_of(answers: list[Awaitable[None]]) -> Awaitable[None]:
    """Waits for all of them."""
    return asyncio.ensure_future(_gathered(answers)) if answers else DONE


async def _gathered(answers: list[Awaitable[None]]) -> None:
    await asyncio.gather(*answers)


def refuse_in_callback(owner: object, what: str) -> None:
    """Raises IllegalStateException in a callback of ``owner``: it would wait for itself."""
    if owner in CALLED_FOR.get():
        raise IllegalStateException(f"{what} can't be done in a listener of its own")


class Telling(ConnectionListener):
    """Tells the exception listener what the application's connection listener is told, too."""

    def __init__(self, shared: SharedState, listener: ConnectionListener | None) -> None:
        self._shared = shared
        self._listener = listener or ConnectionListener()

    def on_interrupted(self, broker: str) -> None:
        self._listener.on_interrupted(broker)

    def on_restored(self, broker: str) -> None:
        self._listener.on_restored(broker)

    def on_failure(self, failure: JMSException) -> None:
        if self._shared.exception_listener is not None:
            self._shared.report(failure)
        self._listener.on_failure(failure)


class SharedState:
    """Options of a connection, whether it is started, and whom to tell of what nobody waits for."""

    def __init__(self, options: ClientOptions, request_timeout_s: float | None) -> None:
        self.options: Final = options
        self.request_timeout_s: Final = request_timeout_s
        self.started = asyncio.Event()
        """Messages are handed to the application."""
        self.started.set()
        self.exception_listener: ExceptionListener | None = None
        self._reports: set[asyncio.Task[None]] = set()

    def report(self, failure: JMSException) -> None:
        """Tell the exception listener; without one, the log."""
        if self.exception_listener is None:
            LOG.warning("nobody waits for this failure: %s", failure)
            return
        task = asyncio.ensure_future(self._notify(self.exception_listener, failure))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    async def _notify(self, listener: ExceptionListener, failure: JMSException) -> None:
        try:
            await call_back(listener, failure)
        except Exception:
            LOG.exception("the exception listener failed")
