"""XA branches in the tables and the audit: prepared ones over a restart, each way to decide."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from postroom.model.xa import Xid
from postroom.spark import audit, frames
from postroom.spark.relation import legal_transitions
from tests.manager.over_ledger import LedgerWorld
from tests.manager.xa_world import Xa
from tests.spark.conftest import events_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COMMITTED, ROLLED_BACK, IN_DOUBT, LOST, HEURISTIC = (Xid(1, b"%d" % number, b"b") for number in range(5))


def _lived_through() -> LedgerWorld:
    """In each branch something is put and something not persistent received."""
    world = LedgerWorld()
    source, target = world.queue("source"), world.queue("target")
    xa = Xa(world)
    consumer = world.consumer(source, xa=True)
    for xid in (COMMITTED, ROLLED_BACK, IN_DOUBT, LOST, HEURISTIC):
        world.put(source, b"received", durable=False)
        world.put(target, b"sent", transaction=xa.start(xid).transaction, delay_ms=60_000)
        world.credit(consumer, 1)
        world.turn()
        xa.end(xid, consumer=consumer)
        xa.prepare(xid)
        world.turn()
    xa.heuristic_commit(HEURISTIC)
    xa.commit(COMMITTED)
    world.restart()
    xa = Xa(world)
    xa.rollback(LOST)
    xa.rollback(ROLLED_BACK)
    world.turn()
    return world


def test_branches_are_accounted_for(spark: SparkSession, tmp_path: Path) -> None:
    world = _lived_through()
    world.check_whole(tmp_path)
    events = events_of(spark, tmp_path)
    entries = frames.entries(events).persist()
    sums = audit.conservation(events, entries, 1).persist()
    assert audit.violations(events, entries, sums, legal_transitions(spark), 1).collect() == []
    balance = {row["queue"]: row for row in sums.collect()}
    source, target = balance["source"], balance["target"]
    assert (source["arrivals"], source["held"], source["consumed"], source["lost"]) == (5, 1, 2, 2)
    assert (target["arrivals"], target["delayed"], target["rolled_back"], target["unconfirmed"]) == (
        5,
        2,
        2,
        1,
    )
    assert source["difference"] == target["difference"] == 0
    held = entries.where(F.col("holder_kind") == "xa_prepared").collect()
    assert {(row["queue"], row["state"]) for row in held} == {
        ("source", "get_unconfirmed"),
        ("target", "put_unconfirmed"),
    }
    assert events.where(F.col("event") == "prepare").count() == 10
