"""What queues held over time, added up on a grid of steps from changes of state."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.ledger.format.layout import Array
from postroom.spark.report.data import LAYERS, Depth, Steps

WANTED_STEPS: Final = 120
"""The picture over time has about so many steps at most."""
STEPS_S: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
MAX_QUEUES: Final = 10_000
"""So many queues get a place in the grid: those that are seen first, the newest rows coming first."""

LAYER_OF_STATE: Final = {
    "available": "available",
    "put_unconfirmed": "put_unconfirmed",
    "locked_for_browse": "locked_for_browse",
    "get_unconfirmed": "get_unconfirmed",
    "browse_get_unconfirmed": "get_unconfirmed",
}
NUMBER_OF_LAYER: Final = {layer: number for number, layer in enumerate(LAYERS)}
NOWHERE: Final = -1
ORDER: Final = ("ledger_id", "queue_id", "serial", "position", "ordinal")

EVENT_COLUMNS: Final = (
    "ledger_id", "serial", "queue_id", "queue", "position", "ordinal", "time", "from_state", "to_state",
    "causes",
)  # fmt: skip


def steps(first_us: int, last_us: int, least_s: float = 0.0) -> Steps:
    """About `WANTED_STEPS` round steps, none shorter than ``least_s``, from one time to another."""
    span_s = (last_us - first_us) / 1e6
    allowed = [step for step in STEPS_S if step >= least_s]
    step_s = next((step for step in allowed if span_s / step <= WANTED_STEPS), allowed[-1])
    step_us = int(step_s * 1e6)
    begin_us = first_us // step_us * step_us
    return Steps(begin_us, step_us, max(1, -(-(last_us + 1 - begin_us) // step_us)))


@dataclass(slots=True)
class Grid:
    """Changes by queue, step and layer, and what came and went, as they are added up."""

    steps: Steps
    called: Callable[[str, str], str]
    """(ledger id, queue) → what people call it."""
    changes: dict[str, Array] = field(default_factory=dict)
    """For each queue: layers × steps."""
    moved: dict[str, list[int]] = field(default_factory=dict)
    """For each queue: arrivals, ends."""
    left_out: set[str] = field(default_factory=set)

    def add(self, queue: str, layer: int, step: Array, change: Array) -> None:
        """Changes of one layer of a queue, each in its step."""
        held = self._of(queue)
        if held is not None:
            np.add.at(held[layer], np.clip(step, 0, self.steps.count - 1), change)

    def came_and_went(self, queue: str, arrivals: int, ends: int) -> None:
        """So many more arrived on a queue, and ended there."""
        if self._of(queue) is not None:
            counts = self.moved.setdefault(queue, [0, 0])
            counts[0] += arrivals
            counts[1] += ends

    def _of(self, queue: str) -> Array | None:
        if queue not in self.changes:
            if len(self.changes) >= MAX_QUEUES:
                self.left_out.add(queue)
                return None
            self.changes[queue] = np.zeros((len(LAYERS), self.steps.count), np.int64)
        return self.changes[queue]

    def depths(self) -> list[Depth]:
        """First the queues where most was held for longest."""
        held = {queue: np.cumsum(changes, axis=1) for queue, changes in self.changes.items()}
        busiest = sorted(held, key=lambda queue: (-int(held[queue].sum()), queue))
        found = []
        for queue in busiest:
            by_layer = {layer: held[queue][number] for layer, number in NUMBER_OF_LAYER.items()}
            layers = {layer: values.tolist() for layer, values in by_layer.items() if values.any()}
            highest = int(held[queue].sum(axis=0).max())
            arrivals, ends = self.moved.get(queue, (0, 0))
            found.append(Depth(queue, layers, arrivals, ends, highest))
        return found


# --- from events ----------------------------------------------------------------------------------


def add_events(grid: Grid, pieces: Iterable[pa.Table]) -> None:
    """All events of some ledgers: each entry leaves the layer it was in and enters another."""
    rows = pa.concat_tables(pieces).combine_chunks()
    rows = rows.filter(pc.not_equal(rows["queue_id"], 0))  # what was refused is on no queue
    if not len(rows):
        return
    order = pc.sort_indices(rows, [(name, "ascending") for name in ORDER])
    rows = rows.take(order)
    layer = layers_of(rows)
    before = np.concatenate([[NOWHERE], layer[:-1]])
    before[_begins(rows, ("ledger_id", "queue_id", "serial"))] = NOWHERE
    step = (numbers(rows["time"].cast(pa.int64())) - grid.steps.first_us) // grid.steps.step_us
    starts = np.flatnonzero(_begins(rows, ("ledger_id", "queue_id"))).tolist()
    is_arrival = numbers(pc.equal(rows["from_state"], "start"))
    is_end = numbers(pc.equal(rows["to_state"], "deleted"))
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        queue, here = _queue(grid, rows, start), slice(start, end)
        grid.came_and_went(queue, int(is_arrival[here].sum()), int(is_end[here].sum()))
        for number in np.unique(np.concatenate([layer[here], before[here]])):
            if number != NOWHERE:
                change = (layer[here] == number).astype(np.int64) - (before[here] == number)
                grid.add(queue, int(number), step[here], change)


def layers_of(rows: pa.Table) -> Array:
    """The layer that each event leads to; `NOWHERE` for an end."""
    states = pc.dictionary_encode(rows["to_state"]).combine_chunks()
    names = states.dictionary.to_pylist()
    by_state = [NUMBER_OF_LAYER.get(LAYER_OF_STATE.get(name, ""), NOWHERE) for name in names]
    found = np.array(by_state, np.int64)[numbers(states.indices)]
    delayed = np.flatnonzero(numbers(pc.equal(rows["to_state"], "delayed")))
    causes = pc.fill_null(rows["causes"], "").take(pa.array(delayed)).to_pylist()
    found[delayed] = [NUMBER_OF_LAYER[first_cause(text)] for text in causes]
    return found


def first_cause(causes: str) -> str:
    """Of several causes of a delay, the one that is drawn: the first."""
    cause = causes.split("+", 1)[0]
    return cause if cause in LAYERS else "ordered"


def _begins(rows: pa.Table, names: Iterable[str]) -> Array:
    """Whether a row's key is another than the row's before; rows are sorted by it."""
    found = np.zeros(len(rows), bool)
    found[:1] = True
    for name in names:
        codes = numbers(pc.dictionary_encode(rows[name]).combine_chunks().indices)
        found[1:] |= codes[1:] != codes[:-1]
    return found


def numbers(values: Any) -> Array:
    """An Arrow column as numpy array."""
    found: Array = np.asarray(values)
    return found


# --- from minutes ---------------------------------------------------------------------------------

MINUTE_S: Final = 60.0
CHANGES: Final = {f"{state}_change": layer for state, layer in LAYER_OF_STATE.items()}
MINUTE_COLUMNS: Final = ("ledger_id", "queue_id", "queue", "minute", "arrivals", "ends", *CHANGES)
DELAY_COLUMNS: Final = ("ledger_id", "queue_id", "queue", "causes", "began_time", "ended_time")


def add_minutes(grid: Grid, pieces: Iterable[pa.Table]) -> None:
    """Rows of the table destinations: all states but the delayed one."""
    for piece in pieces:
        for queue, rows in _by_queue(grid, piece.append_column("step", _steps(grid, piece["minute"]))):
            grid.came_and_went(
                queue, *(int(pc.sum(rows[name]).as_py() or 0) for name in ("arrivals", "ends"))
            )
            for column, layer in CHANGES.items():
                grid.add(queue, NUMBER_OF_LAYER[layer], numbers(rows["step"]), numbers(rows[column]))


def add_delays(grid: Grid, pieces: Iterable[pa.Table]) -> None:
    """Rows of the table delays: what was delayed, by the first of its causes, while it was."""
    for piece in pieces:
        for queue, rows in _by_queue(grid, piece.filter(pc.is_valid(piece["began_time"]))):
            for causes in pc.unique(rows["causes"]).to_pylist():
                these = rows.filter(pc.equal(rows["causes"], causes)) if causes else rows.slice(0, 0)
                layer = NUMBER_OF_LAYER[first_cause(causes or "")]
                for column, change in (("began_time", 1), ("ended_time", -1)):
                    step = numbers(_steps(grid, these[column].drop_null()))
                    grid.add(queue, layer, step, np.full(len(step), change))


def _steps(grid: Grid, times: pa.ChunkedArray) -> pa.Array:
    us = numbers(times.cast(pa.int64()))
    return pa.array((us - grid.steps.first_us) // grid.steps.step_us, pa.int64())


def _by_queue(grid: Grid, rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """A table's rows queue by queue."""
    ordered = rows.sort_by([("ledger_id", "ascending"), ("queue_id", "ascending")])
    starts = np.flatnonzero(_begins(ordered, ("ledger_id", "queue_id"))).tolist()
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield _queue(grid, ordered, start), ordered.slice(start, end - start)


def _queue(grid: Grid, rows: pa.Table, row: int) -> str:
    """What people call the queue that a row is about."""
    ledger, name = rows["ledger_id"][row].as_py(), rows["queue"][row].as_py()
    return grid.called(ledger, name or str(rows["queue_id"][row].as_py()))
