"""The factory of connections, and the short form of JMS 2.0, JMSContext: the asyncio face.

.. code-block:: python

    async with await ConnectionFactory("amqp://127.0.0.1").create_context() as context:
        await context.create_producer().set_priority(7).send("orders", "one crate of apples")
        consumer = await context.create_consumer("orders")
        order = await consumer.receive_body(str, timeout_s=5)
"""

from __future__ import annotations

import ssl
from typing import Any, Final, Self

from postroom.client.aio.closable import Closable, Opening
from postroom.client.aio.connection import Connection, ConnectionMetaData
from postroom.client.aio.consumer import MessageConsumer, QueueBrowser
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.replies import TemporaryDestination
from postroom.client.aio.session import Session
from postroom.client.connection.connector import Connector, TlsOptions
from postroom.client.connection.options import (
    DEFAULT_TIMEOUT_S,
    ClientOptions,
    FactoryOptions,
    RecoverMode,
    split_url_options,
)
from postroom.client.connection.provider import ConnectionListener, Provider
from postroom.client.connection.url import parse_url
from postroom.client.destinations import Destination, Queue, Topic
from postroom.client.messages.message import Body, DeliveryMode, Message, as_message
from postroom.client.sessions.connection_state import (
    ExceptionListener,
    FailureCallback,
    MessageCallback,
    SharedState,
    Telling,
)
from postroom.client.sessions.session_state import AcknowledgeMode

__all__ = ["ConnectionFactory", "JMSContext", "JMSProducer", "connect"]

DEFAULT_CONNECT_TIMEOUT_S: Final = 15.0
DEFAULT_IDLE_TIMEOUT_MS: Final = 60_000
DEFAULT_MAX_FRAME_SIZE_BYTES: Final = 64 * 1024
DEFAULT_OPTIONS: Final = ClientOptions()

MAX_PRODUCERS: Final = 16
"""Links that a context keeps, one for each destination that it has sent to lately."""

JmsBody = Body | None
"""What :meth:`JMSProducer.send` sends: in JMS, no body is a body."""


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
) -> Opening[Connection]:
    """A connection to the broker at ``url``: ``async with connect(url) as connection:``. The arguments are
    those of :class:`ConnectionFactory`; raises as that and :meth:`ConnectionFactory.create_connection` do.
    """
    factory = ConnectionFactory(
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
    return Opening(factory.create_connection)


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
        self._url = parse_url(url)
        own, of_sessions = split_url_options(self._url)
        self._own = FactoryOptions(
            client_id=client_id,
            connect_timeout_s=connect_timeout_s,
            request_timeout_s=request_timeout_s,
            idle_timeout_ms=idle_timeout_ms,
            max_frame_size_bytes=max_frame_size_bytes,
        ).with_url_options(own)
        self._options = options.with_url_options(of_sessions)
        self._tls = tls.context() if isinstance(tls, TlsOptions) else tls
        self._has_certificate = isinstance(tls, TlsOptions) and tls.certificate_file is not None
        self._listener = listener

    async def create_connection(self) -> Connection:
        """Connect, sign in and open; with fail-over, try until it works or the attempts are used up.

        Raises ConnectionLostException (nobody listens there, or not an AMQP broker), JMSSecurityException
        (wrong user or password), InvalidClientIDException (the client id is in use), JMSTimeoutException.
        """
        shared = SharedState(self._options, self._own.request_timeout_s)
        listener = Telling(shared, self._listener)
        connector = Connector(self._own, self._tls, self._has_certificate)
        provider = Provider(self._url, connector, self._own.request_timeout_s, listener)
        await provider.start()
        return Connection(provider, shared)

    async def create_context(
        self,
        acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO,
        *,
        recover: RecoverMode | None = None,
    ) -> JMSContext:
        """The short form: a connection and a session on it. Raises as :meth:`create_connection` and
        :meth:`Connection.create_session`.
        """
        connection = await self.create_connection()
        try:
            session = await connection.create_session(acknowledge_mode, recover=recover)
            return JMSContext(connection, session, set())
        except BaseException:
            await connection.close()
            raise


class JMSContext(Closable):
    """A connection and one session on it. Made by :meth:`ConnectionFactory.create_context`; leaving
    ``async with`` closes it, and with the last of its connection the connection.
    """

    def __init__(self, connection: Connection, session: Session, siblings: set[JMSContext]) -> None:
        """``siblings``: the contexts that are open on this connection."""
        self._connection = connection
        self._session = session
        self._siblings = siblings
        self._producers: dict[Destination, MessageProducer] = {}
        """The one used last comes last."""
        siblings.add(self)

    async def create_context(
        self,
        acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO,
        *,
        recover: RecoverMode | None = None,
    ) -> JMSContext:
        """Another session on the same connection."""
        session = await self._connection.create_session(acknowledge_mode, recover=recover)
        return JMSContext(self._connection, session, self._siblings)

    @property
    def client_id(self) -> str:
        """The container id of this end."""
        return self._connection.client_id

    @property
    def session_mode(self) -> AcknowledgeMode:
        """The mode that it was created with."""
        return self._session.acknowledge_mode

    @property
    def is_transacted(self) -> bool:
        """Whether what it sends and receives is decided by ``commit`` and ``rollback``."""
        return self._session.is_transacted

    @property
    def is_connection_closed(self) -> bool:
        """True after the last context of the connection was closed, and when the connection has ended."""
        return self._connection.is_closed

    @property
    def metadata(self) -> ConnectionMetaData:
        """Versions of the client and the broker."""
        return self._connection.metadata

    async def start(self) -> None:
        """See :meth:`Connection.start`."""
        await self._connection.start()

    async def stop(self) -> None:
        """See :meth:`Connection.stop`."""
        await self._connection.stop()

    async def set_exception_listener(self, listener: ExceptionListener | None) -> None:
        """See :meth:`Connection.set_exception_listener`."""
        await self._connection.set_exception_listener(listener)

    def create_producer(self) -> JMSProducer:
        """A producer for any destination. It may be thrown away: all of a context share their links."""
        return JMSProducer(self)

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """See :meth:`Session.create_consumer`."""
        return await self._session.create_consumer(destination, selector=selector, no_local=no_local)

    async def create_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None, no_local: bool = False
    ) -> MessageConsumer:
        """See :meth:`Session.create_durable_consumer`."""
        return await self._session.create_durable_consumer(topic, name, selector=selector, no_local=no_local)

    async def create_shared_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """See :meth:`Session.create_shared_consumer`."""
        return await self._session.create_shared_consumer(topic, name, selector=selector)

    async def create_shared_durable_consumer(
        self, topic: Topic | str, name: str, selector: str | None = None
    ) -> MessageConsumer:
        """See :meth:`Session.create_shared_durable_consumer`."""
        return await self._session.create_shared_durable_consumer(topic, name, selector=selector)

    async def create_browser(self, queue: str | Queue, selector: str | None = None) -> QueueBrowser:
        """See :meth:`Session.create_browser`."""
        return await self._session.create_browser(queue, selector=selector)

    async def create_temporary_queue(self) -> TemporaryDestination:
        """See :meth:`Session.create_temporary_queue`."""
        return await self._session.create_temporary_queue()

    async def create_temporary_topic(self) -> TemporaryDestination:
        """See :meth:`Session.create_temporary_topic`."""
        return await self._session.create_temporary_topic()

    async def unsubscribe(self, name: str) -> None:
        """See :meth:`Session.unsubscribe`."""
        await self._session.unsubscribe(name)

    async def acknowledge(self) -> None:
        """Accept everything that was received so far, in mode CLIENT; in other modes nothing happens."""
        if self._session.acknowledge_mode is AcknowledgeMode.CLIENT:
            await self._session.acknowledge()

    async def recover(self) -> None:
        """See :meth:`Session.recover`."""
        await self._session.recover()

    async def commit(self) -> None:
        """See :meth:`Session.commit`."""
        await self._session.commit()

    async def rollback(self) -> None:
        """See :meth:`Session.rollback`."""
        await self._session.rollback()

    async def close(self) -> None:
        """Close the session, and the connection when no other context is open on it."""
        self._siblings.discard(self)
        if self._siblings:
            await self._session.close()
        else:
            await self._connection.close()

    async def _producer(self, destination: Destination) -> MessageProducer:
        """The one for ``destination``: a link to it, so that the broker may make the queue."""
        producer = self._producers.pop(destination, None)
        if producer is None or producer.is_closed:
            producer = await self._session.create_producer(destination)
        self._producers[destination] = producer
        if len(self._producers) > MAX_PRODUCERS:
            await self._producers.pop(next(iter(self._producers))).close()
        return producer


class JMSProducer:
    """Sends to any destination; each ``set_…`` returns the producer, so that they make a chain. Made by
    :meth:`JMSContext.create_producer`.

    What is set counts for every message that is sent, whatever the message says.
    """

    def __init__(self, context: JMSContext) -> None:
        self._context = context
        self._options: dict[str, Any] = {}
        """Arguments of :meth:`MessageProducer.send`."""
        self._headers: dict[str, object] = {}
        self._properties: dict[str, object] = {}

    def set_delivery_mode(self, mode: DeliveryMode) -> Self:
        """PERSISTENT or NON_PERSISTENT."""
        self._options["delivery_mode"] = DeliveryMode(mode)
        return self

    def set_priority(self, priority: int) -> Self:
        """0 to 9."""
        self._options["priority"] = priority
        return self

    def set_time_to_live(self, ttl_ms: int) -> Self:
        """In milliseconds; 0: for ever."""
        self._options["ttl_ms"] = ttl_ms
        return self

    def set_delivery_delay(self, delay_ms: int) -> Self:
        """In milliseconds."""
        self._options["delivery_delay_ms"] = delay_ms
        return self

    def set_async(
        self, on_completion: MessageCallback | None, on_exception: FailureCallback | None = None
    ) -> Self:
        """``send`` doesn't wait for outcomes, which are told to these; both None: it does."""
        self._options |= {"on_completion": on_completion, "on_exception": on_exception}
        return self

    def set_property(self, name: str, value: object) -> Self:
        """A property of every message. Raises ValueError for a name, MessageFormatException for a value that
        no property has.
        """
        Message().set_object_property(name, value)
        self._properties[name] = value
        return self

    def clear_properties(self) -> Self:
        """None of those any more."""
        self._properties.clear()
        return self

    def set_jms_correlation_id(self, correlation_id: str | None) -> Self:
        """JMSCorrelationID of every message."""
        self._headers["jms_correlation_id"] = correlation_id
        return self

    def set_jms_reply_to(self, reply_to: Destination | None) -> Self:
        """JMSReplyTo of every message."""
        self._headers["reply_to"] = reply_to
        return self

    def set_jms_type(self, jms_type: str | None) -> Self:
        """JMSType of every message."""
        self._headers["subject"] = jms_type
        return self

    async def send(self, destination: Destination, body: JmsBody) -> Self:
        """Send a message, or the body of one: a str as TextMessage, bytes as BytesMessage, a mapping as
        MapMessage, None as a Message without a body. Raises as :meth:`MessageProducer.send`.
        """
        message = _message(body)
        for name, value in self._headers.items():
            setattr(message, name, value)
        for name, value in self._properties.items():
            message.set_object_property(name, value)
        producer = await self._context._producer(destination)
        await producer.send(message, **self._options)
        return self


def _message(body: JmsBody) -> Message:
    return Message() if body is None else as_message(body)
