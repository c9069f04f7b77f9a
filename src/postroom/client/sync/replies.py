"""Where replies come to: temporary queues and topics, and requestors, which wait there: the sync face.

Generated from aio/replies.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from postroom.client.aio import replies as aio
from postroom.client.destinations import Queue, Topic
from postroom.client.messages.message import Body, Message
from postroom.client.sync.portal import Closable, Face

__all__ = ["Requestor", "TemporaryDestination"]


class TemporaryDestination(Face[aio.TemporaryDestination]):
    """A queue or topic that the broker has made and named for this connection, and deletes with it.

    Leaving ``with`` deletes it. Everybody can send to it, only this connection can consume from it.
    Made by :meth:`Session.create_temporary_queue` and :meth:`Session.create_temporary_topic`.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.delete()

    @property
    def destination(self) -> Queue | Topic:
        """What producers and consumers are created for, and what a message's ``reply_to`` is set to;
        producers and consumers that are there follow it to another name.
        """
        return self._inner.destination

    @property
    def name(self) -> str:
        """Its name. After a fail-over it is another one."""
        return self._inner.name

    @property
    def is_deleted(self) -> bool:
        """True after ``delete``, and when the connection is over."""
        return self._inner.is_deleted

    def delete(self) -> None:
        """Delete it with what waits there. Raises IllegalStateException while a consumer of it is open."""
        self._portal.call(self._inner.delete())


class Requestor(Closable[aio.Requestor]):
    """Sends requests and waits for their replies: QueueRequestor and TopicRequestor of JMS. Made by
    :meth:`Connection.requestor` and :meth:`Session.create_requestor`.

    Who serves sends the reply to the request's ``reply_to``, a queue of the requestor's own, with the
    request's message id as correlation id (or the request's own correlation id, where it has one).
    """

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the broker or a broken connection ended it."""
        return self._inner.is_closed

    def request(self, message: Body, timeout_s: float | None = None) -> Message:
        """Send a request and return its reply; replies to requests that were given up are passed over.

        ``timeout_s`` None: ``request_timeout_s`` of the connection. Raises JMSTimeoutException when no reply
        came, and as :meth:`MessageProducer.send`.
        """
        return self._portal.received(self._portal.call(self._inner.request(message, timeout_s)))

    def close(self) -> None:
        """Close its links, and its queue of replies with them."""
        super().close()
