"""What the life cycle allows: the broker's own transition table as a relation."""

from functools import cache
from typing import Final

from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.model.lifecycle import rows
from postroom.model.tables import noted, relation

LEGAL_COLUMNS: Final = ("from_state", "to_state", "holder_kind", "event", "outcome")
"""The relation that the life cycle allows; null where there is no holder or no outcome."""
Legal = tuple[str, str, str | None, str, str | None]


@cache
def legal_rows() -> tuple[Legal, ...]:
    """`LEGAL_COLUMNS` of every event that may be recorded, in the ledger's words.

    To the moves of the table come the events that are noted on a held entry: they are recorded without moving
    it.
    """
    remembered = {
        (state, holder, event, state, Outcome.NONE)
        for state, holder in rows()
        for event in (Event.EXPIRE, Event.DELETE)
        if noted(state, holder, event)
    }
    in_words = (
        (
            State(state).name.lower(),
            State(to).name.lower(),
            HolderKind(holder).name.lower() if holder else None,
            Event(event).name.lower(),
            Outcome(outcome).name.lower() if outcome else None,
        )
        for state, holder, event, to, outcome in relation() | remembered
    )
    return tuple(sorted(in_words, key=str))


@cache
def _legal() -> frozenset[tuple[str | None, ...]]:
    return frozenset(legal_rows())


def is_legal(words: tuple[str | None, ...]) -> bool:
    """Whether the life cycle allows an event with these words (`LEGAL_COLUMNS`)."""
    return words in _legal()
