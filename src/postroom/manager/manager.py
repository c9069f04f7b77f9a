"""The queue manager: queues, those who put and take, and every rule between them. Pure: time is an
argument.

Every command takes ``now_us`` (µs since 1970). What it changes is written to the ledger's block builder;
what is to be done outside is collected as effects (see `effects`), to be carried out when the block is
durable. Commands raise a subclass of `ManagerError` when they are refused, except puts, which are answered
by effect like acceptance.
"""

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from postroom.ledger.block import BlockBuilder
from postroom.manager import (
    administration,
    browse,
    consumers,
    dispatch,
    expiry,
    fetching,
    publishing,
    queues,
    restore,
    returning,
    settling,
    topics,
    transactions,
)
from postroom.manager.consumer import Consumer, Producer
from postroom.manager.core import Core
from postroom.manager.effects import Effects, Rejected, Sink
from postroom.manager.entry import Entry
from postroom.manager.errors import ManagerError
from postroom.manager.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.putting import refusal, store
from postroom.manager.queue import Queue
from postroom.manager.topics import Subscribing
from postroom.manager.transaction import Transaction
from postroom.manager.upload import Upload, abort, add_chunk
from postroom.model import numbers as n
from postroom.model.message import MessageHead

if TYPE_CHECKING:
    from postroom.ledger.recovered import Recovered


@final
class QueueManager:
    """One queue manager over one ledger."""

    def __init__(self, options: ManagerOptions, ledger: BlockBuilder) -> None:
        self.core = Core(options, ledger)
        self.options = options
        self.queues = self.core.queues
        """By name."""
        self.topics = self.core.topics
        """Nodes of topics by name."""

    def restore(self, recovered: "Recovered", now_us: i64) -> None:
        """Take over what the ledger recovered; once, before anything else.

        Writes what the restart changes: held entries as the holder table says, messages lost.
        """
        self.core.begin(now_us)
        restore.restore(self.core, recovered)
        self._finish()

    # -- queues

    def queue(self, name: str) -> Queue:
        """The queue of that name; raises QueueNotFound."""
        return queues.find(self.core, name)

    def queue_for_attach(self, name: str, now_us: i64) -> Queue:
        """The queue that a client attaches to, created for it where the options allow."""
        self.core.begin(now_us)
        return queues.find_or_create(self.core, name)

    def create_queue(self, definition: QueueDefinition, now_us: i64) -> Queue:
        """Create a queue; the same definition again returns the one that is there.

        Raises QueueExists, NameNotAllowed, DefinitionInvalid, LimitExceeded.
        """
        self.core.begin(now_us)
        return queues.create(self.core, definition)

    def update_queue(self, definition: QueueDefinition, now_us: i64) -> Queue:
        """Give the queue of that name another definition. Raises QueueNotFound, DefinitionInvalid,
        QueueInUse.

        Limits hold for what arrives afterwards; nothing is evicted. Access can change only without
        consumers.
        """
        self.core.begin(now_us)
        return queues.update(self.core, definition)

    def delete_queue(self, name: str, if_unused: bool, if_empty: bool, now_us: i64) -> int:
        """Delete a queue with what is on it; returns how many entries that ended. Raises QueueNotFound,
        QueueInUse."""
        self.core.begin(now_us)
        ended = administration.delete(self.core, queues.find(self.core, name), if_unused, if_empty)
        self._finish()
        return ended

    def purge_queue(self, name: str, now_us: i64) -> int:
        """End everything that is available or delayed; returns how many. What is held stays."""
        self.core.begin(now_us)
        ended = administration.purge(self.core, queues.find(self.core, name))
        self._finish()
        return ended

    # -- topics

    def topic(self, name: str) -> Queue:
        """The node of that topic; raises QueueNotFound."""
        return topics.find(self.core, name)

    def topic_for_attach(self, name: str, now_us: i64) -> Queue:
        """The topic that a client publishes to, created for it where the options allow."""
        self.core.begin(now_us)
        return topics.find_or_create(self.core, name)

    def delete_topic(self, name: str, if_unused: bool, now_us: i64) -> int:
        """Delete a topic with the subscriptions to it; returns how many. Raises QueueNotFound, QueueInUse."""
        self.core.begin(now_us)
        ended = topics.delete(self.core, topics.find(self.core, name), if_unused)
        self._finish()
        return ended

    def subscribe(self, wanted: Subscribing, now_us: i64) -> Queue:
        """The queue of a subscription, to be consumed from: found, made, or made anew; see
        `topics.subscribe`."""
        self.core.begin(now_us)
        queue = topics.subscribe(self.core, wanted)
        self._finish()
        return queue

    def durable_subscription(self, client: str, name: str) -> Queue:
        """The durable subscription of that client ("": global) and name; raises QueueNotFound."""
        return topics.durable(self.core, client, name)

    def unsubscribe(self, queue: Queue, now_us: i64) -> None:
        """End a subscription that nobody uses. Raises SubscriptionInUse, QueueInUse."""
        self.core.begin(now_us)
        topics.unsubscribe(self.core, queue)
        self._finish()

    def forsake(self, queue: Queue, now_us: i64) -> None:
        """End a subscription unless somebody else uses it, at the latest when open transactions let it go."""
        self.core.begin(now_us)
        topics.forsake(self.core, queue)
        self._finish()

    # -- producing

    def open_producer(self, name: str, container: str, user: str) -> Producer:
        """Someone who will put: link name, container id and user, for the ledger."""
        return Producer(self.core.new_holder_id(), name, container, user)

    def close_producer(self, producer: Producer) -> None:
        """He puts no more."""
        if producer.recorded and not producer.closed:
            self.core.record_producer_closed(producer)
        producer.closed = True

    def put(
        self,
        producer: Producer,
        queue: Queue,
        head: MessageHead,
        body: bytes,
        sink: Sink,
        token: i64,
        now_us: i64,
        transaction: Transaction | None = None,
    ) -> None:
        """Put a message: ``body`` is its sections without header and delivery-annotations.

        Answered by effect, once durable: accepted, or rejected with condition and description; no answer for
        token −1 (pre-settled).
        """
        self.core.begin(now_us)
        self._put(producer, queue, head, body, None, len(body), sink, token, transaction)

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
        queue: Queue,
        head: MessageHead,
        sink: Sink,
        token: i64,
        now_us: i64,
        transaction: Transaction | None = None,
    ) -> None:
        """It is whole: put it, answered as by `put`."""
        self.core.begin(now_us)
        body = None if upload.chunks else b""
        taken = self._put(
            upload.producer,
            queue,
            head,
            body,
            None if body is not None else upload,
            upload.size_bytes,
            sink,
            token,
            transaction,
        )
        if not taken:
            abort(self.core, upload)
        upload.over = True

    def abort_upload(self, upload: Upload) -> None:
        """It will not be finished; nothing is left of it."""
        abort(self.core, upload)

    def _put(
        self,
        producer: Producer,
        queue: Queue,
        head: MessageHead,
        body: bytes | None,
        upload: Upload | None,
        size: i64,
        sink: Sink,
        token: i64,
        transaction: Transaction | None,
    ) -> bool:
        """Put, or refuse by effect; whether it was taken."""
        core = self.core
        if queue.deleted:
            queue = _made_again(core, queue)
        if queue.topic is not None:
            return self._publish(producer, queue, head, body, upload, sink, token, transaction)
        refused = refusal(core, queue, size, head.durable)
        if refused is None and transaction is not None:
            refused = _put_provisionally(core, transaction, producer, queue, head, body, upload)
        elif refused is None:
            store(core, producer, queue, head, body, upload)
        elif transaction is not None and token < 0:
            transaction.failed = "a pre-settled message in it was refused: " + refused[1]
        if refused is not None:
            if token >= 0:
                core.effects.rejected.append(Rejected(sink, token, refused[0], refused[1]))
            return False
        if token >= 0:
            core.effects.accept(sink, token)
        if queue.ready or queue.browsers:
            dispatch.dispatch(core, queue)
        self._finish()
        return True

    def _publish(
        self,
        producer: Producer,
        node: Queue,
        head: MessageHead,
        body: bytes | None,
        upload: Upload | None,
        sink: Sink,
        token: i64,
        transaction: Transaction | None,
    ) -> bool:
        """Publish to a topic, or refuse by effect; whether it was taken."""
        core = self.core
        try:
            refused = publishing.publish(core, producer, node, head, body, upload, transaction)
        except ManagerError as error:
            refused = (error.condition, error.description)
        if refused is None:
            if token >= 0:
                core.effects.accept(sink, token)
        elif token >= 0:
            core.effects.rejected.append(Rejected(sink, token, refused[0], refused[1]))
        elif transaction is not None:
            transaction.failed = "a pre-settled message in it was refused: " + refused[1]
        self._finish()
        return refused is None

    # -- consuming

    def open_consumer(self, queue: Queue, sink: Sink, options: ConsumerOptions, now_us: i64) -> Consumer:
        """Bind a consumer or browser; it gets nothing before it has credit. Raises AccessRefused,
        LimitExceeded."""
        self.core.begin(now_us)
        return consumers.open_consumer(self.core, queue, sink, options)

    def set_credit(self, consumer: Consumer, credit: i64, drain: bool, now_us: i64) -> None:
        """The consumer can take ``credit`` more entries now. ``drain``: what can't be used now is given
        up."""
        self.core.begin(now_us)
        consumers.set_credit(self.core, consumer, credit, drain)
        self._finish()

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
            settling.accept(self.core, consumer, entry)
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
            settling.release(self.core, consumer, entry)
        else:
            transactions.dispose(self.core, transaction, consumer, entry, n.EVENT_RELEASE, token < 0)
        self._settled(consumer, token)

    def modify(
        self,
        consumer: Consumer,
        entry: Entry,
        failed: bool,
        undeliverable_here: bool,
        annotations: dict[str, object] | None,
        now_us: i64,
        token: i64 = -1,
        transaction: Transaction | None = None,
    ) -> None:
        """Back to its place; ``failed`` raises both counts, ``undeliverable_here`` keeps it from this
        consumer.

        ``annotations`` are merged into the message's for later deliveries. Raises LimitExceeded.
        """
        self.core.begin(now_us)
        if transaction is None:
            settling.modify(self.core, consumer, entry, failed, undeliverable_here, annotations)
        else:
            event = n.EVENT_FAIL if failed else n.EVENT_RELEASE
            receipt = transactions.dispose(self.core, transaction, consumer, entry, event, token < 0)
            receipt.not_here = undeliverable_here
            receipt.annotations = annotations
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
            settling.reject(self.core, consumer, entry, condition, description)
        else:
            event = n.EVENT_DEAD_LETTER
            receipt = transactions.dispose(self.core, transaction, consumer, entry, event, token < 0)
            receipt.condition = condition
            receipt.description = description
        self._settled(consumer, token)

    def close_consumer(self, consumer: Consumer, now_us: i64, lost: bool) -> None:
        """It is gone: what it holds goes back, as released or (``lost``) as by a lost link."""
        self.core.begin(now_us)
        consumers.close_consumer(self.core, consumer, lost)
        self._finish()

    def suspend_consumer(self, consumer: Consumer, timeout_us: i64, now_us: i64) -> bool:
        """Its link is lost but may be resumed within the time-out; False if there is no room to remember
        it."""
        self.core.begin(now_us)
        kept = consumers.suspend_consumer(self.core, consumer, timeout_us)
        self._finish()
        return kept

    def resume_consumer(self, consumer: Consumer, sink: Sink, now_us: i64) -> list[Entry]:
        """Its link is back, as ``sink``: returns what it still holds, in order. Raises NotAllowed."""
        self.core.begin(now_us)
        return consumers.resume_consumer(self.core, consumer, sink)

    # -- transactions

    def begin(self, now_us: i64) -> Transaction:
        """Open a local transaction; raises LimitExceeded."""
        self.core.begin(now_us)
        return transactions.begin(self.core)

    def commit(self, transaction: Transaction, now_us: i64) -> None:
        """Decide for it, atomically. Raises TransactionRolledBack (it has been), TransactionUnknown."""
        self.core.begin(now_us)
        try:
            transactions.commit(self.core, transaction)
        finally:
            self._finish()

    def rollback(self, transaction: Transaction, now_us: i64) -> None:
        """Decide against it; no effect if it has been decided.

        Deliveries that their receivers have settled return to their places; others stay with the receiver
        until disposed of, detached or lost.
        """
        self.core.begin(now_us)
        transactions.rollback(self.core, transaction)
        self._finish()

    # -- bodies, time, effects

    def fetched(self, entries: list[Entry], bodies: list[bytes], now_us: i64) -> None:
        """The bodies that a `Fetch` asked for."""
        core = self.core
        core.begin(now_us)
        if not entries:
            return
        owner = entries[0].owner
        if entries[0].state == n.START and isinstance(owner, Consumer):
            browse.fetched(core, owner, entries, bodies)
        else:
            _take_bodies(core, entries, bodies)
        self._finish()

    def durable(self, position: i64, now_us: i64) -> None:
        """Everything up to ``position`` is on disk."""
        core = self.core
        core.begin(now_us)
        core.durable_through = position
        if core.waiting_for_durable:
            waiting = core.waiting_for_durable
            core.waiting_for_durable = []
            for queue in waiting:
                queue.waits_for_durable = False
                core.woken.append(queue)
            self._finish()

    def on_time(self, now_us: i64) -> None:
        """Do what is due, and what a bounded turn left undone."""
        core = self.core
        core.begin(now_us)
        for queue in core.pop_alarms():
            if not queue.deleted:
                consumers.on_time(core, queue)
                returning.end_delays(core, queue)
                expiry.scan(core, queue)
                administration.remove_if_idle(core, queue)
                self._finish()
        transactions.time_out(core)
        left = core.pending
        core.pending = []
        for queue in left:
            queue.pending = False
            core.woken.append(queue)
        self._finish()

    def next_deadline_us(self) -> int:
        """When `on_time` is wanted; 0 never. Not later than now while a bounded turn has left work."""
        core = self.core
        if core.pending:
            return core.now_us
        alarm_us = core.next_alarm_us()
        timeout_us = transactions.next_timeout_us(core)
        if alarm_us == 0 or (timeout_us != 0 and timeout_us < alarm_us):
            return timeout_us
        return alarm_us

    def take_effects(self) -> Effects:
        """What is to be done when everything written so far is durable; a new turn begins."""
        core = self.core
        effects = core.effects
        effects.close()
        core.effects = Effects()
        core.deliveries_left = core.options.max_deliveries_per_turn
        core.delivery_bytes_left = core.options.max_delivery_bytes_per_turn
        return effects

    def _settled(self, consumer: Consumer, token: i64) -> None:
        if token >= 0:
            self.core.effects.settle(consumer.sink, token)
        self._finish()

    def _finish(self) -> None:
        """The command is over: dispatch where it has made something available, and let a large block end."""
        core = self.core
        if core.forsaken:
            topics.end_forsaken(core)
        while core.woken:
            woken = core.woken
            core.woken = []
            for queue in woken:
                if not queue.deleted:
                    dispatch.dispatch(core, queue)
        core.ledger.boundary()


def _made_again(core: Core, queue: Queue) -> Queue:
    """Another of the name of a queue or topic that was deleted; raises QueueNotFound, LimitExceeded."""
    if queue.topic is not None:
        return topics.find_or_create(core, queue.name)
    return queues.find_or_create(core, queue.name)


def _put_provisionally(
    core: Core,
    transaction: Transaction,
    producer: Producer,
    queue: Queue,
    head: MessageHead,
    body: bytes | None,
    upload: Upload | None,
) -> tuple[str, str] | None:
    """Put within a transaction; why not, as (condition, description)."""
    try:
        transactions.put(core, transaction, producer, queue, head, body, upload)
    except ManagerError as error:
        return error.condition, error.description
    return None


def _take_bodies(core: Core, entries: list[Entry], bodies: list[bytes]) -> None:
    queue = entries[0].queue
    queue.fetching = False
    for entry, body in zip(entries, bodies, strict=True):
        fetching.arrived(core, entry, body)
    core.woken.append(queue)
