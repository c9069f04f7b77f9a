"""The sync face of the client: connections, and what is opened on them.

Generated from aio/connection.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from types import TracebackType

from postroom.client.aio import connection as aio
from postroom.client.aio.connection import ConnectionMetaData
from postroom.client.connection.options import RecoverMode
from postroom.client.destinations import Destination, Queue
from postroom.client.sessions.connection_state import ExceptionListener
from postroom.client.sessions.session_state import AcknowledgeMode
from postroom.client.sync.consumer import MessageConsumer, QueueBrowser
from postroom.client.sync.management_client import ManagementClient
from postroom.client.sync.message_store import MessageStore
from postroom.client.sync.portal import Closable
from postroom.client.sync.producer import MessageProducer
from postroom.client.sync.replies import Requestor
from postroom.client.sync.session import Session
from postroom.client.sync.xa import XASession

__all__ = ["Connection", "TransactedSession"]


class TransactedSession(Session):
    """A session that is one transaction. Made by :meth:`Connection.transaction`: ``with`` commits at
    the end, rolls back with an exception, and closes it.

    ``commit`` and ``rollback`` may be called in between; the next transaction begins with that.
    """

    _inner: aio.TransactedSession

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Committed, or with an exception rolled back, and closed."""
        if self._portal.is_running:
            self._portal.call(self._inner.__aexit__(kind, error, trace))


class Connection(Closable[aio.Connection]):
    """A connection to a broker; leaving ``with`` closes it. Made by :func:`connect` and
    :class:`ConnectionFactory`.

    ``consumer``, ``producer``, ``browser``, ``requestor`` and ``transaction`` are the short way: what they
    open has a session to itself, which closes with it. ``create_session`` is JMS's.
    """

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
            super().close()
        finally:
            if self._inner.is_closed:
                self._portal.stop()
