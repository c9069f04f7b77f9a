"""Temporary queues and topics: the asyncio face."""

from __future__ import annotations

from postroom.amqp.session import Session as EngineSession
from postroom.client.destinations import Queue, Topic
from postroom.client.exceptions import IllegalStateException
from postroom.client.links import Receiving, Sending
from postroom.client.transport import Transport

__all__ = ["TemporaryDestination"]


class TemporaryDestination:
    """A queue or topic that the broker has made and named for this connection, and deletes with it.

    Everybody can send to it, only this connection can consume from it. Made by
    :meth:`Session.create_temporary_queue` and :meth:`Session.create_temporary_topic`.
    """

    def __init__(
        self,
        transport: Transport,
        engine: EngineSession,
        sending: Sending,
        destination: Queue | Topic,
        request_timeout_s: float | None,
    ) -> None:
        self._transport = transport
        self._engine = engine
        self._sending = sending
        self._destination = destination
        self._request_timeout_s = request_timeout_s

    @property
    def destination(self) -> Queue | Topic:
        """What producers and consumers are created for."""
        return self._destination

    @property
    def name(self) -> str:
        """Its name: what a message's ``reply_to`` is set to."""
        return self._destination.name

    @property
    def is_deleted(self) -> bool:
        """True after ``delete``, and when the connection is over."""
        return self._sending.failure is not None

    async def delete(self) -> None:
        """Delete it with what waits there. Raises IllegalStateException while a consumer of it is open."""
        consumers = (link for link in self._transport.links() if isinstance(link, Receiving))
        if any(link.address == self.name and link.failure is None for link in consumers):
            raise IllegalStateException(f"{self.name} has consumers: close them first")
        if not self.is_deleted:
            await self._sending.detach(self._request_timeout_s)
            self._engine.end()
            self._transport.flush_soon()
