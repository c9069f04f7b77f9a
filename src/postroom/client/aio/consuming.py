"""Receiving and browsing messages: the asyncio face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postroom.amqp.outcomes import ACCEPTED, RELEASED, DeliveryState, Modified, Rejected
from postroom.amqp.performatives import Error
from postroom.amqp.types import Symbol
from postroom.client.exceptions import IllegalStateException, MessageFormatException
from postroom.client.message import Message, decode_message
from postroom.client.modes import AcknowledgeMode
from postroom.client.receiving import Incoming, Receiving

__all__ = ["MessageConsumer", "QueueBrowser"]

DEFAULT_BROWSE_CREDIT: Final = 1_000


class MessageConsumer:
    """Receives messages from a queue or a subscription. Made by :meth:`Session.create_consumer` and its
    likes.
    """

    def __init__(
        self,
        receiving: Receiving,
        mode: AcknowledgeMode,
        settle_second: bool,
        request_timeout_s: float | None,
        durable: bool = False,
    ) -> None:
        """``durable``: what it is attached to outlives it."""
        self._receiving = receiving
        self._durable = durable
        self._mode = mode
        self._settle_second = settle_second
        self._request_timeout_s = request_timeout_s
        self._received: dict[int, tuple[Incoming, Message]] = {}
        """Taken by the application and without an outcome, by delivery id."""

    @property
    def address(self) -> str | None:
        """The queue or topic as the broker names it."""
        return self._receiving.address

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._receiving.failure is not None

    async def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, or None when none came in ``timeout_s`` seconds (None: wait as long as it
        takes).
        """
        return await self._given(await self._receiving.receive(timeout_s))

    async def receive_no_wait(self) -> Message | None:
        """A message that waits at the broker now, or None when it says that there is none."""
        return await self._given(await self._receiving.receive_now(1))

    async def _given(self, incoming: Incoming | None) -> Message | None:
        if incoming is None:
            return None
        try:
            message = decode_message(incoming.payload, incoming.delivery_id)
        except MessageFormatException:
            # As Qpid JMS does: it failed, and would fail here again.
            self._receiving.settle(incoming, Modified(delivery_failed=True, undeliverable_here=True))
            raise
        self._received[incoming.delivery_id] = (incoming, message)
        if self._mode in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK):
            await self.accept(message)
        elif incoming.settled:
            del self._received[incoming.delivery_id]
        return message

    async def accept(self, message: Message) -> None:
        """The message is done: it leaves the queue."""
        await self._settle(message, ACCEPTED)

    async def release(self, message: Message) -> None:
        """Give the message back as if it had never left; its counts stay."""
        await self._settle(message, RELEASED)

    async def reject(
        self, message: Message, condition: str | None = None, description: str | None = None
    ) -> None:
        """The message is no good: the broker moves it to the dead letters, with the reason."""
        await self._settle(
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
        await self._settle(message, Modified(failed, undeliverable_here, changed))

    async def _settle(self, message: Message, state: DeliveryState) -> None:
        incoming, received = self._received.get(message.delivery_id, (None, None))
        if incoming is None or received is not message:
            raise IllegalStateException("the message has its outcome already, or is not of this consumer")
        del self._received[message.delivery_id]
        if self._settle_second:
            await self._receiving.settle_second(incoming, state, self._request_timeout_s)
        else:
            self._receiving.settle(incoming, state)

    async def _acknowledge_received(self) -> None:
        """Accept everything received from this consumer and without an outcome."""
        received, self._received = self._received, {}
        for incoming, _ in received.values():
            if self._settle_second:
                await self._receiving.settle_second(incoming, ACCEPTED, self._request_timeout_s)
            else:
                self._receiving.settle(incoming, ACCEPTED)

    async def close(self) -> None:
        """Close the consumer; see :meth:`Session.close` for what becomes of its messages."""
        if not self.is_closed:
            for incoming in self._receiving.unseen():
                self._receiving.settle(incoming, RELEASED)
            for incoming, _ in self._received.values():
                self._receiving.settle(incoming, Modified(delivery_failed=True))
            self._received.clear()
            await self._receiving.detach(self._request_timeout_s, closed=not self._durable)


class QueueBrowser:
    """Looks at the messages of a queue, in order: ``async for message in browser``.

    Made by :meth:`Session.create_browser`.
    """

    def __init__(self, receiving: Receiving, request_timeout_s: float | None) -> None:
        self._receiving = receiving
        self._request_timeout_s = request_timeout_s

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._receiving.failure is not None

    def __aiter__(self) -> QueueBrowser:
        return self

    async def __anext__(self) -> Message:
        incoming = await self._receiving.receive_now(DEFAULT_BROWSE_CREDIT)
        if incoming is None:
            raise StopAsyncIteration
        self._receiving.settle(incoming, ACCEPTED)
        return decode_message(incoming.payload, incoming.delivery_id)

    async def close(self) -> None:
        """Close the browser."""
        await self._receiving.detach(self._request_timeout_s)
