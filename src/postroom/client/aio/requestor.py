"""Requests and their replies: the asyncio face."""

from __future__ import annotations

import asyncio

from postroom.client.aio.closable import Closable, OfOneSession
from postroom.client.aio.consumer import MessageConsumer
from postroom.client.aio.producer import MessageProducer
from postroom.client.durations import check_duration
from postroom.client.exceptions import JMSTimeoutException
from postroom.client.messages.message import Body, Message, as_message
from postroom.client.sessions.deliveries import end_of, left_s

__all__ = ["Requestor"]


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
            await (
                self._producer._sending.provider.online()
            )  # after a break the replies' queue has another name
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
