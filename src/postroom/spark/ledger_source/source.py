"""The ledger as a Spark source: ``spark.read.format("postroom").option("path", FOLDER).load()``, and as a
stream with ``spark.readStream``.

One row per (position, ordinal, entry), in Arrow record batches straight from the record arrays. A partition
is a range of positions, so tasks are independent and read nothing but their range and the definitions that it
speaks of. A batch read looks at each ledger once: a broker may run on beside it, and what it writes later is
not part of this read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from postroom.spark.data_source.catalog import is_creating, own_options, remembered, remembering
from postroom.spark.data_source.schema import check_requested, struct_of
from postroom.spark.data_source.worker import in_task, made_ahead
from postroom.spark.ledger_source.columns import COLUMNS, NEVER_NULL
from postroom.spark.ledger_source.options import SourceOptions, read_options
from postroom.spark.ledger_source.pushdown import NOTHING_PUSHED, push
from postroom.spark.ledger_source.queue_names import check_queues
from postroom.spark.ledger_source.ranges import last_wanted, rows_of, starting_position
from postroom.spark.ledger_source.record_batches import read_opening
from postroom.spark.places.place import Place, Seen, Slice, Snapshot, snapshots_of
from postroom.spark.places.slices import plan_parts


class PostroomDataSource(DataSource):
    """The source named ``postroom``. Its options are in docs/reference/spark-source.md (`SourceOptions`).

    Giving `.schema(...)` with some of the columns reads only those.
    """

    @classmethod
    def name(cls) -> str:
        return "postroom"

    def schema(self) -> StructType:
        """The events table, with a comment on every column."""
        if is_creating(self.options):
            read_options(own_options(self.options))
        return remembering(EVENTS_STRUCT, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader; the options are checked here, so that a mistake is told before any task starts."""
        check_requested(schema, EVENTS_STRUCT, "events")
        options = read_options(remembered(schema, self.options))
        return PushdownReader(options, schema) if options.pushdown else LedgerBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of micro-batches."""
        from postroom.spark.ledger_source.stream import StreamReader

        check_requested(schema, EVENTS_STRUCT, "events")
        return StreamReader(read_options(remembered(schema, self.options)), schema)


@dataclass(frozen=True, slots=True)
class OpeningSlice:
    """The entries older than the history, as the newest checkpoint tells of them."""

    place: Place
    snapshot: Snapshot
    through: int


class LedgerPartition(InputPartition):
    """What one task reads, one after the other."""

    def __init__(self, pieces: list[Slice | OpeningSlice]) -> None:
        super().__init__(pieces)
        self.pieces = pieces


class LedgerBatchReader(DataSourceReader):
    """Plans slices of the files on the driver, reads them in the tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed = NOTHING_PUSHED

    def partitions(self) -> list[InputPartition]:
        """Even parts of each ledger's range, of at most ``partitionRecords``; one look at each."""
        seen = snapshots_of(self._options.places().now())
        check_queues(self._options, seen)
        spans = [span for one in seen.values() if (span := self._span(one)) is not None]
        records = self._options.records_a_partition(sum(last - first + 1 for _, first, last in spans))
        found: list[InputPartition] = []
        for one, first, last in spans:
            if self._options.carried and first <= one.snapshot.first_position:
                found.append(LedgerPartition([OpeningSlice(one.place, one.snapshot, last)]))
            parts = plan_parts(one.place, one.snapshot, first, last, records)
            found += [LedgerPartition(list(part)) for part in parts]
        return found or [LedgerPartition([])]  # Spark reads a partition even where there is none

    def _span(self, seen: Seen) -> tuple[Seen, int, int] | None:
        """The range of one ledger; None if there is nothing to read."""
        if self._pushed.excludes(seen.snapshot.ledger_id):
            return None
        after = starting_position(self._options, seen)
        if after is None:
            return None
        first, last = self._pushed.bounds(after.position + 1, last_wanted(self._options, seen))
        return seen, first, last

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition's slices."""
        assert isinstance(partition, LedgerPartition)
        return self.rows(partition, to_arrow_schema(self._schema, timezone="UTC"))

    @in_task
    @made_ahead
    def rows(self, partition: LedgerPartition, arrow: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The same in the columns of a schema, texts as dictionaries where it says so."""
        options = replace(self._options, queues=self._pushed.queues(self._options.queues))
        for piece in partition.pieces:
            if isinstance(piece, Slice):
                yield from rows_of(piece, arrow, options)
                continue
            opening = read_opening(piece.place, piece.snapshot, arrow, options.queues, piece.through)
            if opening is not None:  # else nothing tells of what is older
                yield from opening.rows.to_batches()


class PushdownReader(LedgerBatchReader):
    """Reads only what filters on ledger_id, position, time and queue leave; Spark applies them again.

    A class of its own, because a reader that takes filters fails unless Spark's configuration
    ``spark.sql.python.filterPushdown.enabled`` is true.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 - Spark's name
        """Take note of the filters; all of them stay Spark's to apply."""
        self._pushed = push(filters)
        yield from filters


EVENTS_STRUCT: Final = struct_of(((c.name, c.type, c.comment) for c in COLUMNS), NEVER_NULL)
