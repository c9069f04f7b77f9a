"""The format ``postroom.killed``: `postroom.messages` with points at which a play ends somebody.

Readers and writers are subclasses, so that every process which unpickles one imports this module, and with it
the points around the requests to the broker. They are for good: no other process may import it.
"""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from postroom.spark.consume.options import read_consume_options
from postroom.spark.consume.reader import ConsumeStream
from postroom.spark.consume.subscription import BrokerSubscription
from postroom.spark.message_source import MessagesDataSource
from postroom.spark.sink.link import SinkLink
from postroom.spark.sink.writers import StreamSink
from postroom.spark.tap.options import CONSUME, mode_of, read_tap_options
from postroom.spark.tap.stream import TapStream
from tests.sparkkills.points import FOLDER, Point, around, around_async, reached

if FOLDER not in os.environ:
    raise ImportError(f"{__name__} is for the processes of a play, which have {FOLDER}")

around(BrokerSubscription, "register", Point.BEFORE_REGISTER, None)
around(BrokerSubscription, "confirm", Point.BEFORE_CONFIRM, Point.AFTER_CONFIRM)
around_async(SinkLink, "seal", Point.BEFORE_BRANCH_DURABLE, Point.AFTER_BRANCH_DURABLE)
around_async(SinkLink, "commit", Point.BEFORE_DECISION, Point.AFTER_DECISION)


class KilledDataSource(MessagesDataSource):
    """Source and sink."""

    @classmethod
    def name(cls) -> str:
        return "postroom.killed"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if mode_of(self.options) == CONSUME:
            return KilledConsume(read_consume_options(self.options), schema)
        return KilledTap(read_tap_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return KilledSink(self.options, schema, overwrite)


class KilledConsume(ConsumeStream):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)
        reached(Point.AFTER_READ)


class KilledTap(TapStream):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from super().read(partition)
        reached(Point.AFTER_READ)


class KilledSink(StreamSink):
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(list(messages), batchId)
        reached(Point.BEFORE_SPARK_COMMIT_LOG)
