"""The queue manager: queues, those who put and take, and every rule between them. Pure: time is an
argument.

Every command takes ``now_us`` (µs since 1970). What it changes is written to the ledger's block builder;
what is to be done outside is collected as effects (see `effects`), to be carried out when the block is
durable. Commands raise a subclass of `ManagerError` when they are refused, except puts, which are answered
by effect like acceptance.
"""

from typing import final

from mypy_extensions import i64

from postroom.ledger.block import BlockBuilder
from postroom.manager import administration, browse, consumers, dispatch, expiry, queues, returning, settling
from postroom.manager.consumer import Consumer, Producer
from postroom.manager.core import Core
from postroom.manager.effects import Effects, Rejected, Sink
from postroom.manager.entry import Entry
from postroom.manager.memory import keep_body
from postroom.manager.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.putting import refusal, store
from postroom.manager.queue import Queue
from postroom.model import numbers as n
from postroom.model.message import MessageHead


@final
class QueueManager:
    """One queue manager over one ledger."""

    def __init__(self, options: ManagerOptions, ledger: BlockBuilder) -> None:
        self.core = Core(options, ledger)
        self.options = options
        self.queues = self.core.queues
        """By name."""

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
    ) -> None:
        """Put a message: ``body`` is its sections without header and delivery-annotations.

        Answered by effect, once durable: accepted, or rejected with condition and description; no answer for
        token −1 (pre-settled).
        """
        core = self.core
        core.begin(now_us)
        if queue.deleted:
            queue = queues.find_or_create(core, queue.name)
        refused = refusal(core, queue, len(body), head.durable)
        if refused is not None:
            if token >= 0:
                core.effects.rejected.append(Rejected(sink, token, refused[0], refused[1]))
            return
        store(core, producer, queue, head, body)
        if token >= 0:
            core.effects.accept(sink, token)
        if queue.ready or queue.browsers:
            dispatch.dispatch(core, queue)
        self._finish()

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

    def accept(self, consumer: Consumer, entry: Entry, now_us: i64, token: i64 = -1) -> None:
        """The consumer confirms; raises NotHeld."""
        self.core.begin(now_us)
        settling.accept(self.core, consumer, entry)
        self._settled(consumer, token)

    def release(self, consumer: Consumer, entry: Entry, now_us: i64, token: i64 = -1) -> None:
        """Back to its place, counts unchanged; raises NotHeld."""
        self.core.begin(now_us)
        settling.release(self.core, consumer, entry)
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
    ) -> None:
        """Back to its place; ``failed`` raises both counts, ``undeliverable_here`` keeps it from this
        consumer.

        Raises NotHeld, LimitExceeded.
        """
        self.core.begin(now_us)
        settling.modify(self.core, consumer, entry, failed, undeliverable_here, annotations)
        self._settled(consumer, token)

    def reject(
        self,
        consumer: Consumer,
        entry: Entry,
        condition: str,
        description: str,
        now_us: i64,
        token: i64 = -1,
    ) -> None:
        """To the dead-letter queue with this error, or discarded; raises NotHeld."""
        self.core.begin(now_us)
        settling.reject(self.core, consumer, entry, condition, description)
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
        return core.next_alarm_us()

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
        while core.woken:
            woken = core.woken
            core.woken = []
            for queue in woken:
                if not queue.deleted:
                    dispatch.dispatch(core, queue)
        core.ledger.boundary()


def _take_bodies(core: Core, entries: list[Entry], bodies: list[bytes]) -> None:
    queue = entries[0].queue
    queue.fetching = False
    for entry, body in zip(entries, bodies, strict=True):
        entry.fetching = False
        if entry.state == n.AVAILABLE and entry.body is None:
            keep_body(core, entry, body)
            queue.unbodied -= 1
    core.woken.append(queue)
