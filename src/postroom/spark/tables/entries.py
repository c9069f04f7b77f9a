"""Table ``entries``: one row for each message on each queue, where it stands and how it got there."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.ledger_source.columns import COLUMN_BY_NAME
from postroom.spark.ledger_source.state_names import HELD_STATES
from postroom.spark.tables import arrays
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.range import Range

DWELL: Final = {
    "put_unconfirmed_us": ("put_unconfirmed",),
    "delayed_us": ("delayed",),
    "available_us": ("available",),
    "locked_us": ("locked_for_browse",),
    "unconfirmed_us": ("get_unconfirmed", "browse_get_unconfirmed"),
}
"""Columns of the time spent, and in which states."""

FROM_ARRIVAL: Final = (
    *("message_id", "correlation_id", "group_id", "group_sequence", "priority", "durable", "stored"),
    *("adverse", "body_bytes", "expiry", "creation", "body_serial", "producer_id", "producer"),
    *("parent_serial", "parent_queue_id", "root_serial", "root_queue_id"),
    *("origin_ledger_id", "origin_serial", "sequence"),
)
"""Columns that are those of the entry's arrival; null on all other rows of events."""


def copied(name: str) -> Field:
    """A column of arrivals as it is."""
    column = COLUMN_BY_NAME[name]
    return Field(name, column.type, Merge.ONLY, column.comment)


def _dwell(name: str, states: tuple[str, ...]) -> Field:
    comment = f"Time spent {' or '.join(states)}; null while it is so"
    return Field(name, pa.int64(), Merge.SUM, comment, is_duration=True)


FIELDS: Final = (
    LEDGER_ID,
    Field("serial", pa.int64(), Merge.KEY, "The message: position of its arrival record"),
    Field("queue_id", pa.int64(), Merge.KEY, "The queue's id, never reused"),
    Field("queue", pa.string(), Merge.ONLY, "The queue's name"),
    Field("state", pa.string(), Merge.LAST, "Where the entry is in its life"),
    Field("outcome", pa.string(), Merge.LAST, "How it ended; null while it lives"),
    Field("reason", pa.string(), Merge.LAST, "Why it ended so, as JSON, where a reason was given"),
    Field("holder_kind", pa.string(), Merge.LAST, "Who must confirm, while someone must"),
    Field("holder_id", pa.int64(), Merge.LAST, "Which holder of that kind"),
    Field("holder", pa.string(), Merge.LAST, "That holder's name"),
    Field("delay_causes", pa.string(), Merge.LAST, "Why it is delayed, as a+b, while it is"),
    Field("due", TIMESTAMP, Merge.LAST, "When the delay ends"),
    Field("arrival_time", TIMESTAMP, Merge.ONLY, "When it was put"),
    Field("arrival_event", pa.string(), Merge.ONLY, "put, put_held, or what made it of its parent"),
    Field(
        "first_available_time",
        TIMESTAMP,
        Merge.MIN,
        "When it could first be got, as far as the history tells",
    ),
    Field("last_event", pa.string(), Merge.LAST, "Its last event; null if that is older than the history"),
    Field(
        "last_event_time",
        TIMESTAMP,
        Merge.LAST,
        "Time of its last event; null if that is older than the history",
    ),
    Field("ended_time", TIMESTAMP, Merge.LAST, "When it ended"),
    Field("delivery_count", pa.int64(), Merge.SUM, "Deliveries that came back, other than released"),
    Field("failure_count", pa.int64(), Merge.SUM, "Failures charged to the redelivery limit"),
    Field("event_count", pa.int64(), Merge.SUM, "Events in the history"),
    *(_dwell(name, states) for name, states in DWELL.items()),
    *(copied(name) for name in FROM_ARRIVAL),
    Field("channel", pa.string(), Merge.ONLY, "The channel that it came through"),
    Field(
        "is_carried",
        pa.bool_(),
        Merge.MAX,
        "Older than the history: a checkpoint tells of it; time before counts to its state there",
    ),
    *ORDER,
)


def units(events: Range) -> pa.Table:
    """One row for each event."""
    made = _state(events) | _times(events) | dwell(events) | events.order()
    made["channel"] = of_arrivals(events, "channel")
    made["delivery_count"] = events.column("delivery_delta", pa.int64())
    made["failure_count"] = events.column("failure_delta", pa.int64())
    made["event_count"] = pa.array((~events.is_carried).astype(np.int64))
    made["is_carried"] = pa.array(events.is_carried)
    return events.table({field.name: field.type for field in FIELDS}, made)


def _state(events: Range) -> dict[str, Any]:
    to_state = events.codes("to_state")
    held, delayed = to_state.among(*HELD_STATES), to_state.among("delayed")
    return {
        "state": to_state.array(),
        "outcome": events.codes("outcome").array(),
        "reason": arrays.where(events.column("reason", pa.string()), events.is_end),
        "holder_kind": events.codes("holder_kind").array(held),
        "holder_id": arrays.where(events.column("holder_id", pa.int64()), held),
        "holder": events.codes("holder").array(held),
        "delay_causes": events.codes("causes").array(delayed),
        "due": arrays.where(events.column("due", TIMESTAMP), delayed),
        "last_event": events.codes("event").array(~events.is_carried),
    }


def _times(events: Range) -> dict[str, Any]:
    time = arrays.one(events.column("time", TIMESTAMP))
    carried = events.is_carried
    became_available = events.codes("to_state").among("available") & ~carried
    return {
        "arrival_time": arrays.where(time, events.is_arrival | carried),
        "arrival_event": events.codes("event").array(events.is_arrival),
        "first_available_time": arrays.where(time, became_available),
        "last_event_time": arrays.where(time, ~carried),
        "ended_time": arrays.where(time, events.is_end),
    }


def dwell(events: Range) -> dict[str, pa.Array]:
    """The times spent, as sums that telescope: plus the time when a state is left, minus that when it is
    entered."""
    to_state, from_state = events.codes("to_state"), events.codes("from_state")
    came = ~events.is_carried
    found = {}
    for name, states in DWELL.items():
        left = (from_state.among(*states) & came).astype(np.int8)
        found[name] = pa.array(events.since_us * (left - to_state.among(*states)))
    return found


def of_arrivals(events: Range, name: str) -> pa.ChunkedArray | pa.Array:
    """A column that other rows have, too, as it is on arrivals."""
    column = events.column(name, pa.string())
    came = events.is_arrival | events.is_carried
    return column if column.null_count == len(column) else arrays.where(column, came)


def is_done(rows: pa.Table, events: Range | None, settled: bool) -> Array:
    """An entry that has ended, and whose arrival is told of: no event comes before the one, none after the
    other."""
    return arrays.codes(rows.column("state")).among("deleted") & arrays.valid(rows.column("arrival_time"))


ENTRIES: Final = TableDefinition(
    "entries",
    "Where each message stands on each queue or subscription, and how it got there",
    1,
    FIELDS,
    units,
    is_done,
    "ended_time",
)
