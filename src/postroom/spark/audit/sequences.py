"""Each entry's events against the life cycle: those that don't follow on the one before (`walk.breaches`)."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import Position, violation_rows


def sequence_violations(breaches: DataFrame, carried_through: Position) -> DataFrame:
    """Every event that doesn't follow on the one before it.

    Entries that arrived before the history may begin in any state up to `carried_through`, the position of
    the checkpoint that carries them (null: none does).
    """
    is_carried = F.col("is_open") & ~F.coalesce(F.col("position") > carried_through, F.lit(False))
    rule = F.when(is_carried, F.col("rule_if_carried")).otherwise(F.col("rule"))
    broken = breaches.withColumn("rule", rule).where(F.col("rule").isNotNull())
    positions = [F.col("before_position"), F.col("position")]
    return violation_rows(broken, F.col("rule"), positions, F.col("detail"))
