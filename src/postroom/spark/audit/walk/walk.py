"""The walk itself: events to rows of all kinds."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk.blocks import Parted, events_in
from postroom.spark.audit.walk.breaches import NO_BOUNDS, Bounds, breaches
from postroom.spark.audit.walk.columns import (
    BREACH,
    LIFE,
    OF_STEP,
    OF_TOTAL,
    REFUSAL,
    STEP,
    SUMS,
    TOTAL,
    WALKED,
)
from postroom.spark.audit.walk.kept_steps import kept_steps
from postroom.spark.audit.walk.lives import Columns, life_columns
from postroom.spark.audit.walk.sorted_events import SortedEvents
from postroom.spark.audit.walk.totals import Totals
from postroom.spark.data_source.worker import in_task
from postroom.spark.tables import arrays

ROWS_A_BATCH: Final = 50_000
"""So many rows go to Spark at a time."""

Batches = Iterator[pa.RecordBatch]


def walk(events: Parted, bounds: Bounds = NO_BOUNDS, parts: int = 4) -> DataFrame:
    """Rows as `columns.WALKED` says, of the events of all ledgers, in so many parts."""

    @in_task
    def walk_part(batches: Batches) -> Batches:
        yield from walked(events_in(batches), bounds)

    return events(parts).mapInArrow(walk_part, from_arrow_schema(WALKED))


def walked(events: pa.Table, bounds: Bounds) -> Batches:
    """All that comes of the events of some entries, all of each."""
    of_entry = arrays.numbers(events.column("queue_id")) != 0
    if not of_entry.all():
        yield from _refusals(events.filter(pa.array(~of_entry)))
        events = events.filter(pa.array(of_entry))
    if not len(events):
        return
    steps = SortedEvents(events)
    lives = life_columns(steps)
    kept, found = kept_steps(steps), breaches(steps, bounds)
    of_queue, totals = Totals(steps, bounds).columns(lives, kept, found)
    yield from _batches(LIFE, lives)
    yield from _batches(STEP, _of_events(steps, kept.rows) | {"step": kept.columns})
    yield from _batches(BREACH, _of_events(steps, found.rows) | {"breach": found.columns})
    yield from _batches(TOTAL, of_queue | {"total": totals})


def _of_events(steps: SortedEvents, rows: Array) -> Columns:
    return {
        "ledger_id": steps.text("ledger_id", rows),
        "serial": pa.array(steps.number("serial")[rows]),
        "queue_id": pa.array(steps.number("queue_id")[rows]),
        "queue": steps.text("queue", rows),
    }


def _refusals(events: pa.Table) -> Batches:
    """Rows of messages that were refused, and how many of each ledger: of no queue."""
    step = {name: pa.nulls(len(events), kind.type) for name, kind in zip(OF_STEP.names, OF_STEP, strict=True)}
    step |= {name: arrays.one(events.column(name)) for name in ("position", "time", "holder")}
    yield from _batches(
        REFUSAL,
        {
            "ledger_id": arrays.one(events.column("ledger_id")),
            "reason": arrays.one(events.column("reason")),
            "step": pa.StructArray.from_arrays(list(step.values()), fields=list(OF_STEP)),
        },
    )
    ledgers = arrays.codes(events.column("ledger_id"))
    counts = np.bincount(ledgers.numbers, minlength=len(ledgers.texts)).astype(np.int64)
    nothing = pa.array(np.zeros(len(counts), np.int64))
    sums = {
        name: nothing if name in SUMS else pa.nulls(len(counts), OF_TOTAL.field(name).type)
        for name in OF_TOTAL.names
    }
    sums["refused"] = pa.array(counts)
    of_ledgers = {"ledger_id": pa.array(ledgers.texts, pa.string()), "queue_id": nothing}
    total = pa.StructArray.from_arrays(list(sums.values()), fields=list(OF_TOTAL))
    yield from _batches(TOTAL, of_ledgers | {"total": total})


def _batches(kind: int, columns: Columns) -> Batches:
    """Rows of a kind, the columns of other kinds null."""
    count = len(columns["ledger_id"])
    if not count:
        return
    made = {"kind": pa.array(np.full(count, kind, np.int32)), **columns}
    whole = [made[field.name] if field.name in made else pa.nulls(count, field.type) for field in WALKED]
    yield from pa.Table.from_arrays(whole, schema=WALKED).to_batches(ROWS_A_BATCH)
