"""Entries that had to wait before they could first be got."""

from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk.columns import WAITS
from postroom.spark.audit.walk.sorted_events import NONE, SortedEvents, Word
from postroom.spark.audit.walk.stays import Found
from postroom.spark.tables import arrays

_WAITING: Final = ("put_unconfirmed", "delayed")
_PUTS: Final = ("put", "put_held")
_WORDS: Final[tuple[Word, ...]] = ("event", "from_state")
_NUMBERS: Final = ("epoch", "position", "ordinal")
_OF_FIRST: Final = {"sender": "producer_id", "rank": "priority", "birth": "due"}


def waits(steps: SortedEvents) -> Found:
    """The events by which an entry that somebody put becomes available for the first time, and wasn't so on
    arrival."""
    rows = np.flatnonzero(_end_waits(steps))
    numbers = {
        **{name: steps.number(name)[rows] for name in _NUMBERS},
        **{f"before_{name}": steps.before(steps.number(name), NONE)[rows] for name in _NUMBERS},
        **{name: steps.of_first(steps.number(of))[rows] for name, of in _OF_FIRST.items()},
    }
    made = {
        **{
            name: arrays.of_kind(values, WAITS.field(name).type, values == NONE)
            for name, values in numbers.items()
        },
        **{name: steps.word(name, steps.move[rows]) for name in _WORDS},
        "before_causes": steps.word("causes", steps.move_before[rows]),
        **dict(zip(WAITS.names, steps.entry(rows), strict=False)),
    }
    return Found(rows, pa.Table.from_arrays([made[name] for name in WAITS.names], schema=WAITS))


def _end_waits(steps: SortedEvents) -> Array:
    is_available = steps.now(lambda move: move.to_state == "available")
    so_far = np.cumsum(is_available) - is_available
    was_available = so_far > steps.of_first(so_far)
    put = steps.now(lambda move: move.is_arrival and move.event in _PUTS)
    is_sent = steps.number("producer_id") != NONE
    waited = steps.now(lambda move: move.from_state in _WAITING)
    found: Array = is_available & ~was_available & waited & steps.of_first(put & is_sent)
    return found
