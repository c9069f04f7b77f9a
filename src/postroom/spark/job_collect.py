"""From the tables to the report's data: the only part of the report that runs Spark."""

from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark import frames
from postroom.spark.crossings import VERDICTS, crossing_sums
from postroom.spark.job_data import (
    CrossingSum,
    DepthPoint,
    DwellBucket,
    Flow,
    LedgerSpan,
    QueueSum,
    ReportData,
    Undelivered,
    Violation,
)

WANTED_STEPS: Final = 120
"""The picture over time has about so many steps."""
STEPS_S: Final = (1, 2, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400)
MAX_LOST: Final = 200
NOWHERE: Final = "(nowhere)"
MAX_VIOLATIONS: Final = 200
"""So many are listed; all are counted."""


def collect(
    ledgers: list[LedgerSpan],
    events: DataFrame,
    entries: DataFrame,
    conservation: DataFrame,
    violations: DataFrame,
    crossed: DataFrame | None,
    first_position: frames.Position,
) -> ReportData:
    """What the page shows, of histories that begin at `first_position`; ``crossed`` where there are several
    ledgers. The tables are read several times: cache them."""
    span = (
        events.where(~frames.is_carried())
        .agg(
            F.count("*").alias("events"),
            F.min("time").alias("first_time"),
            F.max("time").alias("last_time"),
        )
        .first()
    )
    assert span is not None
    step_s = _step_s(span)
    queues = [_queue_sum(row) for row in conservation.collect()]
    violation_count = violations.count()
    return ReportData(
        ledgers=ledgers,
        first_time=span["first_time"],
        last_time=span["last_time"],
        events=span["events"],
        entries=sum(queue.held + sum(queue.outcomes.values()) for queue in queues),
        step_s=step_s,
        queues=queues,
        flows=[Flow(**row.asDict()) for row in frames.flows(entries).collect()],
        depth=[_depth_point(row) for row in frames.depth_over_time(events, step_s, first_position).collect()],
        dwell=[DwellBucket(**row.asDict()) for row in frames.dwell_times(entries).collect()],
        undelivered=[Undelivered(**row.asDict()) for row in frames.undelivered(entries).collect()],
        violations=_first_violations(violations) if violation_count else [],
        violation_count=violation_count,
        crossings=[] if crossed is None else _crossings(crossed, ledgers),
        lost=[] if crossed is None else _lost(crossed),
    )


def _crossings(crossed: DataFrame, ledgers: list[LedgerSpan]) -> list[CrossingSum]:
    names = {ledger.ledger_id: ledger.name for ledger in ledgers}
    rows = crossing_sums(crossed).orderBy("ledger_id", "queue", "to_ledger_id").collect()
    return [
        CrossingSum(
            names.get(row["ledger_id"], row["ledger_id"] or NOWHERE),
            row["queue"] or NOWHERE,
            names.get(row["to_ledger_id"], row["to_ledger_id"] or NOWHERE),
            {name: row[name.replace(" ", "_")] for name in VERDICTS},
            row["violations"],
        )
        for row in rows
    ]


def _lost(crossed: DataFrame) -> list[str]:
    gone = crossed.where(F.col("verdict") == "lost").orderBy("origin_ledger_id", "origin_serial")
    rows = gone.limit(MAX_LOST).collect()
    return [row["message_id"] or f"serial {row['origin_serial']} on {row['queue']}" for row in rows]


def _step_s(span: Row) -> int:
    if span["first_time"] is None:
        return STEPS_S[0]
    seconds = (span["last_time"] - span["first_time"]).total_seconds()
    return next((step for step in STEPS_S if seconds / step <= WANTED_STEPS), STEPS_S[-1])


def _queue_sum(row: Row) -> QueueSum:
    outcomes = {name: row[name] for name in frames.OUTCOMES}
    return QueueSum(
        row["queue"],
        row["arrivals"],
        row["older_than_history"],
        row["held"],
        outcomes,
        row["difference"],
        row["verdict"],
    )


def _depth_point(row: Row) -> DepthPoint:
    return DepthPoint(row["queue"], row["step"], row["arrivals"], row["ends"], row["depth"])


def _first_violations(violations: DataFrame) -> list[Violation]:
    return [_violation(row) for row in violations.orderBy("rule", "position").limit(MAX_VIOLATIONS).collect()]


def _violation(row: Row) -> Violation:
    return Violation(row["rule"], row["queue"] or "", row["serial"], row["position"], row["detail"])
