"""Sending messages: the sync face.

Generated from aio/producing.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from collections.abc import Iterable

from postroom.client.aio import producing as aio
from postroom.client.destinations import Destination
from postroom.client.message import Message
from postroom.client.portal import Portal

__all__ = ["MessageProducer"]


class MessageProducer:
    """Sends messages to a queue or publishes them to a topic. Made by :meth:`Session.create_producer`."""

    def __init__(self, portal: Portal, inner: aio.MessageProducer) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def destination(self) -> Destination | None:
        """Where its messages go; None: where each of them says."""
        return self._inner.destination

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._inner.is_closed

    def send(self, message: Message | str | bytes, *, destination: Destination | None = None) -> None:
        """Send and wait until the broker has taken responsibility: a persistent message is on its disk then.

        A str or bytes is sent as the body of a message with default headers. ``destination``: for a
        producer without one. Raises by the outcome: InvalidDestinationException,
        ResourceAllocationException (queue full), JMSSecurityException, MessageRejectedException,
        MessageReleasedException, MessageModifiedException; JMSTimeoutException when no credit or no outcome
        came in time; ConnectionLostException, after which the message may or may not have arrived.
        """
        self._portal.call(self._inner.send(message, destination=destination))

    def send_all(
        self, messages: Iterable[Message | str | bytes], *, destination: Destination | None = None
    ) -> int:
        """Send many, without waiting for each outcome before the next; returns their number when all are
        accepted.

        Raises what :meth:`send` raises for the first that was not accepted; those after it may have been.
        """
        return self._portal.call(self._inner.send_all(messages, destination=destination))

    def close(self) -> None:
        """Close the producer: the broker has read everything sent before."""
        if self._portal.is_running:
            self._portal.call(self._inner.close())
