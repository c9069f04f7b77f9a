"""How an entry begins: the state that its arrival names, and the object in that state, counted.

And how an object is made again of what was packed, or of what recovery found: it is in the state that the
ledger has of it, which was decided, written and counted before, so nothing is written here.

An entry that nobody holds and that has no cause to wait is in `transition_table.FIRST`, as the constructor
makes it; a put that makes no object at all (it is packed at once) says the same by its arrival and its
counter, `FIRST_SLOT`.
"""

from typing import Final

from mypy_extensions import i64

from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.statistics import slot_of
from postroom.manager.kernel.transition_table import ASSIGNED, FIRST, IllegalTransition, ready, target
from postroom.model import numbers as n
from postroom.model.tables import EXISTS

FIRST_SLOT: Final[i64] = slot_of(FIRST, n.NO_HOLDER, 0)
"""Where a new entry is counted that is available at once."""


def first_state(event: i64, holder_kind: i64, causes: i64) -> i64:
    """The state of a new entry, made by ``event``: a ``holder_kind`` must confirm it, or it has these causes
    to wait, or it is available. Raises IllegalTransition where nothing begins so."""
    return target(n.START, n.NO_HOLDER, event, causes, holder_kind)


def begin_available(entry: Entry) -> None:
    """A new entry, whose arrival has just been written, is available at once."""
    entry.queue.statistics.arrive(FIRST_SLOT, entry.body_len)


def begin_delayed(entry: Entry, causes: i64, due_us: i64) -> None:
    """It waits for its birth, or for a pause to end (``due_us`` 0)."""
    state = ready(causes)
    entry.state = state
    entry.causes = causes
    entry.due_us = due_us
    entry.held_since = entry.serial
    entry.place = 0
    entry.queue.statistics.arrive(slot_of(state, n.NO_HOLDER, causes), entry.body_len)


def begin_held(entry: Entry, holder_kind: i64, holder: i64, owner: object) -> None:
    """Its holder must confirm it. ``entry.causes`` and ``due_us`` are those that it will have then."""
    state = first_state(n.EVENT_PUT_HELD, holder_kind, 0)
    entry.state = state
    entry.holder_kind = holder_kind
    entry.holder = holder
    entry.owner = owner
    entry.held_since = entry.serial
    entry.place = 0
    entry.queue.statistics.arrive(slot_of(state, holder_kind, 0), entry.body_len)


def delayed_again(entry: Entry, causes: i64) -> None:
    """An object of a packed entry that waits for these causes."""
    entry.state = ready(causes)
    entry.causes = causes


def assigned_again(entry: Entry, holder: i64) -> None:
    """An object of a packed entry that this Spark subscription holds."""
    entry.state = ASSIGNED
    entry.holder_kind = n.SPARK_SUBSCRIPTION
    entry.holder = holder


def recovered_as(entry: Entry, state: i64, holder_kind: i64, holder: i64, causes: i64) -> None:
    """An object of an entry as recovery found it, counted as before. Raises IllegalTransition where the life
    cycle has no such state under such a holder."""
    if EXISTS[state * n.HOLDERS + holder_kind] == 0:
        raise IllegalTransition(
            f"entry {entry.serial} was found in state {state} under holder {holder_kind}: none can be"
        )
    entry.state = state
    entry.holder_kind = holder_kind
    entry.holder = holder
    entry.causes = causes
    entry.queue.statistics.restore(slot_of(state, holder_kind, causes), entry.body_len)
