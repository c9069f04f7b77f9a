"""What went from one ledger to another: every message that a channel took, on both sides of it.

Pure functions from DataFrame to DataFrame. A message leaves as an entry that ends as forwarded; it comes as
an arrival that names the sender's ledger and its serial there. For persistent ones the two must pair off, one
to one. One that is not persistent may be lost on the way when its channel sends it outside the batch (FAST):
that is a verdict, and it names the message.

Queue managers run on while they are audited, and no clock is common to two of them. So every ledger is looked
at twice, and nobody a second time before everybody was looked at once. What had left at the first look must
have come at the second; what had come at the first look must have been taken at the second.
"""

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.rows import violation_rows
from postroom.spark.audit.rules import CROSSING_RULES, CROSSING_VERDICTS

COVERAGE: Final = "ledger_id string, first_position long, first_time timestamp, first_look long"
"""One row for each audited ledger: where its history begins, and the position of the first look."""

OF_ENTRIES: Final = (
    *("ledger_id", "serial", "queue_id", "queue", "message_id", "stored", "arrival_time", "last_position"),
    *("state", "outcome", "holder_kind", "origin_ledger_id", "origin_serial"),
)
"""What of entries is needed."""

KEY: Final = ("origin_ledger_id", "origin_serial")


def crossings(entries: DataFrame, coverage: DataFrame, elsewhere: Collection[str] | None = ()) -> DataFrame:
    """One row for each message that a channel took in one of the ledgers, or brought to one.

    ``entries`` are those of all ledgers as of their second looks, ``coverage`` is as ``COVERAGE`` says.
    ``elsewhere`` names transmission queues whose messages go to a ledger that is not among them; None: all
    do, as where one ledger is audited alone. Columns: origin_ledger_id, origin_serial, queue_id, queue (of
    the sender), message_id, stored, forwards, arrivals, last_position, target_ledger_id, target_queue,
    verdict.
    """
    known = F.broadcast(coverage)
    joined = _left(entries, known).join(_came(entries, known), list(KEY), "full")
    origins = F.broadcast(
        coverage.select(
            F.col("ledger_id").alias("origin_ledger_id"),
            F.col("first_position").alias("origin_first_position"),
            F.lit(True).alias("is_audited"),
        )
    )
    # before this time a ledger can't tell what arrived: its history has been dropped
    blind_until = F.when(F.col("first_position") > 1, F.col("first_time"))
    everywhere = F.broadcast(coverage.agg(F.max(blind_until).alias("blind_until")))
    judged = joined.join(origins, "origin_ledger_id", "left").crossJoin(everywhere)
    return judged.withColumn("verdict", _verdict(elsewhere)).select(
        *KEY,
        "queue_id",
        "queue",
        F.coalesce("message_id", "arrived_id").alias("message_id"),
        F.coalesce("stored", "arrived_stored").alias("stored"),
        F.coalesce("forwards", F.lit(0)).alias("forwards"),
        F.coalesce("arrivals", F.lit(0)).alias("arrivals"),
        "last_position",
        "target_ledger_id",
        "target_queue",
        "verdict",
    )


def _left(entries: DataFrame, coverage: DataFrame) -> DataFrame:
    """The senders' side: entries that were forwarded, that a batch holds, and whatever else may be named as
    the origin of an arrival. What travels outside of batches the channel's consumer holds until the partner
    has said that it came: that counts as held by a batch."""
    forwarded = F.coalesce("outcome", F.lit("")) == "forwarded"
    seen_gone = forwarded & (F.col("last_position") <= F.col("first_look"))
    in_batch = F.coalesce("holder_kind", F.lit("")) == "channel_batch"
    mine = entries.join(coverage, "ledger_id")
    named = entries.where(F.col("origin_serial").isNotNull()).select(
        F.col("origin_ledger_id").alias("named_ledger"), F.col("origin_serial").alias("named_serial")
    )
    sent = mine.join(
        named.distinct(),
        (F.col("ledger_id") == F.col("named_ledger")) & (F.col("serial") == F.col("named_serial")),
        "left",
    )
    is_named = F.col("named_serial").isNotNull()
    outside = is_named & (F.col("holder_kind") == "consumer") & ~F.col("stored")
    on_its_way = in_batch | F.coalesce(outside, F.lit(False))
    chosen = sent.where(forwarded | in_batch | is_named)
    its = F.struct(forwarded | in_batch, "queue_id")  # of several that are alike always the same
    return chosen.groupBy(F.col("ledger_id").alias(KEY[0]), F.col("serial").alias(KEY[1])).agg(
        F.max_by("queue_id", its).alias("queue_id"),
        F.max_by("queue", its).alias("queue"),
        F.max("message_id").alias("message_id"),
        F.max("stored").alias("stored"),
        F.min("arrival_time").alias("arrival_time"),
        F.max("last_position").alias("last_position"),
        F.count_if(forwarded).alias("forwards"),
        F.count_if(seen_gone).alias("seen_gone"),
        F.count_if(on_its_way).alias("in_batch"),
        F.count_if(F.col("outcome") == "lost").alias("written_off"),
    )


def _came(entries: DataFrame, coverage: DataFrame) -> DataFrame:
    """The receivers' side: the arrivals that name each origin. What a batch has brought that was rolled back,
    or is not confirmed yet, has not come."""
    stays = (F.col("state") != "put_unconfirmed") & (F.coalesce("outcome", F.lit("")) != "rolled_back")
    came = entries.where(stays & F.col("origin_serial").isNotNull() & F.col("origin_ledger_id").isNotNull())
    # one arrival is one message, on however many queues
    messages = came.groupBy("ledger_id", "serial", *KEY).agg(
        F.min("queue").alias("target_queue"), F.max("message_id").alias("id"), F.max("stored").alias("kept")
    )
    seen = F.col("serial") <= F.col("first_look")
    return (
        messages.join(coverage, "ledger_id")
        .groupBy(*KEY)
        .agg(
            F.count("*").alias("arrivals"),
            F.count_if(seen).alias("seen_come"),
            F.max("id").alias("arrived_id"),
            F.max("kept").alias("arrived_stored"),
            F.min("ledger_id").alias("target_ledger_id"),
            F.min("target_queue").alias("target_queue"),
        )
    )


def _verdict(elsewhere: Collection[str] | None) -> Column:
    arrivals = F.coalesce("arrivals", F.lit(0))
    goes_elsewhere = F.lit(elsewhere is None)
    if elsewhere:
        goes_elsewhere = F.coalesce(F.col("queue").isin(*elsewhere), F.lit(False))
    stored = F.coalesce("stored", "arrived_stored")
    blind = F.coalesce(
        F.col("blind_until").isNotNull()
        & (F.col("arrival_time").isNull() | (F.col("arrival_time") < F.col("blind_until"))),
        F.lit(False),
    )
    taken = F.coalesce(F.col("forwards") + F.col("in_batch"), F.lit(0))
    return (
        F.when(F.col("is_audited").isNull() & (arrivals > 1), "received twice")
        .when(F.col("is_audited").isNull(), "elsewhere")
        .when(arrivals > F.greatest(taken, F.lit(1)), "received twice")
        .when((arrivals > 0) & (F.col("in_batch") > 0), "in doubt")
        .when((arrivals > 0) & (taken > 0), "arrived")
        .when((arrivals > 0) & (F.col(KEY[1]) < F.col("origin_first_position")), "older than history")
        .when((arrivals > 0) & (F.col("written_off") > 0) & ~stored, "written off")
        .when(F.col("seen_come") > 0, "arrival without forward")
        .when(arrivals > 0, "under way")
        .when(goes_elsewhere, "elsewhere")
        .when(F.col("seen_gone") == 0, F.when(F.col("in_batch") > 0, "in doubt").otherwise("under way"))
        .when(blind, "older than history")
        .when(stored, "missing arrival")
        .otherwise("lost")
    )


def crossing_violations(crossed: DataFrame) -> DataFrame:
    """The crossings that break a rule."""
    broken = crossed.where(F.col("verdict").isin(*CROSSING_RULES)).select(
        "verdict",
        F.col(KEY[0]).alias("ledger_id"),
        "queue_id",
        F.coalesce("queue", "target_queue").alias("queue"),
        F.col(KEY[1]).alias("serial"),
        "last_position",
        F.concat_ws(
            "",
            F.format_string("forwards: %d, arrivals: %d", "forwards", "arrivals"),
            F.lit(", at ledger "),
            "target_ledger_id",
        ).alias("said"),
    )
    return violation_rows(broken, F.col("verdict"), [F.col("last_position")], F.col("said"))


def crossing_sums(crossed: DataFrame) -> DataFrame:
    """Per sender's ledger, transmission queue and receiver's ledger: how many messages met each verdict."""
    counts = [
        F.count_if(F.col("verdict") == name).alias(name.replace(" ", "_")) for name in CROSSING_VERDICTS
    ]
    broken = F.count_if(F.col("verdict").isin(*CROSSING_RULES)).alias("violations")
    return crossed.groupBy(
        F.col(KEY[0]).alias("ledger_id"), "queue", F.col("target_ledger_id").alias("to_ledger_id")
    ).agg(*counts, broken)
