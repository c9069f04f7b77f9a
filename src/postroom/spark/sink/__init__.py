"""Rows into queues: the writers behind ``writeStream`` and ``write`` of the format ``postroom.messages``.

One micro-batch, or one batch write, is one transaction of one broker. Each task attempt sends in sink
branches of its own, seals them and tells the driver their names; the driver's commit names the winners, and
the broker decides by one record. What the broker has recorded says what is done: Spark's checkpoint and its
batch ids never do. What the words mean, and what happens when something fails: docs/reference/spark-sink.md.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

__all__ = ["batch_writer", "stream_writer"]


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool = False
) -> DataSourceStreamArrowWriter:
    """What writes the micro-batches of a query. Raises ``SinkOptionError``: options and columns are checked
    before any task starts.
    """
    from postroom.spark.sink.writers import StreamSink

    return StreamSink(options, schema, overwrite)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """What writes a DataFrame at once. Raises as `stream_writer`."""
    from postroom.spark.sink.writers import BatchSink

    return BatchSink(options, schema, overwrite)
