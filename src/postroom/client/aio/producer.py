"""Sending messages: the asyncio face."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from postroom.client.aio.closable import Closable, OfOneSession
from postroom.client.connection.sender_link import Outcome, Sending
from postroom.client.connection.transport import within
from postroom.client.destinations import Destination, address_of, text_of
from postroom.client.exceptions import JMSException
from postroom.client.messages.message import Body, DeliveryMode, Message, as_message, encode_message
from postroom.client.messages.message_tracing import MessageTracing
from postroom.client.messages.send_headers import NO_OPTIONS, SendOptions
from postroom.client.sessions.completions import Completions, Sent, raise_unless_accepted
from postroom.client.sessions.connection_state import FailureCallback, MessageCallback
from postroom.client.sessions.session_state import SessionState

__all__ = ["MessageProducer"]


class MessageProducer(OfOneSession, Closable):
    """Sends messages to a queue or publishes them to a topic. Made by :meth:`Connection.producer`
    and :meth:`Session.create_producer`.

    Its properties count for messages that don't say otherwise (:mod:`postroom.client.messages.send_headers`).
    Setting one raises MessageFormatException for a value that no message can have.
    """

    def __init__(
        self,
        sending: Sending,
        state: SessionState,
        destination: Destination | None,
        settled: bool,
        completions: Completions,
        always_waits: bool = False,
    ) -> None:
        """``always_waits``: whatever the message and the options say."""
        self._sending = sending
        self._state = state
        self._destination = destination
        self._settled = settled
        self._always_waits = always_waits
        self._defaults = NO_OPTIONS
        self._completions = completions

    @property
    def destination(self) -> Destination | None:
        """Where its messages go; None: where each of them says."""
        return self._destination

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._sending.failure is not None

    @property
    def delivery_mode(self) -> DeliveryMode:
        """PERSISTENT unless it is set."""
        mode = self._defaults.delivery_mode
        return DeliveryMode.PERSISTENT if mode is None else mode

    @delivery_mode.setter
    def delivery_mode(self, mode: DeliveryMode) -> None:
        self._set(replace(self._defaults, delivery_mode=DeliveryMode(mode)))

    @property
    def priority(self) -> int | None:
        """0 to 9; None: 4."""
        return self._defaults.priority

    @priority.setter
    def priority(self, priority: int | None) -> None:
        self._set(replace(self._defaults, priority=priority))

    @property
    def ttl_ms(self) -> int | None:
        """Time to live; 0 or None: for ever."""
        return self._defaults.ttl_ms

    @ttl_ms.setter
    def ttl_ms(self, ttl_ms: int | None) -> None:
        self._set(replace(self._defaults, ttl_ms=ttl_ms))

    @property
    def delivery_delay_ms(self) -> int | None:
        """So long after they are sent messages can be received, and not before."""
        return self._defaults.delivery_delay_ms

    @delivery_delay_ms.setter
    def delivery_delay_ms(self, delay_ms: int | None) -> None:
        self._set(replace(self._defaults, delivery_delay_ms=delay_ms))

    @property
    def disable_message_id(self) -> bool:
        """Messages get no id of the producer's: duplicates can't be told then."""
        return self._defaults.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, disabled: bool) -> None:
        self._set(replace(self._defaults, disable_message_id=disabled))

    @property
    def disable_message_timestamp(self) -> bool:
        """Messages don't say when they were sent."""
        return self._defaults.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, disabled: bool) -> None:
        self._set(replace(self._defaults, disable_message_timestamp=disabled))

    def _set(self, defaults: SendOptions) -> None:
        defaults.check()
        self._defaults = defaults

    async def send(
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
        options = NO_OPTIONS
        if any(given is not None for given in (delivery_mode, priority, ttl_ms, delivery_delay_ms)):
            options = SendOptions(
                delivery_mode=delivery_mode,
                priority=priority,
                ttl_ms=ttl_ms,
                delivery_delay_ms=delivery_delay_ms,
            )
        sent = as_message(message)
        with self._traced([sent], destination):
            outcome = await self._put(sent, destination, options)
            await self._complete(sent, outcome, on_completion, on_exception)

    async def _complete(
        self,
        sent: Message,
        outcome: Outcome | None,
        on_completion: MessageCallback | None,
        on_exception: FailureCallback | None,
    ) -> None:
        """Wait for the outcome, or have it told later."""
        if on_completion is None and on_exception is None and self._waits_for(sent):
            await self._check(outcome)
        elif outcome is not None or on_completion is not None:
            self._completions.add(Sent(sent, outcome, self._sending.what, on_completion, on_exception))

    async def send_all(self, messages: Iterable[Body], *, destination: Destination | None = None) -> int:
        """Send many, without waiting for each outcome before the next; returns their number when all are
        accepted, whatever their delivery mode.

        Raises what :meth:`send` raises for the first that was not accepted; those after it may have been.
        """
        sent = [as_message(message) for message in messages] if self._tracing is not None else []
        with self._traced(sent, destination):
            outcomes = [
                await self._put(as_message(message), destination, NO_OPTIONS) for message in sent or messages
            ]
            for outcome in outcomes:
                await self._check(outcome)
        return len(outcomes)

    @property
    def _tracing(self) -> MessageTracing | None:
        return self._state.shared.options.tracing

    def _traced(
        self, messages: list[Message], destination: Destination | None
    ) -> AbstractContextManager[object]:
        """Around a send."""
        tracing = self._tracing
        if tracing is None or not messages:
            return nullcontext()
        to = self._destination or destination or messages[0].destination
        client_id = self._sending.provider.connector.container_id
        return tracing.sending(messages, "" if to is None else address_of(to), client_id)

    async def _check(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            timeout_s = self._state.shared.options.send_timeout_s
            raise_unless_accepted(await within(outcome, timeout_s, f"send to {self._sending.what}"))

    def _waits_for(self, message: Message) -> bool:
        options = self._state.shared.options
        if self._always_waits or options.force_sync_send:
            return True
        return not options.force_async_send and message.durable and not self._state.is_transacted

    async def _put(
        self, message: Message, destination: Destination | None, options: SendOptions
    ) -> Outcome | None:
        own = self._destination
        if own is None and destination is None and message.destination is None:
            raise JMSException("a producer without a destination needs one for each message")
        if own is not None and destination not in (None, own):
            raise JMSException(f"the producer for {text_of(own)} can't send to {destination}")
        payload = encode_message(message, own if own is not None else destination, options, self._defaults)
        timeout_s = self._state.shared.options.send_timeout_s
        if self._state.transaction is None:
            return await self._sending.send(payload, self._settled, timeout_s)
        await self._state.transaction.send(self._sending, payload, self._settled, timeout_s)
        return None

    async def close(self) -> None:
        """Close the producer: the broker has read everything sent before, and completion listeners have been
        called. Raises IllegalStateException in one of those calls.
        """
        await self._completions.finished()
        if self._state.transaction is not None and not self._state.is_closed:
            # The commit looks at the outcomes, which come no more to a link that has ended.
            await self._sending.answered(self._state.shared.options.send_timeout_s)
        try:
            await self._sending.detach(self._state.shared.options.close_timeout_s)
        finally:
            self._ends()
