"""Rows that sum events up within a range, before they are folded with those of other ranges."""

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.tables import arrays
from postroom.spark.tables.arrays import Codes
from postroom.spark.tables.definition import Field
from postroom.spark.tables.groups import Groups
from postroom.spark.tables.range import Range


class Sums:
    """Sums over the events of each group of a range."""

    def __init__(self, events: Range, groups: Groups) -> None:
        self.events = events
        self.groups = groups

    def count(self, which: Array) -> Array:
        """How many events of each group are among those."""
        if not which.any():
            return np.zeros(len(self.groups), np.int64)
        return np.bincount(self.groups.of_row[which], minlength=len(self.groups))

    def by_text(self, codes: Codes, which: Array | None = None) -> dict[str, Array]:
        """How many events of each group have each text."""
        kinds = len(codes.texts)
        chosen = codes.numbers >= 0 if which is None else which & (codes.numbers >= 0)
        places = self.groups.of_row[chosen] * kinds + codes.numbers[chosen]
        counts = np.bincount(places, minlength=len(self.groups) * kinds).reshape(len(self.groups), kinds)
        return {text: counts[:, number] for number, text in enumerate(codes.texts)}

    def total(self, values: Array) -> Array:
        """The sum of whole numbers."""
        if not values.any() or not len(self.groups):
            return np.zeros(len(self.groups), np.int64)
        sums: Array = np.add.reduceat(values[self.groups.order].astype(np.int64), self.groups.starts)
        return sums

    def highest(self, changes: Array) -> Array:
        """The highest that a running sum of changes (in the order of the events) reaches after any of
        them."""
        if not len(self.groups):
            return np.zeros(0, np.int64)
        running = np.cumsum(changes[self.groups.order], dtype=np.int64)
        begins = self.groups.starts
        before = np.concatenate([np.zeros(1, np.int64), running[begins[1:] - 1]])
        highest: Array = np.maximum.reduceat(running, begins) - before
        return highest

    def first(self, field: Field) -> pa.Array:
        """The first event's value of a column that all of the group share."""
        column = self.events.column(field.name, field.type)
        if column.null_count == len(column):
            return pa.nulls(len(self.groups), field.type)
        if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            coded = self.events.codes(field.name)
            return Codes(coded.numbers[self.groups.first], coded.texts).array()
        return arrays.one(column).take(pa.array(self.groups.first))
