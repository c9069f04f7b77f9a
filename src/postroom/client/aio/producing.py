"""Sending messages: the asyncio face."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from postroom.amqp.outcomes import Accepted, DeliveryState, Rejected, Released
from postroom.client.destinations import Destination, text_of
from postroom.client.exceptions import (
    JMSException,
    MessageModifiedException,
    MessageRejectedException,
    MessageReleasedException,
    from_error,
)
from postroom.client.message import Message, as_message, encode_message
from postroom.client.sending import Sending
from postroom.client.transport import within

__all__ = ["MessageProducer"]


class MessageProducer:
    """Sends messages to a queue or publishes them to a topic. Made by :meth:`Session.create_producer`."""

    def __init__(
        self,
        sending: Sending,
        destination: Destination | None,
        settled: bool,
        request_timeout_s: float | None,
    ) -> None:
        self._sending = sending
        self._destination = destination
        self._settled = settled
        self._request_timeout_s = request_timeout_s

    @property
    def destination(self) -> Destination | None:
        """Where its messages go; None: where each of them says."""
        return self._destination

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._sending.failure is not None

    async def send(self, message: Message | str | bytes, *, destination: Destination | None = None) -> None:
        """Send and wait until the broker has taken responsibility: a persistent message is on its disk then.

        A str or bytes is sent as the body of a message with default headers. ``destination``: for a
        producer without one. Raises by the outcome: InvalidDestinationException,
        ResourceAllocationException (queue full), JMSSecurityException, MessageRejectedException,
        MessageReleasedException, MessageModifiedException; JMSTimeoutException when no credit or no outcome
        came in time; ConnectionLostException, after which the message may or may not have arrived.
        """
        outcome = await self._put(as_message(message), destination)
        if outcome is not None:
            raise_unless_accepted(
                await within(outcome, self._request_timeout_s, f"send to {self._sending.what}")
            )

    async def send_all(
        self, messages: Iterable[Message | str | bytes], *, destination: Destination | None = None
    ) -> int:
        """Send many, without waiting for each outcome before the next; returns their number when all are
        accepted.

        Raises what :meth:`send` raises for the first that was not accepted; those after it may have been.
        """
        outcomes = [await self._put(as_message(message), destination) for message in messages]
        for outcome in outcomes:
            if outcome is not None:
                raise_unless_accepted(
                    await within(outcome, self._request_timeout_s, f"send to {self._sending.what}")
                )
        return len(outcomes)

    async def _put(
        self, message: Message, destination: Destination | None
    ) -> asyncio.Future[DeliveryState | None] | None:
        own = self._destination
        if own is None and destination is None and message.destination is None:
            raise JMSException("a producer without a destination needs one for each message")
        if own is not None and destination not in (None, own):
            raise JMSException(f"the producer for {text_of(own)} can't send to {destination}")
        where = own if own is not None else destination
        payload = encode_message(message, where)
        return await self._sending.send(payload, self._settled, self._request_timeout_s)

    async def close(self) -> None:
        """Close the producer: the broker has read everything sent before."""
        await self._sending.detach(self._request_timeout_s)


def raise_unless_accepted(state: DeliveryState | None) -> None:
    """Turn an outcome other than accepted into the exception that JMS has for it."""
    if state is None or isinstance(state, Accepted):
        return
    if isinstance(state, Rejected):
        raise from_error(state.error, "the message was rejected", MessageRejectedException)
    if isinstance(state, Released):
        raise MessageReleasedException("the message was released: the broker didn't take it")
    raise MessageModifiedException(f"the message came back: {state}")
