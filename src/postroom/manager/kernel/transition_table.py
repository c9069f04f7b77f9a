"""The life cycle as the queue manager asks it: where an event leads, who may hold the entry then, and with
what outcome it ends.

Whoever knows beforehand which cell it needs (the fast paths) asks once, when its module is loaded: `fixed`
and `ending` refuse a cell that has become something that the asker can't do.
"""

from typing import Final

from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry
from postroom.model import numbers as n
from postroom.model.tables import DELIVERY, FAILURE, LOST_AT_RESTART, MAY_HOLD, OUTCOME, TO_READY, TO_STATE


class IllegalTransition(Exception):
    """The queue manager asked for a move that the life cycle doesn't have: a defect, never a client's
    fault."""


def cell_of(state: i64, holder_kind: i64, event: i64) -> i64:
    """Where ``event`` stands in the tables for an entry in ``state`` that a ``holder_kind`` holds."""
    return (state * n.HOLDERS + holder_kind) * n.EVENTS + event


def ready(causes: i64) -> i64:
    """The state of an entry that nobody holds and that has not ended: available unless it has ``causes`` to
    wait."""
    return n.DELAYED if causes != 0 else n.AVAILABLE


def target(state: i64, holder_kind: i64, event: i64, causes: i64, after: i64) -> i64:
    """The state to which ``event`` leads: then nobody holds the entry, and ``causes`` are left, or an
    ``after`` holds it. Raises IllegalTransition where the table has no such move."""
    cell = cell_of(state, holder_kind, event)
    to: i64 = TO_STATE[cell]
    if to > TO_READY:
        raise IllegalTransition(f"no move from state {state} under holder {holder_kind} by event {event}")
    if MAY_HOLD[cell * n.HOLDERS + after] == 0:
        raise IllegalTransition(
            f"event {event} in state {state} under holder {holder_kind} can't leave an entry to {after}"
        )
    return ready(causes) if to == TO_READY else to


def outcome_of(state: i64, holder_kind: i64, event: i64) -> i64:
    """The outcome with which that move ends an entry, `OUTCOME_NONE` if it doesn't."""
    outcome: i64 = OUTCOME[cell_of(state, holder_kind, event)]
    return outcome


def allowed(entry: Entry, event: i64) -> bool:
    """Whether the table has a move for ``event`` now."""
    return TO_STATE[cell_of(entry.state, entry.holder_kind, event)] <= TO_READY


def fixed(state: int, holder_kind: int, event: int, after: int = n.NO_HOLDER) -> int:
    """The state to which that cell leads every entry that has no cause to wait, without a change of its
    counts: for whoever will not look it up again. Raises IllegalTransition if it isn't so."""
    cell = cell_of(state, holder_kind, event)
    if DELIVERY[cell] != n.COUNT_SAME or FAILURE[cell] != n.COUNT_SAME:
        raise IllegalTransition(f"event {event} in state {state} under holder {holder_kind} changes counts")
    return int(target(state, holder_kind, event, 0, after))


def ending(state: int, holder_kind: int, event: int) -> int:
    """The outcome with which that cell ends every entry, as `fixed`. Raises IllegalTransition if it goes on
    living."""
    if fixed(state, holder_kind, event) != n.DELETED:
        raise IllegalTransition(f"event {event} in state {state} under holder {holder_kind} is no end")
    return int(outcome_of(state, holder_kind, event))


def losing(state: int) -> int:
    """The outcome of entries in ``state`` that a restart deletes since their messages were not stored,
    whoever held them. Raises IllegalTransition where none is lost so."""
    for kind in range(n.HOLDERS):
        if LOST_AT_RESTART[cell_of(state, kind, n.EVENT_RESTART)] != 0:
            return n.OUTCOME_LOST
    raise IllegalTransition(f"a restart loses nothing in state {state}")


def _first_states() -> int:
    """Every event that makes an entry makes it ready, or leaves it to a holder that must confirm: the
    constructor of `Entry` and the packed forms stand for the first."""
    for event in range(n.EVENTS):
        cell = cell_of(n.START, n.NO_HOLDER, event)
        if TO_STATE[cell] < TO_READY and event != n.EVENT_PUT_HELD:
            raise IllegalTransition(f"event {event} makes entries that are neither ready nor held")
    return fixed(n.START, n.NO_HOLDER, n.EVENT_PUT)


FIRST: Final[i64] = _first_states()
"""In which a new entry is that nobody holds and that has no cause to wait: available."""
ASSIGNED: Final[i64] = fixed(n.AVAILABLE, n.NO_HOLDER, n.EVENT_ACQUIRE, n.SPARK_SUBSCRIPTION)
"""In which an entry is that a Spark subscription has been given."""
