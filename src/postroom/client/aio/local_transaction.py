"""Local transactions of a session: which one is open, what it has, and what a break makes of it.

A transaction begins with its first send or acknowledgement: a session that does nothing holds nothing open
at the broker. Its rules when the connection breaks under fail-over are those of Qpid JMS:

* Nothing was in it yet, or only one send that hadn't got its outcome: it goes on in a new transaction.
* Else it is in doubt, since the broker has rolled back what it had. Sends and acknowledgements are dropped
  without a word until the application ends it: ``commit`` raises TransactionRolledBackException.
* A commit under way may have been done or not; it is told as rolled back.
* A rollback is what the broker does by itself, so it succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from postroom.amqp.extensions import LOCAL_TRANSACTIONS
from postroom.amqp.frames.outcomes import ACCEPTED, Modified, TransactionalState
from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Incoming, Receiving
from postroom.client.connection.sender_link import Outcome, Sending
from postroom.client.connection.transport import within
from postroom.client.exceptions import (
    ConnectionLostException,
    JMSException,
    JMSTimeoutException,
    TransactionRolledBackException,
)
from postroom.client.sessions.completions import raise_unless_accepted
from postroom.client.transactions.coordinator import Coordinator

__all__ = ["TransactionContext"]


@dataclass
class FirstSend:
    """The one send of a transaction that has nothing else yet."""

    sending: Sending
    payload: bytes
    outcome: Outcome


class TransactionContext:
    """The local transactions of one session, one after the other."""

    consumer_properties: ClassVar[dict[object, object]] = {}

    def __init__(
        self, channel: Channel, receivings: Callable[[], Iterable[Receiving]], timeout_s: float | None
    ) -> None:
        """``receivings``: the links of the session's consumers; ``timeout_s``: for requests."""
        self._recovers = channel.provider.recovers
        self._channel = channel
        self._coordinator = self._new_coordinator()
        self._receivings = receivings
        self._timeout_s = timeout_s
        self._txn_id: bytes | None = None
        self._begins = asyncio.Lock()
        self._breaks = 0
        self._forget_work()

    def _forget_work(self) -> None:
        """A new transaction: nothing is in it."""
        self._participants = 0
        """Sends and acknowledgements in it."""
        self._first: FirstSend | None = None
        self._moved: FirstSend | None = None
        """A first send that a break interrupted: it opens the next transaction."""
        self._in_doubt = False
        self._outcomes: set[Outcome] = set()
        """Of sends, not known yet."""
        self._refusal: JMSException | None = None
        """Why a send isn't in it."""
        self._dropped: list[tuple[Receiving, Incoming]] = []
        """Acknowledged while in doubt: they go back when it ends."""

    def _new_coordinator(self) -> Coordinator:
        coordinator = Coordinator(self._channel, [LOCAL_TRANSACTIONS])
        coordinator.on_break = self._on_break
        return coordinator

    async def start(self) -> None:
        """Attach the control link; raises as the broker refuses."""
        await self._coordinator.attach(self._timeout_s)

    # --- work

    async def send(self, sending: Sending, payload: bytes, settled: bool, timeout_s: float | None) -> None:
        """Send in the transaction; whether the broker takes the message is known when it ends."""
        await within(self._send(sending, payload, settled), timeout_s, f"send to {sending.what}")

    async def _send(self, sending: Sending, payload: bytes, settled: bool) -> None:
        while not self._in_doubt:
            try:
                txn_id = await self._begin()
                outcome = await sending.send(payload, settled, None, TransactionalState(txn_id))
            except ConnectionLostException:
                self._check_recovers()
                continue
            if txn_id == self._txn_id:
                self._sent(sending, payload, outcome)
                return
        self._participants += 1

    def _sent(self, sending: Sending, payload: bytes, outcome: Outcome | None) -> None:
        self._participants += 1
        self._first = None
        if outcome is None:
            return
        if self._participants == 1:
            self._first = FirstSend(sending, payload, outcome)
        self._outcomes.add(outcome)
        outcome.add_done_callback(self._on_outcome)

    def _on_outcome(self, outcome: Outcome) -> None:
        if outcome not in self._outcomes:
            return  # of a transaction that has ended
        self._outcomes.discard(outcome)
        try:
            raise_unless_accepted(outcome.result())
        except (ConnectionLostException, asyncio.CancelledError):
            pass  # a break is known by other ways
        except JMSException as refusal:
            self._refusal = self._refusal or refusal

    def check_listen(self) -> None:
        """Messages can come at any time: there is always a transaction."""

    def check_receive(self) -> None:
        """Messages can always be received: there is always a transaction."""

    async def acknowledge(self, receiving: Receiving, incoming: Incoming) -> bool:
        """Accept a message in the transaction; False where it came before a break, and comes again."""
        while receiving.is_current(incoming):
            if self._in_doubt:
                self._participants += 1
                self._dropped.append((receiving, incoming))
                return True
            try:
                txn_id = await self._begin()
            except ConnectionLostException:
                self._check_recovers()
                continue
            if receiving.is_current(incoming):
                receiving.settle(incoming, TransactionalState(txn_id, ACCEPTED))
                self._participants += 1
                self._first = None
                return True
        return False

    # --- begin, and breaks

    async def _begin(self) -> bytes:
        """The open transaction, declared now where there is none; a first send that was interrupted is its
        beginning.
        """
        async with self._begins:
            if self._txn_id is None:
                breaks = self._breaks
                if self._coordinator.failure is not None:  # the broker has ended it
                    self._coordinator = self._new_coordinator()
                    await self.start()
                txn_id = await self._coordinator.declare(self._timeout_s)
                if breaks != self._breaks:
                    raise ConnectionLostException("the connection broke while a transaction was declared")
                self._txn_id = txn_id
            if self._moved is not None:
                await self._send_moved(self._txn_id, self._moved)
            return self._txn_id

    async def _send_moved(self, txn_id: bytes, moved: FirstSend) -> None:
        try:
            outcome = await moved.sending.send(
                moved.payload, False, self._timeout_s, TransactionalState(txn_id)
            )
        except ConnectionLostException:
            raise
        except JMSException as refusal:
            self._refusal = refusal
            self._participants += 1
            self._moved = None
            return
        if txn_id == self._txn_id:
            self._moved = None
            self._sent(moved.sending, moved.payload, outcome)

    def _on_break(self) -> None:
        """The control link is gone, and with it what it had declared at the broker."""
        self._txn_id = None
        self._breaks += 1
        first, self._first = self._first, None
        if self._participants == 0:
            return
        if first is not None and not first.outcome.done():
            self._outcomes.discard(first.outcome)
            self._participants = 0
            self._moved = first
        else:
            self._in_doubt = True

    def _check_recovers(self) -> None:
        """Raise where there is no fail-over: the connection is over."""
        if not self._recovers:
            self._channel.provider.check()

    # --- ends

    async def commit(self) -> None:
        """Make the work of the transaction count, all or nothing; the next one begins.

        Raises TransactionRolledBackException where it didn't (or may not have).
        """
        while self._moved is not None and not self._in_doubt:
            try:
                await self._begin()
            except ConnectionLostException:
                self._check_recovers()
        if self._in_doubt:
            await self.rollback()
            raise TransactionRolledBackException(
                "the transaction was in doubt, and is rolled back: since it began the connection broke, the"
                " broker ended its control link, or a commit had no answer"
            )
        if self._participants:
            await self._commit()

    async def _commit(self) -> None:
        try:
            await self._discharge_all()
        except TransactionRolledBackException:
            self._txn_id = None
            await self._start_over()
            raise
        except ConnectionLostException as lost:
            if not self._recovers:
                raise
            self._forget_work()
            raise TransactionRolledBackException(
                f"the connection broke during the commit, which may have been done: {lost.description}"
            ) from lost
        except JMSException:
            self._in_doubt = True
            raise
        self._txn_id = None
        self._forget_work()

    async def _discharge_all(self) -> None:
        """Commit, once it is known that every send is in the transaction."""
        assert self._txn_id is not None
        txn_id = self._txn_id
        if self._outcomes:
            waiting = asyncio.ensure_future(asyncio.wait(list(self._outcomes)))
            await within(waiting, self._timeout_s, "outcomes of the sends of a transaction")
        if self._txn_id != txn_id:
            raise ConnectionLostException("the connection broke before the commit")
        if self._refusal is not None:
            refusal = self._refusal
            await self._discharge(txn_id, True)
            raise TransactionRolledBackException(
                f"a send of the transaction was refused, so it was rolled back: {refusal.description}",
                refusal.condition,
            ) from refusal
        await self._discharge(txn_id, False)

    async def _discharge(self, txn_id: bytes, fail: bool) -> None:
        for receiving in self._receivings():
            receiving.before_flush()  # acknowledgements that are still to be written belong before it
        await self._coordinator.discharge(txn_id, fail, self._timeout_s)

    async def rollback(self) -> None:
        """Undo the work of the transaction; the next one begins. What was received comes again, in order
        and before what was only prefetched.
        """
        txn_id = self._txn_id
        if txn_id is None or not self._participants:
            if any(receiving.is_current(incoming) for receiving, incoming in self._dropped):
                await self._start_over()  # what was received while in doubt goes back
            else:
                self._forget_work()
            return
        self._txn_id = None
        for receiving in self._open_receivings():
            receiving.pause()
        try:
            await self._discharge(txn_id, True)
        except JMSTimeoutException:
            raise
        except ConnectionLostException:
            self._check_recovers()  # the broker has rolled back by itself
        except JMSException:
            pass  # the broker knows no such transaction any more: it is rolled back
        finally:
            self._give_back()

    async def _start_over(self) -> None:
        """The broker has rolled back. What it had sent ahead goes back before it sends again, so that what
        comes first is what was rolled back.
        """
        for receiving in self._open_receivings():
            receiving.pause()
        self._in_doubt = False
        self._moved = None
        try:
            await self._begin()  # its answer comes behind everything that was sent before the pause
        except ConnectionLostException:
            self._check_recovers()
        finally:
            self._give_back()

    def _give_back(self) -> None:
        """Return what the broker has sent ahead, and let it send again."""
        for receiving, incoming in self._dropped:
            if receiving.failure is None:
                receiving.settle(incoming, Modified(delivery_failed=True))
        for receiving in self._open_receivings():
            receiving.resume_anew()
        self._forget_work()

    def _open_receivings(self) -> list[Receiving]:
        return [each for each in self._receivings() if each.failure is None]

    async def close(self) -> None:
        """Roll back, and close the control link; nothing more is received."""
        for receiving in self._open_receivings():
            receiving.pause()
        self._forget_work()
        await self._coordinator.detach(self._timeout_s)
