"""Transactions are atomic: what one holds is decided by one record, all of it, and nothing is left its own.
So are the batches of Spark sinks: with its winners all other branches are decided, at the same moment. And of
what a Spark subscription is given a confirmed position ends all that was assigned there or before.

A *stay* is one entry in the hands of one transaction, XA branch or channel batch: from the event that took it
to the one that gave it up. All stays of a holder stand together in one window; how many there can be is
bounded by the broker's limits on transactions and batches.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import ENTRY_KEY, Position, violation_rows
from postroom.spark.audit.walk.moves import SUBSCRIPTION, TRANSACTIONS
from postroom.spark.ledger_source.state_names import HELD_STATES

COMMITS: Final = ("confirm", "forward")
ROLLBACKS: Final = ("undo", "link_lost", "restart", "resume")
APPLIED: Final = ("release", "fail", "dead_letter", "discard")
"""Outcomes that a receiver gave within a local transaction: its commit applies them, a record each."""


def stays(held: DataFrame) -> DataFrame:
    """One row for each stay, of `Walked.steps`: kind, holder and name (of branches of Spark sinks),
    `entered`, `left` (null while it lasts), `left_time` and `end`: committed, applied, rolled back, other
    (lost, say), or held."""
    columns = {
        "kind": (F.col("before_holder_kind"), F.col("holder_kind")),
        "holder": (F.col("before_holder_id"), F.col("holder_id")),
        "name": (F.col("holder"), F.col("holder")),
        "entered": (F.col("entered_before"), F.col("entered")),
        "left": (F.col("position"), F.lit(None).cast("long")),
        "left_time": (F.col("time"), F.lit(None).cast("timestamp")),
        "end": (_end(), F.lit("held")),
    }
    return _both(held, _leaves(), _is_held_after(), columns)


def _is_held_before() -> Column:
    """Whether a transaction or batch had the entry before the event."""
    return _held("before_to_state", "before_holder_kind")


def _is_held_after() -> Column:
    """Whether one has it after the event."""
    return _held("to_state", "holder_kind")


def _held(state: str, kind: str) -> Column:
    return F.coalesce(F.col(state).isin(*HELD_STATES) & F.col(kind).isin(*TRANSACTIONS), F.lit(False))


def _leaves() -> Column:
    """Whether the entry is given up by the transaction or batch that had it."""
    stays = _is_held_before() & _is_held_after() & (F.col("before_holder_id") == F.col("holder_id"))
    return _is_held_before() & ~stays


def _both(
    stepped: DataFrame, is_over: Column, is_held: Column, columns: Mapping[str, tuple[Column, Column]]
) -> DataFrame:
    """A row for each event by which an entry left a holder, and one for each last event that leaves it with
    one; `columns`: what the row of an event of either kind has."""
    entry = (*ENTRY_KEY, "queue")
    ended, lasting = (
        rows.select(*entry, *(pair[side].alias(name) for name, pair in columns.items()))
        for side, rows in enumerate((stepped.where(is_over), stepped.where(F.col("is_last") & is_held)))
    )
    return ended.unionByName(lasting)


def _end() -> Column:
    is_local = F.col("before_holder_kind") == "local_transaction"
    return (
        F.when(F.coalesce(F.col("outcome") == "lost", F.lit(False)), "other")
        .when(F.col("event").isin(*COMMITS), "committed")
        .when(F.col("event").isin(*ROLLBACKS), "rolled back")
        .when(is_local & F.col("event").isin(*APPLIED), "applied")
        .otherwise("other")
    )


def transaction_violations(held: DataFrame, last_time: Position) -> DataFrame:
    """Every stay that breaks what its holder promises.

    A rollback may take several records, all of one moment; so an entry that is still held counts only when
    the ledger, whose last event is of `last_time`, has gone on since.
    """
    holder = Window.partitionBy("ledger_id", "holder")
    is_committed, is_undone = F.col("end") == "committed", F.col("end") == "rolled back"
    applied = F.col("end").isin("committed", "applied")
    together = stays(held).select(
        "*",
        F.min(F.when(is_committed, F.col("left"))).over(holder).alias("decided"),
        F.min(F.when(applied, F.col("left"))).over(holder).alias("applied"),
        F.min(F.when(is_undone, F.col("left"))).over(holder).alias("undone"),
        F.max(F.when(applied | is_undone, F.col("left_time"))).over(holder).alias("decided_time"),
    )
    broken = together.withColumn("rule", _rule(last_time)).where(F.col("rule").isNotNull())
    detail = F.format_string(
        "%s %d took it at position %d; it is %s, the decision is at %d",
        "kind",
        "holder",
        "entered",
        "end",
        F.coalesce("decided", "applied", "undone"),
    )
    positions = [F.col("entered"), F.coalesce("decided", "applied", "undone"), F.col("left")]
    return violation_rows(broken, F.col("rule"), positions, detail)


def _rule(last_time: Position) -> Column:
    end, decided = F.col("end"), F.col("decided")
    is_left = (end == "held") & (F.col("decided_time") < last_time)
    return (
        F.when((end == "rolled back") & F.col("applied").isNotNull(), "half committed")
        .when((end == "committed") & (F.col("left") != decided), "two decisions")
        .when(F.col("entered") > decided, "used after its decision")
        .when((end == "held") & decided.isNotNull(), "left out of the decision")
        .when(is_left, "left out of the decision")
    )


# --- batches of Spark sinks -----------------------------------------------------------------------

SINK_BRANCH: Final = r"(?:^|/)(\d+)-\d+-\d+-\d+@(.*)$"
"""In the name of a branch: its batch, and whose it is."""


def batch_violations(held: DataFrame, last_time: Position) -> DataFrame:
    """Every branch that a commit has left undecided which decided for its batch, or for a later one, of its
    app. One row a branch: as many as there were attempts of tasks."""
    of_sinks = stays(held).where((F.col("kind") == "spark_branch") & F.col("name").isNotNull())
    named = of_sinks.select(
        "*",
        F.regexp_extract("name", SINK_BRANCH, 1).cast("long").alias("batch"),
        F.regexp_extract("name", SINK_BRANCH, 2).alias("app"),
    )
    key = ("ledger_id", "app", "batch", "holder", "name")
    branches = named.groupBy(*key).agg(
        *(F.min(name).alias(name) for name in ("serial", "queue_id", "queue", "entered")),
        F.max("left").alias("left"),
        F.max("left_time").alias("left_time"),
        F.max(F.col("end") == "held").alias("is_held"),
        F.max(F.col("end") == "committed").alias("has_won"),
    )
    commit = F.struct("left", "left_time", "batch")
    begun = branches.select(
        "*", F.col("entered").alias("point"), F.when(F.lit(False), commit).alias("commit")
    )
    won = branches.where("has_won").select("*", F.col("left").alias("point"), commit.alias("commit"))
    of_app = Window.partitionBy("ledger_id", "app").orderBy("point")
    after = of_app.rowsBetween(1, Window.unboundedFollowing)
    beside = begun.unionByName(won).select(
        "*",
        F.first("commit", ignorenulls=True).over(after).alias("next"),
        F.col("commit").isNull().alias("own"),
    )
    survived = (F.col("left_time") > F.col("next.left_time")) | F.col("is_held")
    is_certain = ~F.col("is_held") | (F.col("next.left_time") < last_time)
    broken = beside.where(F.col("own") & (F.col("next.batch") >= F.col("batch")) & survived & is_certain)
    detail = F.format_string("branch %s outlived the commit of batch %d", "name", "next.batch")
    positions = [F.col("entered"), F.col("next.left"), F.col("left")]
    return violation_rows(broken, "left out of its batch", positions, detail)


# --- Spark subscriptions --------------------------------------------------------------------------


def assignment_violations(stepped: DataFrame) -> DataFrame:
    """Every entry that a Spark subscription had when it confirmed something that it was assigned later, and
    that it kept, lost or gave back afterwards."""
    is_held = (F.col("holder_kind") == SUBSCRIPTION) & (F.col("event") == "acquire")
    was_held = (F.col("before_holder_kind") == SUBSCRIPTION) & (F.col("before_event") == "acquire")
    columns = {
        "holder": (F.col("before_holder_id"), F.col("holder_id")),
        "entered": (F.col("before_position"), F.col("position")),
        "left": (F.col("position"), F.lit(None).cast("long")),
        "is_confirmed": (F.col("event") == "confirm", F.lit(False)),
    }
    behind = Window.partitionBy("ledger_id", "holder").orderBy("entered")
    later = behind.rangeBetween(1, Window.unboundedFollowing)
    confirmed = F.min(F.when(F.col("is_confirmed"), F.col("left"))).over(later)
    beside = _both(stepped, was_held, is_held, columns).withColumn("confirmed", confirmed)
    passed_over = F.col("left").isNull() | (F.col("left") > F.col("confirmed"))
    broken = beside.where(F.col("confirmed").isNotNull() & passed_over)
    detail = F.format_string(
        "Spark subscription %d was assigned it at position %d, and confirmed what came later at %d",
        "holder",
        "entered",
        "confirmed",
    )
    positions: list[Column] = [F.col("entered"), F.col("confirmed"), F.col("left")]
    return violation_rows(broken, "passed over", positions, detail)
