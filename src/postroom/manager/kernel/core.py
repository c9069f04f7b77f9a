"""What every part of the queue manager works on: options, the ledger's builder, this turn's effects, the
clock."""

import heapq
import json
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.format.records import RecordType
from postroom.manager.kernel.consumer import Consumer, Producer
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.destination_checks import POLICY_PREEMPTIVE
from postroom.manager.kernel.effects import Effects, Fetch, IdRead
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.holder_ids import HolderIds
from postroom.manager.kernel.meter import Thresholds
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.quota_definition import Quota
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.report_list import Reports
from postroom.manager.kernel.shared_body import SharedBody
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.kernel.totals import Removed
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.names.remote_queues import Names
from postroom.manager.queues.selector_cursor import SearchMemory
from postroom.manager.spark.sink import Sinks
from postroom.manager.topics.routing_sets import RoutingSets
from postroom.manager.topics.topic_trie import Patterns
from postroom.manager.transactions.xa_branch import Branches
from postroom.model import numbers as n

if TYPE_CHECKING:
    from postroom.manager.administration.message_queries import MessageCursor
    from postroom.manager.channels.channel import Channel
    from postroom.manager.message_store.pending_requests import StoreRequest
    from postroom.manager.producing.blocked_sends import BlockedSend
    from postroom.manager.queues.queue import Queue, Subscription
    from postroom.manager.queues.topic import Topic
    from postroom.manager.spark.subscription import SparkSubscription

BROKER: Final = "(broker)"
"""In place of a queue's name, where all of them together have passed a threshold."""
NEVER_TOLD: Final = 0x7FFF_FFFF_FFFF_FFFF
"""`Core.durable_through` of a queue manager whose host doesn't say: everything counts as durable."""

_HOLDER_OPENED: Final = int(RecordType.HOLDER_OPENED)
_HOLDER_CLOSED: Final = int(RecordType.HOLDER_CLOSED)
_PRODUCER_OPENED: Final = int(RecordType.PRODUCER_OPENED)
_PRODUCER_CLOSED: Final = int(RecordType.PRODUCER_CLOSED)
_MESSAGE_REFUSED: Final = int(RecordType.MESSAGE_REFUSED)
_MAX_TOLD_CHARS: Final = 512
"""Of an address or description that a client may have made: so much of it is written to the ledger."""
_CONSUMER: Final = 1


@final
class Core:
    """The shared state of one queue manager."""

    def __init__(self, options: ManagerOptions, ledger: BlockBuilder) -> None:
        self.options = options
        self.ledger = ledger
        self.effects = Effects()
        self.now_us: i64 = 0
        self.durable_through: i64 = NEVER_TOLD
        self.queues: dict[str, Queue] = {}
        self.topics: dict[str, Topic] = {}
        """The nodes of topics by name; none of them is among `queues`."""
        self.queues_by_id: dict[int, Destination] = {}
        """Topics, too."""
        self.names = Names()
        self.channels: dict[str, Channel] = {}
        self.spark_subscriptions: dict[str, SparkSubscription] = {}
        """By name, those that have ended included."""
        self.assigning: list[SparkSubscription] = []
        """Those with a record that is still being filled."""
        self.spark_leases_ended: i64 = 0
        """Spark subscriptions that have ended against the will of their queries."""
        self.unread_from: i64 = NEVER_TOLD
        """From here on the ledger's history is to stay for Spark subscriptions; NEVER_TOLD there are none."""
        self.assignments_left: i64 = options.max_assigned_per_turn
        self.patterns = Patterns()
        self.subscriptions: dict[tuple[str, str, bool], Subscription] = {}
        """Those with a name, by client, name, and whether they are durable."""
        self.route_version: i64 = 0
        """Rises when routes to many topics are to be found anew."""
        self.routing_sets = RoutingSets(ledger, options.max_routing_sets, options.max_routing_set_members)
        self.forsaken: list[Queue] = []
        """Subscriptions that go when this command is over."""
        self.doomed: list[Queue] = []
        """Those of them that wait until a transaction is decided."""
        self.held_by_all = HeldByAll()
        self.counting_since_us: i64 = 0
        """When its counters began: at the start, or when they were all reset."""
        self.removed = Removed()
        """Counters of queues that are no more."""
        self.next_queue_id: i64 = 1
        self.holder_ids = HolderIds()
        self.auto_created: i64 = 0
        self.consumers: i64 = 0
        self.suspended: i64 = 0
        self.live_entries: i64 = 0
        """Entries that are objects, everywhere."""
        self.cached_bytes: i64 = 0
        """Stored bodies in memory."""
        self.volatile_bytes: i64 = 0
        """Non-persistent messages in memory, overhead included."""
        self.deliveries_left: i64 = options.max_deliveries_per_turn
        self.delivery_bytes_left: i64 = options.max_delivery_bytes_per_turn
        self.shared_bodies: dict[int, SharedBody] = {}
        """In memory, of entries that share theirs; by the serial of the arrival."""
        self.shared_reads: dict[int, list[Entry]] = {}
        """Shared bodies that are being read, and who waits for each beside the one that has asked."""
        self.judgements_left: i64 = options.max_judgements_per_turn
        """Evaluations of selectors that this turn may still make."""
        self.leased_names: frozenset[str] = frozenset()
        """Queues, subscriptions and topics that leases in force name."""
        self.tapped: i64 = 0
        """How many of them all have `Queue.taps`."""
        self._last_cursor_id: i64 = 0
        self.search_memory = SearchMemory(options.max_search_bytes)
        self.pending: list[Destination] = []
        """Queues on which a bounded turn left work."""
        self.woken: list[Destination] = []
        """Queues on which this command has made something available; dispatched before it ends."""
        self.waiting_for_durable: list[Destination] = []
        self.transactions: dict[int, Transaction] = {}
        """The open ones by id, oldest first; not those of XA branches."""
        self.branches = Branches()
        self.failed_branches: list[Transaction] = []
        """Those of XA branches that this command has made impossible to commit."""
        self.sinks = Sinks()
        """Spark's, and their branches."""
        self.quotas: dict[str, Quota] = {}
        """By name."""
        self.changed_pools: list[Pool] = []
        """Pools that got room while sends wait for it; looked at before this command ends."""
        self.broker_pool = Pool("the broker's quota", self.changed_pools)
        """For destinations that have no quota of their own."""
        self.broker_pool.limit(
            options.quota_messages, options.quota_bytes, options.quota_policy == POLICY_PREEMPTIVE
        )
        self.thresholds: Thresholds | None = None
        """Of the broker: for all destinations together."""
        if options.messages_threshold_high >= 0 or options.bytes_threshold_high >= 0:
            self.thresholds = Thresholds(self, BROKER, 0, 0)
            self.thresholds.set(
                options.messages_threshold_high,
                options.messages_threshold_low,
                options.bytes_threshold_high,
                options.bytes_threshold_low,
            )
        self.unlimited_sends: list[BlockedSend] = []
        """Sends that waited only for one before them, and may go in before this command ends."""
        self.blocked_sends: i64 = 0
        self.blocked_bytes: i64 = 0
        self.send_deadlines: list[tuple[int, int, BlockedSend]] = []
        """Heap of (due_us, order of coming, send)."""
        self.deadline_order: i64 = 0
        self.store_requests: i64 = 0
        """Requests to message stores that have no answer yet."""
        self.store_readers: i64 = 0
        """Those of them that may have bodies in memory."""
        self.stood_back: list[StoreRequest] = []
        """Those that want to and have to wait for one that does."""
        self.store_deadlines: list[tuple[int, int, StoreRequest]] = []
        """Heap of (until_us, order of coming, request): those that wait for a message."""
        self.unfinished: list[StoreRequest] = []
        """Requests that go on in the next turn."""
        self.message_cursors: dict[int, MessageCursor] = {}
        """Open ones, by id."""
        self.reports = Reports()
        self.annotated: i64 = 0
        """Entries with annotations beside their bodies in the ledger."""
        self.watched: list[Destination] = []
        """Queues with news for who waits there."""
        self.armed: set[str] = set()
        """Transmission queues of which a channel wants to hear when something can be taken from them."""
        self.triggered: list[str] = []
        """Those of them where it is so."""
        self.undurable: list[tuple[int, Fetch | IdRead]] = []
        """(position, read) of what can be read once the position is durable."""
        self._alarms: list[tuple[int, int]] = []
        self._provisional_from: i64 = 0
        self._provisional_to: i64 = 0
        """The last records, from one position up to before the other, if they are `provisional`."""

        # Options that the hot path reads, as plain numbers.
        self.live_head: i64 = options.live_head
        self.min_live_head: i64 = options.min_live_head
        self.max_live_entries: i64 = options.max_live_entries
        self.body_cache_bytes: i64 = options.body_cache_bytes
        self.max_volatile_bytes: i64 = options.max_volatile_bytes
        self.max_unsettled: i64 = options.max_unsettled_per_consumer

    def begin(self, now_us: i64) -> None:
        """A command begins; the clock never goes back."""
        if now_us > self.now_us:
            self.now_us = now_us
            self.ledger.set_time(now_us)

    def provisional(self, first: i64) -> None:
        """The records from ``first`` on mean nothing before another one decides: nobody waits for them."""
        if self._provisional_to != first:
            self._provisional_from = first
        self._provisional_to = self.ledger.next_position

    def wanted_through(self) -> i64:
        """The last position that somebody may wait for: what is behind it is provisional."""
        next_position: i64 = self.ledger.next_position
        return (self._provisional_from if self._provisional_to == next_position else next_position) - 1

    def want_all(self) -> None:
        """Somebody waits for provisional records, too: to read what they hold."""
        self._provisional_to = 0

    def new_holder_id(self) -> i64:
        return self.holder_ids.take()

    def new_cursor_id(self) -> i64:
        self._last_cursor_id += 1
        return self._last_cursor_id

    def record_producer(self, producer: Producer) -> None:
        """Write the producer to the ledger; before its first message."""
        producer.recorded = True
        self.ledger.record(_PRODUCER_OPENED, 0, 0, producer.id, 0, 0, _producer_detail(producer))

    def record_refused(
        self, producer: Producer, address: str, size_bytes: i64, condition: str, description: str
    ) -> None:
        """Nobody is told that a message was refused which its sender had settled: the ledger is."""
        if not producer.recorded:
            self.record_producer(producer)
        told = {
            "address": address[:_MAX_TOLD_CHARS],
            "bytes": size_bytes,
            "condition": condition,
            "description": description[:_MAX_TOLD_CHARS],
        }
        detail = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
        self.effects.discard(address[:_MAX_TOLD_CHARS], condition, description[:_MAX_TOLD_CHARS])
        ledger = self.ledger
        ledger.record(_MESSAGE_REFUSED, ledger.next_position, 0, producer.id, 0, n.EVENT_DISCARD, detail)

    def record_producer_closed(self, producer: Producer) -> None:
        """He is no more; he need not be in the ledger."""
        if producer.recorded:
            self.ledger.record(_PRODUCER_CLOSED, 0, 0, producer.id, 0, 0, b"")
        self.holder_ids.give_back(producer.id)

    def record_consumer(self, consumer: Consumer) -> None:
        """Write the consumer to the ledger as a holder; before its first delivery."""
        consumer.recorded = True
        self.record_holder(consumer.id, _CONSUMER, _consumer_detail(consumer))

    def record_holder(self, id: i64, kind: i64, detail: bytes) -> None:
        self.ledger.record(_HOLDER_OPENED, 0, 0, id, kind, 0, detail)

    def record_holder_closed(self, id: i64, kind: i64) -> None:
        """What was recorded is no more."""
        self.ledger.record(_HOLDER_CLOSED, 0, 0, id, kind, 0, b"")
        self.holder_ids.give_back(id)

    def set_alarm(self, queue: Destination, when_us: i64) -> None:
        """Have ``queue`` looked at not later than ``when_us``."""
        if when_us != 0 and (queue.schedule.alarm_us == 0 or when_us < queue.schedule.alarm_us):
            queue.schedule.alarm_us = when_us
            heapq.heappush(self._alarms, (when_us, queue.id))

    def next_alarm_us(self) -> i64:
        """When the first queue wants to be looked at; 0 never."""
        while self._alarms:
            when_us, queue_id = self._alarms[0]
            queue = self.queues_by_id.get(queue_id)
            if queue is not None and queue.schedule.alarm_us == when_us:
                return when_us
            heapq.heappop(self._alarms)
        return 0

    def pop_alarms(self) -> list[Destination]:
        """The queues whose time has come, their alarms off."""
        due: list[Destination] = []
        while True:
            when_us = self.next_alarm_us()
            if when_us == 0 or when_us > self.now_us:
                return due
            queue = self.queues_by_id[heapq.heappop(self._alarms)[1]]
            queue.schedule.alarm_us = 0
            due.append(queue)

    def tell_watchers(self, queue: Destination) -> None:
        """Something may have become available on ``queue``: who waits there hears of it at the end."""
        if not queue.schedule.news:
            queue.schedule.news = True
            self.watched.append(queue)

    def leave_for_next_turn(self, queue: Destination) -> None:
        """This turn has done enough; ``queue`` goes on in the next."""
        if not queue.schedule.pending:
            queue.schedule.pending = True
            self.pending.append(queue)


def _consumer_detail(consumer: Consumer) -> bytes:
    who = consumer.options
    told = {"name": who.name, "container": who.container, "user": who.user, "queue": consumer.queue.name}
    if who.selector:
        told["selector"] = who.selector
    if who.channel:
        told["channel"] = who.channel
    return json.dumps(told, ensure_ascii=False).encode()


def _producer_detail(producer: Producer) -> bytes:
    told = {"name": producer.name, "container": producer.container, "user": producer.user}
    if producer.channel:
        told["channel"] = producer.channel
        told["queue_manager"] = producer.queue_manager
        told["ledger"] = producer.ledger
    return json.dumps(told, ensure_ascii=False).encode()
