"""The sync face of the client: connections, and what is opened on them.

Generated from aio/connection.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

import ssl

from postroom.client.aio import connection as aio
from postroom.client.aio.connection import (
    DEFAULT_CONNECT_TIMEOUT_S,
    DEFAULT_IDLE_TIMEOUT_MS,
    DEFAULT_MAX_FRAME_SIZE_BYTES,
    DEFAULT_OPTIONS,
)
from postroom.client.connection.metadata import ConnectionMetaData
from postroom.client.connection.options import DEFAULT_TIMEOUT_S, ClientOptions, RecoverMode
from postroom.client.connection.provider import ConnectionListener
from postroom.client.connection.tls import TlsOptions
from postroom.client.destinations import Destination, Queue
from postroom.client.sessions.connection_state import ExceptionListener
from postroom.client.sessions.session_state import AcknowledgeMode
from postroom.client.sync.consumer import MessageConsumer, QueueBrowser
from postroom.client.sync.context import JMSContext
from postroom.client.sync.management_client import ManagementClient
from postroom.client.sync.message_store import MessageStore
from postroom.client.sync.portal import Closable, Portal
from postroom.client.sync.producer import MessageProducer
from postroom.client.sync.requestor import Requestor
from postroom.client.sync.session import Session, TransactedSession
from postroom.client.sync.xa import XASession

__all__ = ["Connection", "ConnectionFactory", "connect"]


def connect(
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
) -> Connection:
    """A connection to the broker at ``url``: ``with connect(url) as connection:``. The arguments are
    those of :class:`ConnectionFactory`; raises as that and :meth:`ConnectionFactory.create_connection` do.
    """
    return ConnectionFactory(
        url,
        client_id=client_id,
        connect_timeout_s=connect_timeout_s,
        request_timeout_s=request_timeout_s,
        idle_timeout_ms=idle_timeout_ms,
        max_frame_size_bytes=max_frame_size_bytes,
        tls=tls,
        listener=listener,
        options=options,
    ).create_connection()


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

    _inner: aio.ConnectionFactory

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
        return Connection(*Portal.open(lambda: self._inner.create_connection()))

    def create_context(
        self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO, *, recover: RecoverMode | None = None
    ) -> JMSContext:
        """The short form: a connection and a session on it. Raises as :meth:`create_connection` and
        :meth:`Connection.create_session`.
        """
        return JMSContext(*Portal.open(lambda: self._inner.create_context(acknowledge_mode, recover=recover)))


class Connection(Closable):
    """A connection to a broker; leaving ``with`` closes it. Made by :func:`connect` and
    :class:`ConnectionFactory`.

    ``consumer``, ``producer``, ``browser``, ``requestor`` and ``transaction`` are the short way: what they
    open has a session to itself, which closes with it. ``create_session`` is JMS's.
    """

    _inner: aio.Connection

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

    def consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        prefetch: int | None = None,
        no_local: bool = False,
        subscription: str | None = None,
        durable: bool = False,
        shared: bool = False,
        settle_second: bool = False,
        exclusive: bool = False,
        create: bool = False,
    ) -> MessageConsumer:
        """A consumer of a queue (a str or :class:`Queue`) or of a :class:`Topic`: each message is the
        application's until it says what became of it (mode INDIVIDUAL), by :meth:`Message.process` or the
        outcome's own method.

        ``subscription`` names one of a topic that is ``durable`` (it keeps what is published while nobody
        consumes), ``shared`` by several consumers, or both; without a name it lasts as long as the consumer.
        The others are those of :meth:`Session.create_consumer`. Raises as that, and JMSException for
        arguments that don't go together.
        """
        making = self._inner.consumer(
            destination,
            selector,
            prefetch=prefetch,
            no_local=no_local,
            subscription=subscription,
            durable=durable,
            shared=shared,
            settle_second=settle_second,
            exclusive=exclusive,
            create=create,
        ).open()
        return MessageConsumer(self._portal, self._portal.call(making))

    def producer(
        self,
        destination: Destination | None = None,
        *,
        settled: bool | None = None,
        send_timeout_ms: int | None = None,
    ) -> MessageProducer:
        """A producer for a queue or topic, or with None for any; see :meth:`Session.create_producer`."""
        making = self._inner.producer(destination, settled=settled, send_timeout_ms=send_timeout_ms).open()
        return MessageProducer(self._portal, self._portal.call(making))

    def browser(self, queue: str | Queue, selector: str | None = None) -> QueueBrowser:
        """A browser of ``queue``: sees the messages that wait there, takes none."""
        return QueueBrowser(self._portal, self._portal.call(self._inner.browser(queue, selector).open()))

    def requestor(self, destination: Destination) -> Requestor:
        """Requests to a queue or topic, and their replies."""
        return Requestor(self._portal, self._portal.call(self._inner.requestor(destination).open()))

    def unsubscribe(self, name: str) -> None:
        """End a durable subscription; see :meth:`Session.unsubscribe`."""
        self._portal.call(self._inner.unsubscribe(name))

    def transaction(self) -> TransactedSession:
        """A session whose sends and receipts count all together or not at all: ``with`` commits at the
        end, and rolls back with an exception.
        """
        return TransactedSession(self._portal, self._portal.call(self._inner.transaction().open()))

    def create_session(
        self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO, *, recover: RecoverMode | None = None
    ) -> Session:
        """Begin a session. ``recover``: what its ``recover`` does; None: as the options of the connection
        say. Raises JMSException for an unknown mode, ValueError for a ``recover`` that is none, or what ended
        the connection.
        """
        making = self._inner.create_session(acknowledge_mode, recover=recover)
        return Session(self._portal, self._portal.call(making))

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
        try:
            self._close()
        finally:
            if self._inner.is_closed:
                self._portal.stop()
