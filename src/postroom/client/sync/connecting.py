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
    DEFAULT_MAX_FRAME_SIZE_BYTES,
    DEFAULT_OPTIONS,
)
from postroom.client.metadata import ConnectionMetaData
from postroom.client.modes import AcknowledgeMode
from postroom.client.options import DEFAULT_TIMEOUT_S, ClientOptions, RecoverMode
from postroom.client.portal import Portal
from postroom.client.provider import ConnectionListener
from postroom.client.shared import ExceptionListener
from postroom.client.sync.context import JMSContext
from postroom.client.sync.management import ManagementClient
from postroom.client.sync.messaging import Session
from postroom.client.sync.store import MessageStore
from postroom.client.sync.xa import XASession
from postroom.client.tls import TlsOptions

__all__ = ["Connection", "ConnectionFactory"]


class ConnectionFactory:
    """Makes connections to the broker at ``url``, ``amqp[s]://[user[:password]@]host[:port]``, or to the
    first of several that answers, ``failover:(amqp://a,amqp://b)``: such a connection is made anew when it
    breaks.

    ``client_id`` is the container id: the broker refuses a second connection with the same one. Where it is
    None, one is made. ``tls`` says whom to trust behind ``amqps://``; None: the certificates that the system
    trusts. ``connect_timeout_s`` is for each broker tried. ``listener`` hears of breaks. ``options`` say how
    sessions, producers and consumers behave. Times are in seconds (None: no limit) and milliseconds, as their
    names say. What the URL says counts before these arguments. Raises ValueError for a URL that is none, or
    an option in it that isn't known or has no such value; JMSSecurityException for files of ``tls`` that are
    none.
    """

    def __init__(
        self,
        url: str = "amqp://127.0.0.1:5672",
        *,
        client_id: str | None = None,
        connect_timeout_s: float | None = DEFAULT_CONNECT_TIMEOUT_S,
        request_timeout_s: float | None = DEFAULT_TIMEOUT_S,
        idle_timeout_ms: int = DEFAULT_IDLE_TIMEOUT_MS,
        max_frame_size_bytes: int = DEFAULT_MAX_FRAME_SIZE_BYTES,
        tls: ssl.SSLContext | TlsOptions | None = None,
        listener: ConnectionListener | None = None,
        options: ClientOptions = DEFAULT_OPTIONS,
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
            options=options,
        )

    def create_connection(self) -> Connection:
        """Connect, sign in and open; with fail-over, try until it works or the attempts are used up.

        Raises ConnectionLostException (nobody listens there, or not an AMQP broker), JMSSecurityException
        (wrong user or password), InvalidClientIDException (the client id is in use), JMSTimeoutException.
        """
        portal, inner = Portal.open(lambda: self._inner.create_connection())
        return Connection(portal, inner)

    def create_context(
        self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO, *, recover: RecoverMode | None = None
    ) -> JMSContext:
        """The short form: a connection and a session on it. Raises as :meth:`create_connection` and
        :meth:`Connection.create_session`.
        """
        portal, inner = Portal.open(lambda: self._inner.create_context(acknowledge_mode, recover=recover))
        return JMSContext(portal, inner)


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

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the connection has ended by itself."""
        return self._inner.is_closed

    @property
    def metadata(self) -> ConnectionMetaData:
        """Versions of the client and the broker."""
        return self._inner.metadata

    def start(self) -> None:
        """Hand messages out again, after ``stop``; a new connection is started."""
        self._portal.call(self._inner.start())

    def stop(self) -> None:
        """Hand no messages to the application until ``start``: ``receive`` waits, listeners are not called; a
        call under way is waited for. Sending goes on, and so does prefetching. Raises IllegalStateException
        in a listener of this connection.
        """
        self._portal.call(self._inner.stop())

    def set_exception_listener(self, listener: ExceptionListener | None) -> None:
        """``listener`` is called with the end of the connection, unless the application closes it, and with
        the failure of a send that nobody waits for. It may be a coroutine function. Without one, such a
        failure is logged.
        """
        self._portal.call(self._inner.set_exception_listener(self._portal.callback(listener)))

    def create_session(
        self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO, *, recover: RecoverMode | None = None
    ) -> Session:
        """Begin a session. ``recover``: what its ``recover`` does; None: as the options of the connection
        say. Raises JMSException for an unknown mode, ValueError for a ``recover`` that is none, or what ended
        the connection.
        """
        return Session(
            self._portal, self._portal.call(self._inner.create_session(acknowledge_mode, recover=recover))
        )

    def create_xa_session(self) -> XASession:
        """Begin a session for global transactions. Raises JMSException where the broker has none."""
        return XASession(self._portal, self._portal.call(self._inner.create_xa_session()))

    def create_management(self) -> ManagementClient:
        """A client of the broker's management node, in a session of its own until it is closed."""
        return ManagementClient(self._portal, self._portal.call(self._inner.create_management()))

    def create_message_store(self, queue: str) -> MessageStore:
        """The message store of a queue, with the verbs of MQ Everyplace."""
        return MessageStore(self._portal, self._portal.call(self._inner.create_message_store(queue)))

    def close(self) -> None:
        """Close the connection, its sessions first; see :meth:`Session.close` for what becomes of
        messages. Raises IllegalStateException in a listener of this connection.
        """
        if self._portal.is_running:
            try:
                self._portal.call(self._inner.close())
            finally:
                if self._inner.is_closed:
                    self._portal.stop()
