"""What conservation compares, per queue: arrivals and ends counted from events, holdings from entries.

One row a queue comes to the driver; everything that grows with the messages is counted where it lies.
"""

from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import Position, is_arrival, is_end
from postroom.spark.audit.steps import TRANSACTIONS
from postroom.spark.audit.sums import QueueCounts
from postroom.spark.ledger_source.state_names import HELD_STATES, OUTCOMES

KEY: Final = ["ledger_id", "queue_id"]

NUMBERS: Final = (
    *("arrivals", "early_arrivals", "early_events", "held"),
    *("available", "delayed", "unconfirmed", "in_transit", "seen"),
)


def queue_counts(
    stepped: DataFrame, entries: DataFrame, first_position: Position, checkpoint_position: Position
) -> list[QueueCounts]:
    """The counts of every queue that there is a trace of.

    `entries` are `steps.lives` of the same events; what happened up to `checkpoint_position` (null: there is
    none) is counted once more by itself.
    """
    of_entries = _from_entries(entries, first_position)
    both = _from_events(stepped, checkpoint_position).join(of_entries, KEY, "full")
    return [_counts(row) for row in both.collect()]


def _from_events(stepped: DataFrame, checkpoint_position: Position) -> DataFrame:
    covered = F.coalesce(F.col("position") <= checkpoint_position, F.lit(False))
    ends = [is_end() & (F.col("outcome") == name) for name in OUTCOMES]
    return (
        stepped.where(~F.col("is_carried"))
        .groupBy(*KEY)
        .agg(
            F.max("queue").alias("queue"),
            F.count_if(is_arrival()).alias("arrivals"),
            F.array(*(F.count_if(end) for end in ends)).alias("ended"),
            F.count_if(covered & is_arrival()).alias("early_arrivals"),
            F.array(*(F.count_if(covered & end) for end in ends)).alias("early_ended"),
            F.count_if(covered).alias("early_events"),
        )
    )


def _from_entries(entries: DataFrame, first_position: Position) -> DataFrame:
    state, kind = F.col("state"), F.coalesce("holder_kind", F.lit(""))
    is_held = state.isin(*HELD_STATES)
    return entries.groupBy(*KEY).agg(
        F.max("queue").alias("queue_of_entries"),
        F.count_if(state == "available").alias("available"),
        F.count_if(state == "delayed").alias("delayed"),
        F.count_if(is_held).alias("unconfirmed"),
        F.count_if(is_held & kind.isin(*TRANSACTIONS)).alias("in_transit"),
        F.count_if(state != "deleted").alias("held"),
        F.count_if(F.col("serial") < first_position).alias("seen"),
    )


def _counts(row: Row) -> QueueCounts:
    nothing = (0,) * len(OUTCOMES)
    return QueueCounts(
        ledger_id=row["ledger_id"],
        queue_id=row["queue_id"],
        queue=row["queue"] or row["queue_of_entries"] or f"#{row['queue_id']}",
        ended=tuple(row["ended"] or nothing),
        early_ended=tuple(row["early_ended"] or nothing),
        **{name: row[name] or 0 for name in NUMBERS},
    )
