"""The asyncio face of the client, with the names of JMS: connections.

.. code-block:: python

    async with await ConnectionFactory("amqp://127.0.0.1").create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer("orders")
        await producer.send(Message("one crate of apples"))
        consumer = await session.create_consumer("orders")
        message = await consumer.receive(timeout_s=5)

The face without asyncio, :mod:`postroom.client.sync`, is generated from these files by
``tools/async_to_sync.py``: same names, same arguments, no ``await``.
"""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Final

from postroom.client.aio.context import JMSContext
from postroom.client.aio.management import ManagementClient
from postroom.client.aio.messaging import Session
from postroom.client.aio.store import MessageStore
from postroom.client.aio.xa import XASession
from postroom.client.connector import Connector
from postroom.client.exceptions import JMSException
from postroom.client.management import MANAGEMENT_NODE
from postroom.client.metadata import ConnectionMetaData
from postroom.client.modes import AcknowledgeMode
from postroom.client.options import (
    DEFAULT_TIMEOUT_S,
    ClientOptions,
    FactoryOptions,
    RecoverMode,
    read_recover,
    split_url_options,
)
from postroom.client.provider import ConnectionListener, Provider
from postroom.client.shared import ExceptionListener, SharedState, Telling, refuse_in_callback
from postroom.client.tls import TlsOptions
from postroom.client.url import parse_url

__all__ = ["Connection", "ConnectionFactory"]

DEFAULT_CONNECT_TIMEOUT_S: Final = 15.0
DEFAULT_IDLE_TIMEOUT_MS: Final = 60_000
DEFAULT_MAX_FRAME_SIZE_BYTES: Final = 64 * 1024
DEFAULT_OPTIONS: Final = ClientOptions()


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
        )


class Connection:
    """A connection to a broker; leaving ``async with`` closes it. Made by :class:`ConnectionFactory`."""

    def __init__(self, provider: Provider, shared: SharedState) -> None:
        self._provider = provider
        self._shared = shared
        self._request_timeout_s = shared.request_timeout_s
        self._sessions: list[Session] = []

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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
        said = {str(name): value for name, value in ((opened and opened.properties) or {}).items()}
        product, version = said.get("product"), said.get("version")
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
        self._sessions = [known for known in self._sessions if not known.is_closed]
        self._sessions.append(session)
        return session

    async def create_xa_session(self) -> XASession:
        """Begin a session for global transactions. Raises JMSException where the broker has none."""
        channel = await self._provider.begin(self._request_timeout_s)
        session = XASession(channel, self._shared)
        self._sessions.append(session)
        await session._attach()
        return session

    async def create_management(self) -> ManagementClient:
        """A client of the broker's management node, in a session of its own until it is closed."""
        session = await self.create_session()
        return ManagementClient(
            await session.create_producer(MANAGEMENT_NODE),
            await session.create_reply_consumer(),
            self._request_timeout_s,
            session,
        )

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
