"""Table ``undelivered``: one row for each entry that failed, or ended without reaching a consumer."""

import json
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.ledger_source.state_names import OUTCOMES
from postroom.spark.tables import arrays
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.final_rows import DAY_US, arrived_within, is_quiet
from postroom.spark.tables.range import Range

REACHED: Final = ("consumed", "moved", "forwarded", "rolled_back")
"""Outcomes of entries that reached who they were for, or that never were for anybody."""

UNREACHED: Final = tuple(name for name in OUTCOMES if name not in REACHED)

REASON_FIELDS: Final = {
    "condition": pa.string(),
    "description": pa.string(),
    "reason_code": pa.int64(),
    "queue_manager": pa.string(),
    "channel": pa.string(),
    "report": pa.int64(),
    "dropped": pa.bool_(),
}
"""What the JSON of a reason says, and as what."""

IN_JSON: Final = {"reason_code": "reason"}
"""What is called otherwise there."""

FIELDS: Final = (
    LEDGER_ID,
    Field("serial", pa.int64(), Merge.KEY, "The message"),
    Field("queue_id", pa.int64(), Merge.KEY, "The queue's id"),
    Field("queue", pa.string(), Merge.ONLY, "The queue's name; $undelivered for what could be put nowhere"),
    Field("failures", pa.int64(), Merge.SUM, "Failures charged to the redelivery limit"),
    Field("retries", pa.int64(), Merge.SUM, "Deliveries that came back, other than released"),
    Field("last_failed_time", TIMESTAMP, Merge.MAX, "When it failed last"),
    Field(
        "outcome",
        pa.string(),
        Merge.ONLY,
        "How it ended, without reaching a consumer; null if it hasn't or did",
    ),
    Field(
        "rule", pa.string(), Merge.ONLY, "The event that ended it: expire, dead_letter, redirect, discard, …"
    ),
    Field("ended_time", TIMESTAMP, Merge.ONLY, "When it ended so"),
    Field("condition", pa.string(), Merge.ONLY, "Why: the AMQP condition"),
    Field("description", pa.string(), Merge.ONLY, "Why, in words"),
    Field("reason_code", pa.int64(), Merge.ONLY, "Why: reason code (MQRC) or feedback (MQFB)"),
    Field("queue_manager", pa.string(), Merge.ONLY, "The queue manager that it was for"),
    Field("channel", pa.string(), Merge.ONLY, "The channel that brought it"),
    Field("report", pa.int64(), Merge.ONLY, "Serial of the report that a returned message has become"),
    Field("dropped", pa.bool_(), Merge.ONLY, "It came by a fast channel and had nowhere to go"),
    Field("last_time", TIMESTAMP, Merge.MAX, "When it failed last or ended"),
    *ORDER,
)
_BY_NAME: Final = {field.name: field for field in FIELDS}


def units(events: Range) -> pa.Table:
    """A row for each failure and for each end that is not as it should be."""
    lost = events.codes("outcome").among(*UNREACHED)
    failed = (events.numbers("failure_delta") > 0) | (events.numbers("delivery_delta") > 0)
    mine = events.take(np.flatnonzero(lost | failed))
    ended, failed = mine.codes("outcome").among(*UNREACHED), mine.numbers("failure_delta") > 0
    time = mine.column("time", TIMESTAMP)
    columns: dict[str, Any] = {
        name: mine.column(name, _BY_NAME[name].type) for name in ("ledger_id", "serial", "queue_id", "queue")
    }
    columns |= {
        "failures": mine.column("failure_delta", pa.int64()),
        "retries": mine.column("delivery_delta", pa.int64()),
        "last_failed_time": arrays.where(time, failed & ~mine.is_carried),
        "outcome": mine.codes("outcome").array(ended),
        "rule": mine.codes("event").array(ended),
        "ended_time": arrays.where(time, ended),
        "last_time": time,
    }
    return pa.table(columns | reason_columns(mine, ended) | mine.order())


def reason_columns(events: Range, where: Array) -> dict[str, pa.Array]:
    """What the reasons of some rows say, each text read once."""
    codes = events.codes("reason")
    reasons: list[dict[str, Any]] = []
    for text in codes.texts:
        decoded = None
        with suppress(ValueError):  # withheld, or hashed
            decoded = json.loads(text)
        reasons.append(decoded if isinstance(decoded, dict) else {})
    reasons.append({})
    numbers = pa.array(np.where(where, codes.numbers, -1) % len(reasons))
    return {
        name: pa.array([_as(kind, one.get(IN_JSON.get(name, name))) for one in reasons], kind).take(numbers)
        for name, kind in REASON_FIELDS.items()
    }


def _as(kind: pa.DataType, value: Any) -> Any:
    """A value of JSON, None if it isn't of that kind."""
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else None
    return value if type(value) is (bool if pa.types.is_boolean(kind) else int) else None


def is_done(rows: pa.Table, events: Range | None, settled: bool) -> Array:
    """One that has ended; or one that failed, and a day later nothing more was heard: it may have been
    consumed."""
    ended = arrays.valid(rows.column("ended_time"))
    if not settled:
        return ended & arrived_within(rows, events)
    return ended | is_quiet(rows, "last_time", DAY_US)


UNDELIVERED: Final = TableDefinition(
    "undelivered",
    "Each entry that failed or ended without reaching a consumer: why, how often it was tried",
    1,
    FIELDS,
    units,
    is_done,
    "last_time",
    is_late=True,
)
