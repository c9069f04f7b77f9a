"""Sessions, and what is created in them: the asyncio face."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from postroom.amqp.extensions import MANAGEMENT_ADDRESS, TEMPORARY_QUEUE_CAPABILITY
from postroom.amqp.frames.termini import Source
from postroom.client.aio.closable import Closable, Opening
from postroom.client.aio.consumer import MessageConsumer, QueueBrowser
from postroom.client.aio.local_transaction import TransactionContext
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.replies import Requestor, TemporaryDestination
from postroom.client.connection.link import sending_properties
from postroom.client.connection.options import DEFAULT_PREFETCH, RecoverMode
from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Receiving
from postroom.client.destinations import (
    Destination,
    Queue,
    Subscription,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    Wanted,
    address_of,
    browsed,
    check_subscription_name,
    source_of,
    target_of,
    temporary,
    text_of,
    unsubscribing_link,
)
from postroom.client.durations import check_duration
from postroom.client.exceptions import IllegalStateException
from postroom.client.messages.base_message import DONE
from postroom.client.sessions.completions import Completions
from postroom.client.sessions.connection_state import SharedState, all_of, refuse_in_callback
from postroom.client.sessions.deliveries import Deliveries
from postroom.client.sessions.session_state import AcknowledgeMode, SessionState

__all__ = ["Session"]


P = TypeVar("P", MessageProducer, QueueBrowser)


class Session(Closable):
    """A session: the producers and consumers of one unit of work. Made by
    :meth:`Connection.create_session`; leaving ``async with`` closes it.
    """

    def __init__(
        self,
        channel: Channel,
        mode: AcknowledgeMode,
        shared: SharedState,
        recover: RecoverMode | None = None,
    ) -> None:
        self._channel = channel
        self._provider = channel.provider
        self._state = SessionState(
            channel, mode, shared, self._acknowledge_all, recover or shared.options.recover
        )
        self._completions = Completions(self._state)
        self._request_timeout_s = shared.request_timeout_s
        self._transaction: TransactionContext | None = None
        self._consumers: list[Deliveries] = []
        self._others: list[MessageProducer | QueueBrowser] = []

    def _end(self) -> None:
        """What it was made for has been closed, and nothing else is in it."""
        if not self.is_closed:
            self._state.is_closed = True
            self._channel.end()

    async def _begin_transactions(self) -> None:
        """Mode SESSION_TRANSACTED: from now on everything is done in a transaction."""
        transaction = TransactionContext(
            self._channel, lambda: [each.receiving for each in self._consumers], self._request_timeout_s
        )
        await transaction.start()
        self._state.transaction = self._transaction = transaction

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """The mode that the session was created with."""
        return self._state.mode

    @property
    def is_transacted(self) -> bool:
        """Whether what it sends and receives is decided by ``commit`` and ``rollback``."""
        return self._state.is_transacted

    @property
    def is_closed(self) -> bool:
        """True after ``close``, and when the connection is over."""
        return self._state.is_closed or self._provider.failure is not None

    def producer(
        self,
        destination: Destination | None = None,
        *,
        settled: bool | None = None,
        send_timeout_ms: int | None = None,
    ) -> Opening[MessageProducer]:
        """A producer in this session, closed by ``async with``; see :meth:`create_producer`."""
        return Opening(
            lambda: self.create_producer(destination, settled=settled, send_timeout_ms=send_timeout_ms)
        )

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
        """A consumer in this session, closed by ``async with``; the arguments are those of
        :meth:`Connection.consumer`.
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
        return Opening(lambda: self._consume(wanted))

    async def _consume(self, wanted: Wanted, redelivery_delay_ms: int = 0) -> MessageConsumer:
        """Such a consumer."""
        destination, subscription = wanted.destination, self._subscription(wanted)
        options = self._state.shared.options
        if subscription is None:
            of_topic, link, source = isinstance(destination, Topic), None, source_of(wanted)
            what = text_of(destination)
        else:
            of_topic, link, source = True, subscription.link_name(), subscription.source()
            what, destination = f"subscription {subscription.name}", Topic(address_of(destination))
        prefetch = wanted.prefetch
        if prefetch is None:
            policy = options.prefetch
            prefetch = policy.durable_topic if wanted.durable else policy.topic if of_topic else policy.queue
        receiving = await self._state.receiving(
            source,
            f"the consumer of {what}",
            name=link,
            prefetch=prefetch,
            settled=options.presettle.consumer(of_topic, self.is_transacted),
            settle_second=wanted.settle_second,
            exclusive=wanted.exclusive,
            redelivery_delay_ms=redelivery_delay_ms,
        )
        return self._consumer(receiving, destination, wanted.settle_second, wanted.durable)

    def _subscription(self, wanted: Wanted) -> Subscription | None:
        if wanted.subscription is None:
            return None
        has_client_id = self._provider.has_client_id
        if not wanted.shared and not has_client_id:
            raise IllegalStateException("a durable subscription that isn't shared needs a client id")
        check_subscription_name(wanted.subscription)
        return Subscription(wanted, wanted.subscription, wanted.shared and not has_client_id)

    async def create_producer(
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
        check_duration("send_timeout_ms", send_timeout_ms)
        target = target_of(destination)
        if settled is None:
            to_topic = None if destination is None else isinstance(destination, Topic)
            settled = self._state.shared.options.presettle.producer(to_topic, self.is_transacted)
        what = f"the producer for {'any destination' if destination is None else text_of(destination)}"
        sending = await self._state.sending(
            target, what, settled=settled, properties=sending_properties(send_timeout_ms)
        )
        always_waits = target.address == MANAGEMENT_ADDRESS
        return self._kept(
            MessageProducer(sending, self._state, destination, settled, self._completions, always_waits)
        )

    async def create_consumer(
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
        check_duration("redelivery_delay_ms", redelivery_delay_ms)
        wanted = Wanted(
            destination,
            selector,
            no_local=no_local,
            prefetch=prefetch,
            settle_second=settle_second,
            exclusive=exclusive,
            create=create,
        )
        return await self._consume(wanted, redelivery_delay_ms)

    async def create_durable_consumer(
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
        return await self._subscriber(
            topic, name, selector, no_local, durable=True, prefetch=prefetch, settle_second=settle_second
        )

    async def create_shared_consumer(
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
        return await self._subscriber(
            topic, name, selector, shared=True, prefetch=prefetch, settle_second=settle_second
        )

    async def create_shared_durable_consumer(
        self,
        topic: Topic | str,
        name: str,
        selector: str | None = None,
        *,
        prefetch: int | None = None,
        settle_second: bool = False,
    ) -> MessageConsumer:
        """As :meth:`create_shared_consumer`, but the subscription stays until :meth:`unsubscribe`."""
        return await self._subscriber(
            topic, name, selector, shared=True, durable=True, prefetch=prefetch, settle_second=settle_second
        )

    async def _subscriber(
        self,
        topic: Topic | str,
        name: str,
        selector: str | None,
        no_local: bool = False,
        **how: Any,
    ) -> MessageConsumer:
        return await self._consume(Wanted(topic, selector, no_local=no_local, subscription=name, **how))

    async def unsubscribe(self, name: str) -> None:
        """End the durable subscription ``name`` of this client id, or, without one, of everybody.

        Raises InvalidDestinationException for one that isn't there, ResourceAllocationException while it is
        in use.
        """
        check_subscription_name(name)
        link, desired = unsubscribing_link(name, not self._provider.has_client_id)
        receiving = await self._state.receiving(None, f"subscription {name}", name=link, desired=desired)
        await receiving.detach(self._request_timeout_s)

    async def create_temporary_queue(self) -> TemporaryDestination:
        """A queue that only this connection consumes from, and that ends with it: for replies."""
        return await self._temporary(TemporaryQueue)

    async def create_temporary_topic(self) -> TemporaryDestination:
        """A topic that only this connection subscribes to, and that ends with it."""
        return await self._temporary(TemporaryTopic)

    async def _temporary(self, kind: type[TemporaryQueue] | type[TemporaryTopic]) -> TemporaryDestination:
        """It lives as long as the link that makes it: on a session of its own, not to end with this one."""
        channel = await self._provider.begin(self._request_timeout_s)
        sending = await self._state.sending(temporary(kind), "a temporary destination", channel)
        return TemporaryDestination(channel, sending, kind, self._request_timeout_s)

    async def create_browser(self, queue: str | Queue, selector: str | None = None) -> QueueBrowser:
        """A browser of ``queue``: sees the messages that wait there, takes none."""
        receiving = await self._state.receiving(
            browsed(queue, selector), f"the browser of {address_of(queue)}"
        )
        return self._kept(QueueBrowser(receiving, self._state))

    async def create_reply_consumer(self) -> MessageConsumer:
        """A consumer of a queue of its own, which the broker names (``address``) and deletes with the
        consumer.
        """
        source = Source(dynamic=True, capabilities=[TEMPORARY_QUEUE_CAPABILITY])
        receiving = await self._state.receiving(source, "the consumer of replies", prefetch=DEFAULT_PREFETCH)
        return self._consumer(receiving, None, False)

    async def create_answer_consumer(self, node: str, reply_to: str) -> MessageConsumer:
        """A consumer of the answers of a node to requests on this connection that have ``reply_to``."""
        receiving = await self._state.receiving(
            Source(address=node),
            f"the consumer of answers of {node}",
            prefetch=DEFAULT_PREFETCH,
            reply_to=reply_to,
        )
        return self._consumer(receiving, None, False)

    async def create_requestor(self, destination: Destination) -> Requestor:
        """Requests to a queue or topic, and their replies: QueueRequestor and TopicRequestor of JMS."""
        return Requestor(
            await self.create_producer(destination),
            await self.create_reply_consumer(),
            self._state.shared.request_timeout_s,
        )

    def _kept(self, made: P) -> P:
        """Remember what is to be closed with the session."""
        self._others = [known for known in self._others if not known.is_closed]
        self._others.append(made)
        return made

    def _consumer(
        self,
        receiving: Receiving,
        source: Destination | None,
        settle_second: bool,
        durable: bool = False,
    ) -> MessageConsumer:
        deliveries = Deliveries(receiving, self._state, source, settle_second, durable)
        self._consumers = [known for known in self._consumers if known.receiving.failure is None]
        self._consumers.append(deliveries)
        return MessageConsumer(deliveries)

    async def acknowledge(self) -> None:
        """Accept everything that the session's consumers have handed out (mode CLIENT), as
        :meth:`Message.acknowledge` does. Raises IllegalStateException in another mode.
        """
        self._state.check_all()
        if self._state.mode is not AcknowledgeMode.CLIENT:
            raise IllegalStateException(
                f"acknowledge of a session in mode {self._state.mode.name}; it needs CLIENT"
            )
        await self._acknowledge_all()

    def _acknowledge_all(self) -> Awaitable[None]:
        answers = [consumer.acknowledge_delivered() for consumer in self._consumers]
        return all_of([answer for answer in answers if answer is not DONE])

    async def recover(self) -> None:
        """What the session's consumers have handed out, and has no outcome, comes again: in its order, before
        anything else, its delivery count one higher. The broker is told nothing.

        With :attr:`RecoverMode.BROKER` it goes back to the broker as failed deliveries, as after a rollback:
        it comes again when the redelivery delay is over, or becomes a dead letter where the redelivery limit
        is passed; what was only prefetched goes back, too, and counts for nothing.

        Raises IllegalStateException in a transacted session, JMSTimeoutException where the broker doesn't
        answer.
        """
        self._state.check_all()
        if self.is_transacted:
            raise IllegalStateException("a transacted session is rolled back, not recovered")
        if self._state.recover is RecoverMode.LOCAL:
            for consumer in self._consumers:
                consumer.recover()
        else:
            await all_of([consumer.recover_by_broker() for consumer in self._consumers])

    async def commit(self) -> None:
        """Make everything sent and received since the last commit or rollback count, all or nothing; a new
        transaction begins.

        Raises TransactionRolledBackException where nothing of it counts: the broker has refused, or the
        connection broke under fail-over (where it broke during this call, the commit may have been done).
        IllegalStateException for a session in another mode, and in a call for a message sent.
        """
        await self._own_transaction("commit").commit()

    async def rollback(self) -> None:
        """Undo everything since the last commit or rollback: what was sent is gone, what was received comes
        again, in order and with a higher count; a new transaction begins. Raises IllegalStateException as
        :meth:`commit` does.
        """
        await self._own_transaction("rollback").rollback()

    def _own_transaction(self, what: str) -> TransactionContext:
        self._state.check_all()
        if self._transaction is None:
            raise IllegalStateException(
                f"{what} of a session in mode {self._state.mode.name}; it needs SESSION_TRANSACTED"
            )
        if self._state.is_completing_here:
            raise IllegalStateException(f"{what} can't be done in a call for a message sent")
        return self._transaction

    async def close(self) -> None:
        """Close the session with its producers and consumers; an open transaction is rolled back.

        What was received and not acknowledged goes back with delivery-failed, what was only prefetched goes
        back as if it had never left. Listeners' calls under way are waited for; in one of them it raises
        IllegalStateException.
        """
        refuse_in_callback(self._state, "close of a session")
        for consumer in self._consumers:
            await consumer.stop_listening()
        if not self.is_closed:
            self._state.is_closed = True
            if self._transaction is not None:
                await self._transaction.close()
            for consumer in self._consumers:
                await consumer.close(finally_=True)
            for opened in self._others:
                await opened.close()
            self._channel.end()
