"""Table ``deliveries``: one row for each time that a message was handed to someone."""

from typing import Final

import pyarrow as pa

from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.intervals import Intervals, has_ended
from postroom.spark.tables.range import Range

FROM_BEGIN: Final = {
    "began_time": "time",
    "began_event": "event",
    "holder_kind": "holder_kind",
    "holder_id": "holder_id",
    "holder": "holder",
    "container": "container",
    "user": "user",
}
FROM_END: Final = {
    "ended_time": "time",
    "ended_event": "event",
    "ended_state": "to_state",
    "outcome": "outcome",
    "reason": "reason",
}
FROM_TAKEN: Final = {
    "last_holder_kind": "holder_kind",
    "last_holder_id": "holder_id",
    "last_holder": "holder",
    "channel": "channel",
    "luwid": "luwid",
}

FIELDS: Final = (
    LEDGER_ID,
    Field("serial", pa.int64(), Merge.KEY, "The message"),
    Field("queue_id", pa.int64(), Merge.KEY, "The queue's id"),
    Field("began_position", pa.int64(), Merge.LINK, "Position of the event by which it was taken or locked"),
    Field("queue", pa.string(), Merge.ONLY, "The queue's name"),
    Field("began_time", TIMESTAMP, Merge.ONLY, "When it was taken; null if that is older than the history"),
    Field(
        "began_event", pa.string(), Merge.ONLY, "get, acquire or lock; none if that is older than the history"
    ),
    Field("holder_kind", pa.string(), Merge.ONLY, "Who it was delivered to"),
    Field("holder_id", pa.int64(), Merge.ONLY, "Which holder of that kind"),
    Field("holder", pa.string(), Merge.ONLY, "That holder's name"),
    Field("container", pa.string(), Merge.ONLY, "Its container"),
    Field("user", pa.string(), Merge.ONLY, "Who it logged in as"),
    Field(
        "last_holder_kind", pa.string(), Merge.LATEST, "Who had it at last: as the holder, or a transaction"
    ),
    Field("last_holder_id", pa.int64(), Merge.LATEST, "Which holder of that kind"),
    Field("last_holder", pa.string(), Merge.LATEST, "That holder's name; of an XA branch its Xid"),
    Field("channel", pa.string(), Merge.LATEST, "The sending channel whose batch had it"),
    Field("luwid", pa.string(), Merge.LATEST, "That batch"),
    Field("ended_time", TIMESTAMP, Merge.ONLY, "When it was confirmed or came back; null while it is held"),
    Field("ended_event", pa.string(), Merge.ONLY, "By what: confirm, undo, release, fail, link_lost, …"),
    Field("ended_state", pa.string(), Merge.ONLY, "Where the entry went: deleted, available, delayed"),
    Field("outcome", pa.string(), Merge.ONLY, "How the entry ended, if it did by this"),
    Field("reason", pa.string(), Merge.ONLY, "Why, as JSON, where a reason was given"),
    Field("sent", pa.bool_(), Merge.MAX, "It had been on the wire"),
    Field("delivery_delta", pa.int64(), Merge.SUM, "What it added to the entry's delivery count"),
    Field("failure_delta", pa.int64(), Merge.SUM, "What it added to the entry's failure count"),
    Field("held_us", pa.int64(), Merge.SUM, "How long it was held; null while it is", is_duration=True),
    *ORDER,
)
_BY_NAME: Final = {field.name: field for field in FIELDS}


def units(events: Range) -> pa.Table:
    """A row for each event that takes an entry, gives it on, or ends a taking."""
    got = events.codes("event").among("get") & ~events.was_taken
    rows = events.by_entry.order
    chosen = (events.is_taken | events.was_taken | got)[rows]
    rows = rows if chosen.all() else rows[chosen]
    was, taken, at_once = events.was_taken[rows], events.is_taken[rows], got[rows]
    intervals = Intervals(events, rows, (taken & ~was) | at_once, (was & ~taken) | at_once)
    changes = ~events.is_carried[rows]
    sources = ((FROM_BEGIN, intervals.begins), (FROM_END, intervals.ends), (FROM_TAKEN, taken | at_once))
    columns = intervals.columns(_BY_NAME, "held_us", sources)
    columns["began_time"] = intervals.column(_BY_NAME["began_time"], "time", intervals.begins & changes)
    for name in ("delivery_delta", "failure_delta"):
        columns[name] = pa.array(intervals.numbers(name) * changes)
    columns["sent"] = pa.array(intervals.numbers("sent").astype(bool))
    return pa.table(columns)


DELIVERIES: Final = TableDefinition(
    "deliveries",
    "Each time that a message was handed to someone: to whom, how long, and what came of it",
    1,
    FIELDS,
    units,
    has_ended,
    "ended_time",
)
