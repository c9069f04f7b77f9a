"""The sync face of the client, with the names of JMS.

Generated from aio/messaging.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

import ssl
from types import TracebackType

from postroom.client.aio import messaging as aio
from postroom.client.aio.messaging import (
    DEFAULT_CONNECT_TIMEOUT_S,
    DEFAULT_IDLE_TIMEOUT_MS,
    DEFAULT_PREFETCH,
    DEFAULT_REQUEST_TIMEOUT_S,
)
from postroom.client.modes import AcknowledgeMode
from postroom.client.portal import Portal
from postroom.client.sync.consuming import MessageConsumer, QueueBrowser
from postroom.client.sync.management import ManagementClient
from postroom.client.sync.producing import MessageProducer
from postroom.client.sync.store import MessageStore

__all__ = ["Connection", "ConnectionFactory", "Session"]


class ConnectionFactory:
    """Makes connections to the broker at ``url``, ``amqp[s]://[user[:password]@]host[:port]``.

    ``client_id`` is the container id: the broker refuses a second connection with the same one. Where it is
    None, one is made. ``tls`` says whom to trust behind ``amqps://``; None: the certificates that the system
    trusts. Times are in seconds (None: no limit) and milliseconds, as their names say. Raises ValueError for
    a URL that is none.
    """

    def __init__(
        self,
        url: str = "amqp://127.0.0.1:5672",
        *,
        client_id: str | None = None,
        connect_timeout_s: float | None = DEFAULT_CONNECT_TIMEOUT_S,
        request_timeout_s: float | None = DEFAULT_REQUEST_TIMEOUT_S,
        idle_timeout_ms: int = DEFAULT_IDLE_TIMEOUT_MS,
        max_frame_size_bytes: int = 64 * 1024,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._inner = aio.ConnectionFactory(
            url,
            client_id=client_id,
            connect_timeout_s=connect_timeout_s,
            request_timeout_s=request_timeout_s,
            idle_timeout_ms=idle_timeout_ms,
            max_frame_size_bytes=max_frame_size_bytes,
            tls=tls,
        )

    def create_connection(self) -> Connection:
        """Connect, sign in and open.

        Raises ConnectionLostException (nobody listens there, or not an AMQP broker), JMSSecurityException
        (wrong user or password), InvalidClientIDException (the client id is in use), JMSTimeoutException.
        """
        portal, inner = Portal.open(self._inner.create_connection)
        return Connection(portal, inner)


class Connection:
    """A connection to a broker; leaving ``with`` closes it. Made by :class:`ConnectionFactory`."""

    def __init__(self, portal: Portal, inner: aio.Connection) -> None:
        self._portal = portal
        self._inner = inner

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """The container id of this end."""
        return self._inner.client_id

    @property
    def broker_container_id(self) -> str:
        """The container id of the broker."""
        return self._inner.broker_container_id

    def create_session(self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session:
        """Begin a session. Raises JMSException for an unknown mode, or what ended the connection."""
        return Session(self._portal, self._portal.call(self._inner.create_session(acknowledge_mode)))

    def create_management(self) -> ManagementClient:
        """A client of the broker's management node."""
        return ManagementClient(self._portal, self._portal.call(self._inner.create_management()))

    def create_message_store(self, queue: str) -> MessageStore:
        """The message store of a queue, with the verbs of MQ Everyplace."""
        return MessageStore(self._portal, self._portal.call(self._inner.create_message_store(queue)))

    def close(self) -> None:
        """Close the connection, its sessions first; see :meth:`Session.close` for what becomes of
        messages.
        """
        if self._portal.is_running:
            try:
                self._portal.call(self._inner.close())
            finally:
                self._portal.stop()


class Session:
    """A session: the producers and consumers of one unit of work. Made by
    :meth:`Connection.create_session`.
    """

    def __init__(self, portal: Portal, inner: aio.Session) -> None:
        self._portal = portal
        self._inner = inner

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """The mode that the session was created with."""
        return self._inner.acknowledge_mode

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the connection is over."""
        return self._inner.is_closed

    def create_producer(
        self, queue: str | None = None, *, settled: bool = False, send_timeout_ms: int | None = None
    ) -> MessageProducer:
        """A producer for ``queue``; None for one whose messages name their own destination (ANONYMOUS-RELAY).

        ``settled``: at most once, no outcome is waited for. ``send_timeout_ms``: how long a send waits for
        room in the destination's quota before it raises ResourceAllocationException; 0 not at all, None as
        the broker is configured. Raises InvalidDestinationException, JMSSecurityException,
        ResourceAllocationException as the broker answers.
        """
        return MessageProducer(
            self._portal,
            self._portal.call(
                self._inner.create_producer(queue, settled=settled, send_timeout_ms=send_timeout_ms)
            ),
        )

    def create_consumer(
        self,
        queue: str,
        *,
        selector: str | None = None,
        prefetch: int = DEFAULT_PREFETCH,
        settle_second: bool = False,
        exclusive: bool = False,
    ) -> MessageConsumer:
        """A consumer of ``queue``.

        ``prefetch`` messages (0 to 32,767) are asked for ahead; 0: each ``receive`` asks for one.
        ``settle_second``: every outcome waits for the broker's answer, so that it is known to be durable.
        Raises as :meth:`create_producer`, and ResourceAllocationException where another consumer has the
        queue for itself.
        """
        return MessageConsumer(
            self._portal,
            self._portal.call(
                self._inner.create_consumer(
                    queue,
                    selector=selector,
                    prefetch=prefetch,
                    settle_second=settle_second,
                    exclusive=exclusive,
                )
            ),
        )

    def create_browser(self, queue: str, *, selector: str | None = None) -> QueueBrowser:
        """A browser of ``queue``: sees the messages that wait there, takes none."""
        return QueueBrowser(
            self._portal, self._portal.call(self._inner.create_browser(queue, selector=selector))
        )

    def create_reply_consumer(self) -> MessageConsumer:
        """A consumer of a queue of its own, which the broker names (``address``) and deletes with the
        consumer.
        """
        return MessageConsumer(self._portal, self._portal.call(self._inner.create_reply_consumer()))

    def acknowledge(self) -> None:
        """Accept everything that the session's consumers have received so far (mode CLIENT)."""
        self._portal.call(self._inner.acknowledge())

    def close(self) -> None:
        """Close the session with its producers and consumers.

        What was received and not acknowledged goes back with delivery-failed, what was only prefetched goes
        back as if it had never left.
        """
        if self._portal.is_running:
            self._portal.call(self._inner.close())
