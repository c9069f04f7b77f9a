"""What queues, topics and subscriptions have in common: a name, what was defined, limits, a quota, what is
paused, who puts, and when the queue manager looks at them again."""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from postroom.manager.kernel.options import ACCESS_EXCLUSIVE, POLICY_REDIRECT, QueueDefinition
from postroom.manager.kernel.quota_definition import Quota
from postroom.manager.kernel.quota_pool import Pool
from postroom.manager.kernel.statistics import HeldByAll, Statistics

if TYPE_CHECKING:
    from postroom.manager.kernel.consumer import Producer
    from postroom.manager.kernel.overrides import Overrides

NO_BOUND: Final = 0x7FFF_FFFF_FFFF_FFFF


@final
class Limits:
    """What a definition says, as plain numbers and flags for the hot path. Times are µs; −1: none."""

    def __init__(self) -> None:
        self.exclusive = False
        self.max_message_bytes: i64 = 0
        self.max_ttl_us: i64 = -1
        self.respects_ttl = True
        self.persistent = True
        """Whether persistent messages are taken as such."""
        self.max_unsettled: i64 = NO_BOUND
        """What one consumer may have without having settled it."""
        self.redelivery_limit: i64 = -1
        self.redelivery_delay_us: i64 = -1
        self.redelivery_growth: i64 = 100
        """Of the delay from one failure to the next, in percent."""
        self.max_redelivery_delay_us: i64 = -1
        self.lost_link_counts = False
        self.undo_counts = False
        self.expiry_target = ""
        """Where expired entries are redirected; "" nowhere."""

    def define(self, definition: QueueDefinition, max_message_bytes: i64) -> None:
        """Take over a definition; ``max_message_bytes`` is the queue manager's bound."""
        self.exclusive = definition.access == ACCESS_EXCLUSIVE
        own: i64 = definition.max_message_bytes
        self.max_message_bytes = own if 0 <= own < max_message_bytes else max_message_bytes
        self.max_ttl_us = _us(definition.max_ttl_ms)
        self.respects_ttl = definition.respect_ttl
        own_unsettled: i64 = definition.max_unsettled_per_consumer
        self.max_unsettled = own_unsettled if own_unsettled >= 0 else NO_BOUND
        self.redelivery_limit = definition.redelivery_limit
        self.redelivery_delay_us = _us(definition.redelivery_delay_ms)
        self.redelivery_growth = definition.redelivery_delay_multiplier_percent
        self.max_redelivery_delay_us = _us(definition.max_redelivery_delay_ms)
        self.lost_link_counts = definition.lost_link_counts
        self.undo_counts = definition.undo_counts
        redirects = definition.expiration_policy == POLICY_REDIRECT
        self.expiry_target = (definition.expiry_queue or definition.dead_letter_queue) if redirects else ""


def _us(limit_ms: i64) -> i64:
    return limit_ms * 1000 if limit_ms >= 0 else -1


@final
class Switches:
    """What is paused."""

    def __init__(self) -> None:
        self.production_paused = False
        self.insertion_paused = False
        self.consumption_paused = False
        self.get_inhibited = False
        """Of a transmission queue: its channel is stopped."""
        self.closed_to_puts = False
        """Production or insertion is paused."""


@final
class QuotaAssignment:
    """What limits a destination; `producing.quotas` makes it of the definition."""

    def __init__(self) -> None:
        self.pool: Pool | None = None
        """What it is charged to; None where nothing limits it."""
        self.has_own_pool = False
        self.resource: Quota | None = None
        """The quota resource that it names."""


@final
class Schedule:
    """When, and why, the queue manager looks at a destination again. Times are µs since 1970; 0: never."""

    def __init__(self) -> None:
        self.alarm_us: i64 = 0
        """When it wants to be looked at next."""
        self.active_us: i64 = 0
        """Last use by a client, for the removal of idle auto-created queues."""
        self.live_expiry_us: i64 = 0
        """Not later than the earliest expiry of the objects here."""
        self.scanned_us: i64 = 0
        """When expired entries were last looked for."""
        self.stopped = False
        """The last dispatch stopped at a bound of its turn."""
        self.pending = False
        """In the list of queues that a bounded turn left work on."""
        self.waiting: i64 = 0
        """Requests to the message store that wait for something to become available."""
        self.armed = False
        """A channel wants to be triggered by that."""
        self.watched = False
        """One of the two is so."""
        self.news = False
        """Something may have become available, and those who wait for it have not been run since."""

    def watch(self, waiting: i64) -> None:
        """So many requests wait for something to become available."""
        self.waiting = waiting
        self.watched = self.armed or waiting > 0

    def arm(self, armed: bool) -> None:
        """Whether a channel wants to be triggered when something becomes available."""
        self.armed = armed
        self.watched = armed or self.waiting > 0


@final
class DuplicateWindow:
    """The ids that one destination has taken last, by their keys."""

    def __init__(self, size: i64) -> None:
        self._size: i64 = size
        self._keys: Final[dict[bytes, int]] = {}
        """With the serial of the arrival where it is known, else 0; the oldest first."""

    def has(self, key: bytes) -> bool:
        return key in self._keys

    def add(self, key: bytes, serial: i64 = 0) -> None:
        """It has been taken; the oldest goes if there are too many."""
        self._keys[key] = serial
        if len(self._keys) > self._size:
            del self._keys[next(iter(self._keys))]

    def discard(self, key: bytes) -> None:
        """It has not been taken after all."""
        self._keys.pop(key, None)

    def resize(self, size: i64) -> None:
        self._size = size
        while len(self._keys) > size:
            del self._keys[next(iter(self._keys))]

    def keys_of(self, serials: set[int]) -> list[bytes]:
        """The keys of these arrivals, as they were restored."""
        return [key for key, serial in self._keys.items() if serial in serials]


@final
class Annotation:
    """Message annotations of one entry, which the ledger has under ``id``."""

    __slots__ = ("id", "values")

    def __init__(self, id: i64, values: dict[str, object]) -> None:
        self.id: i64 = id
        self.values = values


class Destination:
    """A queue, a subscription or a topic, as those who put see it, and as an entry knows where it lies."""

    def __init__(
        self, id: i64, definition: QueueDefinition, max_message_bytes: i64, held_by_all: HeldByAll
    ) -> None:
        self.id: i64 = id
        self.name = definition.name
        self.statistics = Statistics(held_by_all)
        self.deleted = False
        self.limits = Limits()
        self.quota = QuotaAssignment()
        self.overrides: Overrides | None = None
        self.switches = Switches()
        self.schedule = Schedule()
        self.duplicates: DuplicateWindow | None = None
        """The message ids that it has taken last; None where it doesn't remember any."""
        self.producers: dict[Producer, None] = {}
        """Those that are attached to it, suspended ones included."""
        self.taps: i64 = 0
        """Reasons to store the bodies of non-persistent messages, too: see `tap`."""
        self.annotated: dict[int, Annotation] | None = None
        """Of its entries that have annotations beside their bodies in the ledger, by serial; None: none."""
        self._take(definition, max_message_bytes)

    def define(self, definition: QueueDefinition, max_message_bytes: i64) -> None:
        """Take over another definition; ``max_message_bytes`` is the queue manager's bound."""
        self._take(definition, max_message_bytes)

    def _take(self, definition: QueueDefinition, max_message_bytes: i64) -> None:
        self.definition = definition
        self.limits.define(definition, max_message_bytes)
        size = definition.duplicate_window
        if size == 0:
            self.duplicates = None
        elif self.duplicates is None:
            self.duplicates = DuplicateWindow(size)
        else:
            self.duplicates.resize(size)

    def is_empty(self) -> bool:
        """Whether nothing is here, in flight included."""
        return self.statistics.depth == 0

    def deleted_text(self) -> str:
        """What its links are told when it is deleted."""
        return f"{self.definition.kind} {self.name!r} has been deleted"
