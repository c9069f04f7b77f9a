"""What producers and consumers of a session do their work in, where that is a transaction."""

from __future__ import annotations

from typing import Protocol

from postroom.client.connection.receiver_link import Incoming, Receiving
from postroom.client.connection.sender_link import Sending


class UnitOfWork(Protocol):
    """A transaction, local or a branch of a global one."""

    async def send(self, sending: Sending, payload: bytes, settled: bool, timeout_s: float | None) -> None:
        """Send in the transaction; the outcome is looked at when it ends."""

    def check_listen(self) -> None:
        """Raises IllegalStateException where messages can't come at any time."""

    def check_receive(self) -> None:
        """Raises IllegalStateException where nothing can be received now."""

    async def acknowledge(self, receiving: Receiving, incoming: Incoming) -> bool:
        """Accept a message in the transaction, before the application gets it; False: don't hand it out, it
        comes again.
        """
