"""Requests and their replies: the sync face.

Generated from aio/requestor.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from postroom.client.aio import requestor as aio
from postroom.client.messages.message import Body, Message
from postroom.client.sync.portal import Closable

__all__ = ["Requestor"]


class Requestor(Closable):
    """Sends requests and waits for their replies: QueueRequestor and TopicRequestor of JMS. Made by
    :meth:`Connection.requestor` and :meth:`Session.create_requestor`.

    Who serves sends the reply to the request's ``reply_to``, a queue of the requestor's own, with the
    request's message id as correlation id (or the request's own correlation id, where it has one).
    """

    _inner: aio.Requestor

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
        self._close()
