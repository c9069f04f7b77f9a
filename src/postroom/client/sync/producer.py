"""Sending messages: the sync face.

Generated from aio/producer.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from collections.abc import Iterable

from postroom.client.aio import producer as aio
from postroom.client.destinations import Destination
from postroom.client.messages.message import Body, DeliveryMode
from postroom.client.sessions.connection_state import FailureCallback, MessageCallback
from postroom.client.sync.portal import Closable

__all__ = ["MessageProducer"]


class MessageProducer(Closable[aio.MessageProducer]):
    """Sends messages to a queue or publishes them to a topic. Made by :meth:`Connection.producer`
    and :meth:`Session.create_producer`.

    Its properties count for messages that don't say otherwise (:mod:`postroom.client.messages.send_headers`).
    Setting one raises MessageFormatException for a value that no message can have.
    """

    @property
    def destination(self) -> Destination | None:
        """Where its messages go; None: where each of them says."""
        return self._inner.destination

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._inner.is_closed

    @property
    def delivery_mode(self) -> DeliveryMode:
        """PERSISTENT unless it is set."""
        return self._inner.delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, mode: DeliveryMode) -> None:
        self._inner.delivery_mode = mode

    @property
    def priority(self) -> int | None:
        """0 to 9; None: 4."""
        return self._inner.priority

    @priority.setter
    def priority(self, priority: int | None) -> None:
        self._inner.priority = priority

    @property
    def ttl_ms(self) -> int | None:
        """Time to live; 0 or None: for ever."""
        return self._inner.ttl_ms

    @ttl_ms.setter
    def ttl_ms(self, ttl_ms: int | None) -> None:
        self._inner.ttl_ms = ttl_ms

    @property
    def delivery_delay_ms(self) -> int | None:
        """So long after they are sent messages can be received, and not before."""
        return self._inner.delivery_delay_ms

    @delivery_delay_ms.setter
    def delivery_delay_ms(self, delay_ms: int | None) -> None:
        self._inner.delivery_delay_ms = delay_ms

    @property
    def disable_message_id(self) -> bool:
        """Messages get no id of the producer's: duplicates can't be told then."""
        return self._inner.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, disabled: bool) -> None:
        self._inner.disable_message_id = disabled

    @property
    def disable_message_timestamp(self) -> bool:
        """Messages don't say when they were sent."""
        return self._inner.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, disabled: bool) -> None:
        self._inner.disable_message_timestamp = disabled

    def send(
        self,
        message: Body,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        ttl_ms: int | None = None,
        *,
        destination: Destination | None = None,
        delivery_delay_ms: int | None = None,
        on_completion: MessageCallback | None = None,
        on_exception: FailureCallback | None = None,
    ) -> None:
        """Send and wait until the broker has taken responsibility: a persistent message is on its disk then.

        A str is sent as a TextMessage, bytes as a BytesMessage, a dict of values that a MapMessage may hold
        as that; anything else is for the application to serialise. ``destination``: for a producer without
        one. The others count for this message, whatever it and the producer say.

        It isn't waited for the outcome of a non-persistent message, or in a transaction, unless the option
        ``force_sync_send`` is set; nor of any with ``force_async_send``, or ``on_completion`` or
        ``on_exception``. Those are called, in the order of the session's sends, with the message, and the
        JMSException that ``send`` would have raised; without them a failure goes to the connection's
        exception listener.

        Raises by the outcome: InvalidDestinationException, ResourceAllocationException (queue full),
        JMSSecurityException, MessageRejectedException, MessageReleasedException, MessageModifiedException;
        JMSTimeoutException when no credit or no outcome came in ``send_timeout_s``; ConnectionLostException,
        after which the message may or may not have arrived; MessageFormatException, and nothing was sent.
        """
        self._portal.call(
            self._inner.send(
                message,
                delivery_mode,
                priority,
                ttl_ms,
                destination=destination,
                delivery_delay_ms=delivery_delay_ms,
                on_completion=self._portal.callback(on_completion),
                on_exception=self._portal.callback(on_exception),
            )
        )

    def send_all(self, messages: Iterable[Body], *, destination: Destination | None = None) -> int:
        """Send many, without waiting for each outcome before the next; returns their number when all are
        accepted, whatever their delivery mode.

        Raises what :meth:`send` raises for the first that was not accepted; those after it may have been.
        """
        return self._portal.call(self._inner.send_all(messages, destination=destination))

    def close(self) -> None:
        """Close the producer: the broker has read everything sent before, and completion listeners have been
        called. Raises IllegalStateException in one of those calls.
        """
        super().close()
