"""What comes out of the walk: rows of several kinds, each with the columns of its kind, the others null."""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import ENTRY_KEY
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA, TIMESTAMP
from postroom.spark.ledger_source.state_names import OUTCOMES

LIFE: Final = 0
STEP: Final = 1
BREACH: Final = 2
TOTAL: Final = 3
REFUSAL: Final = 4
"""The kinds of rows: what became of an entry; an event of which more is to be found out; one that doesn't
follow; sums of a queue; a message that was refused and whose sender had settled it, which is no entry."""

FROM_ARRIVAL: Final = (
    *("producer_id", "message_id", "stored", "adverse", "body_bytes", "creation"),
    *("parent_serial", "parent_queue_id", "channel", "origin_ledger_id", "origin_serial"),
)
"""Columns of the events table that an entry has from its arrival."""

EVENT_COLUMNS: Final = (
    *ENTRY_KEY,
    *("epoch", "position", "ordinal", "queue", "time", "event", "from_state", "to_state", "outcome"),
    *("causes", "holder_kind", "holder_id", "holder", "due", "reason", "priority"),
    *FROM_ARRIVAL,
)
"""The columns of the events table that the audit reads."""

_LONG: Final = pa.int64()
_TEXT: Final = pa.string()

OF_STEP: Final = pa.struct(
    [
        *((name, EVENTS_SCHEMA.field(name).type) for name in ("epoch", "position", "ordinal", "time")),
        *((name, _TEXT) for name in ("event", "from_state", "to_state", "outcome", "holder_kind")),
        *(("holder_id", _LONG), ("holder", _TEXT), ("is_last", pa.bool_()), ("has_waited", pa.bool_())),
        *((f"before_{name}", _LONG) for name in ("epoch", "position", "ordinal", "holder_id")),
        *((f"before_{name}", _TEXT) for name in ("event", "to_state", "causes", "holder_kind")),
        *(("sender", _LONG), ("rank", _LONG), ("birth", TIMESTAMP)),
        *(("entered", _LONG), ("entered_before", _LONG)),
    ]
)
"""``before_…``: of the event before of that entry; ``sender``, ``rank`` and ``birth``: producer, priority and
due time of its first event; ``entered``: where the transaction or batch that holds it after the event took
it, ``entered_before``: the same of the one that held it before; ``has_waited``: it becomes available for the
first time, and wasn't so on arrival. Of holders only branches of Spark sinks are named, and who sent what
was refused."""

OF_BREACH: Final = pa.struct(
    [
        *(("rule", _TEXT), ("rule_if_carried", _TEXT), ("before_position", _LONG), ("position", _LONG)),
        *(("detail", _TEXT), ("is_open", pa.bool_())),
    ]
)
"""``is_open``: the rule is broken only if no checkpoint carries the entry beyond the event;
``rule_if_carried``: what is broken else."""

ENDED: Final = tuple(f"ended_{name}" for name in OUTCOMES)
EARLY_ENDED: Final = tuple(f"early_{name}" for name in ENDED)

SUMS: Final = (
    *("events", "arrivals", *ENDED, "early_events", "early_arrivals", *EARLY_ENDED),
    *("entries", "held", "available", "delayed", "unconfirmed", "in_transit", "seen"),
    *("crossing", "kin", "returned", "stored_lost", "in_transactions", "assigned", "waited", "breaches"),
    "refused",
)
"""Numbers of a queue's events and entries. ``early_…``: up to the checkpoint that the ledger opens from;
``kin``: made of others, or others were made of them; ``in_transactions``, ``assigned``, ``waited``: steps;
``refused``: of no queue."""

LOWEST: Final = ("first_time_us",)
HIGHEST: Final = ("last_time_us", "carried_through", "holder")
"""``carried_through``: position of the checkpoint that carries entries; ``holder``: the highest id of one."""

OF_TOTAL: Final = pa.struct(
    [("queue_of_events", _TEXT), *((name, _LONG) for name in (*SUMS, *LOWEST, *HIGHEST))]
)

OF_LIFE: Final = pa.schema(
    [
        *(EVENTS_SCHEMA.field(name).remove_metadata() for name in FROM_ARRIVAL),
        *(("is_carried", pa.bool_()), ("arrival_time", TIMESTAMP), ("arrival_event", _TEXT)),
        *(("taken_position", _LONG), ("state", _TEXT), ("outcome", _TEXT), ("reason", _TEXT)),
        *(("holder_kind", _TEXT), ("holder_id", _LONG), ("last_position", _LONG)),
    ]
)
"""``taken_position``: where it first was more than somebody's provisional put; null if that is not seen.
Outcome and reason of what has ended, holders of what is held."""

WALKED: Final = pa.schema(
    [
        *(
            ("kind", pa.int32()),
            ("ledger_id", _TEXT),
            ("serial", _LONG),
            ("queue_id", _LONG),
            ("queue", _TEXT),
        ),
        *(field.with_nullable(True) for field in OF_LIFE),
        *(("step", OF_STEP), ("breach", OF_BREACH), ("total", OF_TOTAL)),
    ]
)

_ENTRY: Final = (*ENTRY_KEY, "queue")


def lives(walked: DataFrame) -> DataFrame:
    """One row an entry: what arrived, where it is now or how it ended, and when it was taken."""
    return walked.where(F.col("kind") == LIFE).select(*_ENTRY, *OF_LIFE.names)


def kept_steps(walked: DataFrame) -> DataFrame:
    """The events that rules about holders and order go on with."""
    return walked.where(F.col("kind") == STEP).select(*_ENTRY, "step.*")


def breaches(walked: DataFrame) -> DataFrame:
    """The events that don't follow on the one before."""
    return walked.where(F.col("kind") == BREACH).select(*_ENTRY, "breach.*")


def refused(walked: DataFrame) -> DataFrame:
    """What was refused: ledger_id, position, time, holder, reason."""
    step = [F.col(f"step.{name}") for name in ("position", "time", "holder")]
    return walked.where(F.col("kind") == REFUSAL).select("ledger_id", *step, "reason")


def totals(walked: DataFrame) -> DataFrame:
    """The sums of each queue, and of messages that were refused, whose queue is 0."""
    total = {name: F.col(f"total.{name}") for name in OF_TOTAL.names}
    return (
        walked.where(F.col("kind") == TOTAL)
        .groupBy("ledger_id", "queue_id")
        .agg(
            F.max("queue").alias("queue"),
            F.max(total["queue_of_events"]).alias("queue_of_events"),
            *(F.sum(total[name]).alias(name) for name in SUMS),
            *(F.min(total[name]).alias(name) for name in LOWEST),
            *(F.max(total[name]).alias(name) for name in HIGHEST),
        )
    )
