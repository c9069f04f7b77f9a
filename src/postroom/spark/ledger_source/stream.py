"""The ledger as a stream: ``spark.readStream.format("postroom")``, and ``postroom.ranges`` for the pipeline.

Offsets are ``{"<ledger id>": {"epoch": 3, "epoch_id": "…", "position": 812}}``: the last position read of
each ledger with the epoch that wrote it. A range of offsets can be served again at any time while the ledger
has it. Nothing is given up when Spark commits a batch: Spark may have committed less than it says.
"""

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from postroom.spark.data_source.worker import in_task, made_ahead
from postroom.spark.ledger_source.options import SourceOptions, read_options
from postroom.spark.ledger_source.positions import from_dict, to_dict
from postroom.spark.ledger_source.ranges import Limit, Planner, rows_of
from postroom.spark.places.place import Slice

Offset = dict[str, Any]


class SlicesPartition(InputPartition):
    """What one task reads, one after the other."""

    def __init__(self, slices: list[Slice]) -> None:
        super().__init__(slices)
        self.slices = slices


class LedgerStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and ranges; what a task makes of its range is its subclasses' to say."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._planner: Planner | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options,)

    @property
    def _plan(self) -> Planner:
        """Made where it is used: what it remembers stays on the driver."""
        if self._planner is None:
            self._planner = Planner(self._options)
        return self._planner

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Empty: the first batch writes down where each ledger begins (see `ranges`)."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """By ``maxRows``, or ``maxBytes``."""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is written from now on is not read any more."""
        self._plan.stop_here()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Where the batch that begins behind `start` ends."""
        most = Limit()
        if not isinstance(limit, ReadAllAvailable):
            most = Limit(self._options.max_rows, self._options.max_bytes)
        return to_dict(self._plan.next(from_dict(start), most))

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """How far each ledger goes, for the progress of the query."""
        return to_dict(self._plan.latest())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Even parts of the batch."""
        return [SlicesPartition(part) for part in self._plan.parts(from_dict(start), from_dict(end))]


class StreamReader(LedgerStream):
    """Rows of the events table."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options)
        self._schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._options, self._schema)

    @in_task
    @made_ahead
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        assert isinstance(partition, SlicesPartition)
        arrow = to_arrow_schema(self._schema, timezone="UTC")
        for piece in partition.slices:
            yield from rows_of(piece, arrow, self._options)


RANGES_STRUCT: Final = StructType(
    [
        StructField("ledger_id", StringType()),
        StructField("first", LongType()),
        StructField("last", LongType()),
        StructField("slice", BinaryType()),
    ]
)


class RangesDataSource(DataSource):
    """The source named ``postroom.ranges``: one row for each slice of the ledgers, and no records.

    For jobs that read the slices themselves (`slice` is a pickled `places.Slice`). Options and offsets are
    those of ``postroom``, which also filters queues: here that is left to who reads.
    """

    @classmethod
    def name(cls) -> str:
        return "postroom.ranges"

    def schema(self) -> StructType:
        """ledger_id, first and last position, the slice."""
        return RANGES_STRUCT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader of micro-batches."""
        return RangesReader(read_options(self.options))


class RangesReader(LedgerStream):
    """Slices, one a row and a task: who reads them may write files for each, so they are as few as can be."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One for each slice."""
        slices = self._plan.slices(from_dict(start), from_dict(end))
        return [SlicesPartition([piece]) for piece in slices]

    @in_task
    @made_ahead
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The row of a slice."""
        assert isinstance(partition, SlicesPartition)
        rows = [
            {"ledger_id": one.ledger_id, "first": one.first, "last": one.last, "slice": pickle.dumps(one)}
            for one in partition.slices
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(RANGES_STRUCT, timezone="UTC"))
