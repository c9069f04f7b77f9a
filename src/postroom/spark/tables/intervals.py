"""Tables of intervals: one row for each time that an entry was in certain states, from the event that brought
it there to the one that took it away.

The event that ends an interval doesn't say which one: it is the one that the entry was in. So rows of a range
may not know their interval yet; they take it from the row before them when they meet it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.tables import arrays
from postroom.spark.tables.definition import Field
from postroom.spark.tables.range import Range


class Intervals:
    """Rows of a range that begin an interval (``begins``), end one, or lie within one."""

    def __init__(self, events: Range, rows: Array, begins: Array, ends: Array) -> None:
        self.events = events
        self.rows = rows
        self.begins = begins
        self.ends = ends

    def numbers(self, name: str) -> Array:
        """A column of numbers."""
        found: Array = self.events.numbers(name)[self.rows]
        return found

    def column(self, field: Field, name: str = "", where: Array | None = None) -> pa.Array:
        """A column as it is on the chosen rows, null on the others."""
        column = self.events.column(name or field.name, field.type)
        if column.null_count == len(column):
            return pa.nulls(len(self.rows), field.type)
        if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            coded = self.events.codes(name or field.name)
            return arrays.Codes(coded.numbers[self.rows], coded.texts).array(where)
        taken = arrays.one(column).take(pa.array(self.rows))
        return taken if where is None else arrays.where(taken, where)

    def columns(
        self, fields: Mapping[str, Field], lasted: str, sources: Iterable[tuple[Mapping[str, str], Array]]
    ) -> dict[str, Any]:
        """Entry, queue and order of events; the interval, which is the position of the event that begins it,
        and the time spent, as a sum that telescopes; and which columns come from which, where."""
        found = {name: self.column(fields[name]) for name in ("ledger_id", "serial", "queue_id", "queue")}
        found["began_position"] = arrays.of_kind(self.numbers("position"), pa.int64(), ~self.begins)
        since_us = self.events.since_us[self.rows]
        found[lasted] = pa.array(since_us * (self.ends.astype(np.int8) - self.begins.astype(np.int8)))
        for names, where in sources:
            found |= {name: self.column(fields[name], source, where) for name, source in names.items()}
        return found | self.events.order(self.rows)


def has_ended(rows: pa.Table, events: Range | None, settled: bool) -> Array:
    """An interval whose beginning and end are recorded."""
    ended = arrays.valid(rows.column("ended_time"))
    return ended & arrays.valid(rows.column("began_position"))
