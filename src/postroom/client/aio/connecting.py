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

import asyncio
import ssl
import uuid
from types import TracebackType
from typing import Final

from postroom.amqp.options import ConnectionOptions
from postroom.amqp.sasl import ANONYMOUS, PLAIN
from postroom.client.aio.management import MANAGEMENT_NODE, ManagementClient
from postroom.client.aio.messaging import Session
from postroom.client.aio.store import MessageStore
from postroom.client.exceptions import (
    ConnectionLostException,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
)
from postroom.client.modes import AcknowledgeMode
from postroom.client.transport import Transport
from postroom.client.url import BrokerUrl

__all__ = ["Connection", "ConnectionFactory"]

DEFAULT_CONNECT_TIMEOUT_S: Final = 15.0
DEFAULT_REQUEST_TIMEOUT_S: Final = 60.0
DEFAULT_IDLE_TIMEOUT_MS: Final = 60_000


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
        self._url = BrokerUrl.parse(url)
        self._client_id = client_id
        self._connect_timeout_s = connect_timeout_s
        self._request_timeout_s = request_timeout_s
        self._idle_timeout_ms = idle_timeout_ms
        self._max_frame_size_bytes = max_frame_size_bytes
        self._tls = tls

    async def create_connection(self) -> Connection:
        """Connect, sign in and open.

        Raises ConnectionLostException (nobody listens there, or not an AMQP broker), JMSSecurityException
        (wrong user or password), InvalidClientIDException (the client id is in use), JMSTimeoutException.
        """
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                transport = await self._connect()
        except TimeoutError:
            raise JMSTimeoutException(
                f"no answer from {self._url} within {self._connect_timeout_s} s"
            ) from None
        return Connection(transport, self._request_timeout_s)

    async def _connect(self) -> Transport:
        loop = asyncio.get_running_loop()
        try:
            _, transport = await loop.create_connection(
                lambda: Transport(self._options(), self._client_id is not None),
                self._url.host,
                self._url.port,
                ssl=(self._tls or ssl.create_default_context()) if self._url.tls else None,
            )
        except ssl.SSLError as error:
            raise JMSSecurityException(f"no TLS with {self._url}: {error}") from error
        except OSError as error:
            raise ConnectionLostException(f"can't connect to {self._url}: {error}") from error
        try:
            await transport.opened()
        except BaseException:
            transport.abort()
            raise
        return transport

    def _options(self) -> ConnectionOptions:
        plain = self._url.user is not None
        return ConnectionOptions(
            server=False,
            container_id=self._client_id or f"postroom-{uuid.uuid4()}",
            hostname=self._url.host,
            sasl_mechanisms=[PLAIN if plain else ANONYMOUS],
            username=self._url.user or "",
            password=self._url.password,
            idle_timeout_ms=self._idle_timeout_ms,
            max_frame_size_bytes=self._max_frame_size_bytes,
        )


class Connection:
    """A connection to a broker; leaving ``async with`` closes it. Made by :class:`ConnectionFactory`."""

    def __init__(self, transport: Transport, request_timeout_s: float | None) -> None:
        self._transport = transport
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
        return self._transport.engine.options.container_id

    @property
    def broker_container_id(self) -> str:
        """The container id of the broker."""
        return self._transport.broker.container_id if self._transport.broker is not None else ""

    async def create_session(self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session:
        """Begin a session. Raises JMSException for an unknown mode, or what ended the connection."""
        try:
            mode = AcknowledgeMode(acknowledge_mode)
        except ValueError:
            raise JMSException(f"invalid session mode {acknowledge_mode!r}") from None
        engine = await self._transport.begin(self._request_timeout_s)
        session = Session(self._transport, engine, mode, self._request_timeout_s)
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
            await self._transport.close(self._request_timeout_s)
