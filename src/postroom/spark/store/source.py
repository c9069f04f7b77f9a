"""The tables as a Spark source: ``spark.read.format("postroom.table").option("path", TABLES)``.

Every table in every format reads the same, on any Spark that Postroom supports, without jars. Files of final
rows are given out in bundles, one a task; partial rows are folded in buckets of their key, one a task. All
tasks read one version of the table, which the driver chose.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from postroom.ledger.errors import LedgerError
from postroom.spark.data_source.catalog import own_options, remembered, remembering
from postroom.spark.data_source.option_names import TABLE, nearest, unknown_option
from postroom.spark.data_source.option_reader import OptionReader
from postroom.spark.data_source.portions import portions
from postroom.spark.data_source.schema import struct_of
from postroom.spark.data_source.worker import in_task
from postroom.spark.store.folded import halves, read_bucket
from postroom.spark.store.formats import open_store
from postroom.spark.store.protocol import DataFile, Snapshot
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition

BUNDLE_BYTES: Final = 128 << 20
"""A task reads final rows of about so many bytes of files, at least one file."""

BUCKET_ROWS: Final = 1_000_000
"""A task folds about so many partial rows."""

BATCH_ROWS: Final = 1 << 16

NULL: Final = "null"
SUM: Final = "sum"

RAW_FIELDS: Final = (
    StructField("part", from_arrow_type(pa.string()), True, {"comment": "done: final; open: partial rows"}),
    StructField("day", from_arrow_type(pa.string()), True, {"comment": "Day in UTC of a final row"}),
)
"""What is told beside the table's own columns where the rows are read as they are stored."""


class TableOptionError(LedgerError):
    """An option of the source is missing or has no meaning."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options, checked."""

    path: str
    table: str
    format: str
    raw: bool
    version: int | None
    as_of: datetime | None
    ongoing: bool
    """Durations that go on as the sums that are stored, else null."""


def table_options(options: Any) -> TableOptions:
    """Options as Spark gives them (keys in any case) → checked. Raises ``TableOptionError``."""
    wrong = unknown_option(options, TABLE, "the source postroom.table")
    if wrong:
        raise TableOptionError(wrong)
    reader = OptionReader(options, TableOptionError)
    version, as_of = reader.number("version", 0), reader.given("asOf")
    if version is not None and as_of is not None:
        raise TableOptionError('give option "version" or "asOf", not both')
    return TableOptions(
        reader.needed("path", "the folder of tables"),
        _known(reader.needed("table", f"one of {', '.join(DEFINITIONS)}")),
        reader.text("tableFormat"),
        reader.flag("raw"),
        version,
        _time(as_of) if as_of is not None else None,
        reader.choice("ongoing", (NULL, SUM)) == SUM,
    )


def _known(table: str) -> str:
    if table not in DEFINITIONS:
        near = nearest(table, DEFINITIONS)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(DEFINITIONS)}"
        raise TableOptionError(f"there is no table {table}; {hint}")
    return table


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise TableOptionError(f'option "asOf" is a time as in RFC 3339, not {text!r}') from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


class TableDataSource(DataSource):
    """The source named ``postroom.table``. Options:

    ``path``: the folder (or URI) of tables; ``table``: which; ``tableFormat``: delta, parquet or iceberg,
    found out if not given; ``version`` or ``asOf``: an older version, by number or by time; ``raw``: true
    gives the rows as they are stored, partial ones unfolded, with the columns ``part`` and ``day``;
    ``ongoing``: durations that go on as null (the default), or as sum, less the time when they began. Giving
    `.schema(...)` with some of the columns reads only those.
    """

    @classmethod
    def name(cls) -> str:
        return "postroom.table"

    def schema(self) -> StructType:
        """The table's columns with their comments."""
        return remembering(_columns(table_options(own_options(self.options))), self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch reader; the options are checked here, so that a mistake is told before any task starts."""
        options = table_options(remembered(schema, self.options))
        known = {field.name for field in _columns(options).fields}
        unknown = [name for name in schema.names if name not in known]
        if unknown:
            raise TableOptionError(f"table {options.table} has no columns {', '.join(unknown)}")
        return TableReader(options, schema)


def _columns(options: TableOptions) -> StructType:
    own = table_struct(DEFINITIONS[options.table])
    return StructType([*own.fields, *RAW_FIELDS]) if options.raw else own


def table_struct(definition: TableDefinition) -> StructType:
    """A table's columns in Spark's words."""
    return struct_of(((f.name, f.type, f.comment) for f in definition.fields), frozenset())


class Bundle(InputPartition):
    """Files whose rows a task gives as they are."""

    def __init__(self, files: Sequence[DataFile]) -> None:
        super().__init__(None)
        self.files = tuple(files)


class Bucket(InputPartition):
    """Keys whose rows a task folds."""

    def __init__(self, files: Sequence[DataFile], number: int, count: int) -> None:
        super().__init__(None)
        self.files = tuple(files)
        self.number = number
        self.count = count


class TableReader(DataSourceReader):
    """Chooses a version and plans its files on the driver, reads them in the tasks."""

    def __init__(self, options: TableOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._store: TableStore = open_store(options.path, options.table, options.format)

    def partitions(self) -> list[InputPartition]:
        """The files of one version."""
        o = self._options
        planned = plan(self._store, self._store.snapshot(o.version, o.as_of), o.raw)
        return planned or [Bundle([])]  # Spark has one task, without a partition, where there is none

    @in_task
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a bundle or bucket."""
        wanted = to_arrow_schema(self._schema, timezone="UTC")
        for table in self._tables(partition, wanted.names):
            yield from table.cast(wanted).to_batches(max_chunksize=BATCH_ROWS)

    def _tables(self, partition: InputPartition, columns: Sequence[str]) -> Iterator[pa.Table]:
        if isinstance(partition, Bucket):
            bucket = (partition.files, columns, partition.number, partition.count)
            yield read_bucket(self._store, *bucket, self._options.ongoing)
            return
        assert isinstance(partition, Bundle)
        for file in partition.files:
            yield from self._store.pieces(file, columns)


def plan(store: TableStore, snapshot: Snapshot, raw: bool) -> list[InputPartition]:
    """Bundles of the files whose rows are final, buckets of the keys whose rows must be folded."""
    final, partial = (list(snapshot.files), []) if raw else halves(store.definition, snapshot.files)
    count = -(-sum(file.rows for file in partial) // BUCKET_ROWS)
    buckets = [Bucket(partial, number, count) for number in range(count)]
    return [*map(Bundle, bundles(final)), *buckets]


def bundles(files: Iterable[DataFile]) -> Iterator[list[DataFile]]:
    """Files of about `BUNDLE_BYTES` together."""
    return portions(files, lambda file: file.size_bytes, BUNDLE_BYTES)
