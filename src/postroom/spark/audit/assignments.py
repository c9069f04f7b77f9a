"""What Spark subscriptions are given and confirm: a position ends all that was assigned there or before."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import violation_rows

SUBSCRIPTION: Final = "spark_subscription"


def assignment_violations(stepped: DataFrame) -> DataFrame:
    """Every entry that a Spark subscription had when it confirmed something that it was assigned later, and
    that it kept, lost or gave back afterwards."""
    behind = Window.partitionBy("ledger_id", "holder").orderBy("entered")
    later = behind.rangeBetween(1, Window.unboundedFollowing)
    confirmed = F.min(F.when(F.col("is_confirmed"), F.col("left"))).over(later)
    beside = _assigned(stepped).withColumn("confirmed", confirmed)
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


def _assigned(stepped: DataFrame) -> DataFrame:
    """One row for each assignment whose record is seen: `entered`, `left` (null while it lasts), and whether
    it was confirmed."""
    entry = ("ledger_id", "serial", "queue_id", "queue")
    was = (F.col("before_holder_kind") == SUBSCRIPTION) & (F.col("before_event") == "acquire")
    over = stepped.where(was).select(
        *entry,
        F.col("before_holder_id").alias("holder"),
        F.col("before_position").alias("entered"),
        F.col("position").alias("left"),
        (F.col("event") == "confirm").alias("is_confirmed"),
    )
    is_held = (F.col("holder_kind") == SUBSCRIPTION) & (F.col("event") == "acquire")
    lasting = stepped.where(F.col("is_last") & is_held).select(
        *entry,
        F.col("holder_id").alias("holder"),
        F.col("position").alias("entered"),
        F.lit(None).cast("long").alias("left"),
        F.lit(False).alias("is_confirmed"),
    )
    return over.unionByName(lasting)
