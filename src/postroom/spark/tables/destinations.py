"""Table ``destinations``: one row for each queue or subscription and minute, what happened there."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.ledger_source.state_names import DELAY_CAUSES, LIVE_STATES, OUTCOMES
from postroom.spark.tables import arrays
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.final_rows import is_past_minute
from postroom.spark.tables.groups import group
from postroom.spark.tables.range import Range
from postroom.spark.tables.range_sums import Sums


def _sum(name: str, comment: str) -> Field:
    return Field(name, pa.int64(), Merge.SUM, comment)


def _high(what: str, comment: str) -> Field:
    return Field(f"{what}_high", pa.int64(), Merge.HIGH, comment, of=f"{what}_change")


FIELDS: Final = (
    LEDGER_ID,
    Field("queue_id", pa.int64(), Merge.KEY, "The queue's id, never reused"),
    Field("minute", TIMESTAMP, Merge.KEY, "The minute; of what a checkpoint tells, that of its arrival"),
    Field("queue", pa.string(), Merge.ONLY, "The queue's name"),
    _sum("arrivals", "Entries that arrived"),
    _sum("arrived_bytes", "Size of their stored sections"),
    _sum("carried", "Entries older than the history, as a checkpoint tells of them"),
    _sum("ends", "Entries that ended"),
    *(_sum(name, f"Entries that ended as {name}") for name in OUTCOMES),
    _sum("deliveries", "Entries got, acquired or locked"),
    _sum("redeliveries", "Deliveries that came back, other than released"),
    _sum("failures", "Failures charged to the redelivery limit"),
    *(
        _sum(f"{cause}_delays", f"Entries that began to wait for {cause}, or went on to")
        for cause in DELAY_CAUSES
    ),
    *(
        _sum(f"{state}_change", f"Entries {state} at the end of the minute, less those at its start")
        for state in LIVE_STATES
    ),
    _sum("depth_change", "The same, of all states"),
    _high("available", "Highest number available, less that at the minute's start"),
    _high("depth", "Highest number of entries, less that at the minute's start"),
    *ORDER,
)
_BY_NAME: Final = {field.name: field for field in FIELDS}


def units(events: Range) -> pa.Table:
    """One row for each queue and minute of the range."""
    groups = group([events.ledgers, events.numbers("queue_id"), events.minutes_us], events.rank)
    sums = Sums(events, groups)
    minutes = events.minutes_us[groups.first] if len(groups) else np.zeros(0, np.int64)
    columns: dict[str, Any] = {"minute": arrays.of_kind(minutes, TIMESTAMP)}
    columns |= {name: sums.first(_BY_NAME[name]) for name in ("ledger_id", "queue_id", "queue")}
    columns |= {name: pa.array(values) for name, values in (_counts(sums) | _levels(sums)).items()}
    return pa.table(columns | events.order(groups.first, groups.last))


def _counts(sums: Sums) -> dict[str, Array]:
    events = sums.events
    came, changes = events.is_arrival, ~events.is_carried
    outcomes, none = sums.by_text(events.codes("outcome")), np.zeros(len(sums.groups), np.int64)
    causes = sums.by_text(events.codes("causes"), events.codes("to_state").among("delayed"))
    handed = (events.is_taken & ~events.was_taken) | (events.codes("event").among("get") & ~events.was_taken)
    found = {
        "arrivals": sums.count(came),
        "arrived_bytes": sums.total(events.numbers("body_bytes") * came),
        "carried": sums.count(events.is_carried),
        "ends": sums.count(events.is_end),
        "deliveries": sums.count(handed & changes),
        "redeliveries": sums.total(events.numbers("delivery_delta") * changes),
        "failures": sums.total(events.numbers("failure_delta") * changes),
    }
    for cause in DELAY_CAUSES:
        counts_of_cause = [counts for text, counts in causes.items() if cause in text.split("+")]
        found[f"{cause}_delays"] = sum(counts_of_cause, none)
    return found | {name: outcomes.get(name, none) for name in OUTCOMES}


def _levels(sums: Sums) -> dict[str, Array]:
    """How many more entries are in each state, and the highest within the minute."""
    events, none = sums.events, np.zeros(len(sums.groups), np.int64)
    came, went = events.codes("to_state"), events.codes("from_state")
    entered, left = sums.by_text(came), sums.by_text(went, ~events.is_carried)
    found = {f"{state}_change": entered.get(state, none) - left.get(state, none) for state in LIVE_STATES}
    available = came.among("available").astype(np.int8) - (went.among("available") & ~events.is_carried)
    depth = (events.is_arrival | events.is_carried).astype(np.int8) - events.is_end
    found["depth_change"] = sums.total(depth)
    found["available_high"] = sums.highest(available)
    found["depth_high"] = sums.highest(depth)
    return found


DESTINATIONS: Final = TableDefinition(
    "destinations",
    "What happened at each queue and subscription by minute: rates, changes of its levels, high water",
    1,
    FIELDS,
    units,
    is_past_minute,
    "minute",
)
