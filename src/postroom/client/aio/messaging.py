"""The asyncio face of the client, with the names of JMS.

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
from typing import Final, TypeVar

from postroom.amqp.options import ConnectionOptions
from postroom.amqp.performatives import RCV_FIRST, RCV_SECOND, SND_MIXED, SND_SETTLED, SND_UNSETTLED
from postroom.amqp.sasl import ANONYMOUS, PLAIN
from postroom.amqp.session import Session as EngineSession
from postroom.amqp.termini import DISTRIBUTION_COPY, Source, Target
from postroom.amqp.types import Described, Symbol
from postroom.client.aio.consuming import MessageConsumer, QueueBrowser
from postroom.client.aio.management import MANAGEMENT_NODE, ManagementClient
from postroom.client.aio.producing import MessageProducer
from postroom.client.aio.store import MessageStore
from postroom.client.exceptions import (
    ConnectionLostException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
    usage_errors,
)
from postroom.client.links import Receiving, Sending, sending_properties
from postroom.client.modes import AcknowledgeMode
from postroom.client.transport import Transport
from postroom.client.url import BrokerUrl

__all__ = ["Connection", "ConnectionFactory", "Session"]

DEFAULT_CONNECT_TIMEOUT_S: Final = 15.0
DEFAULT_REQUEST_TIMEOUT_S: Final = 60.0
DEFAULT_PREFETCH: Final = 1_000
MAX_PREFETCH: Final = 32_767
DEFAULT_IDLE_TIMEOUT_MS: Final = 60_000
QUEUE_CAPABILITY: Final = "queue"
TEMPORARY_QUEUE_CAPABILITY: Final = "temporary-queue"
EXCLUSIVE_PROPERTY: Final = Symbol("exclusive")
"""Link property: this consumer wants the queue for itself."""
SELECTOR_FILTER: Final = "jms-selector"
SELECTOR_DESCRIPTOR: Final = Symbol("apache.org:selector-filter:string")


P = TypeVar("P", MessageProducer, QueueBrowser)


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


class Session:
    """A session: the producers and consumers of one unit of work. Made by
    :meth:`Connection.create_session`.
    """

    def __init__(
        self,
        transport: Transport,
        engine: EngineSession,
        mode: AcknowledgeMode,
        request_timeout_s: float | None,
    ) -> None:
        self._transport = transport
        self._engine = engine
        self._mode = mode
        self._request_timeout_s = request_timeout_s
        self._is_closed = False
        self._consumers: list[MessageConsumer] = []
        self._others: list[MessageProducer | QueueBrowser] = []

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """The mode that the session was created with."""
        return self._mode

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the connection is over."""
        return self._is_closed or self._transport.failure is not None

    async def create_producer(
        self, queue: str | None = None, *, settled: bool = False, send_timeout_ms: int | None = None
    ) -> MessageProducer:
        """A producer for ``queue``; None for one whose messages name their own destination (ANONYMOUS-RELAY).

        ``settled``: at most once, no outcome is waited for. ``send_timeout_ms``: how long a send waits for
        room in the destination's quota before it raises ResourceAllocationException; 0 not at all, None as
        the broker is configured. Raises InvalidDestinationException, JMSSecurityException,
        ResourceAllocationException as the broker answers.
        """
        self._check()
        with usage_errors(f"attach of a producer for {queue or 'any queue'}"):
            link = self._engine.attach_sender(
                link_name(queue),
                Source(),
                Target(address=queue, capabilities=[QUEUE_CAPABILITY] if queue is not None else []),
                snd_settle_mode=SND_SETTLED if settled else SND_UNSETTLED,
                properties=sending_properties(send_timeout_ms),
            )
        sending = Sending(self._transport, link, f"the producer for {queue or 'any queue'}")
        await sending.attach(self._request_timeout_s)
        return self._kept(MessageProducer(sending, queue, settled, self._request_timeout_s))

    async def create_consumer(
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
        if not 0 <= prefetch <= MAX_PREFETCH:
            raise JMSException(f"prefetch {prefetch} is outside 0 to {MAX_PREFETCH}")
        source = Source(address=queue, filter=selector_filter(selector), capabilities=[QUEUE_CAPABILITY])
        receiving = await self._receiving(
            source,
            f"the consumer of {queue}",
            prefetch=prefetch,
            settle_second=settle_second,
            exclusive=exclusive,
        )
        return self._consumer(receiving, settle_second)

    async def create_browser(self, queue: str, *, selector: str | None = None) -> QueueBrowser:
        """A browser of ``queue``: sees the messages that wait there, takes none."""
        source = Source(
            address=queue,
            distribution_mode=DISTRIBUTION_COPY,
            filter=selector_filter(selector),
            capabilities=[QUEUE_CAPABILITY],
        )
        receiving = await self._receiving(source, f"the browser of {queue}")
        return self._kept(QueueBrowser(receiving, self._request_timeout_s))

    async def create_reply_consumer(self) -> MessageConsumer:
        """A consumer of a queue of its own, which the broker names (``address``) and deletes with the
        consumer.
        """
        source = Source(dynamic=True, capabilities=[TEMPORARY_QUEUE_CAPABILITY])
        receiving = await self._receiving(source, "the consumer of replies", prefetch=DEFAULT_PREFETCH)
        return self._consumer(receiving, False)

    def _kept(self, made: P) -> P:
        """Remember what is to be closed with the session."""
        self._others = [known for known in self._others if not known.is_closed]
        self._others.append(made)
        return made

    def _consumer(self, receiving: Receiving, settle_second: bool) -> MessageConsumer:
        consumer = MessageConsumer(receiving, self._mode, settle_second, self._request_timeout_s)
        self._consumers = [known for known in self._consumers if not known.is_closed]
        self._consumers.append(consumer)
        return consumer

    async def _receiving(
        self,
        source: Source,
        what: str,
        *,
        prefetch: int = 0,
        settle_second: bool = False,
        exclusive: bool = False,
    ) -> Receiving:
        self._check()
        with usage_errors(f"attach of {what}"):
            link = self._engine.attach_receiver(
                link_name(source.address),
                source,
                Target(),
                snd_settle_mode=self._sender_settle_mode(source),
                rcv_settle_mode=RCV_SECOND if settle_second else RCV_FIRST,
                properties={EXCLUSIVE_PROPERTY: True} if exclusive else None,
            )
        receiving = Receiving(self._transport, link, what, prefetch)
        await receiving.attach(self._request_timeout_s)
        return receiving

    def _sender_settle_mode(self, source: Source) -> int:
        """What the broker sends settled: all without acknowledgement; copies for a browser as it likes."""
        if self._mode == AcknowledgeMode.NO_ACKNOWLEDGE:
            return SND_SETTLED
        return SND_MIXED if source.distribution_mode == DISTRIBUTION_COPY else SND_UNSETTLED

    def _check(self) -> None:
        self._transport.check()
        if self._is_closed:
            raise IllegalStateException("the session is closed")

    async def acknowledge(self) -> None:
        """Accept everything that the session's consumers have received so far (mode CLIENT)."""
        if self._mode != AcknowledgeMode.CLIENT:
            raise IllegalStateException(
                f"acknowledge of a session in mode {self._mode.name}; it needs CLIENT"
            )
        for consumer in self._consumers:
            await consumer._acknowledge_received()

    async def close(self) -> None:
        """Close the session with its producers and consumers.

        What was received and not acknowledged goes back with delivery-failed, what was only prefetched goes
        back as if it had never left.
        """
        if not self.is_closed:
            self._is_closed = True
            for opened in (*self._consumers, *self._others):
                await opened.close()
            self._engine.end()
            self._transport.flush_soon()


def link_name(address: str | None) -> str:
    """A link name of its own: two links with one name would be one link."""
    return f"{address or 'link'}-{uuid.uuid4()}"


def selector_filter(selector: str | None) -> dict[object, object] | None:
    """The source filter that Apache registered for JMS selectors."""
    if selector is None:
        return None
    return {Symbol(SELECTOR_FILTER): Described(SELECTOR_DESCRIPTOR, selector)}
