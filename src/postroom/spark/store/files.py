"""The Parquet files of a table: written whole and synced before any commit names them, read in the columns of
this program.

Paths are in the style that DuckDB, Polars and Spark know (``data/part=done/day=2026-11-22/ledger_id=…``), and
what a path says is not repeated as a column of the file, unless a format asks for it.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from postroom.spark.filesystems.exclusive_files import local_folder, make_folders, sync
from postroom.spark.filesystems.uris import StoreUriInvalid, open_filesystem
from postroom.spark.ledger_source.names import TEXT_CODES
from postroom.spark.store.buckets import (
    GROUP_ROWS,
    SLOTS_NOTE,
    by_slots,
    in_bucket,
    note_of,
    row_groups,
    stable_key,
)
from postroom.spark.store.protocol import OPEN, PARTITION_COLUMNS, DataFile, Part, SchemaConflict, TableError
from postroom.spark.tables.definition import TableDefinition

DATA: Final = "data"

NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""What a path says for no day."""

COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 1

UNIQUE_TEXTS: Final = frozenset({"message_id", "correlation_id", "group_id"})
"""Texts that mostly differ from row to row: a dictionary of them would cost more than it saves."""

ROW_GROUP_ROWS: Final = 1 << 20

PIECE_ROWS: Final = 1 << 17
"""Files that are put together or streamed are read so many rows at a time."""


def open_root(root: str) -> tuple[pafs.FileSystem, str]:
    """The file system and path of a folder or URI of tables. Raises ``TableError``."""
    try:
        return open_filesystem(root)
    except StoreUriInvalid as error:
        raise TableError(f"tables at {error}") from error


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files of the table at `path` of a file system. Picklable."""

    filesystem: pafs.FileSystem
    path: str
    definition: TableDefinition
    holds_places: bool = False
    """Whether what a path says is repeated as columns of the file."""

    def write(self, rows: pa.Table, part: Part, day: str | None, ledger_id: str) -> DataFile:
        """Rows as a new, synced file; many partial ones by their slots (see `buckets`)."""
        columns = [name for name in self.definition.schema.names if name not in PARTITION_COLUMNS]
        rows = rows.select(columns)
        if part != OPEN or len(rows) <= GROUP_ROWS:
            return self._write(iter([rows]), part, day, ledger_id)
        first_slots, groups = zip(*by_slots(rows, stable_key(self.definition)), strict=True)
        return self._write(iter(groups), part, day, ledger_id, {SLOTS_NOTE: note_of(first_slots)})

    def join(self, files: Sequence[DataFile]) -> DataFile:
        """The rows of several files of one part, day and ledger as one new file, in the order given."""
        first = files[0]
        columns = [name for name in self.definition.schema.names if name not in PARTITION_COLUMNS]
        tables = (table for file in files for table in self.pieces(file, columns))
        return self._write(tables, first.part, first.day, first.ledger_id)

    def delete(self, path: str) -> None:
        """Delete a file, given by its place on the file system, unless it has gone already."""
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(path)

    def read(self, file: DataFile, columns: Sequence[str] | None = None, coded: bool = False) -> pa.Table:
        """Rows in the definition's columns, or those named. `coded`: texts that come again and again as
        dictionary arrays, as they lie in the file."""
        names = list(columns) if columns is not None else self.definition.schema.names
        with self._reader(file, names if coded else ()) as reader:
            held = [name for name in names if name in reader.schema_arrow.names]
            some = held or reader.schema_arrow.names[:1]  # else the number of rows would be lost
            return self._shaped(reader.read(columns=some), names, file, coded)

    def read_bucket(
        self, file: DataFile, columns: Sequence[str], number: int, count: int, coded: bool = False
    ) -> pa.Table:
        """The rows whose key is in bucket `number` of `count`; `columns` must have the key's. `coded` as for
        `read`."""
        if count == 1:
            return self.read(file, columns, coded)
        with self._reader(file, columns if coded else ()) as reader:
            metadata = reader.metadata
            groups = row_groups(metadata.metadata, metadata.num_row_groups, number, count)
            held = [name for name in columns if name in reader.schema_arrow.names]
            rows = self._shaped(reader.read_row_groups(groups, columns=held), columns, file, coded)
        return rows.filter(in_bucket(rows, stable_key(self.definition), number, count))

    def has(self, path: str) -> bool:
        """Whether there is such a file in the table."""
        return bool(self.filesystem.get_file_info(self.at(path)).type == pafs.FileType.File)

    def at(self, path: str) -> str:
        """A path within the table as the file system has it."""
        return f"{self.path}/{path}"

    def pieces(self, file: DataFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The same a piece at a time, whatever the file's size."""
        with self._reader(file) as reader:
            held = [name for name in columns if name in reader.schema_arrow.names]
            some = held or reader.schema_arrow.names[:1]  # else the number of rows would be lost
            for batch in reader.iter_batches(PIECE_ROWS, columns=some):
                yield self._shaped(pa.Table.from_batches([batch]), columns, file)

    @contextmanager
    def _reader(self, file: DataFile, coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        try:
            source = self.filesystem.open_input_file(self.at(file.path))
        except FileNotFoundError as error:
            raise TableError(
                f"table {self.definition.name}: file {file.path} is gone: it was vacuumed since the version "
                "was read, so read again; if it is in the newest version, restore it from a backup, or "
                f"rebuild the table (postroom pipeline rebuild {self.definition.name})"
            ) from error
        try:
            with source, pq.ParquetFile(source) as reader:
                held = [name for name in coded if name in reader.schema_arrow.names]
                texts = [name for name in held if self._kind(name, True) == TEXT_CODES]
                if not texts:
                    yield reader
                    return
                with pq.ParquetFile(source, metadata=reader.metadata, read_dictionary=texts) as by_dictionary:
                    yield by_dictionary
        except (pa.ArrowException, OSError) as error:
            text = str(error).partition("\n")[0]
            raise TableError(
                f"table {self.definition.name}: file {file.path} can't be read ({text}): if it is damaged, "
                "restore it from a backup, or rebuild the table "
                f"(postroom pipeline rebuild {self.definition.name})"
            ) from error

    def _kind(self, name: str, coded: bool) -> pa.DataType:
        """As what a column is read."""
        kind = pa.string() if name in PARTITION_COLUMNS else self.definition.field(name).type
        return TEXT_CODES if coded and _is_coded(name, kind) else kind

    def _shaped(self, table: pa.Table, names: Sequence[str], file: DataFile, coded: bool = False) -> pa.Table:
        return pa.table({name: self._column(table, name, file, coded) for name in names})

    def _column(self, table: pa.Table, name: str, file: DataFile, coded: bool) -> pa.ChunkedArray | pa.Array:
        wanted = self._kind(name, coded)
        if name in PARTITION_COLUMNS:
            return pa.repeat(pa.scalar(getattr(file, name), wanted), table.num_rows)
        if name not in table.column_names:
            return pa.nulls(table.num_rows, wanted)
        column = table[name]
        if column.type == wanted:
            return column
        try:
            return column.cast(wanted)
        except pa.ArrowInvalid as error:
            raise SchemaConflict(
                f"table {self.definition.name}: column {name} of {file.path} is {column.type}, not {wanted}"
            ) from error

    def _write(
        self,
        tables: Iterator[pa.Table],
        part: Part,
        day: str | None,
        ledger_id: str,
        notes: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> DataFile:
        folder = f"{DATA}/part={part}/day={day or NO_DAY}/ledger_id={ledger_id}"
        path = f"{folder}/{uuid4().hex}.parquet"
        metadata: list[pq.FileMetaData] = []
        place = {"part": part, "day": day, "ledger_id": ledger_id} if self.holds_places else {}
        with new_file(self.filesystem, self.at(path)) as sink:
            writer: pq.ParquetWriter | None = None
            for table in tables:
                for name, value in place.items():
                    table = table.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(table)))
                writer = writer or parquet_writer(sink, table.schema, metadata)
                writer.write_table(table, ROW_GROUP_ROWS)
            if writer is None:
                raise ValueError("a file without rows")
            if notes:
                writer.add_key_value_metadata(dict(notes))
            writer.close()
        size_bytes = self.filesystem.get_file_info(self.at(path)).size
        spans = spans_of(metadata[0], ("serial", "position", "first_position", "last_position"))
        first, last = (
            ("first_position", "last_position") if "first_position" in spans else ("position", "position")
        )
        none = (0, 0)
        first_serial, last_serial = spans.get("serial", none)
        return DataFile(
            path=path,
            part=part,
            day=day,
            ledger_id=ledger_id,
            rows=metadata[0].num_rows,
            size_bytes=size_bytes,
            first_serial=first_serial,
            last_serial=last_serial,
            first_position=spans.get(first, none)[0],
            last_position=spans.get(last, none)[1],
        )


def spans_of(metadata: pq.FileMetaData, names: Collection[str]) -> dict[str, tuple[int, int]]:
    """The least and greatest values of these columns in a file, if they are numbers and not all null."""
    found: dict[str, tuple[int, int]] = {}
    columns = [index for index in range(metadata.num_columns) if metadata.schema.column(index).path in names]
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, columns):
            seen = column.statistics
            if seen is not None and seen.has_min_max and isinstance(seen.min, int):
                least, most = found.get(column.path_in_schema, (seen.min, seen.max))
                found[column.path_in_schema] = min(least, seen.min), max(most, seen.max)
    return found


def parquet_writer(
    sink: Any, schema: pa.Schema, metadata: list[pq.FileMetaData] | None = None
) -> pq.ParquetWriter:
    """A writer with the settings of all the tables' files: numbers and times as differences, texts by
    dictionary unless nearly all of them differ. `metadata` gets the file's when it is closed."""
    texts = [field.name for field in schema if _is_coded(field.name, field.type)]
    numbers = [
        field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type)
    ]
    return pq.ParquetWriter(
        sink,
        schema,
        compression=COMPRESSION,
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=texts,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        store_schema=False,
        metadata_collector=metadata,
    )


def _is_coded(name: str, kind: pa.DataType) -> bool:
    """Whether a column has texts that are written by dictionary."""
    return _is_text(kind) and name not in UNIQUE_TEXTS


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_dictionary(kind))


@contextmanager
def new_file(filesystem: pafs.FileSystem, path: str) -> Iterator[Any]:
    """A file that is being written; on this machine it and its name are on disk when the block ends."""
    local = local_folder(filesystem, path)
    if local is None:
        with filesystem.open_output_stream(path) as stream:
            yield stream
        return
    make_folders(local.parent)
    with local.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    sync(local.parent)
