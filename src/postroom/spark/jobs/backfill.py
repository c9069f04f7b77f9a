"""Backfill: rows of a table become messages of a queue, in transactions of a bounded size, each exactly once.

The rows are written down first, some a file, in the order in which they are sent: so what each transaction
has in it is settled once and for all, whatever becomes of the table. Each file is a batch write with its
number as version; the broker remembers the last one that is decided.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from postroom.spark.consume.table import open_table
from postroom.spark.data_source.worker import in_task
from postroom.spark.filesystems.objects import Objects
from postroom.spark.jobs.errors import OptionInvalid
from postroom.spark.jobs.execution import Progress
from postroom.spark.jobs.plan import (
    RESULTS_FILE,
    RESULTS_SCHEMA,
    ROWS_FILE,
    Count,
    Manifest,
    Plan,
    PlanFile,
    Results,
    file_name,
)
from postroom.spark.messages.encode import ColumnInvalid, check_columns, encode
from postroom.spark.sink.commit import forget
from postroom.spark.sink.options import read_batch_options

PARQUET: Final = "parquet"
DELTA: Final = "delta"
DELTA_LOG: Final = "_delta_log"

_MAPPING: Final = "delta.columnMapping.mode"
_NOT_AS_FILES: Final = frozenset(["deletionVectors", "columnMapping"])
"""What a Delta table may have that takes more than reading its files."""

DEFAULT_ROWS: Final = 50_000
"""Of one transaction, unless asked for otherwise."""
CHUNK_BYTES: Final = 32 << 20
"""Of one transaction, as Arrow has them."""

SENT: Final = "sent"
_WROTE: Final = "partition int, number int, name string, rows bigint"
_WROTE_SCHEMA: Final = pa.schema(
    [("partition", pa.int32()), ("number", pa.int32()), ("name", pa.string()), ("rows", pa.int64())]
)


@dataclass(frozen=True, slots=True)
class Table:
    """What to read, and what to make of it."""

    uri: str
    format: str
    """"": what it is told to be by its folder."""
    columns: tuple[str, ...]
    """Expressions of Spark SQL, ``TEXT AS column``; none: the table's own columns."""
    where: str
    order_by: tuple[str, ...]
    """Columns by which the messages are in order; none: in no certain order."""
    chunk_rows: int = DEFAULT_ROWS


def rows_of(spark: SparkSession, table: Table) -> DataFrame:
    """The table's rows as columns of messages. Raises ``OptionInvalid`` where they can't be that."""
    try:
        found = _read(spark, table)
        if table.where:
            found = found.where(F.expr(table.where))
        if table.order_by:
            found = found.orderBy(*table.order_by)
        if table.columns:
            found = found.select(*[F.expr(each) for each in table.columns])
        check_columns(to_arrow_schema(found.schema, timezone="UTC"))
    except (AnalysisException, ParseException) as error:
        raise OptionInvalid(" ".join(str(error).split("\n== SQL", 1)[0].split())) from None
    except ColumnInvalid as error:
        raise OptionInvalid(f"{table.uri}: {error} (--column 'EXPRESSION AS NAME' makes it)") from None
    return found


def _read(spark: SparkSession, table: Table) -> DataFrame:
    kind = table.format or (DELTA if DELTA_LOG in Objects(table.uri).folders("") else PARQUET)
    return _read_delta(spark, table.uri) if kind == DELTA else spark.read.format(kind).load(table.uri)


def _read_delta(spark: SparkSession, uri: str) -> DataFrame:
    """The files that the table's log names, in the columns that it tells: neither is what the files say of
    themselves."""
    delta = open_table(uri)
    if delta is None:
        raise OptionInvalid(f"{uri}: there is no Delta table")
    other = sorted(_NOT_AS_FILES & set(delta.protocol().reader_features or ()))
    if other or delta.metadata().configuration.get(_MAPPING, "none") != "none":
        raise OptionInvalid(
            f"{uri}: the table's rows are not those of its files ({', '.join(other) or _MAPPING}): copy it"
            " to one without that, and send from there"
        )
    schema = StructType.fromJson(json.loads(delta.schema().to_json()))
    files = delta.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", uri).parquet(*files)


def plan_backfill(rows: DataFrame, chunk_rows: int, empty: Manifest, plan: Plan | None) -> Manifest:
    """Look at all rows and, where there is a place for it, write them down. Raises ``PySparkException``, also
    for a row that is no message; ``plan.finish`` is the caller's."""
    writer = _Stage("" if plan is None else plan.uri, chunk_rows)
    wrote = sorted(rows.mapInArrow(writer, _WROTE).collect())
    files = tuple(PlanFile(row["name"], row["rows"]) for row in wrote if row["name"])
    sent = sum(row["rows"] for row in wrote)
    return replace(empty, files=files, counts=(Count("row", "send", empty.queue, sent),))


@dataclass(frozen=True)
class _Stage:
    """Called in the tasks: one task's rows become files."""

    uri: str
    chunk_rows: int

    @in_task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        for number, chunk in enumerate(_chunks(batches, self.chunk_rows)):
            name, rows = "", sum(batch.num_rows for batch in chunk)
            if self.uri:
                name = file_name(ROWS_FILE, partition, number, uuid4().hex)
                Plan(self.uri).write(name, chunk[0].schema, chunk)
            record = {"partition": partition, "number": number, "name": name, "rows": rows}
            yield pa.RecordBatch.from_pylist([record], schema=_WROTE_SCHEMA)


def _chunks(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches together, so many rows and bytes at most; each row has been seen to be a message."""
    chunk: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            encode(piece)
            if chunk and (count + piece.num_rows > rows or size + piece.nbytes > CHUNK_BYTES):
                yield chunk
                chunk, count, size = [], 0, 0
            chunk.append(piece)
            count, size = count + piece.num_rows, size + piece.nbytes
    if chunk:
        yield chunk


def carry_out(
    spark: SparkSession, plan: Plan, manifest: Manifest, url: str, progress: Progress | None
) -> Results:
    """Send what is left of a backfill; what became of all of it, one row a transaction. Raises ``JobError``,
    ``PySparkException``, OSError."""
    results = plan.results()
    options = {"broker": url, "queue": manifest.queue, "txnApp": manifest.app}
    done = sum(file.rows for file in manifest.files[: results.rows])
    for number, file in list(enumerate(manifest.files))[results.rows :]:
        rows = spark.createDataFrame(plan.read(file.name)).coalesce(1)  # one task: they stay in order
        sink = rows.write.format("postroom.messages").options(**options, txnVersion=str(number))
        sink.mode("append").save()
        results.parts += 1
        row = {"action": "send", "to": manifest.queue, "rule": file.name, "answer": SENT}
        noted = pa.Table.from_pylist([row], schema=RESULTS_SCHEMA)
        plan.write(file_name(RESULTS_FILE, results.parts), RESULTS_SCHEMA, noted.to_batches())
        results.add(noted)
        done += file.rows
        if progress is not None:
            progress(done, manifest.rows())
    if manifest.files:  # that all is done is noted here: the broker need not remember it
        forget(read_batch_options({**options, "txnVersion": "0"}), manifest.app)
    return results
