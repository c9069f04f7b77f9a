"""The factory of connections, and the short form of JMS 2.0, JMSContext: the sync face.

Generated from aio/context.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

import ssl
from typing import Self

from postroom.client.aio import context as aio
from postroom.client.aio.connection import ConnectionMetaData
from postroom.client.aio.context import (
    DEFAULT_CONNECT_TIMEOUT_S,
    DEFAULT_IDLE_TIMEOUT_MS,
    DEFAULT_MAX_FRAME_SIZE_BYTES,
    DEFAULT_OPTIONS,
    JmsBody,
)
from postroom.client.connection.connector import TlsOptions
from postroom.client.connection.options import DEFAULT_TIMEOUT_S, ClientOptions, RecoverMode
from postroom.client.connection.provider import ConnectionListener
from postroom.client.destinations import Destination, Queue, Topic
from postroom.client.messages.message import DeliveryMode
from postroom.client.sessions.connection_state import ExceptionListener, FailureCallback, MessageCallback
from postroom.client.sessions.session_state import AcknowledgeMode
from postroom.client.sync.connection import Connection
from postroom.client.sync.consumer import MessageConsumer, QueueBrowser
from postroom.client.sync.portal import Closable, Face, Portal
from postroom.client.sync.replies import TemporaryDestination

__all__ = ["ConnectionFactory", "JMSContext", "JMSProducer", "connect"]


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


class JMSContext(Closable[aio.JMSContext]):
    """A connection and one session on it. Made by :meth:`ConnectionFactory.create_context`; leaving
    ``with`` closes it, and with the last of its connection the connection.
    """

    def create_context(
        self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO, *, recover: RecoverMode | None = None
    ) -> JMSContext:
        """Another session on the same connection."""
        making = self._inner.create_context(acknowledge_mode, recover=recover)
        return JMSContext(self._portal, self._portal.call(making))

    @property
    def client_id(self) -> str:
        """The container id of this end."""
        return self._inner.client_id

    @property
    def session_mode(self) -> AcknowledgeMode:
        """The mode that it was created with."""
        return self._inner.session_mode

    @property
    def is_transacted(self) -> bool:
        """Whether what it sends and receives is decided by ``commit`` and ``rollback``."""
        return self._inner.is_transacted

    @property
    def is_connection_closed(self) -> bool:
        """True after the last context of the connection was closed, and when the connection has ended."""
        return self._inner.is_connection_closed

    @property
    def metadata(self) -> ConnectionMetaData:
        """Versions of the client and the broker."""
        return self._inner.metadata

    def start(self) -> None:
        """See :meth:`Connection.start`."""
        self._portal.call(self._inner.start())

    def stop(self) -> None:
        """See :meth:`Connection.stop`."""
        self._portal.call(self._inner.stop())

    def set_exception_listener(self, listener: ExceptionListener | None) -> None:
        """See :meth:`Connection.set_exception_listener`."""
        self._portal.call(self._inner.set_exception_listener(self._portal.callback(listener)))

    def create_producer(self) -> JMSProducer:
        """A producer for any destination. It may be thrown away: all of a context share their links."""
        return JMSProducer(self._portal, self._inner.create_producer())

    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """See :meth:`Session.create_consumer`."""
        making = self._inner.create_consumer(destination, selector, no_local)
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """See :meth:`Session.create_durable_consumer`."""
        making = self._inner.create_durable_consumer(topic, name, selector, no_local)
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """See :meth:`Session.create_shared_consumer`."""
        making = self._inner.create_shared_consumer(topic, name, selector)
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """See :meth:`Session.create_shared_durable_consumer`."""
        making = self._inner.create_shared_durable_consumer(topic, name, selector)
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_browser(self, queue: str | Queue, selector: str | None = None) -> QueueBrowser:
        """See :meth:`Session.create_browser`."""
        return QueueBrowser(self._portal, self._portal.call(self._inner.create_browser(queue, selector)))

    def create_temporary_queue(self) -> TemporaryDestination:
        """See :meth:`Session.create_temporary_queue`."""
        return TemporaryDestination(self._portal, self._portal.call(self._inner.create_temporary_queue()))

    def create_temporary_topic(self) -> TemporaryDestination:
        """See :meth:`Session.create_temporary_topic`."""
        return TemporaryDestination(self._portal, self._portal.call(self._inner.create_temporary_topic()))

    def unsubscribe(self, name: str) -> None:
        """See :meth:`Session.unsubscribe`."""
        self._portal.call(self._inner.unsubscribe(name))

    def acknowledge(self) -> None:
        """Accept everything that was received so far, in mode CLIENT; in other modes nothing happens."""
        self._portal.call(self._inner.acknowledge())

    def recover(self) -> None:
        """See :meth:`Session.recover`."""
        self._portal.call(self._inner.recover())

    def commit(self) -> None:
        """See :meth:`Session.commit`."""
        self._portal.call(self._inner.commit())

    def rollback(self) -> None:
        """See :meth:`Session.rollback`."""
        self._portal.call(self._inner.rollback())

    def close(self) -> None:
        """Close the session, and the connection when no other context is open on it."""
        try:
            super().close()
        finally:
            if self._inner.is_connection_closed:
                self._portal.stop()


class JMSProducer(Face[aio.JMSProducer]):
    """Sends to any destination; each ``set_…`` returns the producer, so that they make a chain. Made by
    :meth:`JMSContext.create_producer`.

    What is set counts for every message that is sent, whatever the message says.
    """

    def set_delivery_mode(self, mode: DeliveryMode) -> Self:
        """PERSISTENT or NON_PERSISTENT."""
        self._inner.set_delivery_mode(mode)
        return self

    def set_priority(self, priority: int) -> Self:
        """0 to 9."""
        self._inner.set_priority(priority)
        return self

    def set_time_to_live(self, ttl_ms: int) -> Self:
        """In milliseconds; 0: for ever."""
        self._inner.set_time_to_live(ttl_ms)
        return self

    def set_delivery_delay(self, delay_ms: int) -> Self:
        """In milliseconds."""
        self._inner.set_delivery_delay(delay_ms)
        return self

    def set_async(
        self, on_completion: MessageCallback | None, on_exception: FailureCallback | None = None
    ) -> Self:
        """``send`` doesn't wait for outcomes, which are told to these; both None: it does."""
        self._inner.set_async(self._portal.callback(on_completion), self._portal.callback(on_exception))
        return self

    def set_property(self, name: str, value: object) -> Self:
        """A property of every message. Raises ValueError for a name, MessageFormatException for a value that
        no property has.
        """
        self._inner.set_property(name, value)
        return self

    def clear_properties(self) -> Self:
        """None of those any more."""
        self._inner.clear_properties()
        return self

    def set_jms_correlation_id(self, correlation_id: str | None) -> Self:
        """JMSCorrelationID of every message."""
        self._inner.set_jms_correlation_id(correlation_id)
        return self

    def set_jms_reply_to(self, reply_to: Destination | None) -> Self:
        """JMSReplyTo of every message."""
        self._inner.set_jms_reply_to(reply_to)
        return self

    def set_jms_type(self, jms_type: str | None) -> Self:
        """JMSType of every message."""
        self._inner.set_jms_type(jms_type)
        return self

    def send(self, destination: Destination, body: JmsBody) -> Self:
        """Send a message, or the body of one: a str as TextMessage, bytes as BytesMessage, a mapping as
        MapMessage, None as a Message without a body. Raises as :meth:`MessageProducer.send`.
        """
        self._portal.call(self._inner.send(destination, body))
        return self
