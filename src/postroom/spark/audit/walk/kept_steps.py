"""The events that rules about holders and order go on with: those before or after which a transaction, a
batch or a Spark subscription has the entry, and those by which an entry that had to wait becomes
available."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk.columns import STEPS
from postroom.spark.audit.walk.sorted_events import ENTRY, NONE, SortedEvents, Word
from postroom.spark.tables import arrays

_WAITING: Final = ("put_unconfirmed", "delayed")
_PUTS: Final = ("put", "put_held")
_WORDS: Final[tuple[Word, ...]] = ("event", "from_state", "to_state", "outcome", "holder_kind")
_WORDS_BEFORE: Final[tuple[Word, ...]] = ("event", "to_state", "causes", "holder_kind")
_NUMBERS_BEFORE: Final = ("epoch", "position", "ordinal", "holder_id")


@dataclass(frozen=True, slots=True)
class KeptSteps:
    """Events by their numbers among the sorted ones, and how many of each kind there are."""

    rows: Array
    columns: pa.Table
    in_transactions: Array
    """Whether each of all events is such, and so on."""
    assigned: Array
    has_waited: Array


def kept_steps(steps: SortedEvents) -> KeptSteps:
    """Those events, each beside the one before it."""
    in_transactions = steps.now(lambda move: move.is_held) | steps.earlier(lambda move: move.is_held)
    assigned = steps.now(lambda move: move.is_assigned) | steps.earlier(lambda move: move.is_assigned)
    waited = has_waited(steps)
    rows = np.flatnonzero(in_transactions | assigned | waited)
    made = _columns(steps, rows, waited)
    columns = [*steps.entry(rows), *(made[name] for name in STEPS.names[len(ENTRY) :])]
    return KeptSteps(rows, pa.Table.from_arrays(columns, schema=STEPS), in_transactions, assigned, waited)


def has_waited(steps: SortedEvents) -> Array:
    """Whether an entry that somebody put becomes available for the first time, and wasn't so on arrival."""
    is_available = steps.now(lambda move: move.to_state == "available")
    so_far = np.cumsum(is_available) - is_available
    was_available = so_far > steps.of_first(so_far)
    put = steps.now(lambda move: move.is_arrival and move.event in _PUTS)
    waits = steps.now(lambda move: move.from_state in _WAITING)
    is_sent = steps.number("producer_id") != NONE
    found: Array = is_available & ~was_available & waits & steps.of_first(put & is_sent)
    return found


def _columns(steps: SortedEvents, rows: Array, waited: Array) -> dict[str, pa.Array]:
    entered, entered_before = _entered(steps)
    numbers = {
        **{name: steps.number(name)[rows] for name in ("epoch", "position", "ordinal", "time", "holder_id")},
        **{f"before_{name}": steps.before(steps.number(name), NONE)[rows] for name in _NUMBERS_BEFORE},
        "sender": steps.of_first(steps.number("producer_id"))[rows],
        "rank": steps.of_first(steps.number("priority"))[rows],
        "birth": steps.of_first(steps.number("due"))[rows],
        "entered": entered[rows],
        "entered_before": entered_before[rows],
    }
    now, before = steps.move[rows], steps.move_before[rows]
    is_branch = steps.now(lambda move: move.holder_kind == "spark_branch")[rows]
    return {
        **{
            name: arrays.of_kind(values, STEPS.field(name).type, values == NONE)
            for name, values in numbers.items()
        },
        **{name: steps.word(name, now) for name in _WORDS},
        **{f"before_{name}": steps.word(name, before) for name in _WORDS_BEFORE},
        "holder": steps.text("holder", rows, is_branch),
        "is_last": pa.array(steps.is_last[rows]),
        "has_waited": pa.array(waited[rows]),
    }


def _entered(steps: SortedEvents) -> tuple[Array, Array]:
    """Where the transaction or batch that holds the entry after each event took it, and the same of the one
    that held it before; `NONE` where none did."""
    holder = steps.number("holder_id")
    before = steps.before(holder, NONE)
    goes_on = steps.now(lambda move: move.is_held) & steps.earlier(lambda move: move.is_held)
    takes = steps.now(lambda move: move.is_held) & ~goes_on
    takes |= goes_on & (holder != before) & (holder != NONE) & (before != NONE)
    last = np.maximum.accumulate(np.where(takes, np.arange(len(steps)), -1))
    first = steps.groups.starts[steps.groups.of_sorted]
    entered = np.where(last >= first, steps.number("position")[last], NONE)
    return entered, steps.before(entered, NONE)
