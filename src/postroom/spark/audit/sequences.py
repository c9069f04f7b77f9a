"""Each entry's events against the life cycle: the broker's own transition table, joined as a relation."""

from functools import cache
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.model.lifecycle import rows
from postroom.model.tables import noted, relation
from postroom.spark.audit.rows import Position, is_arrival, violation_rows
from postroom.spark.ledger_source.state_names import HELD_STATES

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


def legal_transitions(spark: SparkSession) -> DataFrame:
    """The relation as a DataFrame, small enough to broadcast."""
    return spark.createDataFrame(list(legal_rows()), ", ".join(f"{name} string" for name in LEGAL_COLUMNS))


def sequence_violations(
    stepped: DataFrame, legal: DataFrame, first_position: Position, checkpoint_position: Position
) -> DataFrame:
    """Every event that doesn't follow on the one before it.

    Entries that arrived before `first_position` may begin in any state up to `checkpoint_position`, that
    of the checkpoint that carries them (null: none does); what happens later must follow on what it says.
    """
    allowed = F.broadcast(legal.select(_transition().alias("transition"), F.lit(True).alias("is_legal")))
    checked = stepped.withColumn("transition", _transition()).join(allowed, "transition", "left")
    broken = checked.withColumn("rule", _rule(first_position, checkpoint_position)).where(
        F.col("rule").isNotNull()
    )
    in_words = F.concat_ws(
        " ",
        *("event", "holder_kind", "from_state"),
        F.lit("→"),
        "to_state",
        F.concat(F.lit("("), "outcome", F.lit(")")),
    )
    detail = F.concat(F.lit("after "), F.coalesce("before_to_state", F.lit("nothing")), F.lit(": "), in_words)
    return violation_rows(broken, F.col("rule"), [F.col("before_position"), F.col("position")], detail)


def _rule(first_position: Position, checkpoint_position: Position) -> Column:
    before = F.col("before_to_state")
    is_first = before.isNull()
    # an event that ends a hold names the holder that had it; losses and purges name none
    gives_up = before.isin(*HELD_STATES) & ~F.col("to_state").isin(*HELD_STATES)
    by_another = gives_up & (F.col("holder_id") != F.col("before_holder_id"))
    unheard_of = (F.col("serial") >= first_position) | (F.col("position") > checkpoint_position)
    return (
        F.when(is_first & ~is_arrival() & ~F.col("is_carried") & unheard_of, "lost arrival")
        .when(F.col("is_carried") & (before != F.col("to_state")), "checkpoint differs")
        .when(F.col("is_carried"), F.lit(None))
        .when(~is_first & is_arrival(), "second arrival")
        .when(before == "deleted", "event after end")
        .when(before != F.col("from_state"), "broken sequence")
        .when(F.col("is_legal").isNull(), "illegal transition")
        .when(by_another, "held by another")
        .when(F.col("time") < F.col("before_time"), "time went back")
    )


def _transition() -> Column:
    return F.concat_ws("/", *(F.coalesce(F.col(name), F.lit("-")) for name in LEGAL_COLUMNS))
