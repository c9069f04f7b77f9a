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

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from postroom import __version__
from postroom.client.aio.closable import Closable, Opening
from postroom.client.aio.consumer import MessageConsumer, QueueBrowser
from postroom.client.aio.management_client import ManagementClient, requests_in
from postroom.client.aio.message_store import MessageStore
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.replies import Requestor
from postroom.client.aio.session import Session
from postroom.client.aio.xa import XASession
from postroom.client.connection.options import RecoverMode, read_recover
from postroom.client.connection.provider import Provider
from postroom.client.destinations import Destination, Queue, Wanted
from postroom.client.exceptions import LOG, JMSException
from postroom.client.messages.properties import JMSX_NAMES
from postroom.client.sessions.connection_state import ExceptionListener, SharedState, refuse_in_callback
from postroom.client.sessions.session_state import AcknowledgeMode

__all__ = ["Connection", "ConnectionMetaData", "TransactedSession"]

Opened = TypeVar("Opened", MessageConsumer, MessageProducer, QueueBrowser, Requestor)
S = TypeVar("S", bound=Session)


@dataclass(frozen=True, kw_only=True)
class ConnectionMetaData:
    """Versions: of the JMS whose names and rules the client has, of the client, and what the broker is."""

    jms_version: str = "3.1"
    provider_name: str = "Postroom"
    provider_version: str = __version__
    broker_product: str | None = None
    """As the broker calls itself in its open; None where it doesn't."""
    broker_version: str | None = None
    jmsx_property_names: tuple[str, ...] = JMSX_NAMES
    """Properties of messages that JMS has named, and that mean something here."""


class TransactedSession(Session):
    """A session that is one transaction. Made by :meth:`Connection.transaction`: ``async with`` commits at
    the end, rolls back with an exception, and closes it.

    ``commit`` and ``rollback`` may be called in between; the next transaction begins with that.
    """

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Committed, or with an exception rolled back, and closed."""
        try:
            if error is None:
                await self.commit()
            elif not self.is_closed:
                await self.rollback()
        except JMSException as failure:
            if error is None:
                raise
            LOG.warning("a transaction could not be rolled back, which its broker does then: %s", failure)
        finally:
            await self.close()


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
        return self._opening(lambda session: session._consume(wanted), AcknowledgeMode.INDIVIDUAL)

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
            return await requests_in(session, self._request_timeout_s, ends=True)
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
