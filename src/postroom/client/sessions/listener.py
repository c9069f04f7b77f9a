"""A message listener: the session's task that hands it one message after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from postroom.amqp.frames.outcomes import ACCEPTED, DeliveryState
from postroom.client.exceptions import JMSException, MessageFormatException
from postroom.client.sessions.connection_state import CALLED_FOR, LOG, MessageCallback, call_back

if TYPE_CHECKING:
    from postroom.client.sessions.deliveries import Deliveries, Delivery


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
                    self._deliveries.put_back([delivery.incoming])
                    return
                self._is_calling = True
                await self._call(delivery)
        except asyncio.CancelledError:
            if not self._is_calling:
                self._deliveries.put_back([delivery.incoming])
            raise
        finally:
            self._is_calling = False

    async def _call(self, delivery: Delivery) -> None:
        message, deliveries = delivery.message, self._deliveries
        if not await deliveries.hold(delivery):
            return
        outcome: DeliveryState = ACCEPTED
        try:
            await call_back(self._listener, message)
        except Exception:
            LOG.exception("the message listener of %s failed", deliveries.receiving.what)
            outcome = deliveries.state.shared.options.redelivery.listener_failure.state
        try:
            if deliveries.state.mode.is_automatic and deliveries.holds(message):
                await deliveries.settle(message, outcome)
        except JMSException as failure:
            LOG.warning("%s: %s", deliveries.receiving.what, failure)
