"""Spark over ledgers that lie elsewhere: the broker's live tail over HTTP, an object store, exported
Parquet."""

from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection
from pyspark.sql import DataFrame, SparkSession

from postroom.server.configuration.http import HttpConfig
from postroom.spark.export.parquet import Export, ExportOptions
from postroom.spark.export.upload import Upload
from postroom.spark.places.folder import FolderPlace
from tests.server.http_client import Served, serving
from tests.spark.real_ledgers import Writer

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(900)]


def send(served: Served, first: int, count: int) -> None:
    connection = BlockingConnection(served.broker.url, timeout=30)
    sender = connection.create_sender("orders")
    for number in range(first, first + count):
        sender.send(Message(id=f"live-{number}", body=b"x", durable=True))
    connection.close()


def test_a_stream_follows_the_live_tail_of_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "data")
    writer.write(100)
    writer.close()
    taken: dict[int, list[tuple[int, str | None]]] = {}

    def take(rows: DataFrame, batch: int) -> None:
        taken[batch] = [(row[0], row[1]) for row in rows.select("position", "message_id").collect()]

    def run(served: Served) -> None:
        reader = spark.readStream.format("postroom").option("token", served.token)
        source = reader.option("cache", str(tmp_path / "cache")).load(served.url)
        query = source.writeStream.foreachBatch(take).trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    config = HttpConfig(address="127.0.0.1:0", max_requests_per_s=10_000)
    with serving(tmp_path / "data", config, queues=("orders",)) as served:
        send(served, 0, 5)
        run(served)
        send(served, 5, 5)
        run(served)
        there = FolderPlace(served.folder)
        ids = [id for batch in taken.values() for _, id in batch if id is not None]
        assert sorted(each for each in ids if each.startswith("live-")) == [f"live-{n}" for n in range(10)]
        assert len(ids) == len(set(ids)) == 110
        assert (
            max(position for batch in taken.values() for position, _ in batch)
            <= there.snapshot().durable_through
        )
        assert (
            served.token
            not in spark.readStream.format("postroom")
            .option("token", served.token)
            .load(served.url)
            ._jdf.queryExecution()
            .toString()
        )


def test_a_store_and_exported_parquet_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer(tmp_path / "data")
    writer.write(150)
    writer.close()
    list(Upload(tmp_path / "data", str(tmp_path / "store")).run())
    Export(FolderPlace(tmp_path / "data"), str(tmp_path / "out"), ExportOptions()).run()
    reader = spark.read.format("postroom").option("cache", str(tmp_path / "cache"))
    stored = reader.load(f"store:{tmp_path / 'store'}")
    plain = spark.read.parquet(str(tmp_path / "out"))
    assert "day" in plain.columns
    columns = [name for name in stored.columns if name not in ("user", "act")]  # of persons: left out
    left, right = stored.select(*columns), plain.select(*columns)
    assert left.dtypes == right.dtypes
    assert left.count() == right.count() > 300
    assert left.exceptAll(right).count() == 0
