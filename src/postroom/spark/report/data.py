"""What the report shows, as plain data: small sums taken from the tables, so that drawing needs nothing else.

Times are microseconds since 1970 in UTC (``_us``), as in the tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from postroom.spark.audit.result import AuditResult

CATEGORY_OF_OUTCOME: Final = {
    "held": "held",
    "consumed": "consumed",
    "moved": "moved on",
    "redirected": "moved on",
    "returned_to_sender": "moved on",
    "forwarded": "moved on",
    "expired": "expired",
    "dead_lettered": "dead-lettered",
    "deleted": "removed",
    "purged": "removed",
    "discarded": "removed",
    "rolled_back": "removed",
    "lost": "lost",
}
CATEGORIES: Final = ("consumed", "moved on", "held", "expired", "dead-lettered", "removed", "lost")
"""Outcomes as the pictures tell them apart: few enough for a colour each."""

DEFAULT_GAMMA: Final = 1.02 / 0.98
"""A sketch whose quantiles are true within 2 %."""

LAYERS: Final = {
    "available": "available",
    "put_unconfirmed": "put, not confirmed",
    "locked_for_browse": "locked by a browser",
    "get_unconfirmed": "got, not confirmed",
    "unborn": "not born yet",
    "redelivery_delay": "waits for redelivery",
    "paused": "paused",
    "ordered": "waits for its order",
}
"""What a queue holds, by state, and what is delayed by cause: key in the tables' terms, words for people."""


@dataclass(frozen=True, slots=True)
class Flow:
    """So many entries went from a source to a target.

    ``kind`` is ``put`` (from a producer), ``channel`` (from a queue of another queue manager), ``end`` (the
    target is an outcome or ``held``), or the event that moved them.
    """

    source: str
    target: str
    kind: str
    entries: int


@dataclass(frozen=True, slots=True)
class Depth:
    """What one queue held at the end of each step, by layer; and how much came and went in all."""

    queue: str
    layers: Mapping[str, Sequence[int]]
    arrivals: int
    ends: int
    highest: int

    @property
    def last(self) -> int:
        """How many it held in the end."""
        return sum(map(self.at_end, self.layers))

    def at_end(self, layer: str) -> int:
        """How many of them were in a layer."""
        values = self.layers.get(layer)
        return values[-1] if values else 0


@dataclass(frozen=True, slots=True)
class Steps:
    """The time axis of the depths: so many steps of one length."""

    first_us: int
    step_us: int
    count: int

    @property
    def last_us(self) -> int:
        """The end of the last step."""
        return self.first_us + self.step_us * self.count


@dataclass(frozen=True, slots=True)
class Dwell:
    """How long entries of a queue stayed in a state: the sketch's buckets, and its quantiles (µs)."""

    queue: str
    state: str
    buckets: Mapping[int, int]
    p50_us: float
    p90_us: float
    p99_us: float

    @property
    def entries(self) -> int:
        return sum(self.buckets.values())


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Entries of a queue that ended otherwise than by delivery, for one reason."""

    queue: str
    outcome: str
    reason: str
    entries: int
    most_retries: int
    last_us: int | None


@dataclass(frozen=True, slots=True)
class Phase:
    """A time that an entry spent in one state; ``why`` says who held it, or what delayed it."""

    state: str
    begin_us: int
    end_us: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Life:
    """One slow message on one queue; ``ended_us`` is None while it is still there.

    ``phases`` is empty where its events aren't in the tables any more.
    """

    queue: str
    serial: int
    message_id: str
    arrival_us: int
    ended_us: int | None
    outcome: str
    deliveries: int
    phases: Sequence[Phase]


@dataclass(frozen=True, slots=True)
class ChannelSum:
    """What one end of a channel did."""

    ledger: str
    channel: str
    direction: str
    messages: int
    size_bytes: int
    batches: int
    backed_out: int
    dropped: int
    returned: int


@dataclass(frozen=True, slots=True)
class QueueSum:
    """One queue's sums: what arrived, what it holds, what became of the rest."""

    queue: str
    arrivals: int
    held: int
    outcomes: Mapping[str, int]

    def by_category(self) -> dict[str, int]:
        """What became of its entries, by the categories of the pictures."""
        sums = dict.fromkeys(CATEGORIES, 0)
        for outcome, count in (("held", self.held), *self.outcomes.items()):
            sums[CATEGORY_OF_OUTCOME[outcome]] += count
        return sums


@dataclass(frozen=True, slots=True)
class Span:
    """One ledger and how far its tables reach."""

    ledger_id: str
    name: str
    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything on the page."""

    spans: Sequence[Span]
    first_us: int | None
    last_us: int | None
    queues: Sequence[QueueSum]
    flows: Sequence[Flow] = ()
    steps: Steps | None = None
    depths: Sequence[Depth] = ()
    """First the queues that held most for longest."""
    dwells: Sequence[Dwell] = ()
    undelivered: Sequence[Undelivered] = ()
    slowest: Sequence[Life] = ()
    """Messages that reached a consumer, the slowest first."""
    oldest: Sequence[Life] = ()
    """Messages that are still there, the oldest first."""
    channels: Sequence[ChannelSum] = ()
    audit: AuditResult | None = None
    """None: not audited."""
    gamma: float = DEFAULT_GAMMA
    """The factor between two buckets of the dwell times' sketch."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """By section: what was left out, because it is beyond a bound or its table isn't there."""
