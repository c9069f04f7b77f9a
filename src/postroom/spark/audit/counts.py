"""What conservation compares, per queue: arrivals and ends counted from events, holdings from entries; and
what is known of a ledger from all its queues.

One row a queue comes to the driver; everything that grows with the messages is counted where it lies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow as pa

from postroom.spark.audit.sums import QueueCounts
from postroom.spark.audit.walk.columns import EARLY_ENDED, ENDED, HIGHEST, LOWEST, SUMS

NO_QUEUE: Final = 0
"""The id of what is counted of no queue."""

_COUNTED: Final = [one.name for one in fields(QueueCounts) if one.name in SUMS]


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of every queue that there is a trace of, and those of each ledger by name: sums, first and
    last times, highest ids."""

    queues: list[QueueCounts]
    ledgers: Mapping[str, Mapping[str, int | None]]

    def total(self, *names: str) -> int:
        """All of these sums, of all ledgers."""
        return sum(one[name] or 0 for one in self.ledgers.values() for name in names)

    def of_ledgers(self, name: str) -> dict[str, int | None]:
        """One number of each ledger."""
        return {ledger: one[name] for ledger, one in self.ledgers.items()}


def counted(totals: pa.Table) -> Counted:
    """What was counted of all queues and ledgers, of `Walked.totals`."""
    rows = totals.to_pylist()
    queues = [_counts(row) for row in rows if row["queue_id"] != NO_QUEUE]
    by_ledger: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_ledger.setdefault(row["ledger_id"], []).append(row)
    return Counted(queues, {ledger: _of_ledger(some) for ledger, some in by_ledger.items()})


def _counts(row: Mapping[str, Any]) -> QueueCounts:
    return QueueCounts(
        ledger_id=row["ledger_id"],
        queue_id=row["queue_id"],
        queue=row["queue_of_events"] or row["queue"] or f"#{row['queue_id']}",
        ended=tuple(row[name] for name in ENDED),
        early_ended=tuple(row[name] for name in EARLY_ENDED),
        **{name: row[name] for name in _COUNTED},
    )


def _of_ledger(rows: Iterable[Mapping[str, Any]]) -> dict[str, int | None]:
    """The numbers of a ledger's queues put together."""
    found: dict[str, int | None] = dict.fromkeys((*SUMS, *LOWEST, *HIGHEST))
    for row in rows:
        for names, better in ((SUMS, int.__add__), (LOWEST, min), (HIGHEST, max)):
            for name in names:
                has, comes = found[name], row[name]
                found[name] = comes if has is None else has if comes is None else better(has, comes)
    return found
