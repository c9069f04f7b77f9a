"""The asyncio face of the client: connections, and what is opened on them.

.. code-block:: python

    async with connect("amqp://127.0.0.1") as connection:
        async with connection.producer("orders") as producer:
            await producer.send("one crate of apples")
        async with connection.consumer("orders") as orders:
            async for message in orders:
                async with message.process():
                    print(message.body)

The face without asyncio, :mod:`postroom.client.sync`, is generated from these files by
``tools/async_to_sync.py``: same names, same arguments, no ``await``.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from postroom.amqp.extensions import MANAGEMENT_ADDRESS
from postroom.client.aio.closable import Closable
from postroom.client.aio.consumer import MessageConsumer, QueueBrowser
from postroom.client.aio.context import JMSContext
from postroom.client.aio.management_client import ManagementClient
from postroom.client.aio.message_store import MessageStore
from postroom.client.aio.opening import Opening
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.requestor import Requestor
from postroom.client.aio.session import Session, TransactedSession
from postroom.client.aio.xa import XASession
from postroom.client.connection.connector import Connector
from postroom.client.connection.metadata import ConnectionMetaData
from postroom.client.connection.options import (
    DEFAULT_TIMEOUT_S,
    ClientOptions,
    FactoryOptions,
    RecoverMode,
    read_recover,
    split_url_options,
)
from postroom.client.connection.provider import ConnectionListener, Provider
from postroom.client.connection.tls import TlsOptions
from postroom.client.connection.url import parse_url
from postroom.client.destinations import Destination, Queue, Wanted
from postroom.client.exceptions import JMSException
from postroom.client.sessions.connection_state import (
    ExceptionListener,
    SharedState,
    Telling,
    refuse_in_callback,
)
from postroom.client.sessions.session_state import AcknowledgeMode

__all__ = ["Connection", "ConnectionFactory", "connect"]

DEFAULT_CONNECT_TIMEOUT_S: Final = 15.0
DEFAULT_IDLE_TIMEOUT_MS: Final = 60_000
DEFAULT_MAX_FRAME_SIZE_BYTES: Final = 64 * 1024
DEFAULT_OPTIONS: Final = ClientOptions()

Opened = TypeVar("Opened", MessageConsumer, MessageProducer, QueueBrowser, Requestor)
S = TypeVar("S", bound=Session)


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
        self._listener = listener

    async def create_connection(self) -> Connection:
        """Connect, sign in and open; with fail-over, try until it works or the attempts are used up.

        Raises ConnectionLostException (nobody listens there, or not an AMQP broker), JMSSecurityException
        (wrong user or password), InvalidClientIDException (the client id is in use), JMSTimeoutException.
        """
        shared = SharedState(self._options, self._own.request_timeout_s)
        listener = Telling(shared, self._listener)
        provider = Provider(self._url, self._connector(), self._own.request_timeout_s, listener)
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

    def _connector(self) -> Connector:
        return Connector(
            client_id=self._own.client_id,
            connect_timeout_s=self._own.connect_timeout_s,
            idle_timeout_ms=self._own.idle_timeout_ms,
            max_frame_size_bytes=self._own.max_frame_size_bytes,
            tls=self._tls,
            sasl_mechanisms=self._own.sasl_mechanisms,
        )


class Connection(Closable):
    """A connection to a broker; leaving ``async with`` closes it. Made by :func:`connect` and
    :class:`ConnectionFactory`.

    ``consumer``, ``producer``, ``browser``, ``requestor`` and ``transaction`` are the short way: what they
    open has a session to itself, which closes with it. ``create_session`` is JMS's.
    """

    def __init__(self, provider: Provider, shared: SharedState) -> None:
        self._provider = provider
        self._shared = shared
        self._request_timeout_s = shared.request_timeout_s
        self._sessions: list[Session] = []

    @property
    def client_id(self) -> str:
        """The container id of this end."""
        return self._provider.connector.container_id

    @property
    def broker_container_id(self) -> str:
        """The container id of the broker; of the last one while there is none."""
        return self._provider.broker.container_id if self._provider.broker is not None else ""

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the connection has ended by itself."""
        return self._provider.failure is not None

    @property
    def metadata(self) -> ConnectionMetaData:
        """Versions of the client and the broker."""
        opened = self._provider.broker
        properties = {str(name): value for name, value in ((opened and opened.properties) or {}).items()}
        product, version = properties.get("product"), properties.get("version")
        return ConnectionMetaData(
            broker_product=None if product is None else str(product),
            broker_version=None if version is None else str(version),
        )

    async def start(self) -> None:
        """Hand messages out again, after ``stop``; a new connection is started."""
        self._provider.check()
        self._shared.started.set()

    async def stop(self) -> None:
        """Hand no messages to the application until ``start``: ``receive`` waits, listeners are not called; a
        call under way is waited for. Sending goes on, and so does prefetching. Raises IllegalStateException
        in a listener of this connection.
        """
        refuse_in_callback(self._shared, "stop of a connection")
        self._provider.check()
        self._shared.started.clear()
        for session in self._sessions:
            await session._state.quiet()

    async def set_exception_listener(self, listener: ExceptionListener | None) -> None:
        """``listener`` is called with the end of the connection, unless the application closes it, and with
        the failure of a send that nobody waits for. It may be a coroutine function. Without one, such a
        failure is logged.
        """
        self._shared.exception_listener = listener

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
    ) -> Opening[MessageConsumer]:
        """A consumer of a queue (a str or :class:`Queue`) or of a :class:`Topic`: each message is the
        application's until it says what became of it (mode INDIVIDUAL), by :meth:`Message.process` or the
        outcome's own method.

        ``subscription`` names one of a topic that is ``durable`` (it keeps what is published while nobody
        consumes), ``shared`` by several consumers, or both; without a name it lasts as long as the consumer.
        The others are those of :meth:`Session.create_consumer`. Raises as that, and JMSException for
        arguments that don't go together.
        """
        wanted = Wanted(
            destination,
            selector,
            no_local=no_local,
            subscription=subscription,
            durable=durable,
            shared=shared,
            prefetch=prefetch,
            settle_second=settle_second,
            exclusive=exclusive,
            create=create,
        )
        return self._opening(lambda session: session._wanted(wanted), AcknowledgeMode.INDIVIDUAL)

    def producer(
        self,
        destination: Destination | None = None,
        *,
        settled: bool | None = None,
        send_timeout_ms: int | None = None,
    ) -> Opening[MessageProducer]:
        """A producer for a queue or topic, or with None for any; see :meth:`Session.create_producer`."""
        return self._opening(
            lambda session: session.create_producer(
                destination, settled=settled, send_timeout_ms=send_timeout_ms
            )
        )

    def browser(self, queue: str | Queue, selector: str | None = None) -> Opening[QueueBrowser]:
        """A browser of ``queue``: sees the messages that wait there, takes none."""
        return self._opening(lambda session: session.create_browser(queue, selector))

    def requestor(self, destination: Destination) -> Opening[Requestor]:
        """Requests to a queue or topic, and their replies."""
        return self._opening(lambda session: session.create_requestor(destination))

    async def unsubscribe(self, name: str) -> None:
        """End a durable subscription; see :meth:`Session.unsubscribe`."""
        async with await self.create_session() as session:
            await session.unsubscribe(name)

    def transaction(self) -> Opening[TransactedSession]:
        """A session whose sends and receipts count all together or not at all: ``async with`` commits at the
        end, and rolls back with an exception.
        """
        return Opening(self._transacted)

    async def _transacted(self) -> TransactedSession:
        channel = await self._provider.begin(self._request_timeout_s)
        session = TransactedSession(channel, AcknowledgeMode.SESSION_TRANSACTED, self._shared)
        await session._begin_transactions()
        return self._kept(session)

    def _opening(
        self,
        make: Callable[[Session], Awaitable[Opened]],
        mode: AcknowledgeMode = AcknowledgeMode.AUTO,
    ) -> Opening[Opened]:
        """Something with a session to itself."""

        async def made() -> Opened:
            session = await self.create_session(mode)
            try:
                opened = await make(session)
            except BaseException:
                await session.close()
                raise
            opened._end_with(session._end)
            return opened

        return Opening(made)

    def _kept(self, session: S) -> S:
        """Remember what is to be closed with the connection."""
        self._sessions = [known for known in self._sessions if not known.is_closed]
        self._sessions.append(session)
        return session

    async def create_session(
        self,
        acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO,
        *,
        recover: RecoverMode | None = None,
    ) -> Session:
        """Begin a session. ``recover``: what its ``recover`` does; None: as the options of the connection
        say. Raises JMSException for an unknown mode, ValueError for a ``recover`` that is none, or what ended
        the connection.
        """
        try:
            mode = AcknowledgeMode(acknowledge_mode)
        except ValueError:
            raise JMSException(f"invalid session mode {acknowledge_mode!r}") from None
        recover = None if recover is None else read_recover(recover)
        channel = await self._provider.begin(self._request_timeout_s)
        session = Session(channel, mode, self._shared, recover)
        if session.is_transacted:
            await session._begin_transactions()
        return self._kept(session)

    async def create_xa_session(self) -> XASession:
        """Begin a session for global transactions. Raises JMSException where the broker has none."""
        channel = await self._provider.begin(self._request_timeout_s)
        session = self._kept(XASession(channel, self._shared))
        await session._attach()
        return session

    async def create_management(self) -> ManagementClient:
        """A client of the broker's management node, in a session of its own until it is closed."""
        session = await self.create_session()
        try:
            return ManagementClient(
                await session.create_producer(MANAGEMENT_ADDRESS),
                await session.create_reply_consumer(),
                self._request_timeout_s,
                session,
            )
        except BaseException:
            await session.close()
            raise

    async def create_message_store(self, queue: str) -> MessageStore:
        """The message store of a queue, with the verbs of MQ Everyplace."""
        return MessageStore(queue, await self.create_management(), self.create_management)

    async def close(self) -> None:
        """Close the connection, its sessions first; see :meth:`Session.close` for what becomes of
        messages. Raises IllegalStateException in a listener of this connection.
        """
        refuse_in_callback(self._shared, "close of a connection")
        try:
            for session in self._sessions:
                await session.close()
        finally:
            await self._provider.close(self._shared.options.close_timeout_s)
