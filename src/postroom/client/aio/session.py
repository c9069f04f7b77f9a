"""Sessions, and what is created in them: the asyncio face."""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType
from typing import TypeVar

from postroom.amqp.encoding.types import Described, Symbol, ULong
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.engine.session import Session as EngineSession
from postroom.amqp.extensions import (
    EXCLUSIVE_PROPERTY,
    LIFETIME_POLICY,
    MANAGEMENT_ADDRESS,
    QUEUE_CAPABILITY,
    REDELIVERY_DELAY,
    TEMPORARY_QUEUE_CAPABILITY,
    TEMPORARY_TOPIC_CAPABILITY,
)
from postroom.amqp.frames.performatives import RCV_FIRST, RCV_SECOND, SND_MIXED, SND_SETTLED, SND_UNSETTLED
from postroom.amqp.frames.termini import (
    DELETE_ON_CLOSE,
    DISTRIBUTION_COPY,
    EXPIRY_LINK_DETACH,
    Source,
    Target,
)
from postroom.client.aio.closable import Closable
from postroom.client.aio.consumer import MessageConsumer, QueueBrowser
from postroom.client.aio.local_transaction import TransactionContext
from postroom.client.aio.opening import Opening
from postroom.client.aio.producer import MessageProducer
from postroom.client.aio.requestor import Requestor
from postroom.client.aio.temporary_destinations import TemporaryDestination
from postroom.client.connection.link import sending_properties
from postroom.client.connection.options import DEFAULT_PREFETCH, MAX_PREFETCH, RecoverMode
from postroom.client.connection.provider import Channel
from postroom.client.connection.receiver_link import Receiving
from postroom.client.connection.sender_link import Sending
from postroom.client.destinations import (
    Destination,
    Queue,
    Subscription,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    Wanted,
    address_of,
    check_subscription_name,
    filters,
    link_name,
    source_of,
    target_of,
    text_of,
    unsubscribing_link,
)
from postroom.client.durations import check_duration
from postroom.client.exceptions import LOG, IllegalStateException, JMSException
from postroom.client.messages.base_message import DONE
from postroom.client.sessions.completions import Completions
from postroom.client.sessions.connection_state import SharedState, all_of, refuse_in_callback
from postroom.client.sessions.deliveries import Deliveries
from postroom.client.sessions.session_state import AcknowledgeMode, SessionState
from postroom.client.transactions.coordinator import Coordinator

__all__ = ["Session", "TransactedSession"]


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
        self._state = SessionState(mode, shared, self._acknowledge_all, recover or shared.options.recover)
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
        return Opening(lambda: self._wanted(wanted))

    async def _wanted(self, wanted: Wanted) -> MessageConsumer:
        """By the method of JMS that makes such a consumer."""
        topic, name, selector = wanted.destination, wanted.subscription, wanted.selector
        prefetch, settle_second = wanted.prefetch, wanted.settle_second
        if name is None:
            return await self.create_consumer(
                topic,
                selector,
                wanted.no_local,
                prefetch=prefetch,
                settle_second=settle_second,
                exclusive=wanted.exclusive,
                create=wanted.create,
            )
        assert not isinstance(topic, Queue)
        if not wanted.shared:
            return await self.create_durable_consumer(
                topic, name, selector, wanted.no_local, prefetch=prefetch, settle_second=settle_second
            )
        create = self.create_shared_durable_consumer if wanted.durable else self.create_shared_consumer
        return await create(topic, name, selector, prefetch=prefetch, settle_second=settle_second)

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
        sending = await self._sending(
            self._channel, target, what, settled=settled, properties=sending_properties(send_timeout_ms)
        )
        always_waits = target.address == MANAGEMENT_ADDRESS
        return self._kept(
            MessageProducer(sending, self._state, destination, settled, self._completions, always_waits)
        )

    async def _sending(
        self,
        channel: Channel,
        target: Target,
        what: str,
        *,
        settled: bool = False,
        properties: dict[object, object] | None = None,
    ) -> Sending:
        self._check()
        name = link_name(target.address)

        def attach(engine: EngineSession) -> SenderLink:
            mode = SND_SETTLED if settled else SND_UNSETTLED
            return engine.attach_sender(name, Source(), target, snd_settle_mode=mode, properties=properties)

        sending = Sending(channel, attach, what, target, sends_again=target.address != MANAGEMENT_ADDRESS)
        await sending.attach(self._request_timeout_s)
        return sending

    async def _coordinator(self, capabilities: list[str]) -> Coordinator:
        """A control link of transactions on this session."""
        self._check()
        coordinator = Coordinator(self._channel, capabilities)
        await coordinator.attach(self._request_timeout_s)
        return coordinator

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
        policy = self._state.shared.options.prefetch
        of_topic = isinstance(destination, Topic)
        receiving = await self._receiving(
            source_of(destination, selector, no_local, create),
            f"the consumer of {text_of(destination)}",
            prefetch=or_default(prefetch, policy.topic if of_topic else policy.queue),
            settled=self._state.shared.options.presettle.consumer(of_topic, self.is_transacted),
            settle_second=settle_second,
            exclusive=exclusive,
            redelivery_delay_ms=redelivery_delay_ms,
        )
        return self._consumer(receiving, destination, settle_second)

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
        if not self._provider.has_client_id:
            raise IllegalStateException("a durable subscription that isn't shared needs a client id")
        wanted = Subscription(address_of(topic), name, True, False, False, selector, no_local)
        return await self._subscriber(wanted, prefetch, settle_second)

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
        is_global = not self._provider.has_client_id
        wanted = Subscription(address_of(topic), name, False, True, is_global, selector)
        return await self._subscriber(wanted, prefetch, settle_second)

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
        is_global = not self._provider.has_client_id
        wanted = Subscription(address_of(topic), name, True, True, is_global, selector)
        return await self._subscriber(wanted, prefetch, settle_second)

    async def _subscriber(
        self, wanted: Subscription, prefetch: int | None, settle_second: bool
    ) -> MessageConsumer:
        check_subscription_name(wanted.name)
        policy = self._state.shared.options.prefetch
        receiving = await self._receiving(
            wanted.source(),
            f"the consumer of subscription {wanted.name}",
            name=wanted.link_name(),
            prefetch=or_default(prefetch, policy.durable_topic if wanted.durable else policy.topic),
            settled=self._state.shared.options.presettle.consumer(True, self.is_transacted),
            settle_second=settle_second,
        )
        return self._consumer(receiving, Topic(wanted.topic), settle_second, wanted.durable)

    async def unsubscribe(self, name: str) -> None:
        """End the durable subscription ``name`` of this client id, or, without one, of everybody.

        Raises InvalidDestinationException for one that isn't there, ResourceAllocationException while it is
        in use.
        """
        check_subscription_name(name)
        link, desired = unsubscribing_link(name, not self._provider.has_client_id)
        receiving = await self._receiving(None, f"subscription {name}", name=link, desired=desired)
        await receiving.detach(self._request_timeout_s)

    async def create_temporary_queue(self) -> TemporaryDestination:
        """A queue that only this connection consumes from, and that ends with it: for replies."""
        return await self._temporary(TEMPORARY_QUEUE_CAPABILITY, TemporaryQueue)

    async def create_temporary_topic(self) -> TemporaryDestination:
        """A topic that only this connection subscribes to, and that ends with it."""
        return await self._temporary(TEMPORARY_TOPIC_CAPABILITY, TemporaryTopic)

    async def _temporary(
        self, capability: str, kind: type[TemporaryQueue] | type[TemporaryTopic]
    ) -> TemporaryDestination:
        """It lives as long as the link that makes it: on a session of its own, not to end with this one."""
        channel = await self._provider.begin(self._request_timeout_s)
        target = Target(
            dynamic=True,
            dynamic_node_properties={Symbol(LIFETIME_POLICY): Described(ULong(DELETE_ON_CLOSE), [])},
            expiry_policy=EXPIRY_LINK_DETACH,
            capabilities=[capability],
        )
        sending = await self._sending(channel, target, "a temporary destination")
        return TemporaryDestination(channel, sending, kind, self._request_timeout_s)

    async def create_browser(self, queue: str | Queue, selector: str | None = None) -> QueueBrowser:
        """A browser of ``queue``: sees the messages that wait there, takes none."""
        source = Source(
            address=address_of(queue),
            distribution_mode=DISTRIBUTION_COPY,
            filter=filters(selector),
            capabilities=[QUEUE_CAPABILITY],
        )
        receiving = await self._receiving(source, f"the browser of {address_of(queue)}")
        return self._kept(QueueBrowser(receiving, self._state))

    async def create_reply_consumer(self) -> MessageConsumer:
        """A consumer of a queue of its own, which the broker names (``address``) and deletes with the
        consumer.
        """
        source = Source(dynamic=True, capabilities=[TEMPORARY_QUEUE_CAPABILITY])
        receiving = await self._receiving(source, "the consumer of replies", prefetch=DEFAULT_PREFETCH)
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

    async def _receiving(
        self,
        source: Source | None,
        what: str,
        *,
        name: str | None = None,
        desired: list[str] | None = None,
        prefetch: int = 0,
        settled: bool = False,
        settle_second: bool = False,
        exclusive: bool = False,
        redelivery_delay_ms: int = 0,
    ) -> Receiving:
        """``source`` None: the one that the broker knows under ``name``."""
        self._check()
        if not 0 <= prefetch <= MAX_PREFETCH:
            raise JMSException(f"prefetch {prefetch} is outside 0 to {MAX_PREFETCH}")
        link = name or link_name(source.address if source is not None else None)

        def attach(engine: EngineSession) -> ReceiverLink:
            return engine.attach_receiver(
                link,
                source,
                Target(),
                snd_settle_mode=self._sender_settle_mode(source, settled),
                rcv_settle_mode=RCV_SECOND if settle_second else RCV_FIRST,
                properties=self._consumer_properties(source, exclusive, redelivery_delay_ms),
                desired_capabilities=desired,
            )

        drain_timeout_s = self._state.shared.options.drain_timeout_s
        receiving = Receiving(self._channel, attach, what, source, prefetch, drain_timeout_s)
        await receiving.attach(self._request_timeout_s)
        return receiving

    def _consumer_properties(
        self, source: Source | None, exclusive: bool, redelivery_delay_ms: int
    ) -> dict[object, object]:
        """Link properties of a consumer."""
        properties: dict[object, object] = {}
        if exclusive:
            properties[EXCLUSIVE_PROPERTY] = True
        if redelivery_delay_ms:
            properties[REDELIVERY_DELAY] = redelivery_delay_ms
        return properties

    def _sender_settle_mode(self, source: Source | None, settled: bool) -> int:
        """What the broker sends settled: all without acknowledgement; copies for a browser as it likes."""
        if settled or self._state.mode.is_presettled:
            return SND_SETTLED
        browses = source is not None and source.distribution_mode == DISTRIBUTION_COPY
        return SND_MIXED if browses else SND_UNSETTLED

    def _check(self) -> None:
        self._provider.check()
        self._state.check()

    async def acknowledge(self) -> None:
        """Accept everything that the session's consumers have handed out (mode CLIENT), as
        :meth:`Message.acknowledge` does. Raises IllegalStateException in another mode.
        """
        self._check()
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
        self._check()
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
        self._check()
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


def or_default(given: int | None, default: int) -> int:
    """What was said, or else the default."""
    return default if given is None else given
