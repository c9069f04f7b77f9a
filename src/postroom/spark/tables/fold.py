"""Folding: rows of a table with the same key become one, each column by its merge."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.ledger.format.layout import Array
from postroom.spark.tables import arrays
from postroom.spark.tables.definition import Field, Merge, TableDefinition
from postroom.spark.tables.final_rows import DAY_US
from postroom.spark.tables.groups import Groups, group, rank
from postroom.spark.tables.range import Range

Part = Literal["open", "done"]
OPEN: Final[Part] = "open"
DONE: Final[Part] = "done"

LOWEST: Final = -(1 << 63)
HIGHEST: Final = (1 << 63) - 1


def fold(
    definition: TableDefinition, rows: pa.Table, groups: Groups | None = None, coded: bool = False
) -> pa.Table:
    """One row for each key, sorted by key. Of a table that is append-only, the rows as they are.

    ``groups``, if it is known already: the rows by key, each key's in the order of their events. ``coded``:
    what are dictionary arrays in the rows stay so.
    """
    if definition.is_done is None:
        return _typed(definition, [rows.column(name) for name in definition.schema.names], coded)
    if not len(rows):
        return definition.schema.empty_table()
    found = groups if groups is not None else _groups(definition, rows)
    folding = _Folding(definition, rows, found)
    return _typed(definition, [folding.column(field) for field in definition.fields], coded)


def _typed(
    definition: TableDefinition, columns: Sequence[pa.Array | pa.ChunkedArray], coded: bool
) -> pa.Table:
    """The columns in the types of the table, or, ``coded``, texts as they are."""
    schema = definition.schema
    for at, column in enumerate(columns) if coded else ():
        if pa.types.is_dictionary(column.type):
            schema = schema.set(at, schema.field(at).with_type(column.type))
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def shown(definition: TableDefinition, folded: pa.Table) -> pa.Table:
    """Folded rows as their readers see them, of which columns some may be missing: durations that go on are
    null."""
    for field in definition.fields:
        if field.is_duration and field.name in folded.column_names:
            at, column = folded.column_names.index(field.name), folded.column(field.name)
            over = pc.if_else(pc.less(column, 0), pa.scalar(None, field.type), column)
            folded = folded.set_column(at, folded.schema.field(at), over)
    return folded


def partials(definition: TableDefinition, events: pa.Table | Range, coded: bool = False) -> pa.Table:
    """The table's rows of a range of events (or of rows of the table that it is made of), folded; ``coded``
    as for `fold`.

    Give a ``Range`` where several tables are made of the same events: they share what they have in common.
    """
    rows = events if isinstance(events, Range) else Range(events)
    if definition.is_done is not None:
        rows = rows.of_entries
    made = definition.units(rows)
    shared = _SHARED.get(definition.key) if len(made) == len(rows) else None
    return fold(definition, made, shared(rows) if shared else None, coded)


_SHARED: Final[dict[tuple[str, ...], Callable[[Range], Groups]]] = {
    ("ledger_id", "serial", "queue_id"): lambda rows: rows.by_entry,
    ("ledger_id", "serial"): lambda rows: rows.by_message,
}
"""Groups of the range's own rows by a table's key."""


def split(
    definition: TableDefinition,
    folded: pa.Table,
    events: pa.Table | Range | None = None,
    settled: bool = False,
) -> Iterator[tuple[Part, str | None, pa.Table]]:
    """Folded rows by part and day: (part, day as in ISO 8601 or None, rows). Parts without rows are left out.

    ``settled``: the rows are all that there are of their keys, as when the part open is settled. Otherwise
    they are of one range; with its ``events``, more of them are known to be done.
    """
    source = Range(events) if isinstance(events, pa.Table) else events
    done = np.ones(len(folded), bool)
    if definition.is_done is not None:
        done = definition.is_done(folded, source, settled)
    if not done.all():
        yield OPEN, None, folded.filter(pa.array(~done))
    if done.any():
        yield from _days(definition.day_of, folded if done.all() else folded.filter(pa.array(done)))


def _days(day_of: str, rows: pa.Table) -> Iterator[tuple[Part, str | None, pa.Table]]:
    days = arrays.numbers(rows.column(day_of)) // DAY_US
    for day in np.unique(days):
        text = str(np.datetime64(int(day), "D"))
        yield DONE, text, rows if (days == day).all() else rows.filter(pa.array(days == day))


def _groups(definition: TableDefinition, rows: pa.Table) -> Groups:
    keys = [_key(rows.column(name)) for name in definition.key if name != definition.link]
    positions = arrays.numbers(rows.column("first_position"))
    ordinals = arrays.numbers(rows.column("first_ordinal"))
    if not definition.link:
        return group(keys, rank(positions, ordinals))
    links = arrays.numbers(rows.column(definition.link))
    # an event may end one thing and begin the next: the row without a link is the end
    return _linked(group(keys, rank(positions, 2 * ordinals + (links > 0))), links)


def _linked(groups: Groups, links: Array) -> Groups:
    """Groups cut where a row begins something: the rows behind it go on with that."""
    ordered = links[groups.order]
    changes = np.zeros(len(ordered), bool)
    changes[groups.starts] = True
    # each 0 replaced by the link before it in its group
    last_set = np.maximum.accumulate(np.where(ordered > 0, np.arange(len(ordered)), -1))
    filled = np.where(last_set >= groups.starts[groups.of_sorted], ordered[last_set], 0)
    changes[1:] |= filled[1:] != filled[:-1]
    return Groups(groups.order, np.flatnonzero(changes))


def _key(column: pa.ChunkedArray) -> Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return arrays.codes(column).numbers
    return arrays.numbers(column, null=-1)


class _Folding:
    """One fold: rows and groups, and what columns share."""

    def __init__(self, definition: TableDefinition, rows: pa.Table, groups: Groups) -> None:
        self._definition = definition
        self._rows = rows
        self._groups = groups
        self._first = pa.array(groups.first)
        self._last = pa.array(self._last_rows())
        self._only: dict[tuple[tuple[int, int], ...], pa.Array] = {}

    def column(self, field: Field) -> pa.Array:
        column = self._rows.column(field.name)
        if column.null_count == len(column):
            return pa.nulls(len(self._groups), field.type)
        return _MERGES[field.merge](self, field, column)

    def first(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        return arrays.one(column).take(self._first)

    def last(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        return arrays.one(column).take(self._last)

    def only(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        """A value that is not null, if there is one. Chunks that are all null cost nothing; columns that are
        set in the same chunks share where to look."""
        if column.null_count == 0:
            return self.first(field, column)
        pieces, start = [], 0
        for chunk in column.chunks:
            if chunk.null_count < len(chunk):
                pieces.append((start, chunk))
            start += len(chunk)
        values = arrays.one(pa.chunked_array([chunk for _, chunk in pieces]))
        if values.null_count:
            return values.take(self._places(_spans(pieces), arrays.valid(values)))
        key = tuple((start, len(chunk)) for start, chunk in pieces)
        if key not in self._only:
            self._only[key] = self._places(_spans(pieces), None)
        return values.take(self._only[key])

    def _places(self, rows: Array, kept: Array | None) -> pa.Array:
        """For each group, which of these values it has: ``rows`` are the values' rows, ``kept`` which aren't
        null."""
        found = np.full(len(self._groups), -1, np.int64)
        if kept is None:
            found[self._groups.of_row[rows]] = np.arange(len(rows))
        else:
            places = np.flatnonzero(kept)
            found[self._groups.of_row[rows[places]]] = places
        missing = found < 0
        return pa.array(found, mask=missing if missing.any() else None)

    def link(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        """Within a group either all rows have the same one, or those that have none follow one that has."""
        links = np.maximum.reduceat(arrays.numbers(column)[self._groups.order], self._groups.starts)
        return arrays.of_kind(links, field.type, links == 0)

    def latest(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        values = arrays.one(column)
        is_set = arrays.valid(values)[self._groups.order]
        places = np.maximum.reduceat(np.where(is_set, np.arange(len(is_set)), -1), self._groups.starts)
        rows = self._groups.order[places]
        return values.take(pa.array(rows, mask=places < 0))

    def sum(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        values = arrays.numbers(column)
        if not values.any():
            return arrays.of_kind(np.zeros(len(self._groups), np.int64), field.type)
        sums = np.add.reduceat(values[self._groups.order], self._groups.starts)
        return arrays.of_kind(sums, field.type)

    def highest(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        return self._extreme(field, column, np.maximum, LOWEST)

    def lowest(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        return self._extreme(field, column, np.minimum, HIGHEST)

    def _extreme(self, field: Field, column: pa.ChunkedArray, better: np.ufunc, none: int) -> pa.Array:
        is_truth = pa.types.is_boolean(field.type)
        values = arrays.numbers(column, (none > 0) if is_truth else none)
        found = better.reduceat(values[self._groups.order], self._groups.starts)
        if is_truth:
            return pa.array(found)
        return arrays.of_kind(found, field.type, found == none if column.null_count else None)

    def high(self, field: Field, column: pa.ChunkedArray) -> pa.Array:
        """The highest running sum: before each row the sum of those before it, and then the row's own
        highest."""
        order, starts = self._groups.order, self._groups.starts
        sums = arrays.numbers(self._rows.column(field.of))[order]
        before = np.cumsum(sums) - sums
        within = before - before[starts][self._groups.of_sorted]
        return arrays.of_kind(np.maximum.reduceat(within + arrays.numbers(column)[order], starts), field.type)

    def _last_rows(self) -> Array:
        """Each group's row with the last event; mostly the one that begins last, too."""
        if _are_same(self._rows.column("first_position"), self._rows.column("last_position")):
            return self._groups.last  # rows of one event each
        order = self._groups.order
        positions = arrays.numbers(self._rows.column("last_position"))
        ordinals = arrays.numbers(self._rows.column("last_ordinal"))
        ordered, second = positions[order], ordinals[order]
        inner = np.ones(max(len(order) - 1, 0), bool)
        inner[self._groups.starts[1:] - 1] = False
        steps = np.diff(ordered)
        back = inner & ((steps < 0) | ((steps == 0) & (np.diff(second) < 0)))
        if not back.any():
            return self._groups.last
        return group([self._groups.of_row], rank(positions, ordinals)).last


def _are_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if one.num_chunks != 1 or other.num_chunks != 1:
        return False
    return bool(one.chunk(0).buffers()[1].address == other.chunk(0).buffers()[1].address)


def _spans(pieces: list[tuple[int, pa.Array]]) -> Array:
    """The row numbers of chunks that begin at these rows."""
    return np.concatenate([np.arange(start, start + len(chunk)) for start, chunk in pieces])


_MERGES: Final[dict[Merge, Callable[[_Folding, Field, pa.ChunkedArray], pa.Array]]] = {
    Merge.KEY: _Folding.first,
    Merge.FIRST: _Folding.first,
    Merge.LATEST: _Folding.latest,
    Merge.LINK: _Folding.link,
    Merge.LAST: _Folding.last,
    Merge.ONLY: _Folding.only,
    Merge.SUM: _Folding.sum,
    Merge.MAX: _Folding.highest,
    Merge.MIN: _Folding.lowest,
    Merge.HIGH: _Folding.high,
}
