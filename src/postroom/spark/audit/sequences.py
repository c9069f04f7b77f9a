"""Each entry's events against the life cycle: the broker's own transition table, joined as a relation."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.predicates import Position, is_arrival
from postroom.spark.audit.rows import violation_rows
from postroom.spark.ledger_source.state_names import HELD_STATES

LEGAL_COLUMNS: Final = ("from_state", "to_state", "holder_kind", "event", "outcome")
"""The relation that the life cycle allows; null where there is no holder or no outcome."""


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
    detail = F.concat_ws(
        "", F.lit("after "), F.coalesce("before_to_state", F.lit("nothing")), F.lit(": "), _in_words()
    )
    return violation_rows(broken, F.col("rule"), [F.col("before_position"), F.col("position")], detail)


def _rule(first_position: Position, checkpoint_position: Position) -> Column:
    before = F.col("before_to_state")
    is_first = before.isNull()
    unheard_of = (F.col("serial") >= first_position) | (F.col("position") > checkpoint_position)
    return (
        F.when(is_first & ~is_arrival() & ~F.col("is_carried") & unheard_of, "lost arrival")
        .when(F.col("is_carried") & (before != F.col("to_state")), "checkpoint differs")
        .when(F.col("is_carried"), F.lit(None))
        .when(~is_first & is_arrival(), "second arrival")
        .when(before == "deleted", "event after end")
        .when(before != F.col("from_state"), "broken sequence")
        .when(F.col("is_legal").isNull(), "illegal transition")
        .when(_by_another(), "held by another")
        .when(F.col("time") < F.col("before_time"), "time went back")
    )


def _by_another() -> Column:
    """An event that ends a hold names the holder that had it; losses and purges name none."""
    gives_up = F.col("before_to_state").isin(*HELD_STATES) & ~F.col("to_state").isin(*HELD_STATES)
    named = F.col("holder_id").isNotNull() & F.col("before_holder_id").isNotNull()
    return gives_up & named & (F.col("holder_id") != F.col("before_holder_id"))


def _transition() -> Column:
    return F.concat_ws("/", *(F.coalesce(F.col(name), F.lit("-")) for name in LEGAL_COLUMNS))


def _in_words() -> Column:
    return F.concat_ws(
        " ",
        F.col("event"),
        F.col("holder_kind"),
        F.col("from_state"),
        F.lit("→"),
        F.col("to_state"),
        F.concat(F.lit("("), F.col("outcome"), F.lit(")")),
    )
