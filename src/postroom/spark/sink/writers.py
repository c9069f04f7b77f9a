"""Spark's writers: what runs in a task, and what the driver does with the tasks' answers."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Checks the options and the columns."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        raise NotImplementedError


class BatchSink(DataSourceArrowWriter):
    """Writes a DataFrame at once."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Checks the options and the columns."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task."""
        raise NotImplementedError
