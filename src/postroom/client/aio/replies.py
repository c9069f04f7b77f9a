"""Where replies come to: temporary queues and topics, and requestors, which wait there: the asyncio face."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from postroom.client.aio.closable import Closable, OfOneSession
from postroom.client.aio.consumer import MessageConsumer
from postroom.client.aio.producer import MessageProducer
from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Receiving
from postroom.client.connection.sender_link import Sending
from postroom.client.destinations import Queue, Topic
from postroom.client.durations import check_duration
from postroom.client.exceptions import IllegalStateException, JMSTimeoutException
from postroom.client.messages.message import Body, Message, as_message
from postroom.client.sessions.deliveries import end_of, left_s

__all__ = ["Requestor", "TemporaryDestination"]


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


class Requestor(OfOneSession, Closable):
    """Sends requests and waits for their replies: QueueRequestor and TopicRequestor of JMS. Made by
    :meth:`Connection.requestor` and :meth:`Session.create_requestor`.

    Who serves sends the reply to the request's ``reply_to``, a queue of the requestor's own, with the
    request's message id as correlation id (or the request's own correlation id, where it has one).
    """

    def __init__(
        self, producer: MessageProducer, replies: MessageConsumer, request_timeout_s: float | None
    ) -> None:
        self._producer = producer
        self._replies = replies
        self._request_timeout_s = request_timeout_s
        self._one_at_a_time = asyncio.Lock()

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._producer.is_closed or self._replies.is_closed

    async def request(self, message: Body, timeout_s: float | None = None) -> Message:
        """Send a request and return its reply; replies to requests that were given up are passed over.

        ``timeout_s`` None: ``request_timeout_s`` of the connection. Raises JMSTimeoutException when no reply
        came, and as :meth:`MessageProducer.send`.
        """
        check_duration("timeout_s", timeout_s)
        request = as_message(message)
        async with self._one_at_a_time:
            await self._producer._sending.provider.online()  # a break gives the replies' queue another name
            request.reply_to = self._replies.address
            await self._producer.send(request)
            end_s = end_of(self._request_timeout_s if timeout_s is None else timeout_s)
            while (reply := await self._replies.receive(left_s(end_s))) is not None:
                if reply.correlation_id in (request.correlation_id or request.message_id, None):
                    return reply
        raise JMSTimeoutException("no reply came in time", None)

    async def close(self) -> None:
        """Close its links, and its queue of replies with them."""
        try:
            await self._producer.close()
            await self._replies.close()
        finally:
            self._ends()
