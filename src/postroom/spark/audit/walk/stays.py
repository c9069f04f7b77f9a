"""Entries in the hands of others: of transactions and batches, and of Spark subscriptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk.columns import ASSIGNMENTS, STAYS
from postroom.spark.audit.walk.moves import BRANCH
from postroom.spark.audit.walk.sorted_events import NONE, SortedEvents
from postroom.spark.tables import arrays

COMMITS: Final = ("confirm", "forward")
ROLLBACKS: Final = ("undo", "link_lost", "restart", "resume")
APPLIED: Final = ("release", "fail", "dead_letter", "discard")
"""Outcomes that a receiver gave within a local transaction: its commit applies them, a record each."""

ENDS: Final = ("held", "committed", "applied", "rolled back", "other")
"""How a stay ended, if it did; other: lost, say."""
HELD, COMMITTED, APPLIED_END, UNDONE, OTHER = range(len(ENDS))


@dataclass(frozen=True, slots=True)
class Found:
    """Rows, and the event of each by its number among the sorted ones."""

    rows: Array
    table: pa.Table


def stays(steps: SortedEvents) -> Found:
    """A row for each event by which an entry left a transaction or batch, and one for each last event that
    leaves it with one."""
    was_held, is_held = (each(lambda move: move.is_held) for each in (steps.earlier, steps.now))
    holder, entered = steps.number("holder_id"), _entered(steps)
    before = steps.before(holder, NONE)
    may_stay = was_held & is_held & ((holder == before) | (holder == NONE) | (before == NONE))
    left = np.flatnonzero(was_held & ~may_stay)
    last = np.flatnonzero(steps.is_last & is_held)
    rows = np.concatenate([left, last])
    has_left = np.arange(len(rows)) < len(left)
    holders = np.concatenate([before[left], holder[last]])
    since = np.concatenate([steps.before(entered, NONE)[left], entered[last]])
    is_branch = steps.now(lambda move: move.holder_kind == BRANCH)[rows]
    moves = np.concatenate([steps.move_before[left], steps.move[last]])
    made = [
        *steps.entry(rows),
        steps.word("holder_kind", moves),
        arrays.of_kind(holders, pa.int64(), holders == NONE),
        steps.text("holder", rows, is_branch),
        arrays.of_kind(since, pa.int64(), since == NONE),
        pa.array(steps.number("position")[rows], mask=~has_left),
        arrays.of_kind(steps.number("time")[rows], STAYS.field("left_time").type, ~has_left),
        pa.array(ENDS, pa.string()).take(pa.array(np.where(has_left, _ends(steps)[rows], HELD))),
    ]
    return Found(rows, pa.Table.from_arrays(made, schema=STAYS))


def _ends(steps: SortedEvents) -> Array:
    """How each event ends a stay, if it ends one."""
    of_local = steps.earlier(lambda move: move.holder_kind == "local_transaction")
    found: Array = np.select(
        [
            steps.now(lambda move: move.outcome == "lost"),
            steps.now(lambda move: move.event in COMMITS),
            steps.now(lambda move: move.event in ROLLBACKS),
            of_local & steps.now(lambda move: move.event in APPLIED),
        ],
        [OTHER, COMMITTED, UNDONE, APPLIED_END],
        OTHER,
    )
    return found


def _entered(steps: SortedEvents) -> Array:
    """Where the transaction or batch that holds the entry after each event took it; `NONE` where none did."""
    holder = steps.number("holder_id")
    before = steps.before(holder, NONE)
    is_held = steps.now(lambda move: move.is_held)
    goes_on = is_held & steps.earlier(lambda move: move.is_held)
    takes = is_held & ~goes_on
    takes |= goes_on & (holder != before) & (holder != NONE) & (before != NONE)
    last = np.maximum.accumulate(np.where(takes, np.arange(len(steps)), -1))
    first = steps.groups.starts[steps.groups.of_sorted]
    found: Array = np.where(last >= first, steps.number("position")[last], NONE)
    return found


# --- Spark subscriptions --------------------------------------------------------------------------


def assignments(steps: SortedEvents) -> Found:
    """A row for each event behind the assignment of an entry to a Spark subscription, and one for each
    assignment that is the last event."""
    left = np.flatnonzero(steps.earlier(lambda move: move.is_assigned))
    last = np.flatnonzero(steps.is_last & steps.now(lambda move: move.is_assigned))
    rows = np.concatenate([left, last])
    has_left = np.arange(len(rows)) < len(left)
    holder, position = steps.number("holder_id"), steps.number("position")
    holders = np.concatenate([steps.before(holder, NONE)[left], holder[last]])
    since = np.concatenate([steps.before(position, NONE)[left], position[last]])
    made: Sequence[pa.Array] = [
        *steps.entry(rows),
        arrays.of_kind(holders, pa.int64(), holders == NONE),
        pa.array(since),
        pa.array(position[rows], mask=~has_left),
        pa.array(has_left & steps.now(lambda move: move.event == "confirm")[rows]),
    ]
    return Found(rows, pa.Table.from_arrays(made, schema=ASSIGNMENTS))
