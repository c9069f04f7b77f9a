"""The audit: a proof from the ledger that no message was lost or made twice, or the rows that say where it
fails.

Pure functions from DataFrame to DataFrame. Two results: `violations`, one row for each breach with the rule
it breaks, and `conservation`, one row a queue, whose sums must come out even. The sums count arrivals and
ends from the events and holdings from the folded entries, so that an event counted twice or not at all shows
as a difference.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.frames import (
    ENTRY_KEY,
    OUTCOMES,
    Position,
    is_arrival,
    is_carried,
    queue_holdings,
    queue_totals,
)

RULES: Final = {
    "lost arrival": "an entry's first event is no arrival, though the history reaches back far enough",
    "second arrival": "an entry arrives again",
    "event after end": "something happens to an entry that has ended",
    "broken sequence": "an event's from-state is not the state that the event before it led to",
    "illegal transition": "no cell of the life cycle allows this event from this state to that",
    "time went back": "an event is older than the one before it",
    "missing child": "an entry was moved, and nothing arrived in its stead",
    "second child": "an entry was moved, and more than one message arrived in its stead",
    "child without move": "a message arrived in the stead of an entry that was not moved",
    "missing report": "an entry was returned to its sender, and the report that has it is not there",
    "stored message lost": "an entry whose message was stored is written off as lost",
    "unbalanced queue": "arrivals are not what is held and what has ended",
}
"""The rules and what a row of each means."""

LEGAL_COLUMNS: Final = ("from_state", "to_state", "holder_kind", "event", "outcome")
"""The relation that the life cycle allows; null where there is no holder or no outcome."""

MOVE_EVENTS: Final = {
    "move": "moved",
    "dead_letter": "dead_lettered",
    "redirect": "redirected",
}
"""Arrival events of messages made in the stead of another entry, and the outcome that entry must have."""


def violations(
    events: DataFrame, entries: DataFrame, sums: DataFrame, legal: DataFrame, first_position: Position
) -> DataFrame:
    """Every breach of every rule, one row each: rule, ledger_id, queue_id, queue, serial, position, detail.

    `sums` is the `conservation` of the same events and entries, `legal` the relation of the broker's own
    transition table (see `relation.legal_transitions`), `first_position` the oldest position that the events
    reach back to.
    """
    return (
        sequence_violations(events, legal, first_position)
        .unionByName(child_violations(entries))
        .unionByName(return_violations(entries))
        .unionByName(loss_violations(entries))
        .unionByName(balance_violations(sums))
    )


# --- sequences -------------------------------------------------------------------------------------


def sequence_violations(events: DataFrame, legal: DataFrame, first_position: Position) -> DataFrame:
    """Each entry's events against the life cycle, in one pass over the events in entry order.

    Entries that arrived before `first_position` may begin in any state. An event can break several rules; the
    first that applies, in the order of `RULES`, is told.
    """
    order = Window.partitionBy(*ENTRY_KEY).orderBy("position", "ordinal")
    known = F.broadcast(legal.select(_transition().alias("transition"), F.lit(True).alias("is_legal")))
    checked = (
        events.where(~is_carried())
        .select(*ENTRY_KEY, "position", "ordinal", "queue", "time", *LEGAL_COLUMNS)
        .withColumn("before_state", F.lag("to_state").over(order))
        .withColumn("before_time", F.lag("time").over(order))
        .withColumn("transition", _transition())
        .join(known, "transition", "left")
    )
    broken = checked.withColumn("rule", _sequence_rule(first_position)).where(F.col("rule").isNotNull())
    detail = F.concat_ws(
        "", F.lit("after "), F.coalesce("before_state", F.lit("nothing")), F.lit(": "), _in_words()
    )
    return broken.select(*_row("rule", "position", detail))


def _sequence_rule(first_position: Position) -> Column:
    is_first = F.col("before_state").isNull()
    return (
        F.when(is_first & ~is_arrival() & (F.col("serial") >= first_position), "lost arrival")
        .when(~is_first & is_arrival(), "second arrival")
        .when(F.col("before_state") == "deleted", "event after end")
        .when(~is_first & (F.col("before_state") != F.col("from_state")), "broken sequence")
        .when(F.col("is_legal").isNull(), "illegal transition")
        .when(F.col("time") < F.col("before_time"), "time went back")
    )


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


# --- moves -----------------------------------------------------------------------------------------


def child_violations(entries: DataFrame) -> DataFrame:
    """Every entry that was moved, dead-lettered or redirected has exactly one message in its stead.

    A child lies in the same block as the end of its parent, so that this needs no history.
    """
    moved = entries.where(F.col("outcome").isin(*MOVE_EVENTS.values()))
    parents = moved.select(
        *ENTRY_KEY, "queue", "outcome", "last_position", F.lit(None).cast("long").alias("child")
    )
    came = entries.where(F.col("arrival_event").isin(*MOVE_EVENTS))
    children = came.select(
        "ledger_id",
        F.col("parent_serial").alias("serial"),
        F.col("parent_queue_id").alias("queue_id"),
        F.col("queue"),
        _outcome_of_move().alias("outcome"),
        F.lit(None).cast("long").alias("last_position"),
        F.col("serial").alias("child"),
    )
    parent_queue = F.when(F.col("last_position").isNotNull(), F.col("queue"))
    families = parents.unionByName(children).groupBy(*ENTRY_KEY, "outcome")
    counted = families.agg(
        F.coalesce(F.max(parent_queue), F.max("queue")).alias("queue"),
        F.max("last_position").alias("position"),
        F.count_distinct("child").alias("children"),
        F.min("child").alias("child"),
    )
    broken = counted.withColumn("rule", _child_rule()).where(F.col("rule").isNotNull())
    detail = F.format_string(
        "%s, children: %d, first: %s", "outcome", "children", F.col("child").cast("string")
    )
    return broken.select(*_row("rule", F.coalesce("position", "child"), detail))


def _child_rule() -> Column:
    was_moved = F.col("position").isNotNull()
    return (
        F.when(~was_moved, "child without move")
        .when(F.col("children") == 0, "missing child")
        .when(F.col("children") > 1, "second child")
    )


def _outcome_of_move() -> Column:
    pairs = [F.lit(text) for pair in MOVE_EVENTS.items() for text in pair]
    return F.create_map(*pairs)[F.col("arrival_event")]


def return_violations(entries: DataFrame) -> DataFrame:
    """Every entry that was returned to its sender names the report that took it back: a message put by the
    queue manager itself, in the same block."""
    report = F.get_json_object("reason", "$.report").cast("long")
    returned = entries.where(F.col("outcome") == "returned_to_sender").withColumn("report", report)
    reports = entries.where(F.col("adverse")).select("ledger_id", F.col("serial").alias("report"))
    missing = returned.join(reports.distinct(), ["ledger_id", "report"], "left_anti")
    detail = F.concat_ws("", F.lit("report: "), F.coalesce(F.col("report").cast("string"), F.lit("none")))
    return missing.select(*_row(F.lit("missing report"), "last_position", detail))


# --- losses and sums -------------------------------------------------------------------------------


def loss_violations(entries: DataFrame) -> DataFrame:
    """Only a message that was not stored may be lost at a crash: that is a verdict, no violation."""
    lost = entries.where((F.col("outcome") == "lost") & F.col("stored"))
    return lost.select(
        *_row(F.lit("stored message lost"), "last_position", F.lit("its body is in the ledger"))
    )


def conservation(events: DataFrame, entries: DataFrame, first_position: Position) -> DataFrame:
    """Per queue: arrivals, and what is older than the history, are what is held and each outcome.

    ``difference`` is what does not come out even, ``verdict`` says it in words: balanced, unbalanced, or
    balanced with so many lost that were not persistent.
    """
    totals = queue_totals(events)
    holdings = queue_holdings(entries, first_position).drop("queue")
    ended = sum((F.col(name) for name in OUTCOMES), F.lit(0))
    difference = F.col("arrivals") + F.col("older_than_history") - F.col("held") - ended
    return totals.join(holdings, ["ledger_id", "queue_id"]).select(
        "ledger_id",
        "queue_id",
        "queue",
        "arrivals",
        "older_than_history",
        "held",
        "available",
        "delayed",
        "unconfirmed",
        *OUTCOMES,
        difference.alias("difference"),
        _verdict(difference).alias("verdict"),
    )


def _verdict(difference: Column) -> Column:
    return (
        F.when(difference != 0, "unbalanced")
        .when(F.col("lost") > 0, F.format_string("balanced; %d not persistent, lost at a crash", "lost"))
        .when(
            F.col("older_than_history") > 0, "balanced; what is older than the history was not seen arriving"
        )
        .otherwise("balanced")
    )


def balance_violations(conservation: DataFrame) -> DataFrame:
    """The queues whose sums do not come out even."""
    no_entry = conservation.withColumn("serial", F.lit(None).cast("long"))
    detail = F.format_string("arrivals %d, held %d, difference %d", "arrivals", "held", "difference")
    broken = no_entry.where(F.col("difference") != 0)
    return broken.select(*_row(F.lit("unbalanced queue"), F.lit(None).cast("long"), detail))


def _row(rule: Column | str, position: Column | str, detail: Column) -> list[Column]:
    def column(value: Column | str) -> Column:
        return F.col(value) if isinstance(value, str) else value

    return [
        column(rule).alias("rule"),
        F.col("ledger_id"),
        F.col("queue_id"),
        F.col("queue"),
        F.col("serial"),
        column(position).alias("position"),
        detail.alias("detail"),
    ]
