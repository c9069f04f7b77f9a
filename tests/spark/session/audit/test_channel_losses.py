"""The audit of two brokers between which a fast channel has lost messages, or hasn't: its sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from postroom.spark.audit.command import AuditOptions, run_audit
from postroom.spark.audit.result import AuditResult, Verdict
from tests.server.channels.channel_pair import start
from tests.server.channels.refusing_partner import create_queue, make, put_behind_a_refused_one
from tests.server.channels.stations import Stations

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def audited(world: Stations, folder: Path, spark: SparkSession) -> AuditResult:
    """What both ledgers say, as they lie on the disks now."""
    for name, node in world.nodes.items():
        (folder / name).mkdir()
        node.disk.write_out(folder / name)

    @contextmanager
    def session(records: int) -> Iterator[SparkSession]:
        yield spark

    return run_audit(AuditOptions(tuple(str(folder / name) for name in world.nodes)), session)


def test_what_waits_behind_a_refused_message_is_not_lost(tmp_path: Path, spark: SparkSession) -> None:
    world = make({"short_retry_count": 10})
    put_behind_a_refused_one(world)
    start(world)
    world.pass_s(3)
    create_queue(world, "LATE")
    world.pass_s(1)
    assert (world.depth("B", "in"), world.depth("B", "LATE")) == (15, 1)
    result = audited(world, tmp_path, spark)
    assert result.verdict is Verdict.CLEAN
    assert result.sentence().endswith(": every message is accounted for")


def test_the_sentence_counts_what_was_lost_with_the_line(tmp_path: Path, spark: SparkSession) -> None:
    world = make({"short_retry_count": 10})
    start(world)
    world.put("A", "in@B", "came", durable=False)
    world.put("A", "in@B", "came, too")
    world.frozen = {"B"}
    world.put("A", "in@B", "one", "two", "three", durable=False)
    world.restart("B")
    world.frozen = set()
    world.pass_s(1)
    assert world.depth("A", "B") == 0
    for text in ("later", "last"):  # what is in the last block isn't known to be durable
        world.put("A", "in@B", text)
        world.pass_s(1)
    result = audited(world, tmp_path, spark)
    assert (result.verdict, result.lost_on_the_way) == (Verdict.CLEAN, 3)
    losses = (
        "every persistent message is accounted for; of the others 3 lost on the way between queue managers"
    )
    assert result.sentence().endswith(f": {losses} and 1 lost when a broker ended")
