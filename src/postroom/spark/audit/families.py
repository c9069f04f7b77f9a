"""What was made of what: moves, dead letters, redirections, returns; and what was written off."""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from postroom.ledger.format.layout import Array
from postroom.spark.audit.rows import ENTRY_KEY, violation_rows
from postroom.spark.tables import arrays

MOVE_EVENTS: Final = {"move": "moved", "dead_letter": "dead_lettered", "redirect": "redirected"}
"""Arrival events of messages made in the stead of another entry, and the outcome that entry must have."""


def has_kin(lives: pa.Table) -> Array:
    """The entries that were made of others, or that others were made of."""
    outcomes, events = (arrays.codes(lives.column(name)) for name in ("outcome", "arrival_event"))
    found: Array = outcomes.among(*MOVE_EVENTS.values()) | events.among(*MOVE_EVENTS)
    return found


def in_return(lives: pa.Table) -> Array:
    """The entries that were returned to their senders, and what was put by the queue manager itself."""
    returned = arrays.codes(lives.column("outcome")).among("returned_to_sender")
    found: Array = returned | arrays.numbers(lives.column("adverse"))
    return found


def is_lost(lives: pa.Table) -> Array:
    """The entries that are written off as lost."""
    return arrays.codes(lives.column("outcome")).among("lost")


def loss_violations(entries: DataFrame) -> DataFrame:
    """Every entry that was stored and is written off as lost.

    Only a message that was not stored may be lost at a crash: that is a verdict, no violation.
    """
    lost = entries.where((F.col("outcome") == "lost") & F.col("stored"))
    in_ledger = F.lit("its body is in the ledger")
    return violation_rows(lost, "stored message lost", [F.col("last_position")], in_ledger)


def child_violations(entries: DataFrame) -> DataFrame:
    """Every entry that was moved, dead-lettered or redirected has exactly one message in its stead.

    A child lies in the same block as the end of its parent, so that this needs no history.
    """
    nothing = F.lit(None).cast("long")
    moved = entries.where(F.col("outcome").isin(*MOVE_EVENTS.values()))
    parents = moved.select(*ENTRY_KEY, "queue", "outcome", "last_position", nothing.alias("child"))
    came = entries.where(F.col("arrival_event").isin(*MOVE_EVENTS))
    outcome = F.create_map(*(F.lit(text) for pair in MOVE_EVENTS.items() for text in pair))
    children = came.select(
        "ledger_id",
        F.col("parent_serial").alias("serial"),
        F.col("parent_queue_id").alias("queue_id"),
        "queue",
        outcome[F.col("arrival_event")].alias("outcome"),
        nothing.alias("last_position"),
        F.col("serial").alias("child"),
    )
    parent_queue = F.when(F.col("last_position").isNotNull(), F.col("queue"))
    counted = (
        parents.unionByName(children)
        .groupBy(*ENTRY_KEY, "outcome")
        .agg(
            F.coalesce(F.max(parent_queue), F.max("queue")).alias("queue"),
            F.max("last_position").alias("position"),
            F.count_distinct("child").alias("children"),
            F.min("child").alias("child"),
        )
    )
    rule = (
        F.when(F.col("position").isNull(), "child without move")
        .when(F.col("children") == 0, "missing child")
        .when(F.col("children") > 1, "second child")
    )
    broken = counted.withColumn("rule", rule).where(F.col("rule").isNotNull())
    detail = F.format_string(
        "%s, children: %d, first: %s", "outcome", "children", F.col("child").cast("string")
    )
    return violation_rows(broken, F.col("rule"), [F.col("position"), F.col("child")], detail)


def return_violations(entries: DataFrame) -> DataFrame:
    """Every entry that was returned to its sender names the report that took it back: a message put by the
    queue manager itself, in the same block."""
    report = F.get_json_object("reason", "$.report").cast("long")
    returned = entries.where(F.col("outcome") == "returned_to_sender").withColumn("report", report)
    reports = entries.where(F.col("adverse")).select("ledger_id", F.col("serial").alias("report"))
    missing = returned.join(reports.distinct(), ["ledger_id", "report"], "left_anti")
    detail = F.concat_ws("", F.lit("report: "), F.coalesce(F.col("report").cast("string"), F.lit("none")))
    return violation_rows(missing, "missing report", [F.col("last_position")], detail)
