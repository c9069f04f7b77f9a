"""The sync face of the client, with the names of JMS: connections.

Generated from aio/connecting.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

import ssl
from types import TracebackType

from postroom.client.aio import connecting as aio
from postroom.client.aio.connecting import (
    DEFAULT_CONNECT_TIMEOUT_S,
    DEFAULT_IDLE_TIMEOUT_MS,
    DEFAULT_REQUEST_TIMEOUT_S,
)
from postroom.client.modes import AcknowledgeMode
from postroom.client.portal import Portal
from postroom.client.provider import ConnectionListener
from postroom.client.sync.management import ManagementClient
from postroom.client.sync.messaging import Session
from postroom.client.sync.store import MessageStore

__all__ = ["Connection", "ConnectionFactory"]


class ConnectionFactory:
    """Makes connections to the broker at ``url``, ``amqp[s]://[user[:password]@]host[:port]``, or to the
    first of several that answers, ``failover:(amqp://a,amqp://b)``: such a connection is made anew when it
    breaks.

    ``client_id`` is the container id: the broker refuses a second connection with the same one. Where it is
    None, one is made. ``tls`` says whom to trust behind ``amqps://``; None: the certificates that the system
    trusts. ``connect_timeout_s`` is for each broker tried. ``listener`` hears of breaks. Times are in seconds
    (None: no limit) and milliseconds, as their names say. Raises ValueError for a URL that is none.
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
        listener: ConnectionListener | None = None,
    ) -> None:
        self._inner = aio.ConnectionFactory(
            url,
            client_id=client_id,
            connect_timeout_s=connect_timeout_s,
            request_timeout_s=request_timeout_s,
            idle_timeout_ms=idle_timeout_ms,
            max_frame_size_bytes=max_frame_size_bytes,
            tls=tls,
            listener=listener,
        )

    def create_connection(self) -> Connection:
        """Connect, sign in and open; with fail-over, try until it works or the attempts are used up.

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
        """The container id of the broker; of the last one while there is none."""
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
