"""The sink in Spark: batch writes, streams, and checkpoints that are lost in part or whole."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, format_string
from pyspark.sql.streaming.query import StreamingQuery

from postroom.manager.spark.sink import sinks_of
from postroom.server.configuration.config import QueueConfig
from tests.server.harness import BrokerThread, make_config
from tests.spark.sink.sink_tasks import received, shown

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SOURCE = "postroom.messages"
SMALL = "small"
FIRST_FILE_S = 1_790_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(queue=[QueueConfig(name=SMALL, max_messages=5)])) as running:
        yield running


def rows(spark: SparkSession, first: int, last: int, tasks: int = 2) -> DataFrame:
    """Messages m<first> to m<last>."""
    numbers = spark.range(first, last + 1, 1, tasks)
    return numbers.select(col("id").alias("position"), format_string("m%d", "id").alias("text"))


def texts(first: int, last: int) -> list[str]:
    return [f"m{number}" for number in range(first, last + 1)]


def save(frame: DataFrame, broker: BrokerThread, queue: str, **options: str) -> None:
    writer = frame.write.format(SOURCE).mode("append").option("broker", broker.url).option("queue", queue)
    writer.options(**options).save()


def apps(broker: BrokerThread) -> int:
    return broker.call(lambda running: len(running.manager.sinks.all()))


class Stream:
    """A query from a folder of JSON files into a queue; each file has some rows."""

    def __init__(self, spark: SparkSession, broker: BrokerThread, app: str, folder: Path) -> None:
        self._spark, self._broker, self._app = spark, broker, app
        self.files = folder / "files"
        self.checkpoint = folder / "checkpoint"
        self.files.mkdir()

    def file(self, first: int, last: int) -> None:
        lines = [json.dumps({"position": number, "text": f"m{number}"}) for number in range(first, last + 1)]
        whole = self.files / f".{first:05}"
        whole.write_text("\n".join(lines))
        os.utime(whole, (FIRST_FILE_S + first, FIRST_FILE_S + first))  # the source reads the oldest first
        whole.rename(self.files / f"{first:05}.json")

    def start(self, files_a_batch: int = 1, **options: str) -> StreamingQuery:
        reader = self._spark.readStream.schema("position long, text string")
        frame = reader.option("maxFilesPerTrigger", files_a_batch).json(str(self.files))
        writer = frame.writeStream.format(SOURCE).option("checkpointLocation", str(self.checkpoint))
        fields = {"broker": self._broker.url, "queue": self._app, "app": self._app, "brokerTimeoutS": "20"}
        return writer.options(**fields | options).trigger(availableNow=True).start()

    def run(self, files_a_batch: int = 1, **options: str) -> None:
        """Until there is nothing more; raises what the query failed with."""
        self.start(files_a_batch, **options).awaitTermination()

    def lose(self, *logs: str, batch: int) -> None:
        """These logs have lost a batch."""
        for log in logs:
            (self.checkpoint / log / str(batch)).unlink()
            (self.checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)


@pytest.fixture
def stream(spark: SparkSession, broker: BrokerThread, app: str, tmp_path: Path) -> Stream:
    return Stream(spark, broker, app, tmp_path)


# --- batch writes


def test_a_batch_write_is_one_transaction_in_the_order_of_its_rows(
    spark: SparkSession, broker: BrokerThread, app: str
) -> None:
    before = apps(broker)
    save(rows(spark, 1, 2_000, tasks=3), broker, app)
    assert received(broker, app) == texts(1, 2_000)
    assert apps(broker) == before, "the broker remembers nothing of a write without a name"


def test_a_version_is_written_once(spark: SparkSession, broker: BrokerThread, app: str) -> None:
    """Nor is one below the last, whether it was written then or not."""
    for version, last in ((0, 3), (0, 3), (2, 9), (1, 6), (0, 3)):
        save(rows(spark, 3 * version + 1, last), broker, app, txnApp=app, txnVersion=str(version))
    assert received(broker, app) == [*texts(1, 3), *texts(7, 9)]


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, broker: BrokerThread, app: str) -> None:
    before = apps(broker)
    # One task: another that still ran when the write was given up could begin the app anew.
    broken = rows(spark, 1, 100, tasks=1).withColumn(
        "body_type", expr("if(position = 99, 'nonsense', 'string')")
    )
    with pytest.raises(Exception, match="body_type is 'nonsense'"):
        save(broken, broker, app)
    with pytest.raises(Exception, match="the batch doesn't fit"):
        save(rows(spark, 1, 100, tasks=1), broker, SMALL)
    assert received(broker, app) == received(broker, SMALL) == []
    assert apps(broker) == before
    assert broker.call(lambda running: len(sinks_of(running.manager.core).branches)) == 0


def test_a_mistake_is_told_before_any_task(spark: SparkSession, broker: BrokerThread) -> None:
    with pytest.raises(Exception, match='option "queue" is missing'):
        save(rows(spark, 1, 1), broker, "")
    with pytest.raises(Exception, match=r'mode\("append"\) only'):
        rows(spark, 1, 1).write.format(SOURCE).mode("overwrite").options(broker=broker.url, queue="q").save()


def test_the_order_of_a_key_is_kept_by_sorting_within_its_partition(
    spark: SparkSession, broker: BrokerThread, app: str
) -> None:
    keyed = rows(spark, 1, 200, tasks=4).withColumn("group_id", expr("cast(position % 5 as string)"))
    save(keyed.repartition(3, "group_id").sortWithinPartitions("position"), broker, app)
    found = [int(str(text)[1:]) for text in received(broker, app)]
    for key in range(5):
        assert [number for number in found if number % 5 == key] == [*range(key or 5, 201, 5)]


# --- streams


def test_a_stream_goes_on_where_it_was(stream: Stream, broker: BrokerThread, app: str) -> None:
    stream.file(1, 10)
    stream.file(11, 15)
    stream.run()
    stream.file(16, 20)
    stream.run()
    assert received(broker, app) == texts(1, 20)
    record = shown(broker, app)
    assert (record["batch_id"], record["branches"], record["offsets"]) == (2, 0, '{"logOffset":2}')


def test_sparks_commit_log_has_lost_a_batch(stream: Stream, broker: BrokerThread, app: str) -> None:
    """It runs again, its tasks ask, and nothing is sent."""
    stream.file(1, 10)
    stream.run()
    stream.lose("commits", batch=0)
    stream.file(11, 15)
    stream.run()
    assert received(broker, app) == texts(1, 15)


def test_the_checkpoint_has_lost_its_end_while_the_source_grew(
    stream: Stream, broker: BrokerThread, app: str
) -> None:
    for first in (1, 11, 21):
        stream.file(first, first + 9)
        if first < 21:
            stream.run()
    stream.lose("commits", "offsets", "sources/0", batch=1)
    with pytest.raises(Exception, match=r"BatchReplaced.*the checkpoint has lost its last entries"):
        stream.run(files_a_batch=2)
    assert received(broker, app) == texts(1, 20)
    stream.run(files_a_batch=2, acceptDuplicates="true")
    assert received(broker, app) == texts(11, 30), "as was chosen"


def test_the_whole_checkpoint_is_lost(stream: Stream, broker: BrokerThread, app: str) -> None:
    stream.file(1, 10)
    stream.run()
    shutil.rmtree(stream.checkpoint)
    stream.file(11, 20)
    with pytest.raises(Exception, match=r"QueryReplaced.*offsets \{.*logOffset.*No position was recorded"):
        stream.run()
    assert received(broker, app) == texts(1, 10)


@pytest.mark.parametrize("lost", ["end", "all"])
def test_above_position_is_exactly_once_without_a_checkpoint(
    stream: Stream, broker: BrokerThread, app: str, lost: str
) -> None:
    for first in (1, 11):
        stream.file(first, first + 9)
        stream.run(abovePosition="position")
    stream.file(21, 30)
    if lost == "all":
        shutil.rmtree(stream.checkpoint)
    else:
        stream.lose("commits", "offsets", "sources/0", batch=1)
    stream.run(files_a_batch=2, abovePosition="position")
    assert sorted(map(str, received(broker, app))) == sorted(texts(1, 30))


def test_a_task_that_fails_fails_the_batch_and_the_next_start_writes_it(
    stream: Stream, broker: BrokerThread, app: str
) -> None:
    stream.file(1, 10)
    with pytest.raises(Exception, match="the batch doesn't fit"):
        stream.run(queue=SMALL)
    assert received(broker, SMALL) == []
    stream.run()
    assert received(broker, app) == texts(1, 10)


class ForeachBatch(Stream):
    """The same by a batch write in foreachBatch, each batch sorted."""

    def run(self, files_a_batch: int = 1, **options: str) -> None:
        def write(frame: DataFrame, batch_id: int) -> None:
            ordered = frame.repartition(1).sortWithinPartitions("position")
            fields = {"txnApp": self._app, "txnVersion": str(batch_id)} | options
            save(ordered, self._broker, self._app, **fields)

        frame = self._spark.readStream.schema("position long, text string").json(str(self.files))
        writer = frame.writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.checkpoint)).start().awaitTermination()


def test_a_write_in_foreach_batch_knows_its_query(
    spark: SparkSession, broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    """With the checkpoint lost, batch ids begin anew: it is refused, not passed over as done."""
    stream = ForeachBatch(spark, broker, app, tmp_path)
    stream.file(1, 5)
    stream.run()
    stream.lose("commits", batch=0)
    stream.run()
    shutil.rmtree(stream.checkpoint)
    stream.file(6, 9)
    with pytest.raises(Exception, match="QueryReplaced"):
        stream.run()
    assert received(broker, app) == texts(1, 5)


def test_a_write_in_foreach_batch_has_what_streams_have(
    spark: SparkSession, broker: BrokerThread, app: str, tmp_path: Path
) -> None:
    stream = ForeachBatch(spark, broker, app, tmp_path)
    above = {"checkpoint": str(stream.checkpoint), "abovePosition": "position"}
    stream.file(1, 5)
    stream.run(**above)
    stream.lose("commits", "offsets", "sources/0", batch=0)
    stream.file(6, 9)
    with pytest.raises(Exception, match="BatchReplaced"):
        stream.run(checkpoint=str(stream.checkpoint))
    stream.lose("offsets", "sources/0", batch=0)
    stream.run(**above)
    shutil.rmtree(stream.checkpoint)
    stream.file(10, 12)
    stream.run(**above)
    assert received(broker, app) == texts(1, 12)
