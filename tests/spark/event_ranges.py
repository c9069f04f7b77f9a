"""Events of a folder as Arrow, and the same rows cut into ranges, folded in any nesting."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from postroom.spark.ledger_source.columns import EVENTS_SCHEMA
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.slices import plan
from postroom.spark.places.uris import place_of
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.fold import DONE, fold, partials, split
from postroom.spark.tables.range import Range


def events_of(folder: Path) -> pa.Table:
    """Every durable event of a ledger."""
    place = place_of(str(folder))
    look = place.look()
    slices = plan(place, look, look.first_position, look.durable_through, 1_000_000)
    batches = [batch for slice in slices for batch in read_events(slice)]
    return pa.Table.from_batches(batches, EVENTS_SCHEMA)


def cut(events: pa.Table, bounds: Sequence[int]) -> list[pa.Table]:
    """The events in ranges of positions: each bound is the first position of a range."""
    positions = events.column("position").to_numpy()
    edges = [0, *sorted(bounds), 1 << 62]
    pieces = [
        events.filter(pa.array((positions >= low) & (positions < high)))
        for low, high in itertools.pairwise(edges)
    ]
    return [piece for piece in pieces if piece.num_rows]


def fold_pairs(definition: TableDefinition, tables: list[pa.Table], choose: Any) -> pa.Table:
    """Neighbours folded two at a time, in an order that ``choose(count)`` gives, until one is left."""
    tables = list(tables)
    while len(tables) > 1:
        at = choose(len(tables) - 1)
        tables[at : at + 2] = [fold(definition, pa.concat_tables(tables[at : at + 2]))]
    return fold(definition, tables[0])


def table(definition: TableDefinition, events: pa.Table) -> pa.Table:
    """The table of all events, in one fold."""
    return partials(definition, events)


def through_parts(definition: TableDefinition, pieces: list[pa.Table], settle_after: int) -> pa.Table:
    """As the pipeline does it: what a range completes is done, the rest open, settled now and then."""
    done: list[pa.Table] = []
    waiting: list[pa.Table] = []
    for number, piece in enumerate(pieces):
        shared = Range(piece)
        _file(split(definition, partials(definition, shared), shared), done, waiting)
        if number % settle_after == settle_after - 1 and waiting:
            settled = fold(definition, pa.concat_tables(waiting))
            waiting = []
            _file(split(definition, settled, settled=True), done, waiting)
    nothing = [definition.schema.empty_table()]
    if definition.is_late:
        return fold(definition, pa.concat_tables(nothing + done + waiting))
    return by_key(
        definition, pa.concat_tables([*done, fold(definition, pa.concat_tables(nothing + waiting))])
    )


def _file(parts: Any, done: list[pa.Table], waiting: list[pa.Table]) -> None:
    for part, day, rows in parts:
        assert (day is None) == (part != DONE)
        (done if part == DONE else waiting).append(rows)


def by_key(definition: TableDefinition, rows: pa.Table) -> pa.Table:
    """Sorted by key, as a fold is; no key may be there twice."""
    ordered = rows.sort_by([(name, "ascending") for name in definition.key])
    keys = list(zip(*(ordered.column(name).to_pylist() for name in definition.key), strict=True))
    assert len(set(keys)) == len(keys), "a key is there twice"
    return ordered


def every_position(events: pa.Table) -> list[int]:
    """The bounds that make a range of each position."""
    return [int(position) for position in np.unique(events.column("position").to_numpy())]
