"""Queues consumed by Spark itself: the how-to's programs, and a query that goes on while much happens."""

import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from postroom.spark.consume.foreach_batch import confirm
from tests.spark.played_queries import SUBSCRIPTION, Station, station

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]

HOWTO = Path(__file__).resolve().parents[3] / "docs" / "howto" / "queue-to-delta.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def one() -> Iterator[Station]:
    with station(window=4) as running:
        yield running


def _options(one: Station, confirm: str, **more: str) -> dict[str, str]:
    fields = {"mode": "consume", "broker": one.url, "subscription": SUBSCRIPTION, "confirm": confirm}
    return {"path": str(one.folder)} | fields | more


def test_the_how_to_has_each_message_in_the_table_once(
    spark: SparkSession, one: Station, tmp_path: Path
) -> None:
    program, again, *_ = PROGRAM.findall(HOWTO.read_text())
    first, _, rest = program.partition("\nspark = ")
    source = re.compile(r"^orders = \(\n.*?^\)\n", re.MULTILINE | re.DOTALL)
    assert source.search(rest) and source.fullmatch(again)
    names: dict[str, Any] = {}
    exec(compile(first, "page", "exec"), names)
    names |= {"BROKER": one.url, "LEDGER": str(one.folder)}
    names |= {"TABLE": str(tmp_path / "table"), "CHECKPOINT": str(tmp_path / "checkpoint")}

    def run(text: str = rest) -> None:
        exec(compile("\nspark = " + text, "page", "exec"), names)
        found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
        assert Counter(found["text"].to_pylist()) == Counter(one.sent)
        assert found["_corrupt"].null_count == len(found)
        assert (one.on_queue(), one.state()["held"]) == (0, 0)

    one.send(11)  # the window is 4
    run()
    one.send(3)
    run()
    shutil.rmtree(tmp_path / "checkpoint")
    one.send(3)
    with pytest.raises(StreamingQueryException, match="CheckpointReplaced"):
        run()
    run(source.sub(lambda _: again, rest))
    assert DeltaTable(str(tmp_path / "table")).metadata().partition_columns == ["day"]


class Watched:
    """A foreachBatch that looks at its batch twice, and a test that waits for what it has seen."""

    def __init__(self, one: Station) -> None:
        self.one = one
        self.texts: list[str] = []
        self._changed = threading.Condition()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        count = batch.count()
        rows = batch.collect()
        assert len(rows) == count, "reading again changes nothing"
        if batch_id:
            for name in {row["name"] for row in rows}:
                confirm(batch, batch_id, broker=self.one.url, subscription=name)
            assert len(batch.collect()) == count, "nor does it after the confirmation"
        with self._changed:
            self.texts += [row["text"] for row in rows]
            self._changed.notify_all()

    def wait_for(self, messages: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.texts) >= messages, 120)


def test_a_query_goes_on_over_a_restart_with_two_subscriptions(
    spark: SparkSession, one: Station, tmp_path: Path
) -> None:
    one.create("other")
    watched, query = Watched(one), None
    try:
        query = _both(spark, one, watched, tmp_path)
        one.send(9)
        watched.wait_for(9)
        with pytest.raises(StreamingQueryException, match=r"checkpoint .* is registered, not this query's"):
            _start(spark, one, tmp_path / "second").processAllAvailable()
        one.restart()
        one.send(9)
        watched.wait_for(18)
        snapshot = spark.read.format("postroom.messages").options(**_options(one, "call")).load()
        assert snapshot.count() == one.state()["held"] == 0
    finally:
        if query is not None:
            query.stop()
    assert Counter(watched.texts) == Counter(one.sent)
    assert (one.on_queue(), one.state()["held"], one.state("other")["held"]) == (0, 0, 0)


def _stream(spark: SparkSession, one: Station, name: str) -> DataFrame:
    reader = spark.readStream.format("postroom.messages")
    stream = reader.options(**_options(one, "call", subscription=name)).load()
    return stream.selectExpr("text", f"'{name}' AS name")


def _both(spark: SparkSession, one: Station, watched: Watched, folder: Path) -> StreamingQuery:
    both = _stream(spark, one, SUBSCRIPTION).union(_stream(spark, one, "other"))
    writer = both.writeStream.foreachBatch(watched)
    return writer.option("checkpointLocation", str(folder / "both")).start()


def _start(spark: SparkSession, one: Station, folder: Path) -> StreamingQuery:
    writer = _stream(spark, one, SUBSCRIPTION).writeStream.format("noop")
    return writer.option("checkpointLocation", str(folder)).start()


def test_a_mistake_in_the_options_is_told_at_once(spark: SparkSession, one: Station) -> None:
    reader = spark.read.format("postroom.messages").options(**_options(one, "call", subscription="none"))
    with pytest.raises(AnalysisException, match="postroom spark-subscription create none --queue QUEUE"):
        reader.load().count()
