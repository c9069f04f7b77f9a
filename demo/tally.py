"""What the clients say that they did, queue by queue: to be held against what the ledger says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from postroom.spark.audit.result import AuditResult
from postroom.spark.store import open_store, read_folded


@dataclass
class Tally:
    """Counts by queue and fate. A fate is an outcome of the ledger, or ``held``."""

    fates: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, queue: str, fate: str, count: int = 1) -> None:
        """``count`` messages of ``queue`` met ``fate``."""
        self.fates.setdefault(queue, Counter())[fate] += count

    def of(self, queue: str) -> dict[str, int]:
        """The fates of one queue, without zeros."""
        return {fate: count for fate, count in self.fates.get(queue, Counter()).items() if count}


def from_entries(tables: Path) -> Tally:
    """The same counts from the table ``entries`` of the pipeline.

    Without what was rolled back: what a channel's batch had brought when the line was cut was never there for
    any client.
    """
    tally = Tally()
    rows = read_folded(open_store(str(tables), "entries"), ["queue", "outcome"]).to_pydict()
    for queue, outcome in zip(rows["queue"], rows["outcome"], strict=True):
        if outcome != "rolled_back":
            tally.add(queue, outcome or "held")
    return tally


def lost_on_the_way(found: AuditResult) -> int:
    """How many messages the audit names as lost between the queue managers."""
    return sum(row.verdicts.get("lost", 0) for row in found.crossings)
