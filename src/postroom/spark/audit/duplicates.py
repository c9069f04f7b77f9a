"""Duplicates by message id: a destination that took an id twice, and why that is none, or is one.

That an id comes again says nothing by itself: a sender that lost its connection sends again, a move or a
replay makes a new message of an old one, a channel brings back what left by another. The broker promises two
things: with a duplicate window a destination takes none of the ids that it remembers, and what one link
sends once arrives once. A link that lives never sends again by itself: it waits for its outcome, and only the
next link, after a failure, repeats what it has not heard of. What was rolled back or lost was not taken.

Ids are compared as text, as the tables have them.
"""

from typing import Final

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from postroom.ledger.format.layout import Array
from postroom.spark.audit.rows import violation_rows
from postroom.spark.audit.rules import DUPLICATE_RULES
from postroom.spark.audit.walk.ids import id_numbers, took_id
from postroom.spark.audit.walk.walk import Keep, Walked

WINDOWS: Final = "ledger_id string, destination long, window long, since long"
"""One row for each destination that remembers ids: how many, and the position of the definition."""

PUTS: Final = ("put", "put_held")

ID: Final = ("ledger_id", "queue_id", "message_id")
"""What a destination takes once."""

MAX_NUMBERS: Final = 100_000
"""Of ids that came again, so many numbers go to every task; with more the windows go over all arrivals."""

BUCKET_BITS: Final = 20
"""Puts are counted in pieces of so many positions (1 M), each in a task of its own."""

_OF_PUTS: Final = (
    *("ledger_id", "serial", "queue_id", "arrival_event"),
    *("parent_serial", "parent_queue_id", "origin_serial"),
)
_DETAILS: Final = ("serial", "taken_position", "creation", "body_bytes", "outcome", "last_position")


SCHEMA: Final = (
    "ledger_id string, queue_id long, queue string, message_id string, serial long, earlier_serial long, "
    "taken_position long, verdict string"
)


def duplicates(walked: Walked, windows: DataFrame | None = None) -> DataFrame | None:
    """One row, as `SCHEMA` says, for each arrival on a destination that took its message id before; None
    where no id came twice. `windows` is as `WINDOWS` says, None where nothing is known of them.

    Only arrivals whose number of an id comes again go on to the windows that put them in order, and few ids
    come again. Where many do, all arrivals go on.
    """
    numbers = walked.repeated_ids(MAX_NUMBERS + 1)
    if not len(numbers):
        return None
    some = walked.lives(took_id if len(numbers) > MAX_NUMBERS else took_one_of(numbers))
    by_id = Window.partitionBy(*ID).orderBy("taken_position", "serial")
    by_link = Window.partitionBy(*ID, "producer_id").orderBy("taken_position", "serial")
    details = F.struct(*_DETAILS)
    again = some.select(
        "*",
        F.lag(details).over(by_id).alias("earlier"),
        F.when(F.col("producer_id").isNotNull(), F.lag(details).over(by_link)).alias("of_link"),
    ).where(F.col("earlier").isNotNull())
    judged = again.withColumn("is_remembered", F.lit(False))
    if windows is not None:
        judged = _remembered(again, walked.lives(took_id, _OF_PUTS), windows)
    return judged.withColumn("verdict", _verdict()).select(
        "ledger_id",
        "queue_id",
        "queue",
        "message_id",
        "serial",
        F.when(F.col("verdict") == "arrived twice", F.col("of_link.serial"))
        .otherwise(F.col("earlier.serial"))
        .alias("earlier_serial"),
        "taken_position",
        "verdict",
    )


def took_one_of(numbers: Array) -> Keep:
    """The arrivals with an id of one of these numbers, by ledger and queue."""
    return lambda lives: took_id(lives) & np.isin(id_numbers(lives).view(np.int64), numbers)


def duplicate_violations(found: DataFrame) -> DataFrame:
    """The duplicates that break a rule."""
    broken = found.where(F.col("verdict").isin(*DUPLICATE_RULES))
    detail = F.format_string("message id %s, first as message %d", "message_id", "earlier_serial")
    positions = [F.col("earlier_serial"), F.col("taken_position")]
    return violation_rows(broken, F.col("verdict"), positions, detail)


def _verdict() -> Column:
    earlier = F.col("of_link")
    # a resend that replaces its first copy, which was deleted before it came (MQ Everyplace's Msg_Resend)
    made_way = (earlier["outcome"] == "deleted") & (earlier["last_position"] < F.col("serial"))
    same = (
        (earlier["creation"] == F.col("creation"))
        & (earlier["body_bytes"] == F.col("body_bytes"))
        & ~F.coalesce(made_way, F.lit(False))
    )
    return (
        F.when(F.col("parent_serial").isNotNull() | ~F.col("arrival_event").isin(*PUTS), "moved")
        .when(F.col("adverse"), "report")
        .when(F.col("is_remembered"), "taken again")
        .when(F.col("origin_serial").isNotNull() | F.col("channel").isNotNull(), "hop")
        .when(same, "arrived twice")
        .when(earlier.isNotNull(), "repeated")
        .otherwise("resent")
    )


# --- duplicate windows ----------------------------------------------------------------------------


def _remembered(again: DataFrame, came: DataFrame, windows: DataFrame) -> DataFrame:
    """`again` with whether the destination remembered the id: it was taken before this one came, since the
    window is as it is, and fewer other puts than the window has came in between."""
    by_id = ["ledger_id", "destination"]
    puts = came.where(F.col("arrival_event").isin(*PUTS)).withColumn("destination", _destination())
    with_window = puts.join(F.broadcast(windows), by_id)
    counted = _numbered(with_window.select(*by_id, "serial").distinct())
    later = again.withColumn("destination", _destination()).join(F.broadcast(windows), by_id, "left")
    mine = counted.withColumnRenamed("number", "own_number")
    first = counted.select(
        *by_id, F.col("serial").alias("earlier_serial_of"), F.col("number").alias("earlier_number")
    )
    joined = (
        later.withColumn("earlier_serial_of", F.col("earlier.serial"))
        .join(mine, [*by_id, "serial"], "left")
        .join(first, [*by_id, "earlier_serial_of"], "left")
    )
    between = F.col("own_number") - F.col("earlier_number") - 1
    remembered = (
        (F.col("earlier.serial") > F.col("since"))
        & (F.col("earlier.taken_position") < F.col("serial"))
        & (between < F.col("window"))
    )
    return joined.withColumn("is_remembered", F.coalesce(remembered, F.lit(False)))


def _destination() -> Column:
    """The topic that a message was published to, else its queue."""
    is_published = F.col("parent_serial").isNull() & F.col("origin_serial").isNull()
    topic = F.when(is_published, F.col("parent_queue_id"))
    return F.coalesce(topic, F.col("queue_id"))


def _numbered(puts: DataFrame) -> DataFrame:
    """The puts of each destination, numbered by serial."""
    destination = ("ledger_id", "destination")
    placed = puts.withColumn("bucket", F.shiftright("serial", BUCKET_BITS))
    sizes = placed.groupBy(*destination, "bucket").agg(F.count("*").alias("size"))
    before = Window.partitionBy(*destination).orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    starts = sizes.select(
        *destination, "bucket", F.coalesce(F.sum("size").over(before), F.lit(0)).alias("start")
    )
    within = Window.partitionBy(*destination, "bucket").orderBy("serial")
    return placed.join(starts, [*destination, "bucket"]).select(
        *destination, "serial", (F.col("start") + F.row_number().over(within)).alias("number")
    )
