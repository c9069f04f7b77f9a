"""The format ``postroom.messages``: the contents of queues as a Spark source, and a sink for queues.

Mode *tap* reads beside the consumers, from the ledger; mode *consume* is `postroom.spark.consume`, the sink
`postroom.spark.sink`.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from postroom.spark.data_source.catalog import remembered, remembering
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.data_source.schema import check_requested
from postroom.spark.data_source.worker import in_task, made_ahead
from postroom.spark.ledger_source.ranges import Planner
from postroom.spark.ledger_source.stream import SlicesPartition
from postroom.spark.messages.schema import FULL_SCHEMA, MESSAGES_SCHEMA, messages_struct
from postroom.spark.tap.options import CONSUME, TapOptions, mode_of, read_tap_options
from postroom.spark.tap.stream import TapStream, read_slices


class MessagesDataSource(DataSource):
    """The source and sink named ``postroom.messages``; the options are in docs/reference/spark-messages.md.

    Giving `.schema(...)` with some of the columns decodes only those.
    """

    @classmethod
    def name(cls) -> str:
        return "postroom.messages"

    def schema(self) -> StructType:
        """The columns of messages, with a comment on every one."""
        return remembering(messages_struct(MESSAGES_SCHEMA), self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader; options and columns are checked here, before any task starts."""
        check_requested(schema, _FULL_STRUCT, "messages")
        kept_options = remembered(schema, self.options)
        if mode_of(kept_options) == CONSUME:
            from postroom.spark.consume.options import read_consume_options
            from postroom.spark.consume.reader import ConsumeBatchReader

            return ConsumeBatchReader(read_consume_options(kept_options, is_stream=False), schema)
        options = read_tap_options(kept_options)
        if options.lease is not None:
            raise SourceOptionError(
                'option "lease" is of a stream, which moves it; for a batch read grant one before:'
                " postroom ledger lease grant"
            )
        return TapBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of micro-batches."""
        check_requested(schema, _FULL_STRUCT, "messages")
        kept_options = remembered(schema, self.options)
        if mode_of(kept_options) == CONSUME:
            from postroom.spark.consume.options import read_consume_options
            from postroom.spark.consume.reader import ConsumeStream

            return ConsumeStream(read_consume_options(kept_options), schema)
        return TapStream(read_tap_options(kept_options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What writes a DataFrame at once."""
        from postroom.spark.sink.writers import BatchSink

        return BatchSink(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """What writes the micro-batches of a query."""
        from postroom.spark.sink.writers import StreamSink

        return StreamSink(self.options, schema, overwrite)


_FULL_STRUCT: Final = messages_struct(FULL_SCHEMA)


class TapBatchReader(DataSourceReader):
    """Plans slices of the files on the driver, reads them in the tasks."""

    def __init__(self, options: TapOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Even parts of each ledger's range; one look at each."""
        planner = Planner(self._options.source)
        start = planner.begin()
        found = [SlicesPartition(part) for part in planner.parts(start, planner.latest())]
        return list(found) or [SlicesPartition([])]  # Spark reads a partition even where there is none

    @in_task
    @made_ahead
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition's slices."""
        yield from read_slices(partition, self._schema, self._options)
