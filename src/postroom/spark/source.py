"""The ledger as a Spark source: ``spark.read.format("postroom").option("path", FOLDER).load()``.

One row per (position, ordinal, entry), in Arrow record batches straight from the record arrays. A partition
is a range of positions within one file, so tasks are independent and read nothing but their range and the
file's dictionaries. The driver looks at the folder once: a broker may run on beside it, and what it writes
later is not part of this read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from postroom.ledger.reader import LedgerReader
from postroom.ledger.segments import Segment
from postroom.spark import places
from postroom.spark.columns import COLUMN_BY_NAME, COLUMNS
from postroom.spark.places.folder import FolderPlace
from postroom.spark.reading import read_events, read_opening

DEFAULT_PARTITION_RECORDS: Final = 1_000_000
"""A task reads at most so many records: a part of a large file, or several small files."""


class SourceOptionError(ValueError):
    """An option of the source is missing or has no meaning."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task reads: positions first to last, both included, of one file."""

    segment: Segment
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CarriedSlice:
    """The entries older than the first segment, as the newest checkpoint tells of them."""

    first_segment: Segment
    last: int


class SlicePartition(InputPartition):
    """What one task reads, one after the other."""

    def __init__(self, slices: list[Slice | CarriedSlice]) -> None:
        super().__init__(slices)
        self.slices = slices


class PostroomDataSource(DataSource):
    """The source named ``postroom``. Options:

    ``path``: the ledger's folder. ``fromPosition``, ``toPosition``: the range to read, both included, default
    all that is durable. ``partitionRecords``: the most records a task reads, default 1,000,000. ``carried``:
    true adds a row with event ``none`` for each live entry that is older than the history, default false.
    Giving `.schema(...)` with some of the columns reads only those.
    """

    @classmethod
    def name(cls) -> str:
        return "postroom"

    def schema(self) -> StructType:
        """The events table, with a comment on every column."""
        return EVENTS_STRUCT

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader; the options are checked here, so that a mistake is told before any task starts."""
        unknown = [name for name in schema.names if name not in COLUMN_BY_NAME]
        if unknown:
            raise SourceOptionError(f"no such columns in the events table: {', '.join(unknown)}")
        return LedgerBatchReader(read_options(self.options), schema)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options, checked."""

    path: Path
    first: int
    last: int | None
    partition_records: int
    carried: bool


def read_options(options: Any) -> ReadOptions:
    """Options as Spark gives them (keys in any case) → checked. Raises ``SourceOptionError``."""
    path = options.get("path")
    if not path:
        raise SourceOptionError('option "path" is missing: it names the folder of the ledger')
    first = _number(options, "fromPosition", 1) or 1
    last = _number(options, "toPosition", 1)
    if last is not None and last < first:
        raise SourceOptionError(f"toPosition {last} is below fromPosition {first}")
    records = _number(options, "partitionRecords", 1) or DEFAULT_PARTITION_RECORDS
    return ReadOptions(Path(path.removeprefix("file:")), first, last, records, _flag(options, "carried"))


def _flag(options: Any, name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise SourceOptionError(f'option "{name}" is true or false, not {text!r}')
    return bool(text == "true")


def _number(options: Any, name: str, least: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < least:
        raise SourceOptionError(f'option "{name}" must be a whole number from {least}, not {text!r}')
    return int(text)


class LedgerBatchReader(DataSourceReader):
    """Plans slices of the files on the driver, reads them in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Every file's part of the range, cut to at most ``partitionRecords``; one look at the folder."""
        o = self._options
        ledger = LedgerReader(o.path)
        last = ledger.durable_through if o.last is None else min(o.last, ledger.durable_through)
        found: list[InputPartition] = []
        if o.carried and o.first <= ledger.first_position:
            found.append(SlicePartition([CarriedSlice(ledger.segments[0], last)]))
        cut = slices(ledger.segments, o.first, last, o.partition_records)
        return found + [SlicePartition(list(some)) for some in together(cut, o.partition_records)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition's slices."""
        assert isinstance(partition, SlicePartition)
        for slice in partition.slices:
            if isinstance(slice, CarriedSlice):
                yield from read_carried(self._options.path, slice, self._schema)
            else:
                yield from read_slice(self._options.path, slice, self._schema)


def slices(segments: list[Segment], first: int, last: int, records: int) -> Iterator[Slice]:
    """The part of each file that lies in first to last, cut into pieces of at most `records` positions."""
    for segment in segments:
        low, high = max(first, segment.first_position), min(last, segment.last_position)
        for start in range(low, high + 1, records):
            yield Slice(segment, start, min(start + records - 1, high))


def together(cut: Iterator[Slice], records: int) -> Iterator[list[Slice]]:
    """Neighbouring slices put together as long as they have at most `records` positions."""
    some: list[Slice] = []
    for slice in cut:
        if some and slice.last - some[0].first >= records:
            yield some
            some = []
        some.append(slice)
    if some:
        yield some


def read_slice(folder: Path, slice: Slice, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Record batches of a slice's rows, in the schema's columns."""
    placed = places.Slice(FolderPlace(folder), slice.segment, slice.first, slice.last)
    return read_events(placed, to_arrow_schema(schema, timezone="UTC"))


def read_carried(folder: Path, slice: CarriedSlice, schema: StructType) -> Iterator[pa.RecordBatch]:
    """A row for each entry that is older than the history and alive; none without a checkpoint that tells."""
    place = FolderPlace(folder)
    opening = read_opening(place, place.look(), to_arrow_schema(schema, timezone="UTC"))
    if opening is not None:
        yield from opening.rows.to_batches()


def _struct() -> StructType:
    fields = [
        StructField(
            column.name,
            from_arrow_type(column.type, prefer_timestamp_ntz=False),
            True,
            {"comment": column.comment},
        )
        for column in COLUMNS
    ]
    return StructType(fields)


EVENTS_STRUCT: Final = _struct()
