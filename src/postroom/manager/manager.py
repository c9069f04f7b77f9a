"""The queue manager: queues, those who put and take, and every rule between them. Pure: time is an
argument.

Every command takes ``now_us`` (µs since 1970). What it changes is written to the ledger's block builder;
what is to be done outside is collected as effects (see `effects`), to be carried out when the block is
durable. Commands raise a subclass of `ManagerError` when they are refused, except puts, which are answered
by effect like acceptance.
"""

from typing import TYPE_CHECKING, Any, final

from mypy_extensions import i64

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.storage.body_requests import Body
from postroom.manager import restore, turn
from postroom.manager.administration import deletion as administration
from postroom.manager.administration import pausing
from postroom.manager.administration import subscriptions as topics
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.composition import new_core
from postroom.manager.consuming import registry as consumers
from postroom.manager.consuming import settlement
from postroom.manager.consuming.browser import Browser
from postroom.manager.consuming.settlement import Modification
from postroom.manager.destinations import registry as queues
from postroom.manager.destinations import tap
from postroom.manager.destinations.tables import destinations_of
from postroom.manager.destinations.topic import Topic
from postroom.manager.destinations.topic_subscriptions import forsake
from postroom.manager.kernel.consumer import Consumer, Producer, QueueReader
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Effects, IdRead, Sink
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.kernel.quota_definition import Quota, QuotaDefinition
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.message_store import pending_requests
from postroom.manager.message_store.pending_requests import StoreRequest
from postroom.manager.names.name_resolution import names_of
from postroom.manager.producing import blocked_sends, quotas, send
from postroom.manager.producing.blocked_sends import record_refused
from postroom.manager.producing.put import Message
from postroom.manager.producing.quotas import quotas_of
from postroom.manager.producing.upload import Upload, abort, add_chunk
from postroom.manager.queues.queue import Queue, Subscription
from postroom.manager.services.channels import ChannelService
from postroom.manager.services.resource_manager import ResourceManager
from postroom.manager.services.security import SecurityService
from postroom.manager.services.sinks import SinkService
from postroom.manager.services.spark_subscriptions import SparkSubscriptionService
from postroom.manager.transactions import commit as transactions
from postroom.manager.turn import Command
from postroom.model import numbers as n
from postroom.model.message import MessageHead

if TYPE_CHECKING:
    from postroom.ledger.recovery.recovered import Recovered


@final
class QueueManager(ResourceManager):
    """One queue manager over one ledger. To transactions it is a `ResourceManager`."""

    def __init__(self, options: ManagerOptions, ledger: BlockBuilder) -> None:
        super().__init__(new_core(options, ledger))
        self.options = options
        self.queues = destinations_of(self.core).queues
        """By name."""
        self.topics = destinations_of(self.core).topics
        """By name."""
        self.quotas = quotas_of(self.core).by_name
        """By name."""
        self.names = names_of(self.core)
        self.channels = ChannelService(self.core)
        """Those that lead to other queue managers."""
        self.security = SecurityService(self.core)
        """Users, roles and acts."""
        self.sinks = SinkService(self.core)
        """Spark jobs that write."""
        self.spark_subscriptions = SparkSubscriptionService(self.core)

    def restore(self, recovered: "Recovered", now_us: i64) -> None:
        """Take over what the ledger recovered; once, before anything else.

        Writes what the restart changes: held entries as the holder table says, messages lost.
        """
        with Command(self.core, now_us):
            restore.restore(self.core, recovered)

    # -- queues

    def queue(self, name: str) -> Queue:
        """The queue of that name; raises QueueNotFound."""
        return queues.find(self.core, name)

    def queue_for_attach(self, name: str, now_us: i64) -> Queue:
        """The queue that a client attaches to, created for it where the options allow."""
        self.core.begin(now_us)
        return queues.find_or_create(self.core, name)

    def create_queue(self, definition: QueueDefinition, now_us: i64) -> Destination:
        """Create a queue, or what ``definition.kind`` says; the same again returns the one that is there.

        Raises QueueExists, NameNotAllowed, DefinitionInvalid, LimitExceeded.
        """
        self.core.begin(now_us)
        return queues.create(self.core, definition)

    def update_queue(self, definition: QueueDefinition, now_us: i64) -> Destination:
        """Give the queue of that name another definition. Raises QueueNotFound, DefinitionInvalid,
        QueueInUse.

        Limits hold for what arrives afterwards; nothing is evicted. Access can change only without
        consumers.
        """
        with Command(self.core, now_us):
            queue = queues.update(self.core, definition)
            if isinstance(queue, Queue):
                consumers.recheck_credit(self.core, queue)
            return queue

    def delete_queue(
        self, name: str, if_unused: bool, if_empty: bool, now_us: i64, forced: bool = False, user: str = ""
    ) -> int:
        """Delete a queue with what is on it; Spark subscriptions to it, and what transactions have of it,
        only if ``forced``, by ``user``. Returns how many entries that ended. Raises QueueNotFound,
        QueueInUse."""
        with Command(self.core, now_us):
            queue = queues.find(self.core, name)
            return administration.delete(self.core, queue, if_unused, if_empty, forced, user)

    def purge_queue(self, name: str, now_us: i64) -> int:
        """End everything that is available or delayed; returns how many. What is held stays."""
        with Command(self.core, now_us):
            return administration.purge(self.core, queues.find(self.core, name))

    def pause(self, queue: Destination, switch: str, now_us: i64, durable: bool = False) -> None:
        """Pause "production", "insertion" or "consumption" (see `switches`) of a queue, or of a topic and all
        its subscriptions; ``durable``: beyond a restart, too. Raises SwitchUnknown."""
        with Command(self.core, now_us):
            pausing.set_paused(self.core, queue, switch, True, durable)

    def resume(self, queue: Destination, switch: str, now_us: i64) -> None:
        """Lift what `pause` did. Raises SwitchUnknown."""
        with Command(self.core, now_us):
            pausing.set_paused(self.core, queue, switch, False, False)

    # -- quotas

    def quota(self, name: str) -> Quota:
        """The quota of that name; raises QuotaNotFound."""
        return quotas.find(self.core, name)

    def create_quota(self, definition: QuotaDefinition, now_us: i64) -> Quota:
        """Create a quota; the same definition again returns the one that is there.

        Raises QuotaExists, NameNotAllowed, DefinitionInvalid, LimitExceeded.
        """
        self.core.begin(now_us)
        return quotas.create(self.core, definition)

    def update_quota(self, definition: QuotaDefinition, now_us: i64) -> Quota:
        """Give the quota of that name another definition; see `quotas.update`. Raises QuotaNotFound,
        DefinitionInvalid."""
        with Command(self.core, now_us):
            return quotas.update(self.core, definition)

    def delete_quota(self, name: str, now_us: i64) -> None:
        """Delete a quota that no destination names. Raises QuotaNotFound, QuotaInUse."""
        self.core.begin(now_us)
        quotas.delete(self.core, name)

    # -- topics

    def topic(self, name: str) -> Topic:
        """The topic of that name; raises QueueNotFound."""
        return topics.find(self.core, name)

    def topic_for_attach(self, name: str, now_us: i64) -> Topic:
        """The topic that a client publishes to, created for it where the options allow."""
        self.core.begin(now_us)
        return queues.find_or_create_topic(self.core, name)

    def delete_topic(
        self, name: str, if_unused: bool, now_us: i64, forced: bool = False, user: str = ""
    ) -> int:
        """Delete a topic with the subscriptions to it, ``forced`` as by `delete_queue`; returns how many.
        Raises QueueNotFound, QueueInUse."""
        with Command(self.core, now_us):
            return topics.delete(self.core, topics.find(self.core, name), if_unused, forced, user)

    def subscribe(self, wanted: Subscribing, now_us: i64) -> Subscription:
        """The queue of a subscription, to be consumed from: found, made, or made anew; see
        `topics.subscribe`."""
        with Command(self.core, now_us):
            return topics.subscribe(self.core, wanted)

    def durable_subscription(self, client: str, name: str) -> Subscription:
        """The durable subscription of that client ("": global) and name; raises QueueNotFound."""
        return topics.durable(self.core, client, name)

    def unsubscribe(self, queue: Queue, now_us: i64, forced: bool = False, user: str = "") -> None:
        """End a subscription that nobody uses, or (``forced``) whoever does. Raises SubscriptionInUse,
        QueueInUse."""
        with Command(self.core, now_us):
            topics.unsubscribe(self.core, queue, forced, user)

    def forsake(self, queue: Queue, now_us: i64) -> None:
        """End a subscription unless somebody else uses it, at the latest when open transactions let it go."""
        with Command(self.core, now_us):
            forsake(self.core, queue)

    # -- producing

    def open_producer(
        self,
        name: str,
        container: str,
        user: str,
        send_timeout_ms: i64 = -1,
        queue: Destination | None = None,
        sink: Sink | None = None,
    ) -> Producer:
        """Someone who will put: link name, container id and user, for the ledger.

        ``send_timeout_ms``: how long its sends wait for room; 0 not at all, −1 as the options say. ``queue``:
        what its link ``sink`` is attached to, which tells the link (`Detach`) when it is deleted.
        """
        options = self.options
        timeout_ms: i64 = options.send_timeout_ms if send_timeout_ms < 0 else send_timeout_ms
        timeout_ms = min(timeout_ms, options.max_send_timeout_ms)
        producer = Producer(self.core.holders.ids.take(), name, container, user, timeout_ms * 1000)
        if queue is not None:
            producer.queue, producer.sink = queue, sink
            queue.producers[producer] = None
        return producer

    def withdraw_sends(self, producer: Producer, now_us: i64) -> list[int]:
        """Its link is gone: what of it waits for room vanishes, without answer. Returns the tokens."""
        with Command(self.core, now_us):
            return blocked_sends.withdraw_all(self.core, producer)

    def close_producer(self, producer: Producer, now_us: i64) -> None:
        """It puts no more; what of it waits for room vanishes."""
        self.withdraw_sends(producer, now_us)
        if producer.closed:
            return
        self.core.holders.close_producer(producer)
        producer.closed = True
        queue = producer.queue
        if queue is not None:
            queue.producers.pop(producer, None)
            queue.schedule.active_us = self.core.now_us

    def put(
        self,
        producer: Producer,
        queue: Destination,
        head: MessageHead,
        body: bytes,
        sink: Sink,
        token: i64,
        now_us: i64,
        transaction: Transaction | None = None,
    ) -> None:
        """Put a message: ``body`` is its sections without header and delivery-annotations.

        Answered by effect, once durable: accepted, or rejected with condition and description; one that is
        pre-settled (token −1) only when it is refused. Where the destination's quota has no room it waits,
        and with it everything that its producer puts after it (``sink.blocked`` says how many). Raises
        QueueDeleted.
        """
        core = self.core
        core.begin(now_us)
        send.send(core, producer, queue, Message(head, body), sink, token, transaction)
        turn.finish(self.core)

    def publish(self, producer: Producer, topic: Topic, head: MessageHead, body: bytes, now_us: i64) -> int:
        """Publish a message, ``body`` as of `put`, which is refused where it would have to wait for room.
        Returns to how many subscriptions it went; raises as `send.publish`."""
        with Command(self.core, now_us):
            return send.publish(self.core, producer, topic, Message(head, body))

    def refused(
        self, producer: Producer, address: str, size_bytes: i64, condition: str, description: str, now_us: i64
    ) -> None:
        """The host has refused a pre-settled message itself, before any queue was asked."""
        self.core.begin(now_us)
        record_refused(self.core, producer, address, size_bytes, condition, description)

    def begin_upload(self, producer: Producer) -> Upload:
        """A body over ``CHUNK_BODY_BYTES`` is about to arrive in pieces."""
        return Upload(producer)

    def upload_chunk(self, upload: Upload, data: bytes, now_us: i64) -> None:
        """Its next bytes (without header and delivery-annotations); raises MessageTooLarge, NotAllowed."""
        self.core.begin(now_us)
        add_chunk(self.core, upload, data)
        self.core.ledger.boundary()

    def finish_upload(
        self,
        upload: Upload,
        queue: Destination,
        head: MessageHead,
        sink: Sink,
        token: i64,
        now_us: i64,
        transaction: Transaction | None = None,
    ) -> None:
        """It is whole: put it, answered as by `put`."""
        self.core.begin(now_us)
        message = Message(head, None, upload) if upload.chunks else Message(head, b"")
        answer = send.send(self.core, upload.producer, queue, message, sink, token, transaction)
        if answer in (send.REFUSED, send.DROPPED):
            abort(self.core, upload)
        upload.over = True
        turn.finish(self.core)

    def abort_upload(self, upload: Upload) -> None:
        """It will not be finished; nothing is left of it."""
        abort(self.core, upload)

    # -- consuming

    def open_consumer(self, queue: Queue, sink: Sink, options: ConsumerOptions, now_us: i64) -> Consumer:
        """Bind a consumer; it gets nothing before it has credit. Raises AccessRefused, LimitExceeded."""
        self.core.begin(now_us)
        return consumers.open_consumer(self.core, queue, sink, options)

    def open_browser(self, queue: Queue, sink: Sink, options: ConsumerOptions, now_us: i64) -> Browser:
        """Bind a browser; it gets nothing before it has credit. Raises LimitExceeded."""
        self.core.begin(now_us)
        return consumers.open_browser(self.core, queue, sink, options)

    def set_credit(self, reader: QueueReader, credit: i64, drain: bool, now_us: i64) -> None:
        """The reader can take ``credit`` more entries now. ``drain``: what can't be used now is given
        up."""
        self.core.begin(now_us)
        consumers.set_credit(self.core, reader, credit, drain)
        turn.finish(self.core)

    def accept(
        self,
        consumer: Consumer,
        entry: Entry,
        now_us: i64,
        token: i64 = -1,
        transaction: Transaction | None = None,
    ) -> None:
        """The consumer confirms; raises NotHeld.

        For this and the next three: with a transaction the outcome takes effect with its commit (raises
        TransactionUnknown, TransactionRolledBack, LimitExceeded too). ``token`` −1 says that the receiver has
        settled already; otherwise it is answered when durable.
        """
        self.core.begin(now_us)
        if transaction is None:
            settlement.accept(self.core, consumer, entry)
        else:
            transactions.dispose(self.core, transaction, consumer, entry, n.EVENT_CONFIRM, token < 0)
        self._settled(consumer, token)

    def release(
        self,
        consumer: Consumer,
        entry: Entry,
        now_us: i64,
        token: i64 = -1,
        transaction: Transaction | None = None,
    ) -> None:
        """Back to its place, counts unchanged."""
        self.core.begin(now_us)
        if transaction is None:
            settlement.release(self.core, consumer, entry)
        else:
            transactions.dispose(self.core, transaction, consumer, entry, n.EVENT_RELEASE, token < 0)
        self._settled(consumer, token)

    def modify(
        self,
        consumer: Consumer,
        entry: Entry,
        change: Modification,
        now_us: i64,
        token: i64 = -1,
        transaction: Transaction | None = None,
    ) -> None:
        """Back to its place, with what has changed. Raises LimitExceeded."""
        self.core.begin(now_us)
        if transaction is None:
            settlement.modify(self.core, consumer, entry, change)
        else:
            event = n.EVENT_FAIL if change.failed else n.EVENT_RELEASE
            receipt = transactions.dispose(self.core, transaction, consumer, entry, event, token < 0)
            receipt.not_here = change.undeliverable_here
            receipt.annotations = change.annotations
            receipt.delay_us = change.delay_us
        self._settled(consumer, token)

    def reject(
        self,
        consumer: Consumer,
        entry: Entry,
        condition: str,
        description: str,
        now_us: i64,
        token: i64 = -1,
        transaction: Transaction | None = None,
    ) -> None:
        """To the dead-letter queue with this error, or discarded."""
        self.core.begin(now_us)
        if transaction is None:
            settlement.reject(self.core, consumer, entry, condition, description)
        else:
            event = n.EVENT_DEAD_LETTER
            receipt = transactions.dispose(self.core, transaction, consumer, entry, event, token < 0)
            receipt.condition = condition
            receipt.description = description
        self._settled(consumer, token)

    def close_reader(self, reader: QueueReader, now_us: i64, lost: bool) -> None:
        """It is gone: what it holds goes back, as released or (``lost``) as by a lost link."""
        with Command(self.core, now_us):
            consumers.close_reader(self.core, reader, lost)

    def suspend_consumer(self, consumer: Consumer, timeout_us: i64, now_us: i64) -> bool:
        """Its link is lost but may be resumed within the time-out; False if there is no room to remember
        it."""
        with Command(self.core, now_us):
            return consumers.suspend_consumer(self.core, consumer, timeout_us)

    def resume_consumer(self, consumer: Consumer, sink: Sink, now_us: i64) -> list[Entry]:
        """Its link is back, as ``sink``: returns what it still holds, in order. Raises NotAllowed."""
        self.core.begin(now_us)
        return consumers.resume_consumer(self.core, consumer, sink)

    # -- the message store

    def submit_request(self, request: StoreRequest, now_us: i64) -> None:
        """Take up a request (verbs of ``message_store``), answered by a `Reply`.

        Raises LimitExceeded.
        """
        with Command(self.core, now_us):
            pending_requests.begin(self.core, request)

    def cancel_request(self, request: StoreRequest) -> None:
        """Nobody wants the answer any more; what it has done already stays done."""
        pending_requests.cancel(self.core, request)
        turn.finish(self.core)

    def ids_read(self, read: IdRead, found: list[Any], now_us: i64) -> None:
        """What an `IdRead` asked for."""
        with Command(self.core, now_us):
            pending_requests.ids_read(self.core, read, found)

    # -- bodies, time, effects

    def set_time_us(self, now_us: i64) -> None:
        """It is ``now_us``: before statistics are read, so that times in them are exact."""
        self.core.begin(now_us)

    def fetched(self, entries: list[Entry], bodies: list[Body], now_us: i64) -> None:
        """The bodies that a `Fetch` asked for. An available entry whose body is damaged is discarded."""
        self.core.begin(now_us)
        if entries:
            turn.fetched(self.core, entries, bodies)
            turn.finish(self.core)

    def durable(self, position: i64, now_us: i64) -> None:
        """Everything up to ``position`` is on disk."""
        self.core.begin(now_us)
        turn.durable(self.core, position)

    def on_time(self, now_us: i64) -> None:
        """Do what is due, and what a bounded turn left undone."""
        self.core.begin(now_us)
        turn.on_time(self.core)

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never. Not later than now while a bounded turn has left work."""
        return turn.next_deadline_us(self.core)

    def take_effects(self) -> Effects:
        """What is to be done when everything written so far is durable; a new turn begins."""
        return turn.end(self.core)

    def set_leased(self, names: frozenset[str]) -> None:
        """Leases in force name these queues, subscriptions and topics: the bodies of non-persistent messages
        that come to them are stored from now on, for readers of the ledger."""
        tap.set_leased(self.core, names)

    def _settled(self, consumer: Consumer, token: i64) -> None:
        if token >= 0:
            self.core.effects.settle(consumer.sink, token)
        turn.finish(self.core)
