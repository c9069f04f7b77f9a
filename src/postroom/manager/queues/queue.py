"""One queue: what waits on it, who takes from it, and what is in flight."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Consumer, Producer
from postroom.manager.kernel.destination import Limits, QuotaAssignment, Schedule, Switches
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import KIND_SUBSCRIPTION, KIND_TOPIC, QueueDefinition
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


@final
class Annotation:
    """Message annotations of one entry, which the ledger has under ``id``."""

    __slots__ = ("id", "values")

    def __init__(self, id: i64, values: dict[str, object]) -> None:
        self.id: i64 = id
        self.values = values


@final
class AttachedConsumers:
    """Who takes from a queue, and in which turn."""

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []
        """All who may take, in bind order; browsers are apart."""
        self.ready: list[Consumer] = []
        """Those who can take a delivery now, in turn."""
        self.turn: i64 = 0
        """Index of the next of `ready`."""
        self.draining: list[Consumer] = []
        self.browsers: list[Consumer] = []
        self.exclusive_consumer: Consumer | None = None
        """The only one that gets anything, where access is exclusive."""


@final
class BodySupply:
    """Which bodies of a queue's available entries are in memory, and what is being read."""

    def __init__(self) -> None:
        self.missing: i64 = 0
        """Available objects whose body is not in memory."""
        self.ahead: i64 = 0
        """About so many entries at the front have their body."""
        self.fetching = False
        self.awaited: i64 = 0
        """Entries whose body another subscription has asked for."""
        self.waits_for_durable = False


@final
class SelectorUse:
    """The selectors of a queue's consumers."""

    def __init__(self) -> None:
        self.cursors: dict[str, SelectorCursor] = {}
        """By the selector's text; some that consumers have left."""
        self.in_use: i64 = 0
        """Those of them that consumers have."""
        self.exclusions: i64 = 0
        """Available entries that some consumer may not get."""


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
        self.limits = Limits()
        self.groups: Groups | None = None
        self.units: Units | None = None
        self.duplicates: DuplicateWindow | None = None
        """The message ids that it has taken last; None where it doesn't remember any."""
        self.define(definition, max_message_bytes)

        self.quota = QuotaAssignment()
        self.overrides: Overrides | None = None
        self.switches = Switches()
        self.schedule = Schedule()
        self.producers: dict[Producer, None] = {}
        """Those that are attached to it, suspended ones included."""
        self.taps: i64 = 0
        """Reasons to store the bodies of non-persistent messages, too: see `tap`."""

        self.bands: list[Band] = [Band(self, priority) for priority in range(PRIORITIES)]
        self.delayed = DelayedEntries(self)
        self.held: set[Entry] = set()
        """Entries that a transaction, a batch or another holder than a consumer has; consumers know
        their own."""
        self.attached = AttachedConsumers()
        self.bodies = BodySupply()
        self.selectors = SelectorUse()

        self.spark: list[SparkSubscription] = []
        """Spark subscriptions to it, those included of which something is still to go back."""
        self.returning: i64 = 0
        """So many of these: nobody gets anything before all of it is at its place again."""
        self.annotated: dict[int, Annotation] | None = None
        """Of its entries that have annotations beside their bodies in the ledger, by serial; None: none."""
        self.ids: IdIndex | None = None
        """Who has an id; None while nobody asks."""
        self.store: QueueStore | None = None
        """What confirm ids and browse locks hold; None while none ever did."""

    def define(self, definition: QueueDefinition, max_message_bytes: i64) -> None:
        """Take over a definition."""
        self.definition = definition
        self.limits.define(definition, max_message_bytes)
        buckets = definition.group_buckets
        if buckets != (self.groups.buckets if self.groups is not None else 0):
            self.groups = Groups(buckets) if buckets > 0 else None
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
