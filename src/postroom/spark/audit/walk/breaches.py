"""Each entry's events against the life cycle: those that don't follow on the one before."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.legal import is_legal
from postroom.spark.audit.walk.columns import BREACHES
from postroom.spark.audit.walk.moves import Move
from postroom.spark.audit.walk.sorted_events import HIGHEST, NONE, SortedEvents
from postroom.spark.audit.walk.stays import Found
from postroom.spark.tables import arrays

ILLEGAL: Final = "illegal transition"
LOST: Final = "lost arrival"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of each ledger before its events are read."""

    first: dict[str, int] = field(default_factory=dict)
    """Where its history begins."""
    checkpoint: dict[str, int] = field(default_factory=dict)
    """Position of the checkpoint whose totals it is held against; none without one."""


NO_BOUNDS: Final = Bounds()


def breaches(steps: SortedEvents, bounds: Bounds) -> Found:
    """Every event that doesn't follow on the one before it; of several rules that it breaks, the first
    counts.

    Entries that arrived before the history begins may begin in any state, up to the checkpoint that carries
    them, which isn't known here; what happens later must follow on what it says. So of such a beginning both
    is told: the rule that it breaks, and the one that it breaks if a checkpoint carries the entry behind it.
    """
    rules = _rules(steps)
    is_illegal = ~steps.now(lambda move: is_legal(move[:5]))
    begins = steps.is_first & ~steps.now(lambda move: move.is_arrival or move.is_carried)
    is_open = begins & (steps.number("serial") < steps.by_ledger(bounds.first, HIGHEST))
    names = list(rules)
    broken = np.select(list(rules.values()), [*range(len(names))], -1)
    rows = np.flatnonzero(broken >= 0)
    before = steps.before(steps.number("position"), NONE)[rows]
    named = pa.array(names, pa.string())
    also = pa.array([ILLEGAL], pa.string()).take(
        pa.array(np.zeros(len(rows), np.int64), mask=~(is_open & is_illegal)[rows])
    )
    made = [
        *steps.entry(rows),
        named.take(pa.array(broken[rows])),
        also,
        arrays.of_kind(before, pa.int64(), before == NONE),
        pa.array(steps.number("position")[rows]),
        _details(steps, rows),
        pa.array(is_open[rows]),
    ]
    return Found(rows, pa.Table.from_arrays(made, schema=BREACHES))


def _rules(steps: SortedEvents) -> dict[str, Array]:
    """The rules in their order, and which events break them."""
    is_arrival = steps.now(lambda move: move.is_arrival)
    is_carried = steps.now(lambda move: move.is_carried)
    goes_on = ~steps.is_first
    own = ~is_carried
    state = _codes(steps)
    before = np.where(goes_on, state["to_state"][steps.move_before], -1)
    holder, time = steps.number("holder_id"), steps.number("time")
    holder_before = steps.before(holder, NONE)
    # an event that ends a hold names the holder that had it; losses and purges name none
    gives_up = steps.earlier(lambda move: move.holds) & steps.now(lambda move: not move.holds)
    are_known = (holder != NONE) & (holder_before != NONE)
    return {
        LOST: steps.is_first & ~is_arrival & own,
        "checkpoint differs": goes_on & is_carried & (before != state["to_state"][steps.move]),
        "second arrival": goes_on & is_arrival & own,
        "event after end": own & steps.earlier(lambda move: move.is_end),
        "broken sequence": goes_on & own & (before != state["from_state"][steps.move]),
        ILLEGAL: own & steps.now(lambda move: not is_legal(move[:5])),
        "held by another": own & gives_up & are_known & (holder != holder_before),
        "time went back": goes_on & own & (time < steps.before(time, NONE)),
    }


def _codes(steps: SortedEvents) -> dict[str, Array]:
    """A number for each state, of the states before and after each move."""
    states = sorted({str(state) for move in steps.moves for state in (move.from_state, move.to_state)})
    return {
        "from_state": np.array([states.index(str(move.from_state)) for move in steps.moves], np.int64),
        "to_state": np.array([states.index(str(move.to_state)) for move in steps.moves], np.int64),
    }


def _details(steps: SortedEvents, rows: Array) -> pa.Array:
    """What happened after what, in words: of few pairs of moves, many events."""
    width = len(steps.moves) + 1
    pairs, which = np.unique((steps.move_before[rows] + 1) * width + steps.move[rows], return_inverse=True)
    texts = []
    for pair in pairs.tolist():
        before, now = divmod(pair, width)
        texts.append(_detail(steps.moves[before - 1] if before else None, steps.moves[now]))
    return pa.array(texts, pa.string()).take(pa.array(which))


def _detail(before: Move | None, move: Move) -> str:
    words = (move.event, move.holder_kind, move.from_state, "→", move.to_state)
    shown = [word for word in words if word is not None]
    if move.outcome is not None:
        shown.append(f"({move.outcome})")
    after = before.to_state if before is not None and before.to_state is not None else "nothing"
    return f"after {after}: {' '.join(shown)}"
