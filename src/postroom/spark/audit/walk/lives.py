"""What became of each entry: what arrived, where it is now or how it ended, and when it was taken."""

from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk.columns import FROM_ARRIVAL, LIVES
from postroom.spark.audit.walk.moves import Move, Test
from postroom.spark.audit.walk.sorted_events import HIGHEST, NONE, SortedEvents
from postroom.spark.tables import arrays

Columns = dict[str, pa.Array]

_BEFORE_TAKEN: Final = ("start", "put_unconfirmed")
_TAKEN: Final = ("available", "delayed")


def takes(move: Move) -> bool:
    """The entry becomes more than somebody's provisional put."""
    return move.from_state in _BEFORE_TAKEN and move.to_state in _TAKEN


def life_columns(steps: SortedEvents) -> Columns:
    """One value an entry."""
    starts, ends = steps.groups.starts, steps.groups.ends
    last = steps.move[ends]
    has_ended = steps.now(lambda move: move.is_end)[ends]
    is_held = steps.now(lambda move: move.holds)[ends]
    holders = steps.number("holder_id")[ends]
    times = _lowest(steps, "time", lambda move: move.is_arrival or move.is_carried)
    return {
        "ledger_id": steps.text("ledger_id", starts),
        **{name: pa.array(steps.number(name)[starts]) for name in ("serial", "queue_id")},
        "queue": highest_text(steps, "queue"),
        **{name: _highest(steps, name) for name in FROM_ARRIVAL},
        "is_carried": pa.array(np.logical_or.reduceat(steps.now(lambda move: move.is_carried), starts)),
        "arrival_time": _of(times, "arrival_time", HIGHEST),
        "arrival_event": _arrival_event(steps),
        "taken_position": _of(_lowest(steps, "position", takes), "taken_position", HIGHEST),
        "state": steps.word("to_state", last),
        "outcome": steps.word("outcome", last, has_ended),
        "reason": steps.text("reason", ends, has_ended),
        "holder_kind": steps.word("holder_kind", last, is_held),
        "holder_id": _of(np.where(is_held, holders, NONE), "holder_id", NONE),
        "last_position": pa.array(steps.number("position")[ends]),
    }


def _of(values: Array, name: str, none: int) -> pa.Array:
    return arrays.of_kind(values, LIVES.field(name).type, values == none)


def _lowest(steps: SortedEvents, name: str, test: Test) -> Array:
    """The lowest number of those events of each entry that are such; `HIGHEST` for none."""
    found: Array = np.minimum.reduceat(
        np.where(steps.now(test), steps.number(name), HIGHEST), steps.groups.starts
    )
    return found


def _highest(steps: SortedEvents, name: str) -> pa.Array:
    kind = LIVES.field(name).type
    column = steps.events.column(name)
    if column.null_count == len(column):
        return pa.nulls(len(steps.groups), kind)
    if pa.types.is_string(kind):
        return highest_text(steps, name)
    found = np.maximum.reduceat(steps.number(name), steps.groups.starts)
    if pa.types.is_boolean(kind):
        return pa.array(found == 1, mask=found == NONE)
    return _of(found, name, NONE)


def highest_text(steps: SortedEvents, name: str) -> pa.Array:
    """The last of each entry's texts in their order; mostly there is one."""
    column = arrays.one(steps.events.column(name))
    rows = np.flatnonzero(arrays.valid(column))
    entries = steps.groups.of_row[rows]
    if len(rows) <= len(steps.groups) and np.bincount(entries, minlength=1).max() <= 1:
        places = np.full(len(steps.groups), -1, np.int64)
        places[entries] = rows
        return column.take(pa.array(places, mask=places < 0))
    codes = arrays.codes(column)
    best = np.maximum.reduceat(codes.numbers[steps.groups.order], steps.groups.starts)
    return pa.array(codes.texts, pa.string()).take(pa.array(best, mask=best < 0))


def _arrival_event(steps: SortedEvents) -> pa.Array:
    """The first of each entry's arrival events in their order; null where it has none."""
    words = sorted({str(move.event) for move in steps.moves if move.is_arrival})
    none = len(words)
    table = np.array(
        [words.index(str(move.event)) if move.is_arrival else none for move in steps.moves], np.int64
    )
    best = np.minimum.reduceat(table[steps.move], steps.groups.starts)
    return pa.array([*words, None], pa.string()).take(pa.array(best))
