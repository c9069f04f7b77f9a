"""Table ``dwell_times``: how long entries were in each state, as sketches that any engine can add up.

A sketch is a count for each bucket; bucket b has times up to γᵇ µs and above γᵇ⁻¹, with γ so that the middle
of a bucket is at most 2 % off whatever lies in it (DDSketch: Masson, Rim, Lee, 2019). Sketches of minutes,
queues, ledgers add up bucket by bucket.
"""

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.tables import arrays
from postroom.spark.tables.arrays import Codes
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.entries import DWELL
from postroom.spark.tables.final_rows import DAY_US, is_quiet
from postroom.spark.tables.range import MINUTE_US, Range

ACCURACY: Final = 0.02
GAMMA: Final = (1 + ACCURACY) / (1 - ACCURACY)
LOG_GAMMA: Final = math.log(GAMMA)

STATES: Final = tuple(name.removesuffix("_us") for name in DWELL)

FIELDS: Final = (
    LEDGER_ID,
    Field("queue_id", pa.int64(), Merge.KEY, "The queue's id, never reused"),
    Field("minute", TIMESTAMP, Merge.KEY, "The minute in which the entries ended"),
    Field("state", pa.string(), Merge.KEY, f"Where they had been: {', '.join(STATES)}"),
    Field("bucket", pa.int32(), Merge.KEY, "How long: above 1.0408^(bucket-1) µs and up to 1.0408^bucket µs"),
    Field("queue", pa.string(), Merge.ONLY, "The queue's name"),
    Field("entries", pa.int64(), Merge.SUM, "How many entries"),
    Field("total_us", pa.int64(), Merge.SUM, "How long all of them together"),
    Field("longest_us", pa.int64(), Merge.MAX, "How long the one that was there longest"),
    *ORDER,
)


def buckets(times_us: Array) -> Array:
    """The bucket of each time (µs, above 0)."""
    found: Array = np.ceil(np.log(times_us) / LOG_GAMMA).astype(np.int32)
    return found


def middle_us(bucket: int) -> float:
    """A time at most 2 % off any time in a bucket."""
    return 2 * GAMMA**bucket / (GAMMA + 1)


def units(entries: Range) -> pa.Table:
    """One row for each entry that has ended and each state that it had been in."""
    known = ~entries.numbers("is_carried").astype(bool)
    made = [_of_state(entries, number, known) for number in range(len(STATES))]
    return pa.concat_tables(made)


def _of_state(entries: Range, number: int, known: Array) -> pa.Table:
    times = entries.numbers(f"{STATES[number]}_us")
    rows = np.flatnonzero((times > 0) & known)
    ended = entries.numbers("ended_time")[rows]
    lasted = times[rows]
    numbers = {
        name: arrays.of_kind(entries.numbers(name)[rows], field.type)
        for name, field in _BY_NAME.items()
        if name in ("queue_id", "first_position", "first_ordinal", "last_position", "last_ordinal")
    }
    columns: dict[str, Any] = numbers | {
        "ledger_id": _some(entries.codes("ledger_id"), rows),
        "queue": _some(entries.codes("queue"), rows),
        "minute": arrays.of_kind(ended - ended % MINUTE_US, TIMESTAMP),
        "state": Codes(np.full(len(rows), number, np.int32), list(STATES)).array(),
        "bucket": pa.array(buckets(lasted)),
        "entries": pa.array(np.ones(len(rows), np.int64)),
        "total_us": pa.array(lasted),
        "longest_us": pa.array(lasted),
    }
    return pa.table({field.name: columns[field.name] for field in FIELDS})


def _some(codes: Codes, rows: Array) -> pa.Array:
    return Codes(codes.numbers[rows], codes.texts).array()


_BY_NAME: Final = {field.name: field for field in FIELDS}


def is_done(rows: pa.Table, events: Range | None, settled: bool) -> Array:
    """A day later hardly anything comes to a minute; what does, adds up all the same."""
    return is_quiet(rows, "minute", DAY_US) if settled else np.zeros(len(rows), bool)


DWELL_TIMES: Final = TableDefinition(
    "dwell_times",
    "How long entries that have ended had been in each state: sketches by queue and minute",
    1,
    FIELDS,
    units,
    is_done,
    "minute",
    source="entries",
    source_columns=(
        *(LEDGER_ID.name, "queue_id", "queue", "ended_time", "is_carried"),
        *DWELL,
        *(field.name for field in ORDER),
    ),
    is_late=True,
)
