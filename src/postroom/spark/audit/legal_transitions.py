"""The broker's own transition table as a relation that the audit can join: what it allows, in the ledger's
words."""

from functools import cache

from pyspark.sql import DataFrame, SparkSession

from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.model.lifecycle import rows
from postroom.model.tables import Legal, noted, relation

Row = tuple[str, str, str | None, str, str | None]

LEGAL_SCHEMA = "from_state string, to_state string, holder_kind string, event string, outcome string"


@cache
def legal_rows() -> tuple[Row, ...]:
    """(from_state, to_state, holder_kind, event, outcome) of every event that may be recorded, null for none.

    To the moves of the table come the events that are noted on a held entry: they are recorded without moving
    it.
    """
    remembered = {
        (state, holder, event, state, Outcome.NONE)
        for state, holder in rows()
        for event in (Event.EXPIRE, Event.DELETE)
        if noted(state, holder, event)
    }
    return tuple(sorted(map(_in_words, relation() | remembered), key=str))


def _in_words(legal: Legal) -> Row:
    state, holder, event, to, outcome = legal
    return (
        State(state).name.lower(),
        State(to).name.lower(),
        HolderKind(holder).name.lower() if holder else None,
        Event(event).name.lower(),
        Outcome(outcome).name.lower() if outcome else None,
    )


def legal_transitions(spark: SparkSession) -> DataFrame:
    """The relation as a DataFrame, small enough to broadcast."""
    return spark.createDataFrame(list(legal_rows()), LEGAL_SCHEMA)
