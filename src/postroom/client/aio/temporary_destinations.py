"""Temporary queues and topics: the asyncio face."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Receiving
from postroom.client.connection.sender_link import Sending
from postroom.client.destinations import Queue, Topic
from postroom.client.exceptions import IllegalStateException

__all__ = ["TemporaryDestination"]


class TemporaryDestination:
    """A queue or topic that the broker has made and named for this connection, and deletes with it.

    Leaving ``async with`` deletes it. Everybody can send to it, only this connection can consume from it.
    Made by :meth:`Session.create_temporary_queue` and :meth:`Session.create_temporary_topic`.
    """

    def __init__(
        self,
        channel: Channel,
        sending: Sending,
        kind: type[Queue] | type[Topic],
        request_timeout_s: float | None,
    ) -> None:
        self._channel = channel
        self._sending = sending
        self._kind = kind
        self._request_timeout_s = request_timeout_s

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.delete()

    @property
    def destination(self) -> Queue | Topic:
        """What producers and consumers are created for, and what a message's ``reply_to`` is set to;
        producers and consumers that are there follow it to another name.
        """
        return self._kind(self.name)

    @property
    def name(self) -> str:
        """Its name. After a fail-over it is another one."""
        return self._sending.address or ""

    @property
    def is_deleted(self) -> bool:
        """True after ``delete``, and when the connection is over."""
        return self._sending.failure is not None

    async def delete(self) -> None:
        """Delete it with what waits there. Raises IllegalStateException while a consumer of it is open."""
        provider = self._channel.provider
        consumers = (link for link in provider.attachments() if isinstance(link, Receiving))
        if any(link.address == self.name and link.failure is None for link in consumers):
            raise IllegalStateException(f"{self.name} has consumers: close them first")
        if not self.is_deleted:
            await self._sending.detach(self._request_timeout_s)
            self._channel.end()
