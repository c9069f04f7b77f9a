"""One queue: what waits on it, who takes from it, and what is in flight."""

from typing import Final, final

from mypy_extensions import i64

from postroom.manager.kernel.consumer import Consumer, QueueReader
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.queues.band import Band
from postroom.manager.queues.delayed_entries import DelayedEntries
from postroom.manager.queues.held_entries import PackedHolder
from postroom.manager.queues.message_groups import Groups
from postroom.manager.queues.message_ids import IdIndex
from postroom.manager.queues.selector_cursor import SelectorUse
from postroom.manager.queues.store_holders import QueueStore
from postroom.manager.queues.units_of_order import Units
from postroom.model.selector import Selector, parse

PRIORITIES: Final = 10
_NOBODYS: Final = Destination(0, QueueDefinition(name=""), 0, HeldByAll())
_VACANT: Final = [Band(_NOBODYS, priority, vacant=True) for priority in range(PRIORITIES)]
"""What queues have in common for the priorities that they have never used: most use one or two."""


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
        self.browsers: list[QueueReader] = []
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


class Queue(Destination):
    """One queue, or the queue of a subscription; the rules are in the modules that work on it."""

    def __init__(
        self, id: i64, definition: QueueDefinition, max_message_bytes: i64, held_by_all: HeldByAll
    ) -> None:
        super().__init__(id, definition, max_message_bytes, held_by_all)
        self.bands: list[Band] = _VACANT.copy()
        """By priority, to look at; `band` is for putting something there."""
        self.delayed = DelayedEntries(self)
        self.held: set[Entry] = set()
        """Entries that a transaction, a batch or another holder than a consumer has; consumers know
        their own."""
        self.attached = AttachedConsumers()
        self.bodies = BodySupply()
        self.selectors = SelectorUse(self.bands)
        self.groups: Groups | None = None
        self.units: Units | None = None
        self.ids: IdIndex | None = None
        """Who has an id; None while nobody asks."""
        self.store: QueueStore | None = None
        """What confirm ids and browse locks hold; None while none ever did."""
        self.packed_holders: list[PackedHolder] = []
        """Spark subscriptions to it, those included of which something is still to go back."""
        self.returning: i64 = 0
        """So many of these: nobody gets anything before all of it is at its place again."""
        self._define_order(definition)

    def define(self, definition: QueueDefinition, max_message_bytes: i64) -> None:
        """Take over another definition."""
        super().define(definition, max_message_bytes)
        self._define_order(definition)

    def _define_order(self, definition: QueueDefinition) -> None:
        buckets = definition.group_buckets
        if buckets != (self.groups.buckets if self.groups is not None else 0):
            self.groups = Groups(buckets) if buckets > 0 else None
        if definition.unit_of_order != (self.units is not None):
            self.units = Units(definition.max_unit_members) if definition.unit_of_order else None
        if self.units is not None:
            self.units.max_members = definition.max_unit_members

    def band(self, priority: i64) -> Band:
        """The band that an entry of that priority is put on."""
        band = self.bands[priority]
        if band.vacant:
            band = Band(self, priority)
            self.bands[priority] = band
        return band

    def top_band(self) -> Band | None:
        """The highest priority on which something is available."""
        priority: i64 = PRIORITIES - 1
        while priority >= 0:
            band = self.bands[priority]
            if band.holds_any():
                return band
            priority -= 1
        return None


@final
class Subscription(Queue):
    """The queue of a subscription to a topic, or to those that a pattern matches."""

    def __init__(
        self, id: i64, definition: QueueDefinition, max_message_bytes: i64, held_by_all: HeldByAll
    ) -> None:
        super().__init__(id, definition, max_message_bytes, held_by_all)
        self.topic = definition.topic
        """Its name, or a pattern of names."""
        self.client = definition.client
        self.label = definition.subscription
        """Its name among the client's; the queue has another."""
        self.durable = not definition.temporary
        self.shared = definition.shared
        self.no_local = definition.no_local
        self.selector: Selector | None = parse(definition.selector) if definition.selector else None
        self.member = int(id).to_bytes(4, "little")
        """Its id as the details of routing sets have it."""
        self.routed = False
        """Whether messages still come to it."""

    def choosy(self) -> bool:
        """Whether it takes only part of what is published."""
        return self.no_local or self.selector is not None

    def key(self) -> tuple[str, str, bool]:
        """What tells subscriptions apart: client, name, and whether it is durable."""
        return (self.client, self.label, self.durable)


def as_queue(destination: Destination) -> Queue:
    """The queue that a destination is: entries and consumers are never on a topic."""
    assert isinstance(destination, Queue)
    return destination
