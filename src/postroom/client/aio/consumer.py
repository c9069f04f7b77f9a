"""Receiving and browsing messages: the asyncio face."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, Modified, Rejected
from postroom.client.aio.closable import Closable, OfOneSession
from postroom.client.connection.receiver_link import Receiving
from postroom.client.exceptions import MessageFormatException
from postroom.client.messages.base_message import Post
from postroom.client.messages.message import Message, decode_message
from postroom.client.sessions.connection_state import MessageCallback
from postroom.client.sessions.deliveries import Deliveries, end_of
from postroom.client.sessions.session_state import SessionState

__all__ = ["MessageConsumer", "QueueBrowser"]

T = TypeVar("T")


class MessageConsumer(Closable):
    """Receives messages from a queue or a subscription: ``async for message in consumer``. Made by
    :meth:`Connection.consumer`, :meth:`Session.create_consumer` and its likes.

    The loop ends when the application closes the consumer, its session or its connection, be it from another
    task or thread; when the link is lost, it raises what ended it.
    """

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._has_session = False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closed; one that has a session to itself gives back what has no outcome, as that does."""
        await self._deliveries.close(finally_=self._has_session)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        message = await self._deliveries.next_of_loop()
        if message is None:
            raise StopAsyncIteration
        return message

    @property
    def address(self) -> str | None:
        """The queue or topic as the broker names it."""
        return self._deliveries.receiving.address

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._deliveries.is_closed or self._deliveries.receiving.failure is not None

    async def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or None when none came in ``timeout_s`` seconds (None: wait as long as it takes).

        Raises IllegalStateException after ``close``, and where a listener gets the messages;
        MessageFormatException for a delivery that is no message; ValueError for a negative time.
        """
        self._deliveries.check_receive()
        return await self._deliveries.receive(timeout_s)

    async def receive_no_wait(self) -> Message | None:
        """A message that waits at the broker now, or None when it says that there is none.

        Raises as :meth:`receive`; JMSTimeoutException when the broker says nothing in ``drain_timeout_s``.
        """
        self._deliveries.check_receive()
        return await self._deliveries.receive_now()

    async def receive_body(self, kind: type[T], timeout_s: float | None = None) -> T | None:
        """The body of the next message, which is a ``kind``: str, bytes, dict, or the class of an object;
        None when none came in ``timeout_s`` seconds, or it has none.

        Raises MessageFormatException where it is something else: the message is the next one still.
        """
        self._deliveries.check_receive()
        delivery = await self._deliveries.next(end_of(timeout_s))
        if delivery is None:
            return None
        try:
            body = delivery.message.get_body(kind)
        except MessageFormatException:
            self._deliveries.receiving.put_back([delivery.incoming])
            raise
        await self._deliveries.hand_over(delivery)
        return body

    async def set_message_listener(self, listener: MessageCallback | None) -> None:
        """From now on ``listener`` is called with each message; None: with no more of them.

        It may be a coroutine function. A session calls one listener at a time. In modes AUTO and DUPS_OK the
        message is accepted when the listener has returned, and released when it raises: it comes again, and
        the attempt isn't counted. In other modes an exception is only logged.
        """
        await self._deliveries.listen(listener)

    async def accept(self, message: Message) -> None:
        """The message is done: it leaves the queue. Raises IllegalStateException, as the other outcomes do,
        for a message that has its outcome, or isn't of this consumer.
        """
        await self._deliveries.send_outcome(message, ACCEPTED)

    async def release(self, message: Message) -> None:
        """Give the message back as if it had never left; its counts stay."""
        await self._deliveries.send_outcome(message, RELEASED)

    async def reject(
        self, message: Message, condition: str | None = None, description: str | None = None
    ) -> None:
        """The message is no good: the broker moves it to the dead letters, with the reason."""
        await self._deliveries.send_outcome(
            message, Rejected(Error(condition, description) if condition is not None else None)
        )

    async def modify(
        self,
        message: Message,
        *,
        failed: bool = True,
        undeliverable_here: bool = False,
        annotations: Mapping[str, object] | None = None,
    ) -> None:
        """Give the message back: ``failed`` counts as an attempt, ``undeliverable_here`` keeps it from this
        consumer, ``annotations`` are merged into its message annotations.
        """
        changed: dict[object, object] | None = None
        if annotations is not None:
            changed = {Symbol(name): value for name, value in annotations.items()}
        await self._deliveries.send_outcome(message, Modified(failed, undeliverable_here, changed))

    def stop(self) -> None:
        """Nothing more is handed out, so that a loop over the consumer ends with the message in hand: as
        :meth:`close`, which follows, and without waiting, for a signal's handler.
        """
        self._deliveries.stop()

    async def close(self) -> None:
        """Close the consumer: what was only prefetched goes back as if it had never left, and a loop over it
        ends.

        A call of its listener is waited for, unless it is that call which closes. While the application has
        messages of it without an outcome, the broker is not told: they can still be acknowledged. Leaving
        ``async with`` ends a consumer of :meth:`Connection.consumer` at the latest, and the session's
        ``close`` another one: such messages go back as failed attempts.
        """
        await self._deliveries.close()

    def _take(self, post: Post) -> Message | None:
        """As :meth:`receive`, for the blocking face in its caller's thread: a message that is here already;
        ``post`` has the rest done in the loop. None: :meth:`receive` is to be called there.
        """
        return self._deliveries.take(post)

    def _end_with(self, ends: Callable[[], None]) -> None:
        """It has a session to itself, which ends with it."""
        self._has_session = True
        self._deliveries.on_detached = ends


class QueueBrowser(OfOneSession, Closable):
    """Looks at the messages of a queue, in order: ``async for message in browser``.

    Made by :meth:`Connection.browser` and :meth:`Session.create_browser`.
    """

    def __init__(self, receiving: Receiving, state: SessionState) -> None:
        self._receiving = receiving
        self._state = state
        self._is_over = False

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._receiving.failure is not None

    def __aiter__(self) -> QueueBrowser:
        return self

    async def __anext__(self) -> Message:
        incoming = None
        if not self._is_over:
            incoming = await self._receiving.receive_now(max(self._state.shared.options.prefetch.browser, 1))
        if incoming is None:
            raise StopAsyncIteration
        self._receiving.settle(incoming, ACCEPTED)
        return decode_message(incoming.payload, incoming.delivery_id)

    async def close(self) -> None:
        """Close the browser; a loop over it ends."""
        self._is_over = True
        try:
            await self._receiving.detach(self._state.shared.options.close_timeout_s)
        finally:
            self._ends()
