"""Table ``delays``: one row for each time that a message had to wait, and why."""

from typing import Final

import numpy as np
import pyarrow as pa

from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition
from postroom.spark.tables.intervals import Intervals, has_ended
from postroom.spark.tables.range import Range

FROM_BEGIN: Final = {"began_time": "time", "began_event": "event", "causes": "causes", "due": "due"}
FROM_END: Final = {"ended_time": "time", "ended_event": "event", "ended_state": "to_state"}

FIELDS: Final = (
    LEDGER_ID,
    Field("serial", pa.int64(), Merge.KEY, "The message"),
    Field("queue_id", pa.int64(), Merge.KEY, "The queue's id"),
    Field(
        "began_position", pa.int64(), Merge.LINK, "Position of the event that made it wait, or wait for else"
    ),
    Field("queue", pa.string(), Merge.ONLY, "The queue's name"),
    Field(
        "causes", pa.string(), Merge.ONLY, "Why: unborn, redelivery_delay, paused, ordered, or several as a+b"
    ),
    Field("due", TIMESTAMP, Merge.ONLY, "When it was to end"),
    Field("began_time", TIMESTAMP, Merge.ONLY, "When it began"),
    Field("began_event", pa.string(), Merge.ONLY, "By what; none if that is older than the history"),
    Field("ended_time", TIMESTAMP, Merge.ONLY, "When it ended; null while it waits"),
    Field("ended_event", pa.string(), Merge.ONLY, "By what"),
    Field("ended_state", pa.string(), Merge.ONLY, "Where the entry went; delayed if it then waits for else"),
    Field("delayed_us", pa.int64(), Merge.SUM, "How long it waited; null while it does", is_duration=True),
    *ORDER,
)
_BY_NAME: Final = {field.name: field for field in FIELDS}


def units(events: Range) -> pa.Table:
    """A row for each event that begins a wait and for each that ends one; two for one that does both."""
    begins = np.flatnonzero(events.codes("to_state").among("delayed"))
    ends = np.flatnonzero(events.codes("from_state").among("delayed") & ~events.is_carried)
    is_begin = np.arange(len(begins) + len(ends)) < len(begins)
    intervals = Intervals(events, np.concatenate([begins, ends]), is_begin, ~is_begin)
    sources = ((FROM_BEGIN, intervals.begins), (FROM_END, intervals.ends))
    return pa.table(intervals.columns(_BY_NAME, "delayed_us", sources))


DELAYS: Final = TableDefinition(
    "delays",
    "Each time that a message had to wait: why, from when to when",
    1,
    FIELDS,
    units,
    has_ended,
    "ended_time",
)
