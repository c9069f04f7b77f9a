"""Sessions, and what is created in them: the sync face.

Generated from aio/session.py by tools/async_to_sync.py: change that, and run the tool.
"""

from __future__ import annotations

from postroom.client.aio import session as aio
from postroom.client.destinations import Destination, Queue, Topic
from postroom.client.sessions.session_state import AcknowledgeMode
from postroom.client.sync.consumer import MessageConsumer, QueueBrowser
from postroom.client.sync.portal import Closable
from postroom.client.sync.producer import MessageProducer
from postroom.client.sync.replies import Requestor, TemporaryDestination

__all__ = ["Session"]


class Session(Closable[aio.Session]):
    """A session: the producers and consumers of one unit of work. Made by
    :meth:`Connection.create_session`; leaving ``with`` closes it.
    """

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """The mode that the session was created with."""
        return self._inner.acknowledge_mode

    @property
    def is_transacted(self) -> bool:
        """Whether what it sends and receives is decided by ``commit`` and ``rollback``."""
        return self._inner.is_transacted

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the connection is over."""
        return self._inner.is_closed

    def producer(
        self,
        destination: Destination | None = None,
        *,
        settled: bool | None = None,
        send_timeout_ms: int | None = None,
    ) -> MessageProducer:
        """A producer in this session, closed by ``with``; see :meth:`create_producer`."""
        making = self._inner.producer(destination, settled=settled, send_timeout_ms=send_timeout_ms).open()
        return MessageProducer(self._portal, self._portal.call(making))

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
        """A consumer in this session, closed by ``with``; the arguments are those of
        :meth:`Connection.consumer`.
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

    def create_producer(
        self,
        destination: Destination | None = None,
        *,
        settled: bool | None = None,
        send_timeout_ms: int | None = None,
    ) -> MessageProducer:
        """A producer for a queue (a str or :class:`Queue`) or a :class:`Topic`; None for one whose messages
        name their own destination (ANONYMOUS-RELAY).

        ``settled``: at most once, there are no outcomes; None: as the connection's presettle policy says.
        ``send_timeout_ms``: how long a send waits for
        room in the destination's quota before it raises ResourceAllocationException; 0 not at all, None as
        the broker is configured. Raises InvalidDestinationException, JMSSecurityException,
        ResourceAllocationException as the broker answers.
        """
        making = self._inner.create_producer(destination, settled=settled, send_timeout_ms=send_timeout_ms)
        return MessageProducer(self._portal, self._portal.call(making))

    def create_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        no_local: bool = False,
        *,
        prefetch: int | None = None,
        settle_second: bool = False,
        exclusive: bool = False,
        redelivery_delay_ms: int = 0,
        create: bool = False,
    ) -> MessageConsumer:
        """A consumer of a queue (a str or :class:`Queue`), or a subscriber to a :class:`Topic`, which gets
        what is published while it is there.

        ``prefetch`` messages (0 to 32,767) are asked for ahead; 0: each ``receive`` asks for one; None: as
        the connection's prefetch policy says.
        ``settle_second``: every outcome waits for the broker's answer, so that it is known to be durable.
        ``no_local``: not what is published under this client id. ``redelivery_delay_ms``: how long what is
        rolled back or recovered waits, unless its queue has a delay of its own, as it has by default.
        ``create``: a queue that isn't there is made, as for a producer; otherwise it is an
        InvalidDestinationException, unless the broker's ``[auto_create]`` lets consumers create. Raises as
        :meth:`create_producer`, and ResourceAllocationException where another consumer has the queue for
        itself.
        """
        making = self._inner.create_consumer(
            destination,
            selector,
            no_local,
            prefetch=prefetch,
            settle_second=settle_second,
            exclusive=exclusive,
            redelivery_delay_ms=redelivery_delay_ms,
            create=create,
        )
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_durable_consumer(
        self,
        topic: Topic | str,
        name: str,
        selector: str | None = None,
        no_local: bool = False,
        *,
        prefetch: int | None = None,
        settle_second: bool = False,
    ) -> MessageConsumer:
        """A consumer of the client's durable subscription ``name``, which is made unless it is there.

        It keeps what is published while nobody consumes, until :meth:`unsubscribe`. With another topic,
        selector or no-local the one that is there is replaced. Raises IllegalStateException for a connection
        without a client id, ResourceAllocationException where the subscription is in use.
        """
        making = self._inner.create_durable_consumer(
            topic, name, selector, no_local, prefetch=prefetch, settle_second=settle_second
        )
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_shared_consumer(
        self,
        topic: Topic | str,
        name: str,
        selector: str | None = None,
        *,
        prefetch: int | None = None,
        settle_second: bool = False,
    ) -> MessageConsumer:
        """One of several consumers that share the subscription ``name``; it ends with the last of them.

        It is the client's own where the connection has a client id, else everybody's.
        """
        making = self._inner.create_shared_consumer(
            topic, name, selector, prefetch=prefetch, settle_second=settle_second
        )
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_shared_durable_consumer(
        self,
        topic: Topic | str,
        name: str,
        selector: str | None = None,
        *,
        prefetch: int | None = None,
        settle_second: bool = False,
    ) -> MessageConsumer:
        """As :meth:`create_shared_consumer`, but the subscription stays until :meth:`unsubscribe`."""
        making = self._inner.create_shared_durable_consumer(
            topic, name, selector, prefetch=prefetch, settle_second=settle_second
        )
        return MessageConsumer(self._portal, self._portal.call(making))

    def unsubscribe(self, name: str) -> None:
        """End the durable subscription ``name`` of this client id, or, without one, of everybody.

        Raises InvalidDestinationException for one that isn't there, ResourceAllocationException while it is
        in use.
        """
        self._portal.call(self._inner.unsubscribe(name))

    def create_temporary_queue(self) -> TemporaryDestination:
        """A queue that only this connection consumes from, and that ends with it: for replies."""
        return TemporaryDestination(self._portal, self._portal.call(self._inner.create_temporary_queue()))

    def create_temporary_topic(self) -> TemporaryDestination:
        """A topic that only this connection subscribes to, and that ends with it."""
        return TemporaryDestination(self._portal, self._portal.call(self._inner.create_temporary_topic()))

    def create_browser(self, queue: str | Queue, selector: str | None = None) -> QueueBrowser:
        """A browser of ``queue``: sees the messages that wait there, takes none."""
        return QueueBrowser(self._portal, self._portal.call(self._inner.create_browser(queue, selector)))

    def create_reply_consumer(self) -> MessageConsumer:
        """A consumer of a queue of its own, which the broker names (``address``) and deletes with the
        consumer.
        """
        return MessageConsumer(self._portal, self._portal.call(self._inner.create_reply_consumer()))

    def create_answer_consumer(self, node: str, reply_to: str) -> MessageConsumer:
        """A consumer of the answers of a node to requests on this connection that have ``reply_to``."""
        making = self._inner.create_answer_consumer(node, reply_to)
        return MessageConsumer(self._portal, self._portal.call(making))

    def create_requestor(self, destination: Destination) -> Requestor:
        """Requests to a queue or topic, and their replies: QueueRequestor and TopicRequestor of JMS."""
        return Requestor(self._portal, self._portal.call(self._inner.create_requestor(destination)))

    def acknowledge(self) -> None:
        """Accept everything that the session's consumers have handed out (mode CLIENT), as
        :meth:`Message.acknowledge` does. Raises IllegalStateException in another mode.
        """
        self._portal.call(self._inner.acknowledge())

    def recover(self) -> None:
        """What the session's consumers have handed out, and has no outcome, comes again: in its order, before
        anything else, its delivery count one higher. The broker is told nothing.

        With :attr:`RecoverMode.BROKER` it goes back to the broker as failed deliveries, as after a rollback:
        it comes again when the redelivery delay is over, or becomes a dead letter where the redelivery limit
        is passed; what was only prefetched goes back, too, and counts for nothing.

        Raises IllegalStateException in a transacted session, JMSTimeoutException where the broker doesn't
        answer.
        """
        self._portal.call(self._inner.recover())

    def commit(self) -> None:
        """Make everything sent and received since the last commit or rollback count, all or nothing; a new
        transaction begins.

        Raises TransactionRolledBackException where nothing of it counts: the broker has refused, or the
        connection broke under fail-over (where it broke during this call, the commit may have been done).
        IllegalStateException for a session in another mode, and in a call for a message sent.
        """
        self._portal.call(self._inner.commit())

    def rollback(self) -> None:
        """Undo everything since the last commit or rollback: what was sent is gone, what was received comes
        again, in order and with a higher count; a new transaction begins. Raises IllegalStateException as
        :meth:`commit` does.
        """
        self._portal.call(self._inner.rollback())

    def close(self) -> None:
        """Close the session with its producers and consumers; an open transaction is rolled back.

        What was received and not acknowledged goes back with delivery-failed, what was only prefetched goes
        back as if it had never left. Listeners' calls under way are waited for; in one of them it raises
        IllegalStateException.
        """
        super().close()
