"""What stands on a queue, from its ledger's events: each message with its place, its counts, and of a dead
letter why it is one."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import StructField, StructType

from postroom.manager.kernel.options import KIND_QUEUE, KIND_SUBSCRIPTION, KIND_TOPIC
from postroom.spark.data_source.option_names import nearest
from postroom.spark.jobs.errors import CannotBeDone
from postroom.spark.ledger_source.queue_names import kinds_now
from postroom.spark.places.place import Place
from postroom.spark.places.uris import place_of

EVENT_SCHEMA: Final = (
    "position bigint, ordinal int, serial bigint, queue_id bigint, time timestamp, event string,"
    " from_state string, to_state string, causes string, delivery_delta int, failure_delta int,"
    " parent_serial bigint, parent_queue_id bigint"
)
END_SCHEMA: Final = "serial bigint, queue_id bigint, queue string, outcome string, reason string"

REASON_COLUMNS: Final = {
    "reason": "string",
    "description": "string",
    "reason_code": "bigint",
    "source_queue": "string",
}
"""Why a message came here from the queue that its parent was on, and which that is."""
STATE_COLUMNS: Final = {
    "state": "string",
    "delivery_count": "bigint",
    "failure_count": "bigint",
    "available_time": "timestamp",
    "age_s": "double",
}
"""How it stands here."""

_FREE_STATES: Final = ("available", "delayed")
_NOT_FREE_CAUSES: Final = ("unborn", "paused")
_US_A_S: Final = 1_000_000

DURABLE_WITHIN_S: Final = 5.0
"""So long a broker may take to tell that what it has written is durable; one that was killed never does."""
_DURABLE_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class LedgerAtPosition:
    """A ledger at one moment: everything of a plan is as it was then."""

    uri: str
    token: str
    ledger_id: str
    through: int
    first_position: int
    time_us: int
    """When that was, µs since 1970."""
    kinds: Mapping[str, str]
    """What there was then, by name: queue, topic, subscription, remote, …"""

    def options(self, **more: str) -> Mapping[str, str]:
        """Of the source ``postroom``, for reading no further."""
        return {"path": self.uri, "token": self.token, "toPosition": str(self.through), **more}

    def place(self) -> Place:
        """Where it lies."""
        return place_of(self.uri, self.token)


def fields_of(columns: Mapping[str, str]) -> list[StructField]:
    """Columns by name and type, as Spark's."""
    struct = StructType.fromDDL(", ".join(f"{name} {kind}" for name, kind in columns.items()))
    assert isinstance(struct, StructType)
    return struct.fields


def open_ledger(uri: str, token: str) -> LedgerAtPosition:
    """Look at a ledger: what was done before is in it. Raises ``LedgerError``, OSError."""
    place = place_of(uri, token)
    seen = place.snapshot()
    written_through, give_up_s = seen.written_through, time.monotonic() + DURABLE_WITHIN_S
    while seen.durable_through < written_through and time.monotonic() < give_up_s:
        time.sleep(_DURABLE_PAUSE_S)
        seen = place.snapshot()
    if seen.durable_through < 1:
        raise CannotBeDone(f"{uri}: nothing was ever put there")
    now_us = max(seen.last_time_us, time.time_ns() // 1000)
    kinds = kinds_now(place, seen)
    return LedgerAtPosition(
        uri, token, seen.ledger_id, seen.durable_through, seen.first_position, now_us, kinds
    )


def check_queue(ledger: LedgerAtPosition, queue: str) -> None:
    """Whether a job can act on that queue. Raises ``CannotBeDone``."""
    holding = [name for name, kind in ledger.kinds.items() if kind in (KIND_QUEUE, KIND_SUBSCRIPTION)]
    if ledger.kinds.get(queue) == KIND_TOPIC:
        raise CannotBeDone(f"{queue!r} is a topic, which holds no messages: name one of its subscriptions")
    if queue not in holding:
        near = nearest(queue, holding)
        hint = f"did you mean {near!r}?" if near else f"`postroom queue list` shows those of {ledger.uri}"
        raise CannotBeDone(f"{ledger.uri} has no queue {queue!r}; {hint}")


def queued_messages(
    spark: SparkSession, ledger: LedgerAtPosition, queue: str, with_reasons: bool
) -> DataFrame:
    """A row for each message that is on the queue and has been available: `KEYS`, `STATE_COLUMNS`, and
    ``is_free``: nobody holds it. `with_reasons`: with `REASON_COLUMNS`, too.

    ``position`` is 0 for what is older than the ledger's history.
    """
    found = _folded(_events(spark, ledger, queue), ledger)
    if not with_reasons:
        return found.drop("parent_serial", "parent_queue_id")
    ends = _ends(spark, ledger)
    same = (found.parent_serial == ends.end_serial) & (found.parent_queue_id == ends.end_queue_id)
    joined = found.join(ends, same, "left")
    return joined.drop("end_serial", "end_queue_id", "parent_serial", "parent_queue_id")


def _events(spark: SparkSession, ledger: LedgerAtPosition, queue: str) -> DataFrame:
    """The queue's events, without those that a checkpoint's rows have in them already."""
    options = ledger.options(queues=json.dumps([queue]), carried="true")
    events = spark.read.format("postroom").options(**options).schema(EVENT_SCHEMA).load()
    if ledger.first_position <= 1:
        return events
    newest = events.where("event = 'none'").agg(F.max("position").alias("through")).first()
    through = newest["through"] if newest is not None else None
    if through is None:
        return events
    is_old = (F.col("serial") < ledger.first_position) & (F.col("position") <= through)
    return events.where(~is_old | (F.col("event") == "none"))


def _folded(events: DataFrame, ledger: LedgerAtPosition) -> DataFrame:
    at = F.struct("position", "ordinal")
    arrived = F.bool_or(F.col("from_state") == "start") & ~F.bool_or(F.col("event") == "none")
    became_available = (F.col("to_state") == "available") & (F.col("event") != "none")
    entries = events.groupBy("queue_id", "serial").agg(
        F.max_by(F.struct("to_state", "causes"), at).alias("last"),
        F.min(F.when(became_available, F.struct("position", "ordinal", "time"))).alias("first"),
        F.min("time").alias("arrival_time"),
        arrived.alias("has_arrival"),
        F.sum("delivery_delta").alias("delivery_count"),
        F.sum("failure_delta").alias("failure_count"),
        F.max("parent_serial").alias("parent_serial"),
        F.max("parent_queue_id").alias("parent_queue_id"),
    )
    known = F.col("has_arrival") & F.col("first").isNotNull()
    # available, or in a redelivery delay: nobody holds it
    waits = [F.coalesce("last.causes", F.lit("")).contains(cause) for cause in _NOT_FREE_CAUSES]
    is_free = F.col("last.to_state").isin(*_FREE_STATES) & ~(waits[0] | waits[1])
    shown = entries.select(
        "serial",
        F.when(known, F.col("first.position")).otherwise(F.lit(0)).cast("bigint").alias("position"),
        F.when(known, F.col("first.ordinal")).otherwise(F.lit(0)).cast("int").alias("ordinal"),
        "delivery_count",
        "failure_count",
        F.col("last.to_state").alias("state"),
        F.coalesce("first.time", "arrival_time").alias("available_time"),
        is_free.alias("is_free"),
        known.alias("has_place"),
        "has_arrival",
        "parent_serial",
        "parent_queue_id",
    )
    here = shown.where((F.col("state") != "deleted") & (F.col("has_place") | ~F.col("has_arrival")))
    now_s = F.lit(ledger.time_us / _US_A_S)
    age_s = now_s - F.unix_micros("available_time") / F.lit(_US_A_S)
    return here.withColumn("age_s", F.greatest(age_s, F.lit(0.0))).drop("has_place", "has_arrival")


def _ends(spark: SparkSession, ledger: LedgerAtPosition) -> DataFrame:
    """How messages of all queues ended: where they were, and why."""
    events = spark.read.format("postroom").options(**ledger.options()).schema(END_SCHEMA).load()
    return events.where("outcome IS NOT NULL AND outcome NOT IN ('consumed', 'forwarded')").select(
        F.col("serial").alias("end_serial"),
        F.col("queue_id").alias("end_queue_id"),
        F.get_json_object("reason", "$.condition").alias("reason"),
        F.get_json_object("reason", "$.description").alias("description"),
        F.get_json_object("reason", "$.reason").try_cast("bigint").alias("reason_code"),
        F.col("queue").alias("source_queue"),
    )
