"""Order: what one producer sends to one destination with one priority can first be got in that order.

What is available on arrival is in order by itself: its place is its arrival. Behind others of its producer
may come what had to wait: for the decision of its transaction, for its birth, for the end of a pause. Each of
these waits has an order of its own, its *lane*, in which nobody overtakes:

- what one decision makes available, by serial;
- what is born, by due time, then serial;
- what a pause of insertion held back, in the order in which it was complete. (A restart sorts those anew.)

An entry that comes back was available before, and a message that was moved is its mover's, not its
producer's: neither is looked at.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import violation_rows

LANE: Final = ("ledger_id", "queue_id", "sender", "rank", "lane", "lane_position")

BUCKET_BITS: Final = 20
"""A lane is walked in pieces of so many positions (1 M): the pieces of a long one are tasks of their own."""


def order_violations(waits: DataFrame) -> DataFrame:
    """Every entry that somebody of its lane has overtaken."""
    first = _in_lanes(waits)
    bucket = F.shiftright("position", BUCKET_BITS)
    placed = first.withColumn("bucket", bucket).withColumn(
        "at", F.struct("rank1", "rank2", "position", "serial")
    )
    tops = placed.where(F.col("lane") != "decision").groupBy(*LANE, "bucket").agg(F.max("at").alias("top"))
    before = Window.partitionBy(*LANE).orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    tops = tops.select(*LANE, "bucket", F.max("top").over(before).alias("top_before"))
    within = (
        Window.partitionBy(*LANE, "bucket")
        .orderBy("position", "ordinal")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    same = [F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}")) for name in (*LANE, "bucket")]
    joined = placed.alias("a").join(tops.alias("b"), same, "left").select("a.*", "b.top_before")
    highest = F.greatest("top_before", F.max("at").over(within))
    walked = joined.withColumn("ahead", highest)
    behind = F.struct("rank1", "rank2") < F.struct("ahead.rank1", "ahead.rank2")
    broken = walked.where(behind)
    detail = F.format_string(
        "behind message %d of the same producer and priority (%s)", "ahead.serial", "lane"
    )
    return violation_rows(broken, "out of order", [F.col("ahead.position"), F.col("position")], detail)


def _in_lanes(waits: DataFrame) -> DataFrame:
    """The events by which entries that had to wait become available for the first time, with their lanes."""
    lane = _lane()
    serial = F.col("serial")
    is_born, is_decided = lane == "birth", lane == "decision"
    return waits.select(
        "*",
        lane.alias("lane"),
        F.when(is_decided, F.col("position"))
        .when(~is_born, F.col("epoch").cast("long"))
        .otherwise(0)
        .alias("lane_position"),
        F.when(is_decided, serial)
        .when(is_born, F.unix_micros("birth"))
        .otherwise(F.col("before_position"))
        .alias("rank1"),
        F.when(is_decided | is_born, serial).otherwise(F.col("before_ordinal").cast("long")).alias("rank2"),
    ).where(F.col("lane").isNotNull())


def _lane() -> Column:
    waits = (F.col("event") == "due") & (F.col("from_state") == "delayed")
    same_run = F.col("before_epoch") == F.col("epoch")
    return (
        F.when((F.col("event") == "confirm") & (F.col("from_state") == "put_unconfirmed"), "decision")
        .when(waits & (F.col("before_causes") == "unborn") & F.col("birth").isNotNull(), "birth")
        .when(waits & (F.col("before_causes") == "paused") & same_run, "pause")
    )
