"""Spark's writers: they run in a task (`write`), and in a process beside the driver (`commit`, `abort`)."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from postroom.spark.messages.encode import ColumnInvalid, check_columns
from postroom.spark.sink import commit
from postroom.spark.sink.digest import Offsets, offsets_of
from postroom.spark.sink.errors import SinkOptionError
from postroom.spark.sink.options import SinkOptions, read_batch_options, read_stream_options
from postroom.spark.sink.task import TaskWrote, Writing, write

QUERY_ID: Final = "sql.streaming.queryId"
RUN_ID: Final = "sql.streaming.runId"
BATCH_ID: Final = "streaming.sql.batchId"
JOB_GROUP: Final = "spark.jobGroup.id"
"""Local properties of a task: Spark's own names. A query's job group is its run id, before 4.3 its only
place."""
ONCE: Final = "spark-"
"""What the app of a write begins with that has none."""


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, each as one transaction."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Raises ``SinkOptionError``."""
        if overwrite:
            raise SinkOptionError('a queue takes output mode "append" only: what was sent can\'t be replaced')
        self._options = read_stream_options(options)
        check(self._options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows in branches of the batch."""
        context = TaskContext.get()
        assert context is not None
        run_id = property_of(context, RUN_ID) or property_of(context, JOB_GROUP)
        who = writing(context, self._options.app, run_id, int(property_of(context, BATCH_ID)))
        return write(self._options, who, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Decide the batch."""
        offsets = offsets_of(self._options.checkpoint, batchId)
        commit.commit(self._options, self._options.app, batchId, offsets, written(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Roll back what the tasks have named."""
        commit.roll_back(self._options, self._options.app, written(messages))


class BatchSink(DataSourceArrowWriter):
    """Writes a DataFrame as one transaction: exactly once with an app and a version, else once a run."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """Raises ``SinkOptionError``."""
        if overwrite:
            raise SinkOptionError('a queue takes mode("append") only: what was sent can\'t be replaced')
        self._options = read_batch_options(options)
        check(self._options, schema)
        self._run_id = str(uuid.uuid4())
        self._app = self._options.app or ONCE + self._run_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows in branches of the run."""
        context = TaskContext.get()
        assert context is not None
        who = writing(context, self._app, self._run_id, self._options.version or 0)
        return write(self._options, who, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Decide the write."""
        version = self._options.version or 0
        offsets = Offsets("", f"version {version}")
        if self._options.checkpoint:
            offsets = offsets_of(self._options.checkpoint, version)
        commit.commit(self._options, self._app, version, offsets, written(messages))
        if not self._options.app:
            commit.forget(self._options, self._app)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Roll back what the tasks have sent, as far as it is known."""
        if self._options.app:
            commit.roll_back(self._options, self._app, written(messages))
        else:
            commit.forget(self._options, self._app)


def check(options: SinkOptions, schema: StructType) -> None:
    """Whether the columns are those of messages, and those that the options name. Raises
    ``SinkOptionError``.
    """
    arrow = to_arrow_schema(schema, timezone="UTC")
    try:
        check_columns(arrow)
    except ColumnInvalid as error:
        raise SinkOptionError(str(error)) from error
    wanted = (
        ("queueColumn", options.queue_column, pa.types.is_string, "a string"),
        ("abovePosition", options.above, pa.types.is_integer, "a whole number"),
    )
    for option, name, fits, kind in wanted:
        if not name:
            continue
        if name not in arrow.names:
            raise SinkOptionError(f'option "{option}" names column {name}, which isn\'t there')
        if not fits(arrow.field(name).type):
            raise SinkOptionError(f'option "{option}": column {name} is {kind}, not {arrow.field(name).type}')


def writing(context: TaskContext, app: str, run_id: str, batch_id: int) -> Writing:
    """Who writes; the query of a batch write is the one whose foreachBatch writes, else none."""
    query_id = property_of(context, QUERY_ID)
    return Writing(app, query_id, run_id, batch_id, context.partitionId(), context.taskAttemptId())


def property_of(context: TaskContext, name: str) -> str:
    """A local property of the task; "" if there is none."""
    return context.getLocalProperty(name) or ""


def written(messages: Sequence[WriterCommitMessage | None]) -> list[TaskWrote]:
    """The tasks' answers; of a failed task there is none."""
    return [message for message in messages if isinstance(message, TaskWrote)]
