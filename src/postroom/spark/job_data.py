"""What the report shows, as plain data: small sums taken from the tables, so that drawing needs no Spark."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Flow:
    """So many entries went from a source to a target; kind is put, end, or the event that moved them."""

    source: str
    target: str
    kind: str
    entries: int


@dataclass(frozen=True, slots=True)
class DepthPoint:
    """How many entries a queue held at the end of a step that begins at `step`."""

    queue: str
    step: datetime
    arrivals: int
    ends: int
    depth: int


@dataclass(frozen=True, slots=True)
class DwellBucket:
    """So many consumed entries of a queue waited 2^(bucket-1) to 2^bucket milliseconds (0: under one)."""

    queue: str
    bucket: int
    entries: int


@dataclass(frozen=True, slots=True)
class QueueSum:
    """One queue's line of the conservation table."""

    queue: str
    arrivals: int
    older_than_history: int
    held: int
    outcomes: dict[str, int]
    difference: int
    verdict: str

    def by_category(self) -> dict[str, int]:
        """What became of its entries, by the categories of the pictures."""
        sums = dict.fromkeys(CATEGORIES, 0)
        for outcome, count in (("held", self.held), *self.outcomes.items()):
            sums[CATEGORY_OF_OUTCOME[outcome]] += count
        return sums


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Entries of a queue that ended otherwise than by delivery."""

    queue: str
    outcome: str
    reason: str
    entries: int
    most_failures: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach that the audit found."""

    rule: str
    queue: str
    serial: int | None
    position: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class CrossingSum:
    """What went from a queue of one ledger to another ledger, by verdict (see `crossings`)."""

    source: str
    queue: str
    target: str
    verdicts: dict[str, int]
    violations: int


@dataclass(frozen=True, slots=True)
class LedgerSpan:
    """One ledger, and the positions that were read."""

    name: str
    """How queues of several ledgers are told apart."""
    ledger_id: str
    first_position: int
    last_position: int


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything on the page."""

    ledgers: list[LedgerSpan]
    first_time: datetime | None
    last_time: datetime | None
    events: int
    entries: int
    step_s: int
    queues: list[QueueSum]
    flows: list[Flow]
    depth: list[DepthPoint]
    dwell: list[DwellBucket]
    undelivered: list[Undelivered]
    violations: list[Violation]
    violation_count: int
    crossings: list[CrossingSum]
    """Between several ledgers; empty for one."""
    lost: list[str]
    """Messages that were lost between them, not persistent: the first few, by id."""

    @property
    def is_clean(self) -> bool:
        """Whether the audit found nothing."""
        return self.violation_count == 0
