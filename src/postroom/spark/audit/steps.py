"""What everything in the audit is made of: each event beside the one before it, and each entry's life.

One shuffle brings the events of an entry together; the steps are kept by Spark, and lives come of them
without another. Nothing depends on the order or the partitions of the events.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import ENTRY_KEY, is_arrival, is_carried, is_refused
from postroom.spark.ledger_source.state_names import HELD_STATES

TRANSACTIONS: Final = ("local_transaction", "xa_branch", "xa_prepared", "channel_batch", "spark_branch")
"""Holders that decide about all that they hold at once."""

_FROM_ARRIVAL: Final = (
    *("producer_id", "message_id", "stored", "adverse", "body_bytes", "creation"),
    *("parent_serial", "parent_queue_id", "channel", "origin_ledger_id", "origin_serial"),
)

EVENT_COLUMNS: Final = (
    *ENTRY_KEY,
    *("epoch", "position", "ordinal", "queue", "time", "event", "from_state", "to_state", "outcome"),
    *("causes", "holder_kind", "holder_id", "holder", "due", "reason", "priority"),
    *_FROM_ARRIVAL,
)
"""The columns of the events table that the audit reads."""

_BY_ENTRY: Final = (*ENTRY_KEY, "position", "is_carried", "ordinal")
_HELD: Final = (
    *("queue", "time", "event", "to_state", "outcome", "holder_kind", "holder_id", "holder"),
    *("before_to_state", "before_holder_kind", "before_holder_id", "is_last"),
)
"""What `held` has of a step, beside its place."""

_BEFORE: Final = (
    *("epoch", "position", "ordinal", "time", "event"),
    *("to_state", "causes", "holder_kind", "holder_id"),
)


def steps(events: DataFrame) -> DataFrame:
    """The events with what was before: ``before_…`` of the event before of that entry (null for its first),
    ``is_last``, ``first_state``: how the entry begins, ``was_available``: whether it had been before.

    A carried row stands behind the events that its checkpoint covers. ``sender``, ``rank`` and ``birth`` are
    the arrival's producer, priority and due time, on every row. Of holders only branches of Spark sinks are
    named, and who sent what was refused. Rows of refused messages (`is_refused`) are steps of no entry.
    """
    named = F.when((F.col("holder_kind") == "spark_branch") | is_refused(), F.col("holder"))
    with_holders = events.select(*EVENT_COLUMNS).withColumns({"holder": named, "is_carried": is_carried()})
    by_entry, so_far, earlier = _frames()
    return with_holders.select(
        "*",
        *(F.lag(name).over(by_entry).alias(f"before_{name}") for name in _BEFORE),
        F.lead("position").over(by_entry).isNull().alias("is_last"),
        F.first("from_state").over(so_far).alias("first_state"),
        F.first("event").over(so_far).alias("first_event"),
        F.first("producer_id").over(so_far).alias("sender"),
        F.first("priority").over(so_far).alias("rank"),
        F.first("due").over(so_far).alias("birth"),
        F.coalesce(F.max(F.col("to_state") == "available").over(earlier), F.lit(False)).alias(
            "was_available"
        ),
    )


def _frames() -> tuple[WindowSpec, WindowSpec, WindowSpec]:
    """An entry's events in their order; those up to the row; those before it."""
    by_entry = Window.partitionBy(*ENTRY_KEY).orderBy("position", "is_carried", "ordinal")
    so_far = by_entry.rowsBetween(Window.unboundedPreceding, 0)
    return by_entry, so_far, by_entry.rowsBetween(Window.unboundedPreceding, -1)


# --- what transactions and batches hold -----------------------------------------------------------


def held(stepped: DataFrame) -> DataFrame:
    """The steps before or after which a transaction or batch has the entry, with ``entered``: where the one
    that holds it after the event took it, ``entered_before``: the same of the one that held it before.

    Needs no shuffle behind `steps`.
    """
    _, so_far, earlier = _frames()
    entered = F.last(F.when(is_held_after() & ~_stays(), F.col("position")), ignorenulls=True)
    return (
        stepped.where(is_held_before() | is_held_after())
        .select(*_BY_ENTRY, *_HELD)
        .select("*", entered.over(so_far).alias("entered"), entered.over(earlier).alias("entered_before"))
    )


def is_held_before() -> Column:
    """Whether a transaction or batch had the entry before the event."""
    return _held("before_to_state", "before_holder_kind")


def is_held_after() -> Column:
    """Whether one has it after the event."""
    return _held("to_state", "holder_kind")


def leaves() -> Column:
    """Whether the entry is given up by the transaction or batch that had it."""
    return is_held_before() & ~_stays()


def _stays() -> Column:
    return is_held_before() & is_held_after() & (F.col("before_holder_id") == F.col("holder_id"))


def _held(state: str, kind: str) -> Column:
    return F.coalesce(F.col(state).isin(*HELD_STATES) & F.col(kind).isin(*TRANSACTIONS), F.lit(False))


# --- lives ----------------------------------------------------------------------------------------


def lives(stepped: DataFrame) -> DataFrame:
    """One row an entry: what arrived, where it is now or how it ended, and when it was taken.

    ``taken_position``: where it first was more than somebody's provisional put; null if that is not seen.
    Needs no shuffle behind `steps`.
    """
    names = ("event", "to_state", "outcome", "holder_kind", "holder_id", "reason")
    last = F.struct("position", "is_carried", "ordinal", *names)
    taken = F.col("from_state").isin("start", "put_unconfirmed") & F.col("to_state").isin(
        "available", "delayed"
    )
    folded = stepped.groupBy(*ENTRY_KEY).agg(
        F.max("queue").alias("queue"),
        *(F.max(name).alias(name) for name in _FROM_ARRIVAL),
        F.max("is_carried").alias("is_carried"),
        F.min(F.when(is_arrival() | is_carried(), F.col("time"))).alias("arrival_time"),
        F.min(F.when(is_arrival(), F.col("event"))).alias("arrival_event"),
        F.min(F.when(taken, F.col("position"))).alias("taken_position"),
        F.max(last).alias("last"),
    )
    is_held = F.col("last.to_state").isin(*HELD_STATES)
    has_ended = F.col("last.to_state") == "deleted"
    return folded.select(
        *(name for name in folded.columns if name != "last"),
        F.col("last.to_state").alias("state"),
        F.when(has_ended, F.col("last.outcome")).alias("outcome"),
        F.when(has_ended, F.col("last.reason")).alias("reason"),
        F.when(is_held, F.col("last.holder_kind")).alias("holder_kind"),
        F.when(is_held, F.col("last.holder_id")).alias("holder_id"),
        F.col("last.position").alias("last_position"),
    )
