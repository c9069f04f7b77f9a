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

from postroom.client.aio.management import ManagementClient
from postroom.client.aio.messaging import Session
from postroom.client.aio.store import MessageStore
from postroom.client.connector import Connector
from postroom.client.exceptions import JMSException
from postroom.client.management import MANAGEMENT_NODE
from postroom.client.modes import AcknowledgeMode
from postroom.client.provider import ConnectionListener, Provider
from postroom.client.url import parse_url

__all__ = ["Connection", "ConnectionFactory"]

DEFAULT_CONNECT_TIMEOUT_S: Final = 15.0
DEFAULT_REQUEST_TIMEOUT_S: Final = 60.0
DEFAULT_IDLE_TIMEOUT_MS: Final = 60_000


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
        self._url = parse_url(url)
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._idle_timeout_ms = idle_timeout_ms
        self._max_frame_size_bytes = max_frame_size_bytes
        self._tls = tls
        self._listener = listener

    async def create_connection(self) -> Connection:
        """Connect, sign in and open; with fail-over, try until it works or the attempts are used up.

        Raises ConnectionLostException (nobody listens there, or not an AMQP broker), JMSSecurityException
        (wrong user or password), InvalidClientIDException (the client id is in use), JMSTimeoutException.
        """
        provider = Provider(self._url, self._connector(), self._request_timeout_s, self._listener)
        await provider.start()
        return Connection(provider, self._request_timeout_s)

    def _connector(self) -> Connector:
        return Connector(
            client_id=self._client_id,
            connect_timeout_s=self._connect_timeout_s,
            idle_timeout_ms=self._idle_timeout_ms,
            max_frame_size_bytes=self._max_frame_size_bytes,
            tls=self._tls,
        )


class Connection:
    """A connection to a broker; leaving ``async with`` closes it. Made by :class:`ConnectionFactory`."""

    def __init__(self, provider: Provider, request_timeout_s: float | None) -> None:
        self._provider = provider
        self._request_timeout_s = request_timeout_s
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

    async def create_session(self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session:
        """Begin a session. Raises JMSException for an unknown mode, or what ended the connection."""
        try:
            mode = AcknowledgeMode(acknowledge_mode)
        except ValueError:
            raise JMSException(f"invalid session mode {acknowledge_mode!r}") from None
        channel = await self._provider.begin(self._request_timeout_s)
        session = Session(channel, mode, self._request_timeout_s)
        self._sessions = [known for known in self._sessions if not known.is_closed]
        self._sessions.append(session)
        return session

    async def create_management(self) -> ManagementClient:
        """A client of the broker's management node."""
        session = await self.create_session()
        return ManagementClient(
            await session.create_producer(MANAGEMENT_NODE),
            await session.create_reply_consumer(),
            self._request_timeout_s,
        )

    async def create_message_store(self, queue: str) -> MessageStore:
        """The message store of a queue, with the verbs of MQ Everyplace."""
        return MessageStore(queue, await self.create_management(), self.create_management)

    async def close(self) -> None:
        """Close the connection, its sessions first; see :meth:`Session.close` for what becomes of
        messages.
        """
        try:
            for session in self._sessions:
                await session.close()
        finally:
            await self._provider.close(self._request_timeout_s)
