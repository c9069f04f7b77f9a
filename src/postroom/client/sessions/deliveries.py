"""The messages of a consumer on their way from the link to the application, and what becomes of them.

What comes is decoded; what has expired, or came too often, goes back before the application sees it. What the
application has and no outcome is kept here, in the order in which it was handed out. A message listener is
the session's task that hands it one message after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Final, NamedTuple

from postroom.amqp.extensions import FAILURE_COUNT
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, DeliveryState, Modified
from postroom.client.connection.receiver_link import Incoming, Receiving
from postroom.client.destinations import Destination
from postroom.client.durations import MS_A_SECOND, check_duration
from postroom.client.exceptions import LOG, IllegalStateException, JMSException, MessageFormatException
from postroom.client.messages.base_message import DONE, Post
from postroom.client.messages.message import Message, decode_message
from postroom.client.messages.outcomes import check_sendable
from postroom.client.sessions.connection_state import CALLED_FOR, MessageCallback, call_back
from postroom.client.sessions.session_state import AcknowledgeMode, SessionState

UNDELIVERABLE: Final = Modified(delivery_failed=True, undeliverable_here=True)
FAILED: Final = Modified(delivery_failed=True)


Settle = Callable[[Incoming, DeliveryState], None]
"""Says what became of a message."""


class Delivery(NamedTuple):
    """A message, and how it came."""

    incoming: Incoming
    message: Message


class Deliveries:
    """Between a link and the consumer that an application sees."""

    def __init__(
        self,
        receiving: Receiving,
        state: SessionState,
        source: Destination | None,
        settle_second: bool,
        durable: bool,
    ) -> None:
        self.receiving: Final = receiving
        self.state: Final = state
        self.is_closed = False
        self._source = source
        self._settle_second = settle_second
        self._durable = durable
        self._delivered: dict[int, Delivery] = {}
        """Handed out and without an outcome, in that order."""
        self._listening: Listening | None = None
        self._detaching: asyncio.Task[None] | None = None
        """Closed by the application, and kept until the last outcome was said."""
        self._is_closing = False
        self._is_over = False
        """The application has closed it: no loss."""
        self.on_detached: Callable[[], object] = lambda: None
        """Called when the link has ended: what was made for this consumer alone ends with it."""

    # --- to the application

    async def next_of_loop(self) -> Message | None:
        """The next message, handed over; None when the application has closed the consumer, its session or
        its connection. What is no message is logged and passed over: it has gone back.
        """
        while not self._is_over:
            try:
                self.check_receive()
                return await self.receive(None)
            except MessageFormatException as failure:
                LOG.warning("%s: %s", self.receiving.what, failure)
            except JMSException:
                if not self._is_over:
                    raise
        return None

    async def receive(self, timeout_s: float | None) -> Message | None:
        """The next message, handed over; None when the time is up."""
        end_s = end_of(timeout_s)
        while (delivery := await self.next(end_s)) is not None:
            if await self.hand_over(delivery):
                return delivery.message
        return None

    async def receive_now(self) -> Message | None:
        """A message that the broker has now, handed over."""
        while self.state.shared.started.is_set():
            incoming = await self.receiving.receive_now(1)
            if incoming is None:
                return None
            message = self._admitted(incoming)
            if message is not None and await self.hand_over(Delivery(incoming, message)):
                return message
        return None

    def take(self, post: Post) -> Message | None:
        """In another thread than the loop's: what `receive` would hand over at once. None where there is
        something to wait for, or to be told: then that is called in the loop. Raises MessageFormatException.
        """
        if not self._is_takeable():
            return None
        while (incoming := self.receiving.take_elsewhere(post)) is not None:
            message = self._admitted(incoming, partial(self._post_outcome, post))
            if message is None:
                continue
            if self.state.mode.is_automatic:
                self._post_outcome(post, incoming, ACCEPTED)
            elif not incoming.settled:
                self._delivered[incoming.delivery_id] = Delivery(incoming, message)
            return message
        return None

    def _is_takeable(self) -> bool:
        if self.is_closed or self._settle_second or self._listening is not None:
            return False
        shared = self.state.shared
        return self.state.transaction is None and shared.options.tracing is None and shared.started.is_set()

    async def next(self, end_s: float | None) -> Delivery | None:
        """The next message for the application, once the connection is started; None when it is ``end_s``."""
        started = self.state.shared.started
        while started.is_set() or await self._is_started(end_s):
            incoming = await self.receiving.receive(left_s(end_s))
            if incoming is None:
                return None
            if not started.is_set():
                self.receiving.put_back([incoming])
                continue
            message = self._admitted(incoming)
            if message is not None:
                return Delivery(incoming, message)
        return None

    async def _is_started(self, end_s: float | None) -> bool:
        try:
            async with asyncio.timeout(left_s(end_s)):
                await self.state.shared.started.wait()
        except TimeoutError:
            return False
        return True

    def _admitted(self, incoming: Incoming, settle: Settle | None = None) -> Message | None:
        """The message, unless it goes back unseen, by `settle`; MessageFormatException for bytes that are
        none."""
        settle = settle or self.receiving.settle
        try:
            message = decode_message(incoming.payload, incoming.delivery_id, self._source)
        except MessageFormatException:
            # As Qpid JMS does: it failed, and would fail here again.
            settle(incoming, UNDELIVERABLE)
            raise
        message.receiver = self
        message.delivery_count += incoming.redeliveries
        options = self.state.shared.options
        if options.local_message_expiry and has_expired(message):
            settle(incoming, UNDELIVERABLE)
            return None
        if options.redelivery.is_exceeded(failures_of(message, incoming)):
            settle(incoming, options.redelivery.outcome.state)
            return None
        return message

    async def hand_over(self, delivery: Delivery) -> bool:
        """Say of a message for ``receive`` what the mode says; False where it isn't the application's to see:
        it came before a break, and comes again.
        """
        tracing = self.state.shared.options.tracing
        if tracing is None:
            return await self._hand_over(delivery)
        with tracing.receiving(delivery.message, *self.traced_as()):
            return await self._hand_over(delivery)

    def traced_as(self) -> tuple[str, str]:
        """Address and client id, as spans name them."""
        return self.receiving.address or "", self.receiving.provider.connector.container_id

    async def _hand_over(self, delivery: Delivery) -> bool:
        if self.state.transaction is None and self.state.mode.is_automatic:
            await self._send_outcomes([delivery.incoming], ACCEPTED)
            return True
        return await self.hold(delivery)

    async def hold(self, delivery: Delivery) -> bool:
        """The application has it; its outcome will be said, or is part of the transaction. False as of
        :meth:`hand_over`.
        """
        if self.state.transaction is not None:
            return await self.state.transaction.acknowledge(self.receiving, delivery.incoming)
        if delivery.incoming.settled:
            return True
        self._delivered[delivery.incoming.delivery_id] = delivery
        return True

    # --- outcomes

    def holds(self, message: Message) -> bool:
        """Whether the application has ``message`` from here, and it has no outcome."""
        delivery = self._delivered.get(message.delivery_id)
        return delivery is not None and delivery.message is message

    def check_open(self, message: Message) -> None:
        """Raises IllegalStateException, which says what to do, where the outcome of ``message`` isn't the
        application's to say.
        """
        if self.state.is_transacted:
            raise IllegalStateException("in a transacted session, commit and rollback are the outcomes")
        if self.holds(message):
            return
        mode = self.state.mode
        if mode.is_automatic or mode.is_presettled:
            raise IllegalStateException(
                f"in mode {mode.name} a message has its outcome as it is received: take"
                " connection.consumer(), or a session in mode INDIVIDUAL or CLIENT"
            )
        raise IllegalStateException("the message has its outcome already, or is not of this consumer")

    def send_outcome(self, message: Message, state: DeliveryState) -> Awaitable[None]:
        """The application's word on ``message``; raises as :meth:`check_open`."""
        self.check_open(message)
        check_sendable(state)
        return self._send_outcomes([self._delivered.pop(message.delivery_id).incoming], state)

    def post_acknowledgement(self, message: Message, post: Post) -> bool:
        """As :meth:`acknowledge`, in another thread than the loop's; False where that waits for an answer, or
        for other consumers: nothing is told then.
        """
        if self._settle_second or self.state.mode is not AcknowledgeMode.INDIVIDUAL:
            return False
        self.state.check()
        if self.holds(message):
            self._post_outcome(post, self._delivered.pop(message.delivery_id).incoming, ACCEPTED)
        return True

    def post_outcome(self, message: Message, state: DeliveryState, post: Post) -> bool:
        """As :meth:`send_outcome`, likewise."""
        if self._settle_second:
            return False
        self.check_open(message)
        check_sendable(state)
        self._post_outcome(post, self._delivered.pop(message.delivery_id).incoming, state)
        return True

    def _post_outcome(self, post: Post, incoming: Incoming, state: DeliveryState) -> None:
        self.receiving.check()

        def settle() -> None:
            try:
                self.receiving.settle(incoming, state)
            except JMSException as failure:
                LOG.debug(
                    "%s: an outcome was not sent, the message comes again: %s", self.receiving.what, failure
                )
            self._finish_close()

        post(settle)

    def acknowledge(self, message: Message) -> Awaitable[None]:
        """``Message.acknowledge``: what it does is a matter of the mode."""
        mode = self.state.mode
        if mode in (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL):
            self.state.check()
        if mode is AcknowledgeMode.CLIENT:
            return self.state.acknowledge_all()
        if mode is not AcknowledgeMode.INDIVIDUAL or not self.holds(message):
            return DONE
        return self._send_outcomes([self._delivered.pop(message.delivery_id).incoming], ACCEPTED)

    def acknowledge_delivered(self) -> Awaitable[None]:
        """Accept everything that the application has."""
        delivered, self._delivered = self._delivered, {}
        return self._send_outcomes([delivery.incoming for delivery in delivered.values()], ACCEPTED)

    def _send_outcomes(self, messages: Sequence[Incoming], state: DeliveryState) -> Awaitable[None]:
        """Tell the broker, at once; what is awaited is its answer, where one was asked for."""
        if self._settle_second and messages:
            return self.state.begin(self._settle_second_each(messages, state))
        for incoming in messages:
            self.receiving.settle(incoming, state)
        self._finish_close()
        return DONE

    async def _settle_second_each(self, messages: Sequence[Incoming], state: DeliveryState) -> None:
        timeout_s = self.state.shared.request_timeout_s
        for incoming in messages:
            await self.receiving.settle_second(incoming, state, timeout_s)
        self._finish_close()

    def recover(self) -> None:
        """What the application has comes again, in its order, before anything else, as a redelivery."""
        delivered, self._delivered = self._delivered, {}
        again = [each.incoming for each in delivered.values() if self.receiving.is_current(each.incoming)]
        if self._is_closing:
            for incoming in again:
                self.receiving.settle(incoming, FAILED)
            self._finish_close()
            return
        for incoming in again:
            incoming.redeliveries += 1
        self.receiving.put_back(again)

    async def recover_by_broker(self) -> None:
        """What the application has goes back as failed deliveries, which come again when the broker says
        so."""
        if not self._delivered or self._is_closing:
            self.recover()
            return
        delivered, self._delivered = self._delivered, {}
        again = [each.incoming for each in delivered.values()]
        await self.receiving.give_back(again, FAILED, self.state.shared.request_timeout_s)

    # --- listener and end

    async def listen(self, listener: MessageCallback | None) -> None:
        """From now on ``listener`` gets the messages; None: whoever calls ``receive``."""
        self.check()
        if listener is not None and self.state.transaction is not None:
            self.state.transaction.check_listen()
        await self.stop_listening()
        self._listening = None if listener is None else Listening(self, listener)

    async def stop_listening(self) -> None:
        """The listener is called with no further message; a call under way is waited for."""
        if self._listening is not None:
            await self._listening.stop()

    def check(self) -> None:
        """Raises what ended the consumer, if it has ended."""
        self.receiving.check()
        if self.is_closed:
            raise IllegalStateException(f"{self.receiving.what} is closed")

    def check_receive(self) -> None:
        """Raises IllegalStateException where a listener gets the messages."""
        self.check()
        if self.state.transaction is not None:
            self.state.transaction.check_receive()
        if self._listening is not None:
            raise IllegalStateException("the consumer has a message listener, which gets its messages")

    def stop(self) -> None:
        """Hand nothing more out, which ends a loop: what nobody has seen goes back."""
        if self.receiving.failure is None and not self.is_closed:
            self.is_closed = self._is_over = True
            self.receiving.stop(RELEASED)

    async def close(self, finally_: bool = False) -> None:
        """Release what nobody has seen, and detach: as soon as the application has no message without an
        outcome, or ``finally_`` now, such a message going back as a failed attempt.
        """
        await self.stop_listening()
        if self.receiving.failure is not None:
            self.is_closed = True
            self.on_detached()
            return
        self.stop()
        if self._delivered and not finally_:
            self._is_closing = True
            return
        for delivery in self._delivered.values():
            self.receiving.settle(delivery.incoming, FAILED)
        self._delivered.clear()
        if self._detaching is None:
            await self._detach()
        elif finally_:
            await asyncio.wait([self._detaching])

    def _finish_close(self) -> None:
        if self._is_closing and not self._delivered and self._detaching is None:
            self._detaching = self.state.begin(self._detach_unasked())

    async def _detach(self) -> None:
        try:
            await self.receiving.detach(self.state.shared.options.close_timeout_s, closed=not self._durable)
        finally:
            self.on_detached()

    async def _detach_unasked(self) -> None:
        try:
            await self._detach()
        except JMSException as failure:
            LOG.warning("%s", failure)


class Listening:
    """Calls ``listener`` with each message of a consumer, one at a time in the whole session.

    A message is accepted when the listener has returned, where the mode says so; one that raises gives it
    back as a failed attempt, or as the redelivery policy says.
    """

    def __init__(self, deliveries: Deliveries, listener: MessageCallback) -> None:
        self._listener: Final = listener
        self._deliveries = deliveries
        self._is_stopping = False
        self._is_calling = False
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """No further calls; the one under way is waited for, unless it is the one that asks."""
        self._is_stopping = True
        if not self._is_calling:
            self._task.cancel()
        elif self._deliveries.state in CALLED_FOR.get():
            return
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self._is_stopping:
            try:
                delivery = await self._deliveries.next(None)
            except MessageFormatException as failure:
                LOG.warning("%s: %s", self._deliveries.receiving.what, failure)
                continue
            except JMSException as failure:
                if self._deliveries.receiving.failure is not None:
                    return
                LOG.warning("%s: %s", self._deliveries.receiving.what, failure)
                continue  # a break, over which the consumer goes on
            if delivery is not None:
                await self._in_turn(delivery)

    async def _in_turn(self, delivery: Delivery) -> None:
        try:
            async with self._deliveries.state.turn():
                if self._is_stopping or not self._deliveries.state.shared.started.is_set():
                    self._deliveries.receiving.put_back([delivery.incoming])
                    return
                self._is_calling = True
                await self._call(delivery)
        except asyncio.CancelledError:
            if not self._is_calling:
                self._deliveries.receiving.put_back([delivery.incoming])
            raise
        finally:
            self._is_calling = False

    async def _call(self, delivery: Delivery) -> None:
        message, deliveries = delivery.message, self._deliveries
        if not await deliveries.hold(delivery):
            return
        outcome: DeliveryState = ACCEPTED
        try:
            tracing = deliveries.state.shared.options.tracing
            with tracing.processing(message, *deliveries.traced_as()) if tracing else nullcontext():
                await call_back(self._listener, message)
        except Exception:
            LOG.exception("the message listener of %s failed", deliveries.receiving.what)
            outcome = deliveries.state.shared.options.redelivery.listener_failure.state
        try:
            if deliveries.state.mode.is_automatic and deliveries.holds(message):
                await deliveries.send_outcome(message, outcome)
        except JMSException as failure:
            LOG.warning("%s: %s", deliveries.receiving.what, failure)


def end_of(timeout_s: float | None) -> float | None:
    """When so many seconds have passed; None: never. ValueError for a negative time."""
    check_duration("timeout_s", timeout_s)
    return None if timeout_s is None else time.monotonic() + timeout_s


def left_s(end_s: float | None) -> float | None:
    """Seconds from now to then."""
    return None if end_s is None else max(end_s - time.monotonic(), 0.0)


def failures_of(message: Message, incoming: Incoming) -> int:
    """How often somebody has failed at it: its delivery count, without those that a broken connection brought
    back, where the broker tells them apart.
    """
    failures = message.delivery_annotations.get(FAILURE_COUNT)
    return message.delivery_count if not isinstance(failures, int) else int(failures) + incoming.redeliveries


def has_expired(message: Message) -> bool:
    """By the clock of this machine."""
    return message.expiration_ms is not None and 0 < message.expiration_ms <= time.time() * MS_A_SECOND
