"""Table ``messages``: one row for each message, where it comes from and what became of its entries."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.spark.ledger_source.state_names import OUTCOMES
from postroom.spark.tables import arrays
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.entries import FROM_ARRIVAL, copied, of_arrivals
from postroom.spark.tables.range import Range

FIELDS: Final = (
    LEDGER_ID,
    Field("serial", pa.int64(), Merge.KEY, "The message: position of its arrival record"),
    *(copied(name) for name in FROM_ARRIVAL if name != "root_queue_id"),
    Field("channel", pa.string(), Merge.ONLY, "The channel that it came through"),
    Field("container", pa.string(), Merge.ONLY, "Container of its producer"),
    Field("user", pa.string(), Merge.ONLY, "Who its producer logged in as"),
    Field("arrival_time", TIMESTAMP, Merge.ONLY, "When it was put"),
    Field("arrival_event", pa.string(), Merge.ONLY, "put, put_held, or what made it of its parent"),
    Field("ended_time", TIMESTAMP, Merge.MAX, "When the last of its entries ended, so far"),
    Field("arrived", pa.int64(), Merge.SUM, "Its entries: the queues and subscriptions that it went to"),
    Field("ended", pa.int64(), Merge.SUM, "How many of them have ended"),
    *(Field(name, pa.int64(), Merge.SUM, f"How many of them ended as {name}") for name in OUTCOMES),
    Field("is_carried", pa.bool_(), Merge.MAX, "Older than the history: only entries that lived on count"),
    *ORDER,
)


def units(events: Range) -> pa.Table:
    """One row for each event."""
    came = events.is_arrival | events.is_carried
    made: dict[str, Any] = events.order() | _ends(events)
    made["arrived"] = pa.array(came.astype(np.int64))
    made["is_carried"] = pa.array(events.is_carried)
    made["arrival_time"] = arrays.where(events.column("time", TIMESTAMP), came)
    made["arrival_event"] = events.codes("event").array(events.is_arrival)
    for name in ("channel", "container", "user"):
        made[name] = of_arrivals(events, name)
    return events.table({field.name: field.type for field in FIELDS}, made)


def _ends(events: Range) -> dict[str, pa.Array]:
    outcome = events.codes("outcome")
    never = pa.array(np.zeros(len(events), np.int64))
    counted = {
        name: pa.array(outcome.among(name).astype(np.int64)) if name in outcome.texts else never
        for name in OUTCOMES
    }
    counted["ended"] = pa.array(events.is_end.astype(np.int64))
    return counted | {"ended_time": arrays.where(events.column("time", TIMESTAMP), events.is_end)}


def is_done(rows: pa.Table, events: Range | None, settled: bool) -> Any:
    """All entries arrive in one record; when as many have ended as arrived, nothing more can come."""
    arrived = arrays.numbers(rows.column("arrived"))
    return (arrived > 0) & (arrived == arrays.numbers(rows.column("ended")))


MESSAGES: Final = TableDefinition(
    "messages",
    "Where each message comes from, and what became of it on all of its queues and subscriptions",
    1,
    FIELDS,
    units,
    is_done,
    "ended_time",
)
