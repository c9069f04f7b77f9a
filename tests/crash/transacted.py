"""A life whose messages come and go in local transactions: each commit happens whole or not at all."""

from __future__ import annotations

import weakref
from typing import Any

from proton import Delivery, Message

from tests.crash.traffic import QUEUE, Life

PUTS = 3
MOST_GETS = 3


class TransactedLife(Life):
    """One transaction after another: puts, confirms of what has come, commit; killed like any other life."""

    def on_start(self, event: Any) -> None:
        self.sending = self.receiving = event.container.connect(self.url, reconnect=False)
        self.sender = event.container.create_sender(self.sending, QUEUE)
        event.container.create_receiver(self.sending, QUEUE)
        self.inbox: list[tuple[Delivery, int]] = []
        self.got: list[tuple[Delivery, int]] = []
        self.transaction: Any = None
        self._declare(event)

    def _declare(self, event: Any) -> None:
        # Proton's C part keeps each transaction, which keeps its handler: what only such a cycle frees stays.
        event.container.declare_transaction(self.sending, handler=weakref.proxy(self))

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self._send()

    def _send(self) -> None:
        """Fills the open transaction and asks for its commit."""
        if self.transaction is None or self.sender.credit < PUTS or self.ending:
            return
        transaction, self.transaction = self.transaction, None
        first = self.next_number
        messages: list[Message] = [self.next_message() for _ in range(PUTS)]
        for message in messages:
            transaction.send(self.sender, message)
        self.got, self.inbox = self.inbox[:MOST_GETS], self.inbox[MOST_GETS:]
        for delivery, _ in self.got:
            transaction.accept(delivery)
        self.history.saw_discharge_sent(
            set(range(first, self.next_number)), {number for _, number in self.got}
        )
        transaction.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self.history.saw_discharge_answered()
        for delivery, _ in self.got:
            delivery.settle()
        self._count_answers(event, PUTS)
        self._declare(event)

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._fail("a commit was refused")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._fail("a transaction was not declared")

    def on_accepted(self, event: Any) -> None:
        """Answers come with the commit."""

    def on_settled(self, event: Any) -> None:
        """Nothing is settled outside the commit."""

    def on_message(self, event: Any) -> None:
        if self.ending:
            return
        self.moved += 1
        number: int = event.message.id
        self.history.saw_delivery(number, event.message.delivery_count > 0)
        self.inbox.append((event.delivery, number))
