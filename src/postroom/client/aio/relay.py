"""Messages from one queue to others as the bytes that they are, each in a transaction of its own.

What a program for dead letters wants, and JMS has no words for: many messages at hand, any one of which goes
on or away, now or later, together with what is put in its place.
"""

from __future__ import annotations

import contextlib
from typing import Final

from librt.strings import BytesWriter

from postroom.amqp.extensions import LOCAL_TRANSACTIONS, QUEUE_CAPABILITY
from postroom.amqp.frames.outcomes import ACCEPTED, RELEASED, Modified, TransactionalState
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Header
from postroom.client.aio.connection import Connection
from postroom.client.aio.session import Session
from postroom.client.connection.receiver_link import Incoming, Receiving
from postroom.client.connection.sender_link import Sending
from postroom.client.connection.transport import within
from postroom.client.exceptions import JMSException
from postroom.client.sessions.completions import raise_unless_accepted
from postroom.client.sessions.session_state import AcknowledgeMode
from postroom.client.transactions.coordinator import Coordinator

MAX_TARGETS: Final = 64
"""Links to where messages go that are kept."""
LEFT: Final = Modified(undeliverable_here=True)
"""It stays on its queue, its counts as they are, and doesn't come here again."""


class ComesAgain(Exception):
    """The transaction failed at its very end: the message comes again as another, unless all was done."""


class Relay:
    """The messages of one queue, unsettled until this end says what becomes of each.

    When the connection ends, or this process, what has no outcome is back on its queue, and what was in a
    transaction is either all done or not at all.
    """

    def __init__(self, session: Session, receiving: Receiving, coordinator: Coordinator) -> None:
        """Made by `open`."""
        self._session = session
        self._receiving = receiving
        self._coordinator = coordinator
        self._targets: dict[str, Sending] = {}

    @classmethod
    async def open(cls, connection: Connection, queue: str, window: int) -> Relay:
        """Begin to take from ``queue``, up to ``window`` messages at a time. Raises as the broker refuses."""
        session = await connection.create_session(AcknowledgeMode.INDIVIDUAL)
        coordinator = Coordinator(session._channel, [LOCAL_TRANSACTIONS])
        await coordinator.attach(session._request_timeout_s)
        source = Source(address=queue, capabilities=[QUEUE_CAPABILITY])
        receiving = await session._state.receiving(source, f"the relay from {queue}", prefetch=window)
        return cls(session, receiving, coordinator)

    async def next(self, timeout_s: float | None) -> Incoming | None:
        """The next message; None when none came in ``timeout_s`` seconds."""
        return await self._receiving.receive(timeout_s)

    async def next_now(self) -> Incoming | None:
        """The next message; None when the broker says that it has none, which it is asked over breaks."""
        return await self._receiving.receive_now(1)

    def is_here(self, message: Incoming) -> bool:
        """Whether the message is still this end's to decide; after a break it comes again, as another."""
        return self._receiving.is_current(message)

    async def forward(self, message: Incoming, address: str, payload: bytes) -> None:
        """Put ``payload`` to ``address`` and take ``message`` off its queue, in one transaction.

        When it raises, nothing of that is done, and the message is still at hand: the broker's refusal as the
        client has an exception for it. Else ComesAgain. Several may be under way: what goes to one address
        goes in the order of the calls, once `open_target` was called for it.
        """
        sending = await self._target(address)
        txn_id = await self._coordinator.declare(self._timeout_s)
        try:
            await self._put(sending, payload, TransactionalState(txn_id))
        except JMSException:
            await self._roll_back(txn_id)
            raise
        await self._take_off(message, txn_id)

    async def discard(self, message: Incoming) -> None:
        """Take ``message`` off its queue, durably when it returns. Raises as `forward`."""
        await self._take_off(message, await self._coordinator.declare(self._timeout_s))

    async def _take_off(self, message: Incoming, txn_id: bytes) -> None:
        """End the transaction with the message in it."""
        if not self.is_here(message) or message.settled:
            await self._roll_back(txn_id)
            raise ComesAgain
        try:
            self._receiving.settle(message, TransactionalState(txn_id, ACCEPTED))
            self._receiving.before_flush()  # the outcome belongs before the discharge
            await self._coordinator.discharge(txn_id, False, self._timeout_s)
        except JMSException as failure:
            raise ComesAgain from failure

    async def open_target(self, address: str) -> None:
        """Have a link to ``address``. Raises as the broker refuses."""
        await self._target(address)

    def at_once(self) -> Incoming | None:
        """A message that is here already."""
        return self._receiving.take_buffered()

    def leave(self, message: Incoming) -> None:
        """Leave ``message`` on its queue, for others: it doesn't come here again."""
        self._receiving.settle(message, LEFT)

    async def close(self) -> None:
        """Give back what is at hand, and end the links."""
        self._receiving.stop(RELEASED)
        await self._receiving.detach(self._timeout_s)
        for sending in self._targets.values():
            if sending.failure is None:
                await sending.detach(self._timeout_s)
        await self._coordinator.detach(self._timeout_s)
        await self._session.close()

    @property
    def _timeout_s(self) -> float | None:
        return self._session._request_timeout_s

    async def _target(self, address: str) -> Sending:
        """A link to ``address``: the one that is there, unless the broker has ended it."""
        known = self._targets.pop(address, None)
        if known is None or known.failure is not None:
            if len(self._targets) >= MAX_TARGETS:
                oldest = next(iter(self._targets))
                await self._targets.pop(oldest).detach(self._timeout_s)
            target = Target(address=address, capabilities=[QUEUE_CAPABILITY])
            known = await self._session._state.sending(target, address)
        self._targets[address] = known
        return known

    async def _put(self, sending: Sending, payload: bytes, state: TransactionalState) -> None:
        outcome = await sending.send(payload, False, self._timeout_s, state)
        assert outcome is not None
        raise_unless_accepted(await within(outcome, self._timeout_s, f"send to {sending.what}"))

    async def _roll_back(self, txn_id: bytes) -> None:
        with contextlib.suppress(JMSException):  # what failed before says more; the broker rolls back anyway
            await self._coordinator.discharge(txn_id, True, self._timeout_s)


def sent_on(payload: bytes) -> tuple[bytes, bytes]:
    """A message that was received as it is sent on: a header that begins its counts again, and the sections
    from the message annotations on, as they came."""
    head = scan_head(payload)
    header = Header(
        durable=head.durable, priority=int(head.priority), ttl=int(head.ttl_ms) if head.ttl_ms >= 0 else None
    )
    w = BytesWriter()
    header.write(w)
    return w.getvalue(), payload[int(head.bare_offset) :]
