"""The application: its subscribers, its connection, and its life."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from postroom.app.bodies import as_sent
from postroom.app.handlers import Handler
from postroom.app.policy import (
    DEFAULT_BACKOFF,
    DEFAULT_MAX_RETRY_AFTER_S,
    DEFAULT_RETRIES,
    DEFAULT_RETRY_AFTER_S,
    RetryPolicy,
)
from postroom.app.publisher import Publisher
from postroom.app.stop_signals import Signals, until
from postroom.app.subscriber import Subscriber, Subscription
from postroom.client import ClientOptions, Destination, IllegalStateException, Message, TlsOptions
from postroom.client.aio import Connection, ConnectionFactory
from postroom.client.durations import check_duration

__all__ = ["App"]

LOG: Final = logging.getLogger("postroom.app")
DEFAULT_URL: Final = "amqp://127.0.0.1:5672"
DEFAULT_GRACE_S: Final = 30.0

F = TypeVar("F", bound=Callable[..., Any])


class App:
    """Handlers of messages, and the connection that they live on.

    ``run()`` is a program's main; ``async with app:`` is for a part of one: it opens everything, and stops
    it at the end. An app may be opened again when it is closed. ``grace_s``: how long handlers that are under
    way may take to end. ``create_queues``: the queues of subscribers are made where they aren't there, if the
    broker does so for senders. The rest is as of :class:`postroom.client.aio.ConnectionFactory`.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        grace_s: float = DEFAULT_GRACE_S,
        create_queues: bool = True,
        client_id: str | None = None,
        tls: ssl.SSLContext | TlsOptions | None = None,
        options: ClientOptions | None = None,
    ) -> None:
        check_duration("grace_s", grace_s)
        self._factory = ConnectionFactory(
            url, client_id=client_id, tls=tls, options=options or ClientOptions()
        )
        self._grace_s = grace_s
        self._create_queues = create_queues
        self._declared: list[tuple[Subscription, Handler]] = []
        self._subscribers: list[Subscriber] = []
        self._loops: list[asyncio.Task[None]] = []
        self._connection: Connection | None = None
        self._publisher: Publisher | None = None
        self._stopping = asyncio.Event()

    # --- handlers

    def subscriber(
        self,
        destination: Destination,
        *,
        subscription: str | None = None,
        selector: str | None = None,
        concurrency: int = 1,
        prefetch: int | None = None,
        retries: int = DEFAULT_RETRIES,
        retry_after_s: float = DEFAULT_RETRY_AFTER_S,
        backoff: float = DEFAULT_BACKOFF,
        max_retry_after_s: float = DEFAULT_MAX_RETRY_AFTER_S,
        publish_to: Destination | None = None,
    ) -> Callable[[F], F]:
        """The function below handles the messages of ``destination``: a queue (its name), or a ``Topic``,
        whose ``subscription`` is durable, and shared by all processes that name it.

        Its first parameter is the body, as what it is annotated with; a second one, of type ``Message``, the
        message. At most ``concurrency`` are handled at a time; a function that is no coroutine function has
        a thread for each. When it returns, the message is accepted; what it returns, other than None, is sent
        before that, to ``publish_to`` or else to the message's ``reply_to``. When it raises, see
        :class:`Retry`, :class:`Reject` and, for any other exception, :class:`RetryPolicy`, after which the
        message is a dead letter with the exception's text. A body that can't be read is one at once.

        Raises TypeError for a function that can't take messages, ValueError for numbers that make no sense.
        """
        policy = RetryPolicy(retries, retry_after_s, backoff, max_retry_after_s)
        wanted = Subscription(destination, subscription, selector, concurrency, prefetch, publish_to, policy)

        def declare(function: F) -> F:
            if self._connection is not None:
                raise IllegalStateException("the app is open: declare its subscribers before")
            self._declared.append((wanted, Handler(function)))
            return function

        return declare

    # --- sending

    async def publish(
        self, destination: Destination, body: object, *, properties: Mapping[str, object] | None = None
    ) -> None:
        """Send ``body`` to a queue (its name) or a ``Topic``: str, bytes and ``Message`` as they are,
        anything else as JSON. It is on the broker's disk when this returns, unless the message isn't durable.

        ``properties`` are the message's application properties. Raises MessageFormatException for what JSON
        has no form for, IllegalStateException where the app isn't open, and as
        :meth:`postroom.client.aio.MessageProducer.send`.
        """
        message = as_sent(body)
        for name, value in (properties or {}).items():
            message.properties[name] = value
        await self._sending().send(destination, message)

    def _sending(self) -> Publisher:
        if self._publisher is None:
            raise IllegalStateException(
                "the app isn't open: publish within `async with app:`, or in a handler"
            )
        return self._publisher

    def _answer(self, publish_to: Destination | None) -> Callable[[Message, object], Awaitable[None]]:
        """What sends that which a handler has returned."""

        async def answer(message: Message, body: object) -> None:
            reply = as_sent(body)
            if reply.correlation_id is None:
                reply.correlation_id = message.correlation_id or message.message_id
            if publish_to is not None:
                await self._sending().send(publish_to, reply)
            elif message.reply_to is not None:
                await self._sending().reply(message.reply_to, reply)

        return answer

    # --- life

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(self._grace_s)
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raises what has ended the receiving, if anything has: a queue that was deleted, a connection that
        is lost. For health checks; ``run`` and ``async with`` raise it at their end.
        """
        for loop in self._loops:
            if loop.done() and not loop.cancelled() and (failure := loop.exception()) is not None:
                raise failure

    def run(self) -> None:
        """Handle messages until SIGINT or SIGTERM, then end in order: fetch no more, let handlers end, give
        back what wasn't begun. A second signal cancels the handlers.

        Raises what ends it otherwise, as :meth:`check`, and what opening raises.
        """
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._stopping = asyncio.Event()
        with Signals(self._hear):
            if await until(self._stopping, self._open()):
                await self._stopping.wait()
                await self._close(self._grace_s)
        self.check()

    def _hear(self) -> None:
        """A signal: stop; the second one: now."""
        if self._stopping.is_set():
            for subscriber in self._subscribers:
                subscriber.cancel()
        self._stopping.set()

    async def _open(self) -> None:
        if self._connection is not None:
            raise IllegalStateException("the app is open already")
        self._loops = []
        self._subscribers = [
            Subscriber(wanted, handler, self._answer(wanted.publish_to)) for wanted, handler in self._declared
        ]
        self._connection = connection = await self._factory.create_connection()
        self._publisher = Publisher(connection)
        try:
            for subscriber in self._subscribers:
                await subscriber.open(connection, self._create_queues)
        except BaseException:
            await self._close(0)
            raise
        for subscriber in self._subscribers:
            loop = asyncio.create_task(subscriber.run(), name=f"the subscriber of {subscriber.wanted.text}")
            loop.add_done_callback(self._loop_ended)
            self._loops.append(loop)

    def _loop_ended(self, loop: asyncio.Task[None]) -> None:
        if not loop.cancelled() and (failure := loop.exception()) is not None:
            LOG.critical("%s has ended: %s", loop.get_name(), failure)
            self._stopping.set()

    async def _close(self, grace_s: float) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            await asyncio.gather(*(subscriber.stop() for subscriber in self._subscribers))
            await asyncio.gather(*(subscriber.settle(grace_s) for subscriber in self._subscribers))
        finally:
            self._connection = self._publisher = None
            for loop in self._loops:
                loop.cancel()
            await connection.close()
            await asyncio.gather(*self._loops, return_exceptions=True)
