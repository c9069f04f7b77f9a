"""The events of a task, sorted by entry, and those of an entry by their order."""

from functools import cached_property
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk.moves import Move, Test, move_of
from postroom.spark.tables import arrays
from postroom.spark.tables.groups import Groups, group, rank

NONE: Final = -(1 << 63)
"""Stands for null among numbers: as none is lower, it is never the highest of several."""

HIGHEST: Final = (1 << 63) - 1

Word = Literal["from_state", "to_state", "holder_kind", "event", "outcome", "causes"]


class SortedEvents:
    """The events of a task, sorted by entry. All arrays have one number an event, in that order.

    A carried row stands behind the events that its checkpoint covers.
    """

    def __init__(self, events: pa.Table) -> None:
        self.events: Final = events
        self.ledgers: Final = arrays.codes(events.column("ledger_id"))
        moves = arrays.codes(events.column("move"))
        self.moves: Final[list[Move]] = [move_of(text) for text in moves.texts]
        positions, ordinals, serials, queues = (
            arrays.numbers(events.column(name)) for name in ("position", "ordinal", "serial", "queue_id")
        )
        behind = self._of_moves(lambda move: move.is_carried)[moves.numbers]
        ordinals = (
            np.where(behind, ordinals + (int(ordinals.max()) + 1), ordinals) if behind.any() else ordinals
        )
        self.groups: Final[Groups] = group([self.ledgers.numbers, serials, queues], rank(positions, ordinals))
        self.move: Final[Array] = moves.numbers[self.groups.order]
        """Which of the moves each event is."""
        self._numbers: Final[dict[str, Array]] = {}

    def __len__(self) -> int:
        return len(self.move)

    # --- events -----------------------------------------------------------------------------------

    @cached_property
    def is_first(self) -> Array:
        """Whether it is the first event of its entry that is seen."""
        first = np.zeros(len(self), bool)
        first[self.groups.starts] = True
        return first

    @cached_property
    def is_last(self) -> Array:
        last = np.zeros(len(self), bool)
        last[self.groups.ends] = True
        return last

    @cached_property
    def move_before(self) -> Array:
        """The move of the event before of that entry; -1 for its first."""
        return self.before(self.move, -1)

    def before(self, values: Array, none: int) -> Array:
        """The values of the events before, each of the same entry; ``none`` for its first."""
        shifted = np.empty_like(values)
        shifted[1:] = values[:-1]
        shifted[self.groups.starts] = none
        return shifted

    def of_first(self, values: Array) -> Array:
        """The values of the first event of each one's entry."""
        found: Array = values[self.groups.starts][self.groups.of_sorted]
        return found

    def number(self, name: str) -> Array:
        """A column of numbers, times or truths; `NONE` for null."""
        if name not in self._numbers:
            column = self.events.column(name)
            if not pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())  # which has room for `NONE`
            self._numbers[name] = arrays.numbers(column, NONE)[self.groups.order]
        return self._numbers[name]

    @cached_property
    def ledger(self) -> Array:
        """The number of its ledger among ``ledgers.texts``."""
        found: Array = self.ledgers.numbers[self.groups.order]
        return found

    def by_ledger(self, values: dict[str, int], unknown: int) -> Array:
        """A number of each event's ledger."""
        table = np.array([values.get(text, unknown) for text in self.ledgers.texts], np.int64)
        found: Array = table[self.ledger]
        return found

    def text(self, name: str, rows: Array, where: Array | None = None) -> pa.Array:
        """A column's texts in some rows; null where not ``where``."""
        places = pa.array(self.groups.order[rows], mask=None if where is None else ~where)
        return arrays.one(self.events.column(name)).take(places).cast(pa.string())

    def entry(self, rows: Array) -> list[pa.Array]:
        """The entry of some rows: ledger_id, serial, queue_id, queue."""
        return [
            self.text("ledger_id", rows),
            pa.array(self.number("serial")[rows]),
            pa.array(self.number("queue_id")[rows]),
            self.text("queue", rows),
        ]

    # --- moves ------------------------------------------------------------------------------------

    def now(self, test: Test) -> Array:
        """Which events are such."""
        found: Array = self._of_moves(test)[self.move]
        return found

    def earlier(self, test: Test) -> Array:
        """Which events stand right behind such a one of their entry."""
        found: Array = self._of_moves(test)[self.move_before]
        return found

    def _of_moves(self, test: Test) -> Array:
        """Whether each move is such; the last one stands for none."""
        return np.array([*map(test, self.moves), False], bool)

    def word(self, word: Word, moves: Array, where: Array | None = None) -> pa.Array:
        """A word of moves; null for -1, and where not ``where``."""
        hidden = moves < 0 if where is None else (moves < 0) | ~where
        return self.words(word).take(pa.array(moves, mask=hidden))

    def words(self, word: Word) -> pa.Array:
        """A word of each of the moves."""
        return pa.array([getattr(move, word) for move in self.moves], pa.string())
