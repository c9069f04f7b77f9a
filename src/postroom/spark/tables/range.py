"""A range of rows that several tables are made of: what they have in common is worked out once."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.ledger_source.columns import ACT, REFUSAL
from postroom.spark.ledger_source.state_names import TAKEN_STATES
from postroom.spark.tables import arrays
from postroom.spark.tables.arrays import Codes
from postroom.spark.tables.groups import Groups, Rank, group, rank

DWELL_EPOCH_US: Final = 1_577_836_800_000_000
"""2020-01-01: sums of times since then stay far from the bounds of 64 bits."""

MINUTE_US: Final = 60_000_000


class Range:
    """Event rows, in any order, with their columns as numpy arrays. A column that is missing counts as
    null."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self._codes: dict[str, Codes] = {}
        self._numbers: dict[tuple[str, int], Array] = {}

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def column(self, name: str, kind: pa.DataType) -> pa.ChunkedArray | pa.Array:
        """A column as it is; nulls of that type where the rows have none of the name."""
        return self.rows.column(name) if name in self.rows.column_names else pa.nulls(len(self), kind)

    def table(self, kinds: Mapping[str, pa.DataType], made: Mapping[str, Any]) -> pa.Table:
        """Columns of these names, in that order: what was ``made`` of the rows, and the others as they are;
        ``kinds``: the types of those that the rows don't have."""
        return pa.table(
            {name: made[name] if name in made else self.column(name, kind) for name, kind in kinds.items()}
        )

    def codes(self, name: str) -> Codes:
        """A column of few texts."""
        if name not in self._codes:
            self._codes[name] = arrays.codes(self.column(name, pa.string()))
        return self._codes[name]

    def numbers(self, name: str, null: int = 0) -> Array:
        """A column of numbers, times in µs, or truths."""
        if (name, null) not in self._numbers:
            self._numbers[name, null] = arrays.numbers(self.column(name, pa.int64()), null)
        return self._numbers[name, null]

    @cached_property
    def of_entries(self) -> "Range":
        """The rows that tell of entries: all but those of messages that were refused, and of acts."""
        others = self.codes("record").among(REFUSAL, ACT)
        return self.take(np.flatnonzero(~others)) if others.any() else self

    @cached_property
    def is_arrival(self) -> Array:
        """Which rows are arrivals."""
        return self.codes("from_state").among("start")

    @cached_property
    def is_carried(self) -> Array:
        """Which rows are no events but tell where an entry older than the history was at a checkpoint."""
        return self.codes("event").among("none")

    @cached_property
    def is_end(self) -> Array:
        """Which rows end their entry."""
        return self.codes("to_state").among("deleted")

    @cached_property
    def since_us(self) -> Array:
        """Times of the rows since ``DWELL_EPOCH_US``."""
        since: Array = self.numbers("time") - DWELL_EPOCH_US
        return since

    @cached_property
    def rank(self) -> Rank:
        """The order of the rows' events."""
        return rank(self.numbers("position"), self.numbers("ordinal"))

    @cached_property
    def ledgers(self) -> Array:
        """The ledger of each row as a number."""
        return self.codes("ledger_id").numbers

    @cached_property
    def by_entry(self) -> Groups:
        """The rows by entry (and so by message), each entry's in order."""
        return group([self.ledgers, self.numbers("serial"), self.numbers("queue_id")], self.rank)

    @cached_property
    def by_message(self) -> Groups:
        """The rows by message, each message's in order: as by entry, where each has but one."""
        ledgers, serials = self.ledgers[self.by_entry.first], self.numbers("serial")[self.by_entry.first]
        if ((ledgers[1:] != ledgers[:-1]) | (serials[1:] != serials[:-1])).all():
            return self.by_entry
        return group([self.ledgers, self.numbers("serial")], self.rank)

    @cached_property
    def minutes_us(self) -> Array:
        """The minute of each row, in µs since 1970."""
        times = self.numbers("time")
        minutes: Array = times - times % MINUTE_US
        return minutes

    @cached_property
    def is_taken(self) -> Array:
        """Which rows leave their entry with someone who has got or locked it."""
        return self.codes("to_state").among(*TAKEN_STATES)

    @cached_property
    def was_taken(self) -> Array:
        """Which rows find their entry with someone who has got or locked it; what a checkpoint tells does
        not."""
        return self.codes("from_state").among(*TAKEN_STATES) & ~self.is_carried

    @cached_property
    def begins(self) -> dict[str, int]:
        """The lowest position by ledger: what arrived before has arrived in another range."""
        positions, ledgers = self.numbers("position"), self.ledgers
        texts = self.codes("ledger_id").texts
        return {text: int(positions[ledgers == number].min()) for number, text in enumerate(texts)}

    def take(self, rows: Array) -> "Range":
        """Some of the rows as a range of their own."""
        return Range(self.rows.take(pa.array(rows)))

    def order(self, first: Any = slice(None), last: Any = None) -> dict[str, pa.Array]:
        """The columns ``ORDER`` of rows that tell of the events of some rows, each of one event, or of those
        from `first` to `last`."""
        positions, ordinals = self.numbers("position"), self.numbers("ordinal").astype(np.int32)
        begins = pa.array(positions[first]), pa.array(ordinals[first])
        ends = begins if last is None else (pa.array(positions[last]), pa.array(ordinals[last]))
        names = ("first_position", "first_ordinal", "last_position", "last_ordinal")
        return dict(zip(names, (*begins, *ends), strict=True))
