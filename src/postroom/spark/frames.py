"""The tables, as pure functions from DataFrame to DataFrame: what became of each entry, and sums over them.

Nothing here reads, writes or knows a path: `events` is whatever has the columns of the events table. Every
table is a fold that does not depend on the order or the partitioning of its input.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

Position = int | Column
"""A position of a ledger; where there are several ledgers, an expression of the row's ledger_id."""

ENTRY_KEY: Final = ("ledger_id", "serial", "queue_id")

HELD_STATES: Final = ("put_unconfirmed", "locked_for_browse", "get_unconfirmed", "browse_get_unconfirmed")
"""States in which a holder must confirm; only there the entries table names one."""

PENDING_STATES: Final = (*HELD_STATES, "delayed")

OUTCOMES: Final = (
    "consumed",
    "expired",
    "deleted",
    "purged",
    "moved",
    "dead_lettered",
    "redirected",
    "returned_to_sender",
    "forwarded",
    "discarded",
    "rolled_back",
    "lost",
)

_FROM_ARRIVAL: Final = (
    "message_id",
    "correlation_id",
    "group_id",
    "group_sequence",
    "priority",
    "durable",
    "stored",
    "adverse",
    "body_bytes",
    "expiry",
    "creation",
    "body_serial",
    "producer_id",
    "producer",
    "parent_serial",
    "parent_queue_id",
    "channel",
    "origin_ledger_id",
    "origin_serial",
    "sequence",
)
_FROM_LAST: Final = (
    "position",
    "ordinal",
    "time",
    "event",
    "to_state",
    "outcome",
    "causes",
    "holder_kind",
    "holder_id",
    "due",
    "reason",
)


def is_arrival() -> Column:
    """Whether an events row is the entry's arrival."""
    return F.col("from_state") == "start"


def is_carried() -> Column:
    """Whether a row is no event but tells where an entry older than the history was at the checkpoint."""
    return F.col("event") == "none"


def is_end() -> Column:
    """Whether an events row ends its entry."""
    return F.col("to_state") == "deleted"


def entries(events: DataFrame, checkpoint_position: Position = 0) -> DataFrame:
    """One row an entry: where the message stands on that queue and how it got there.

    Where `events` has carried rows, `checkpoint_position` is the position that they tell of.

    Key: ledger_id, serial, queue_id. Each column declares how it merges: what the arrival told and names by
    max (there is one arrival), times by min, counts by sum, the state by the highest (position, ordinal).
    """
    grouped = events.groupBy(*ENTRY_KEY).agg(
        F.max("queue").alias("queue"),
        *(F.max(name).alias(name) for name in _FROM_ARRIVAL),
        F.max(is_carried()).alias("is_carried"),
        F.min(F.when(is_arrival() | is_carried(), F.col("time"))).alias("arrival_time"),
        F.min(F.when(is_arrival(), F.col("event"))).alias("arrival_event"),
        F.min(F.when(F.col("to_state") == "available", F.col("time"))).alias("first_available_time"),
        _count("delivery_delta", checkpoint_position).alias("delivery_count"),
        _count("failure_delta", checkpoint_position).alias("failure_count"),
        F.count_if(~is_carried()).alias("event_count"),
        F.max(F.struct((~is_carried()).alias("is_event"), *_FROM_LAST)).alias("last"),
    )
    return grouped.select(*_entry_columns())


def _count(delta: str, checkpoint_position: Position) -> Column:
    """A count: what the checkpoint says and what came after it; or, for entries that it does not tell of,
    all."""
    is_late = F.col("position") > checkpoint_position
    carried = F.max(F.when(is_carried(), F.col(delta)))
    early = F.sum(F.when(~is_late & ~is_carried(), F.col(delta)).otherwise(0))
    return F.coalesce(carried, early) + F.sum(F.when(is_late, F.col(delta)).otherwise(0))


def _entry_columns() -> list[Column]:
    held = F.col("last.to_state").isin(*HELD_STATES)
    delayed = F.col("last.to_state") == "delayed"
    ended = F.col("last.to_state") == "deleted"
    return [
        F.col("ledger_id"),
        F.col("serial"),
        F.col("queue_id"),
        F.col("queue"),
        F.col("message_id"),
        F.col("correlation_id"),
        F.col("last.to_state").alias("state"),
        F.when(ended, F.col("last.outcome")).alias("outcome"),
        F.when(ended, F.col("last.reason")).alias("reason"),
        F.when(held, F.col("last.holder_kind")).alias("holder_kind"),
        F.when(held, F.col("last.holder_id")).alias("holder_id"),
        F.when(delayed, F.col("last.causes")).alias("delay_causes"),
        F.when(delayed, F.col("last.due")).alias("due"),
        F.col("arrival_time"),
        F.when(~F.col("is_carried"), F.col("first_available_time")).alias("first_available_time"),
        F.when(F.col("last.is_event"), F.col("last.time")).alias("last_event_time"),
        F.when(ended, F.col("last.time")).alias("ended_time"),
        F.col("delivery_count"),
        F.col("failure_count"),
        F.col("priority"),
        F.col("expiry"),
        F.col("body_bytes"),
        F.col("durable"),
        F.col("stored"),
        F.col("adverse"),
        F.col("group_id"),
        F.col("group_sequence"),
        F.col("creation"),
        F.col("producer_id"),
        F.col("producer"),
        F.col("parent_serial"),
        F.col("parent_queue_id"),
        F.when(F.col("origin_serial").isNotNull(), F.col("channel")).alias("channel"),
        F.when(F.col("origin_serial").isNotNull(), F.col("origin_ledger_id")).alias("origin_ledger_id"),
        F.col("origin_serial"),
        F.col("sequence"),
        F.col("body_serial"),
        F.col("arrival_event"),
        F.when(F.col("last.is_event"), F.col("last.event")).alias("last_event"),
        F.col("last.position").alias("last_position"),
        F.col("event_count"),
    ]


ENTRY_COMMENTS: Final = {
    "ledger_id": "The ledger's own id",
    "serial": "The message: position of its arrival record; with queue_id the key of an entry",
    "queue_id": "The queue's id, never reused",
    "queue": "The queue's name",
    "message_id": "AMQP message-id as text",
    "correlation_id": "AMQP correlation-id as text",
    "state": "Where the entry is in its life",
    "outcome": "How it ended; null while it lives",
    "reason": "Why it ended so, as JSON (condition, description), where one was given",
    "holder_kind": "Who must confirm, while someone must",
    "holder_id": "Which holder of that kind",
    "delay_causes": "Why it is delayed, as a+b",
    "due": "When the delay ends",
    "arrival_time": "When it was put; null if that record is older than the ledger's history",
    "first_available_time": "When it could first be got; null if that may be older than the history",
    "last_event_time": "Time of its last event; null if that is older than the history",
    "ended_time": "When it ended",
    "delivery_count": "Deliveries that came back, other than released",
    "failure_count": "Failures charged to the redelivery limit",
    "priority": "0 to 9",
    "expiry": "When it expires; null never",
    "body_bytes": "Size of the stored sections",
    "durable": "Persistence was asked for",
    "stored": "The body is in the ledger",
    "adverse": "Put by the broker itself",
    "group_id": "AMQP group-id",
    "group_sequence": "AMQP group-sequence",
    "creation": "The producer's creation-time",
    "producer_id": "Who sent it",
    "producer": "The producer's name",
    "parent_serial": "The entry it was made from (move, dead letter, replay)",
    "parent_queue_id": "That entry's queue; without a parent the topic that it was published to",
    "channel": "The channel that it came through",
    "origin_ledger_id": "The sender's ledger, of what came through a channel",
    "origin_serial": "Its serial in that ledger",
    "sequence": "Its number in the channel's sequence",
    "body_serial": "Whose body it shares; its own serial else",
    "arrival_event": "put, put_held, or what made it of its parent",
    "last_event": "Its last event; null if that is older than the history",
    "last_position": "Position of that event, or of the checkpoint that tells of the entry",
    "event_count": "Events so far",
}


def queue_totals(events: DataFrame) -> DataFrame:
    """Per queue: arrivals, and ends by outcome, counted from the events themselves."""
    ended = [F.count_if(is_end() & (F.col("outcome") == name)).alias(name) for name in OUTCOMES]
    return events.groupBy("ledger_id", "queue_id").agg(
        F.max("queue").alias("queue"), F.count_if(is_arrival()).alias("arrivals"), *ended
    )


def queue_holdings(entries: DataFrame, first_position: Position) -> DataFrame:
    """Per queue: what it holds, by where it is: available, delayed, held by someone, and all of it.

    ``older_than_history`` counts the entries, held or ended, that arrived before `first_position`, the oldest
    in the history.
    """
    state = F.col("state")
    return entries.groupBy("ledger_id", "queue_id").agg(
        F.max("queue").alias("queue"),
        F.count_if(state == "available").alias("available"),
        F.count_if(state == "delayed").alias("delayed"),
        F.count_if(state.isin(*HELD_STATES)).alias("unconfirmed"),
        F.count_if(state != "deleted").alias("held"),
        F.sum(F.when(state != "deleted", F.col("body_bytes")).otherwise(0)).alias("held_bytes"),
        F.count_if(F.col("serial") < first_position).alias("older_than_history"),
    )


def depth_over_time(events: DataFrame, step_s: int, first_position: Position = 1) -> DataFrame:
    """Per queue and step of `step_s` seconds: arrivals, ends, and how many it held at the end of the step.

    Entries that arrived before `first_position` were there from the beginning.
    """
    stepped = F.window("time", f"{step_s} seconds")["start"].alias("step")
    moved = (
        events.where(~is_carried())
        .groupBy("ledger_id", "queue", stepped)
        .agg(F.count_if(is_arrival()).alias("arrivals"), F.count_if(is_end()).alias("ends"))
    )
    before = (
        events.where(F.col("serial") < first_position)
        .groupBy("ledger_id", "queue")
        .agg(F.count_distinct("serial").alias("before"))
    )
    until_here = (
        Window.partitionBy("ledger_id", "queue").orderBy("step").rowsBetween(Window.unboundedPreceding, 0)
    )
    change = F.sum(F.col("arrivals") - F.col("ends")).over(until_here)
    depth = (F.coalesce("before", F.lit(0)) + change).alias("depth")
    joined = moved.join(F.broadcast(before), ["ledger_id", "queue"], "left")
    return joined.select("ledger_id", "queue", "step", "arrivals", "ends", depth)


def dwell_times(entries: DataFrame) -> DataFrame:
    """Per queue: consumed entries by how long they waited, in buckets of a doubling number of milliseconds.

    ``bucket`` n means 2ⁿ⁻¹ ms to 2ⁿ ms, 0 under a millisecond.
    """
    waited_ms = (F.unix_micros("ended_time") - F.unix_micros("first_available_time")) / 1000
    bucket = F.when(waited_ms < 1, 0).otherwise(F.floor(F.log2(waited_ms)) + 1).cast("int")
    consumed = entries.where((F.col("outcome") == "consumed") & F.col("first_available_time").isNotNull())
    return consumed.groupBy("queue", bucket.alias("bucket")).agg(F.count("*").alias("entries"))


def flows(entries: DataFrame) -> DataFrame:
    """What went from where to where: producers into queues, queues into what became of it, queues into
    queues."""
    puts = entries.where(F.col("parent_serial").isNull()).select(
        F.coalesce("producer", F.lit("(producer)")).alias("source"),
        F.col("queue").alias("target"),
        F.lit("put").alias("kind"),
    )
    ends = entries.where(~F.coalesce("outcome", F.lit("")).isin(*MOVING_OUTCOMES)).select(
        F.col("queue").alias("source"),
        F.coalesce("outcome", F.lit("held")).alias("target"),
        F.lit("end").alias("kind"),
    )
    parents = entries.select(
        F.col("ledger_id"),
        F.col("serial").alias("parent_serial"),
        F.col("queue_id").alias("parent_queue_id"),
        F.col("queue").alias("source"),
    )
    moves = entries.join(parents, ["ledger_id", "parent_serial", "parent_queue_id"]).select(
        F.col("source"), F.col("queue").alias("target"), F.col("arrival_event").alias("kind")
    )
    return (
        puts.unionByName(ends)
        .unionByName(moves)
        .groupBy("source", "target", "kind")
        .agg(F.count("*").alias("entries"))
    )


MOVING_OUTCOMES: Final = ("moved", "dead_lettered", "redirected", "returned_to_sender", "forwarded")
"""Outcomes after which the message goes on: as a child entry in this ledger, or (forwarded) in another's."""


def undelivered(entries: DataFrame) -> DataFrame:
    """Per queue and reason: what did not reach a consumer, how many, when first and last."""
    condition = F.get_json_object("reason", "$.condition")
    gone = entries.where(
        F.col("outcome").isNotNull() & ~F.col("outcome").isin("consumed", "moved", "forwarded")
    )
    return gone.groupBy("queue", "outcome", F.coalesce(condition, F.col("last_event")).alias("reason")).agg(
        F.count("*").alias("entries"),
        F.max("failure_count").alias("most_failures"),
        F.min("ended_time").alias("first"),
        F.max("ended_time").alias("last"),
    )
