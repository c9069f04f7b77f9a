"""Transactions are atomic: what one holds is decided by one record, all of it, and nothing is left its own.
So are the batches of Spark sinks: with its winners all other branches are decided, at the same moment. And of
what a Spark subscription is given a confirmed position ends all that was assigned there or before.

A *stay* is one entry in the hands of one transaction, XA branch or channel batch: from the event that took it
to the one that gave it up. All stays of a holder stand together in one window; how many there can be is
bounded by the broker's limits on transactions and batches.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from postroom.ledger.format.layout import Array
from postroom.spark.audit.rows import Position, violation_rows
from postroom.spark.audit.walk.sorted_events import HIGHEST, NONE
from postroom.spark.audit.walk.stays import APPLIED_END, COMMITTED, ENDS, HELD, UNDONE
from postroom.spark.tables import arrays
from postroom.spark.tables.groups import Rank, group

Check = Callable[[pa.Table], pa.Table]

RULES: Final = (*("half committed", "two decisions", "used after its decision", "left out of the decision"),)


def holder_check(last_time_us: Mapping[str, int | None], left_out: Collection[str] = ()) -> Check:
    """For the stays of all of some holders: those that break what their holder promises, as violations.

    A rollback may take several records, all of one moment; so an entry that is still held counts only when
    the ledger, whose last event is of `last_time_us`, has gone on since. Nothing is said of ledgers
    `left_out`.
    """

    def check(stays: pa.Table) -> pa.Table:
        ledgers = arrays.codes(stays.column("ledger_id"))
        last = np.array([-1 if (at := last_time_us.get(text)) is None else at for text in ledgers.texts])
        judged = np.array([text not in left_out for text in ledgers.texts])
        return _broken(stays, _together(stays), last[ledgers.numbers], judged[ledgers.numbers])

    return check


@dataclass(frozen=True, slots=True)
class _Decisions:
    """Of each stay's holder where it first decided, applied, and rolled back, and when it last did any;
    `NONE` where it didn't."""

    decided: Array
    applied: Array
    undone: Array
    time: Array

    @property
    def first(self) -> Array:
        """What is named as its decision."""
        return np.where(
            self.decided != NONE, self.decided, np.where(self.applied != NONE, self.applied, self.undone)
        )


def _together(stays: pa.Table) -> _Decisions:
    ends, left = _ends(stays), arrays.numbers(stays.column("left"))
    keys = [arrays.codes(stays.column("ledger_id")).numbers, arrays.numbers(stays.column("holder"), -1)]
    holders = group(keys, Rank(np.arange(len(stays)), None))

    def first(such: Array) -> Array:
        lowest = np.minimum.reduceat(np.where(such, left, HIGHEST)[holders.order], holders.starts)
        found: Array = np.where(lowest == HIGHEST, NONE, lowest)[holders.of_row]
        return found

    applied = (ends == COMMITTED) | (ends == APPLIED_END)
    times = np.where(applied | (ends == UNDONE), arrays.numbers(stays.column("left_time")), NONE)
    latest = np.maximum.reduceat(times[holders.order], holders.starts)[holders.of_row]
    return _Decisions(first(ends == COMMITTED), first(applied), first(ends == UNDONE), latest)


def _ends(stays: pa.Table) -> Array:
    codes = arrays.codes(stays.column("end"))
    found: Array = np.array([ENDS.index(text) for text in codes.texts], np.int64)[codes.numbers]
    return found


def _broken(stays: pa.Table, holder: _Decisions, last_time_us: Array, judged: Array) -> pa.Table:
    ends, decided = _ends(stays), holder.decided
    left, entered = (arrays.numbers(stays.column(name), NONE) for name in ("left", "entered"))
    is_decided = decided != NONE
    is_over = (holder.time != NONE) & (holder.time < last_time_us)
    broken = [
        (ends == UNDONE) & (holder.applied != NONE),
        (ends == COMMITTED) & (left != decided),
        is_decided & (entered > decided),
        (ends == HELD) & (is_decided | is_over),
    ]
    which = np.where(judged, np.select(broken, [*range(len(RULES))], -1), -1)
    rows = np.flatnonzero(which >= 0)
    some = stays.take(pa.array(rows))
    texts: list[list[int]] = [
        [number for number in numbers if number != NONE]
        for numbers in np.stack([entered[rows], holder.first[rows], left[rows]], axis=1).tolist()
    ]
    made = {
        "rule": pa.array(RULES, pa.string()).take(pa.array(which[rows])),
        **{name: some.column(name) for name in ("ledger_id", "queue_id", "queue", "serial")},
        "positions": pa.array(texts, pa.list_(pa.int64())),
        "detail": pa.array(_details(some, holder.first[rows]), pa.string()),
    }
    return pa.table(made)


def _details(stays: pa.Table, decisions: Array) -> list[str]:
    return [
        f"{row['kind']} {_number(row['holder'])} took it at position {_number(row['entered'])}; "
        f"it is {row['end']}, the decision is at {_number(decision)}"
        for row, decision in zip(stays.to_pylist(), decisions.tolist(), strict=True)
    ]


def _number(number: int | None) -> str:
    return "null" if number is None or number == NONE else str(number)


# --- batches of Spark sinks -----------------------------------------------------------------------

SINK_BRANCH: Final = r"(?:^|/)(\d+)-\d+-\d+-\d+@(.*)$"
"""In the name of a branch: its batch, and whose it is."""


def batch_violations(stays: DataFrame, last_time: Position) -> DataFrame:
    """Every branch that a commit has left undecided which decided for its batch, or for a later one, of its
    app. One row a branch: as many as there were attempts of tasks."""
    named = stays.where(F.col("name").isNotNull()).select(
        "*",
        F.regexp_extract("name", SINK_BRANCH, 1).cast("long").alias("batch"),
        F.regexp_extract("name", SINK_BRANCH, 2).alias("app"),
    )
    key = ("ledger_id", "app", "batch", "holder", "name")
    branches = named.groupBy(*key).agg(
        *(F.min(name).alias(name) for name in ("serial", "queue_id", "queue", "entered")),
        F.max("left").alias("left"),
        F.max("left_time").alias("left_time"),
        F.max(F.col("end") == "held").alias("is_held"),
        F.max(F.col("end") == "committed").alias("has_won"),
    )
    commit = F.struct("left", "left_time", "batch")
    begun = branches.select(
        "*", F.col("entered").alias("point"), F.when(F.lit(False), commit).alias("commit")
    )
    won = branches.where("has_won").select("*", F.col("left").alias("point"), commit.alias("commit"))
    of_app = Window.partitionBy("ledger_id", "app").orderBy("point")
    after = of_app.rowsBetween(1, Window.unboundedFollowing)
    beside = begun.unionByName(won).select(
        "*",
        F.first("commit", ignorenulls=True).over(after).alias("next"),
        F.col("commit").isNull().alias("own"),
    )
    survived = (F.col("left_time") > F.col("next.left_time")) | F.col("is_held")
    is_certain = ~F.col("is_held") | (F.col("next.left_time") < last_time)
    broken = beside.where(F.col("own") & (F.col("next.batch") >= F.col("batch")) & survived & is_certain)
    detail = F.format_string("branch %s outlived the commit of batch %d", "name", "next.batch")
    positions = [F.col("entered"), F.col("next.left"), F.col("left")]
    return violation_rows(broken, "left out of its batch", positions, detail)


# --- Spark subscriptions --------------------------------------------------------------------------


def assignment_violations(assignments: DataFrame) -> DataFrame:
    """Every entry that a Spark subscription had when it confirmed something that it was assigned later, and
    that it kept, lost or gave back afterwards."""
    behind = Window.partitionBy("ledger_id", "holder").orderBy("entered")
    later = behind.rangeBetween(1, Window.unboundedFollowing)
    confirmed = F.min(F.when(F.col("is_confirmed"), F.col("left"))).over(later)
    beside = assignments.withColumn("confirmed", confirmed)
    passed_over = F.col("left").isNull() | (F.col("left") > F.col("confirmed"))
    broken = beside.where(F.col("confirmed").isNotNull() & passed_over)
    detail = F.format_string(
        "Spark subscription %d was assigned it at position %d, and confirmed what came later at %d",
        "holder",
        "entered",
        "confirmed",
    )
    positions: list[Column] = [F.col("entered"), F.col("confirmed"), F.col("left")]
    return violation_rows(broken, "passed over", positions, detail)
