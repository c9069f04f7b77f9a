"""One destination of the reference: its messages in a list, and every counter that is to be exact."""

from collections import Counter
from dataclasses import dataclass, field, replace

from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.options import NO_LIMIT
from postroom.manager.kernel.statistics import SLOT_NAMES
from postroom.model.codes import Outcome
from tests.manager.random_commands.reference_consumers import Takers
from tests.manager.random_commands.reference_quotas import Pool

AVAILABLE = "available"
HELD = "held by a consumer"
UNBORN = "unborn"
DELAYED = "delayed"
PARKED = "parked"
ORDERED = "behind another of its unit"
PUT = "put in a transaction"
GOT = "got in a transaction"
PUT_BY_ID = "put by a confirm id"
GOT_BY_ID = "got by a confirm id"
GOT_BY_LOCK = "got through a lock"
LOCKED = "locked"

SLOTS = {
    AVAILABLE: "current",
    HELD: "unacknowledged",
    UNBORN: "unborn",
    DELAYED: "redelivery_delay",
    PARKED: "paused",
    ORDERED: "ordered",
    PUT: "uncommitted_put",
    GOT: "uncommitted_get",
    PUT_BY_ID: "uncommitted_put",
    GOT_BY_ID: "unacknowledged",
    GOT_BY_LOCK: "unacknowledged",
    LOCKED: "browse_locked",
}
"""Where the statistics count a message in each state."""

NEVER = 1 << 63
REQUESTED_DELAY_US = 5_000
"""The delay that a consumer requests with its outcome."""


@dataclass(eq=False)
class Message:
    """One entry."""

    body: bytes
    number: int
    """What selectors ask for, and the name of its unit of order."""
    priority: int
    durable: bool
    expiry_us: int
    due_us: int = 0
    in_pieces: bool = False
    """It came in pieces and so is stored even if it isn't durable."""
    id: str = ""
    """Its message id; "" none."""
    group: str = ""
    closes: bool = False
    """It is the last of its group for now."""
    state: str = AVAILABLE
    order: int = 0
    """Rank of its first availability; 0 while it has never been available. Equal ranks: either first."""
    serial: int = 0
    parked: int = 0
    """Rank of its completion while insertion was paused."""
    holder: Consumer | None = None
    transaction: object = None
    receipt: int = 0
    """Rank of what was said to it in its transaction."""
    settled: bool = True
    verb: str = "accept"
    deliveries: int = 0
    failures: int = 0
    uid: tuple[str, int] | None = None
    confirm: int = 0
    lock: int = 0
    spark: bool = False
    """A Spark subscription holds it, beyond a restart."""
    not_for: list[Consumer] = field(default_factory=list)
    """Who has called it undeliverable at its place."""
    origin: "tuple[Place, int] | None" = None
    """The place that its parent lay on, and which of its lives that was."""

    def expired(self, now_us: int) -> bool:
        return self.expiry_us != 0 and self.expiry_us <= now_us

    def moment_us(self) -> int:
        """When something is to be done about it while it is delayed."""
        return min(self.due_us or NEVER, self.expiry_us or NEVER)

    def child(self, place: "Place", expiry_us: int) -> "Message":
        """Another message that carries the same, made of this one, which is on ``place``."""
        made = Message(self.body, self.number, self.priority, self.durable, expiry_us)
        made.origin = (place, place.life)
        made.id, made.group, made.closes = self.id, self.group, self.closes
        made.in_pieces = self.in_pieces
        return made

    def copy(self) -> "Message":
        return replace(self, not_for=[])

    def rank(self) -> tuple[int, int]:
        return (-self.priority, self.order)


@dataclass
class Switched:
    """What can be paused."""

    name: str
    production: bool = False
    insertion: bool = False
    consumption: bool = False

    def closed(self) -> bool:
        return self.production or self.insertion


@dataclass(eq=False)
class TopicPlace(Switched):
    """A topic, which holds nothing."""

    limit: int = -1
    dead_letters: str = ""
    quota: Pool | None = None
    """That it shares with its subscriptions."""
    most_each: int = -1
    """Or what each of them may hold."""
    pool: Pool | None = None
    received: int = 0
    received_bytes: int = 0
    unrouted: int = 0
    blocked: int = 0
    blocked_total: int = 0
    blocked_us: int = 0

    def __post_init__(self) -> None:
        self.pool = self.quota or (Pool(self.most_each) if self.most_each >= 0 else None)

    def start_again(self) -> None:
        self.received = self.received_bytes = self.unrouted = 0
        self.blocked = self.blocked_total = self.blocked_us = 0
        self.production = self.insertion = self.consumption = False


@dataclass(eq=False)
class Place(Switched):
    """A queue or a subscription."""

    limit: int = -1
    delay_us: int = -1
    dead_letters: str = ""
    redirect: str = ""
    lost_link_counts: bool = False
    undo_counts: bool = False
    takes_children: bool = False
    unit_of_order: bool = False
    priority_override: int = -1
    ttl_override_ms: int = -1
    pool: Pool | None = None
    """The quota that it is under."""
    high_mark: int = NO_LIMIT
    low_mark: int = NO_LIMIT
    # Of a subscription.
    pattern: str = ""
    wanted: int | None = None
    client: str = ""
    title: str = ""
    """What its clients call it."""
    no_local: bool = False
    shared: bool = False
    temporary: bool = False
    dismissed: bool = False
    """Nothing comes any more; it goes when transactions let it."""
    takers: Takers = field(default_factory=Takers)
    life: int = 0
    """It has been deleted and made again so often."""
    # What is there, and what was.
    messages: list[Message] = field(default_factory=list)
    ended: Counter[Outcome] = field(default_factory=Counter)
    received: int = 0
    received_bytes: int = 0
    high: int = 0
    high_bytes: int = 0
    consumers: int = 0
    consumers_high: int = 0
    consumers_total: int = 0
    blocked: int = 0
    blocked_total: int = 0
    blocked_us: int = 0
    armed_us: int | None = None
    """Since when it has been above its threshold."""
    above_us: int = 0

    # Who may.

    def over_limit(self, message: Message) -> bool:
        return 0 <= self.limit < message.failures

    def delay_for(self, message: Message) -> int:
        """Its own delay beats that of the consumer that failed."""
        if self.delay_us >= 0 or message.holder is None:
            return max(self.delay_us, 0)
        return message.holder.options.redelivery_delay_ms * 1000

    def matches(self, topic: str) -> bool:
        return bool(self.pattern) and not self.dismissed and _fits(self.pattern.split("."), topic.split("."))

    def wants(self, message: Message, publisher: str) -> bool:
        if self.no_local and publisher == self.client:
            return False
        return self.wanted is None or self.wanted == message.number

    def changeable(self, wanted: int | None) -> list[Message]:
        """What an administrator can delete or move, those that are available first."""
        free = [m for m in self.messages if m.state in (UNBORN, DELAYED, ORDERED)]
        return [m for m in [*self.in_sight(), *free] if wanted in (None, m.number)]

    def in_sight(self) -> list[Message]:
        """What a browser sees, in order."""
        return sorted((m for m in self.messages if m.state == AVAILABLE), key=Message.rank)

    def available(self, wanted: int | None = None) -> list[Message]:
        """What can be given to somebody with that selector, in order."""
        found = [m for m in self.messages if m.state == AVAILABLE and wanted in (None, m.number)]
        return sorted(found, key=Message.rank)

    def available_to(self, consumer: Consumer, wanted: int | None) -> list[Message]:
        """The same for one who consumes."""
        if not self.takers.is_active(consumer):
            return []
        found = [m for m in self.available(wanted) if consumer not in m.not_for]
        return [m for m in found if self.takers.may_have(consumer, m.group)]

    def has_turn(self, message: Message) -> bool:
        """Whether nothing of its unit of order comes before it."""
        if not self.unit_of_order or not message.number:
            return True
        return all(m.serial >= message.serial for m in self.messages if m.number == message.number)

    def expired(self, now_us: int) -> bool:
        return any(
            m.state in (AVAILABLE, UNBORN, DELAYED, PARKED, ORDERED) and m.expired(now_us)
            for m in self.messages
        )

    # Counting.

    def arrived(self, message: Message, now_us: int) -> None:
        self.messages.append(message)
        self.received += 1
        self.received_bytes += len(message.body)
        self._peak()
        self._compare(now_us)

    def ended_one(self, message: Message, outcome: Outcome, now_us: int) -> None:
        self.messages.remove(message)
        self.ended[outcome] += 1
        self._compare(now_us)

    def _bytes(self) -> int:
        return sum(len(message.body) for message in self.messages)

    def _peak(self) -> None:
        self.high = max(self.high, len(self.messages))
        self.high_bytes = max(self.high_bytes, self._bytes())

    def _compare(self, now_us: int) -> None:
        if self.armed_us is None and len(self.messages) > self.high_mark >= 0:
            self.armed_us = now_us
        elif self.armed_us is not None and len(self.messages) < self.low_mark:
            self.above_us += now_us - self.armed_us
            self.armed_us = None

    def opened(self, consumer: Consumer) -> None:
        self.takers.come(consumer)
        self.consumers += 1
        self.consumers_total += 1
        self.consumers_high = max(self.consumers_high, self.consumers)

    def closed_by(self, consumer: Consumer) -> None:
        self.takers.go(consumer)
        self.consumers -= 1
        for message in self.messages:
            message.not_for = [each for each in message.not_for if each is not consumer]

    def reset(self, now_us: int) -> None:
        self._zero()
        self.consumers_high = self.consumers_total = self.consumers
        self.blocked_total = self.blocked
        if self.armed_us is not None:
            self.armed_us = now_us
        self._peak()

    def start_again(self) -> None:
        self._zero()
        self.production = self.insertion = self.consumption = False
        self.consumers = self.consumers_high = self.consumers_total = 0
        self.blocked = self.blocked_total = 0
        self.armed_us = None
        self.takers.nobody()
        for message in self.messages:
            message.not_for = []

    def _zero(self) -> None:
        self.ended.clear()
        self.received = self.received_bytes = self.high = self.high_bytes = 0
        self.blocked_us = self.above_us = 0

    def snapshot(self, now_us: int) -> dict[str, int]:
        """Every counter, counted."""
        sizes: dict[str, list[int]] = {name: [] for name in SLOT_NAMES if name != "nowhere"}
        for message in self.messages:
            sizes[SLOTS[message.state]].append(len(message.body))
        shown: dict[str, int] = {}
        for name, found in sizes.items():
            shown[f"messages_{name}"], shown[f"bytes_{name}"] = len(found), sum(found)
        above_us = self.above_us + (now_us - self.armed_us if self.armed_us is not None else 0)
        return (
            shown
            | {
                "messages_pending": len(self.messages) - shown["messages_current"],
                "bytes_pending": self._bytes() - shown["bytes_current"],
                "messages_high": self.high,
                "bytes_high": self.high_bytes,
                "messages_received": self.received,
                "bytes_received": self.received_bytes,
                "blocked_sends": self.blocked,
                "blocked_sends_total": self.blocked_total,
                "blocked_send_us": self.blocked_us,
                "duplicates_dropped": 0,
                "messages_threshold_us": above_us,
                "bytes_threshold_us": 0,
                "consumers": self.consumers,
                "consumers_high": self.consumers_high,
                "consumers_total": self.consumers_total,
            }
            | {f"messages_{o.name.lower()}": self.ended[o] for o in Outcome if o != Outcome.NONE}
        )


def _fits(pattern: list[str], levels: list[str]) -> bool:
    if pattern == ["#"]:
        return True
    if not pattern or not levels:
        return not pattern and not levels
    return pattern[0] in ("*", levels[0]) and _fits(pattern[1:], levels[1:])
