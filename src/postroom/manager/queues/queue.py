"""One queue: what waits on it, who takes from it, and what is in flight."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Consumer, Producer
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import (
    ACCESS_EXCLUSIVE,
    KIND_SUBSCRIPTION,
    KIND_TOPIC,
    POLICY_REDIRECT,
    QueueDefinition,
)
from postroom.manager.kernel.quota_definition import Quota
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.statistics import HeldByAll, Statistics
from postroom.manager.queues.band import Band
from postroom.manager.queues.delayed_entries import DelayedEntries
from postroom.manager.queues.duplicate_detection import DuplicateWindow
from postroom.manager.queues.message_groups import Groups
from postroom.manager.queues.message_ids import IdIndex
from postroom.manager.queues.overrides import Overrides
from postroom.manager.queues.selector_cursor import SelectorCursor
from postroom.manager.queues.topic import Subscription, Topic
from postroom.manager.queues.units_of_order import Units

if TYPE_CHECKING:
    from postroom.manager.kernel.holders import QueueStore
    from postroom.manager.spark.subscription import SparkSubscription

PRIORITIES: Final = 10
NO_BOUND: Final = 0x7FFF_FFFF_FFFF_FFFF


@final
class Annotation:
    """Message annotations of one entry, which the ledger has under ``id``."""

    __slots__ = ("id", "values")

    def __init__(self, id: i64, values: dict[str, object]) -> None:
        self.id: i64 = id
        self.values = values


@final
class Queue:
    """The nouns of one queue together; the rules are in the modules that work on it."""

    def __init__(
        self, id: i64, definition: QueueDefinition, max_message_bytes: i64, held_by_all: HeldByAll
    ) -> None:
        self.id: i64 = id
        self.name = definition.name
        self.statistics = Statistics(held_by_all)
        self.deleted = False
        self.topic = Topic() if definition.kind == KIND_TOPIC else None
        """Of a topic's node, which holds no entries."""
        self.subscription = Subscription(id, definition) if definition.kind == KIND_SUBSCRIPTION else None
        self.group_buckets: i64 = 0
        self.groups: Groups | None = None
        self.units: Units | None = None
        self.duplicates: DuplicateWindow | None = None
        """The message ids that it has taken last; None where it doesn't remember any."""
        self.define(definition, max_message_bytes)

        # What `quotas.bind` makes of the definition.
        self.pool: Pool | None = None
        """The quota that it is charged to; None where nothing limits it."""
        self.has_own_pool = False
        self.quota: Quota | None = None
        """The quota resource that it names."""
        self.overrides: Overrides | None = None
        self.persistent = True

        self.bands: list[Band] = [Band(self, priority) for priority in range(PRIORITIES)]
        self.delayed = DelayedEntries(self)
        self.held: set[Entry] = set()
        """Entries that a transaction, a batch or another holder than a consumer has; consumers know
        their own."""

        self.consumers: list[Consumer] = []
        """All who may take, in bind order; browsers are apart."""
        self.ready: list[Consumer] = []
        """Those who can take a delivery now, in turn."""
        self.turn: i64 = 0
        self.draining: list[Consumer] = []
        self.browsers: list[Consumer] = []
        self.exclusive_consumer: Consumer | None = None
        self.producers: dict[Producer, None] = {}
        """Those that are attached to it, suspended ones included."""
        self.cursors: dict[str, SelectorCursor] = {}
        """Of the selectors of its consumers, by text; some that consumers have left."""
        self.selecting: i64 = 0
        """Those of them that are used."""

        self.spark: list[SparkSubscription] = []
        """Spark subscriptions to it, those included of which something is still to go back."""
        self.returning: i64 = 0
        """So many of these: nobody gets anything before all of it is at its place again."""

        self.taps: i64 = 0
        """Reasons to store the bodies of non-persistent messages, too: see `tapping`."""
        self.annotated: dict[int, Annotation] | None = None
        """Of its entries that have annotations beside their bodies in the ledger, by serial; None: none."""
        self.exclusions: i64 = 0
        """Available entries that some consumer may not get."""
        self.unbodied: i64 = 0
        """Available objects whose body is not in memory."""
        self.ahead: i64 = 0
        """About so many entries at the front have their body."""
        self.fetching = False
        self.awaited: i64 = 0
        """Entries whose body another subscription has asked for."""
        self.waits_for_durable = False
        self.stopped = False
        """The last dispatch stopped at a bound of its turn."""
        self.pending = False
        """In the list of queues that a bounded turn left work on."""

        self.production_paused = False
        self.insertion_paused = False
        self.consumption_paused = False
        self.get_inhibited = False
        """A transmission queue of which a channel is stopped."""
        self.closed_to_puts = False
        """Production or insertion is paused."""

        self.ids: IdIndex | None = None
        """Who has an id; None while nobody asks."""
        self.store: QueueStore | None = None
        """What confirm ids and browse locks hold; None while none ever did."""
        self.watched = False
        """Requests to the message store, or a channel that wants to be triggered, wait for something to
        become available."""
        self.armed = False
        """A channel wants to be triggered by it."""
        self.news = False
        """Something may have, and they have not been run since."""

        self.live_expiry_us: i64 = 0
        """Not later than the earliest expiry of the objects here; 0 none."""
        self.scanned_us: i64 = 0
        self.alarm_us: i64 = 0
        """When the queue wants to be looked at next; 0 never."""
        self.active_us: i64 = 0
        """Last use by a client, for the removal of idle auto-created queues."""

    def define(self, definition: QueueDefinition, max_message_bytes: i64) -> None:
        """Take over a definition; its limits as plain numbers for the hot path."""
        self.definition = definition
        self.exclusive = definition.access == ACCESS_EXCLUSIVE
        own: i64 = definition.max_message_bytes
        self.max_message_bytes: i64 = own if 0 <= own < max_message_bytes else max_message_bytes
        self.max_ttl_us: i64 = definition.max_ttl_ms * 1000 if definition.max_ttl_ms >= 0 else -1
        self.redelivery_limit: i64 = definition.redelivery_limit
        delay_ms: i64 = definition.redelivery_delay_ms
        self.redelivery_delay_us: i64 = delay_ms * 1000 if delay_ms >= 0 else -1
        self.redelivery_growth: i64 = definition.redelivery_delay_multiplier_percent
        longest_ms: i64 = definition.max_redelivery_delay_ms
        self.max_redelivery_delay_us: i64 = longest_ms * 1000 if longest_ms >= 0 else -1
        self.respects_ttl = definition.respect_ttl
        own_unsettled: i64 = definition.max_unsettled_per_consumer
        self.max_unsettled: i64 = own_unsettled if own_unsettled >= 0 else NO_BOUND
        self.lost_link_counts = definition.lost_link_counts
        self.undo_counts = definition.undo_counts
        redirects = definition.expiration_policy == POLICY_REDIRECT
        self.expiry_target = (definition.expiry_queue or definition.dead_letter_queue) if redirects else ""
        """Where expired entries are redirected; "" nowhere."""
        if definition.group_buckets != self.group_buckets:
            self.group_buckets = definition.group_buckets
            self.groups = Groups(definition.group_buckets) if definition.group_buckets > 0 else None
        if definition.unit_of_order != (self.units is not None):
            self.units = Units(definition.max_unit_members) if definition.unit_of_order else None
        self._size_duplicates(definition.duplicate_window)
        if self.units is not None:
            self.units.max_members = definition.max_unit_members

    def _size_duplicates(self, size: i64) -> None:
        if size == 0:
            self.duplicates = None
        elif self.duplicates is None:
            self.duplicates = DuplicateWindow(size)
        else:
            self.duplicates.resize(size)

    def top_band(self) -> Band | None:
        """The highest priority on which something is available."""
        priority: i64 = PRIORITIES - 1
        while priority >= 0:
            band = self.bands[priority]
            if band.head < len(band.live) or band.returned or band.backlog.count > 0:
                return band
            priority -= 1
        return None

    def empty(self) -> bool:
        """Whether nothing is on the queue, in flight included."""
        return self.statistics.depth == 0

    def deleted_text(self) -> str:
        """What its links are told when it is deleted."""
        return f"{self.definition.kind} {self.name!r} has been deleted"
