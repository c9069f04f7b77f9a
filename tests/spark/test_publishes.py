"""Publishes to topics in the entries table and the audit: one arrival, an entry for each subscription."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from postroom.manager.options import QueueDefinition
from postroom.spark import audit, frames
from postroom.spark.relation import legal_transitions
from tests.manager.test_topics_over_ledger import SUBSCRIPTIONS, TopicWorld
from tests.spark.conftest import events_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

CONSUMING = 5


def _lived_through() -> TopicWorld:
    """Something of everything that topics do, over a restart."""
    world = TopicWorld()
    for name in ("dead", "empty"):
        world.manager.create_queue(QueueDefinition(name=name, kind="topic"), world.now_us)
    for number in range(2):
        world.subscription(number, topic="dead", client="mourner")
    consumers = [world.subscriber(number) for number in range(CONSUMING)]
    world.publish(b"one", b"two")
    world.publish(b"gone at the restart", durable=False)
    for consumer in consumers:
        world.accept(consumer, world.held(consumer)[0])
    world.manager.reject(consumers[0], world.held(consumers[0])[0], "app:bad", "", world.now_us)
    world.put(world.manager.topic("empty"), b"for nobody")
    for decided in (world.manager.commit, world.manager.rollback):
        transaction = world.manager.begin(world.now_us)
        world.put(world.manager.topic("news"), b"in a transaction", transaction=transaction)
        decided(transaction, world.now_us)
    volatile = world.consumer(world.subscription(0, name="", durable=False), 10)
    world.publish(b"later", delay_ms=60_000)
    world.turn()
    world.close(volatile)
    world.turn()
    world.restart()
    world.publish(b"after")
    return world


def test_every_entry_of_a_publish_is_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    world = _lived_through()
    world.check_whole(tmp_path)
    events = events_of(spark, tmp_path)
    entries = frames.entries(events).persist()
    sums = audit.conservation(events, entries, 1).persist()
    assert audit.violations(events, entries, sums, legal_transitions(spark), 1).collect() == []
    balance = {row["queue"]: row for row in sums.collect()}
    quiet, busy = balance[f"news::c/s{SUBSCRIPTIONS - 1}"], balance["news::c/s0"]
    assert (quiet["arrivals"], quiet["held"], quiet["lost"], quiet["difference"]) == (7, 5, 1, 0)
    assert (busy["arrivals"], busy["consumed"], busy["dead_lettered"]) == (7, 1, 1)
    assert {row["difference"] for row in balance.values()} == {0}
    assert "empty" not in balance
    published = entries.where(F.col("parent_serial").isNull())
    shared = published.groupBy("serial").agg(F.count("*").alias("entries"), F.max("parent_queue_id"))
    assert max(row["entries"] for row in shared.collect()) == SUBSCRIPTIONS + 1
    mourned = entries.where(F.col("arrival_event") == "dead_letter")
    assert {(row["serial"], row["state"]) for row in mourned.collect()} == {
        (mourned.first()["serial"], "available")  # type: ignore[index]
    }
    assert mourned.count() == 2
