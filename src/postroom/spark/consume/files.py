"""The Parquet files of a Delta table as tasks write them: whole and synced before any commit names them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from postroom.spark.data_source.worker import in_task
from postroom.spark.store.files import ROW_GROUP_ROWS, new_file, open_root, parquet_writer

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
COUNTED: Final = ("position", "serial")
"""Columns whose least and greatest value readers may skip files by."""

_FILES: Final = "path string, size_bytes long, rows long, statistics string, place string"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that no commit names yet."""

    path: str
    """Relative to the table."""
    size_bytes: int
    rows: int
    statistics: str
    """As Delta has them, JSON."""
    place: Mapping[str, str | None]
    """Values of the columns that the table is partitioned by."""


def write_files(rows: DataFrame, table_uri: str, partition_by: Sequence[str]) -> list[WrittenFile]:
    """Write rows as files of a table, in Spark's tasks. What a task that failed has written stays unnamed:
    Delta's VACUUM deletes it."""
    schema = to_arrow_schema(rows.schema, timezone="UTC")
    written = rows.mapInArrow(FileWriter(table_uri, schema, tuple(partition_by)), _FILES).collect()
    return [
        WrittenFile(row["path"], row["size_bytes"], row["rows"], row["statistics"], json.loads(row["place"]))
        for row in written
    ]


@dataclass(frozen=True, slots=True)
class FileWriter:
    """What a task does with its rows: a file for each place."""

    table_uri: str
    schema: pa.Schema
    partition_by: tuple[str, ...]

    @in_task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes everything, then tells of the files."""
        files: dict[str, _OpenFile] = {}
        with ExitStack() as stack:
            for batch in batches:
                rows = pa.Table.from_batches([batch]).cast(self.schema)
                for place, part in split(rows, self.partition_by):
                    name = folder_of(place)
                    if name not in files:
                        files[name] = _OpenFile(self.table_uri, place, part.schema, stack)
                    files[name].write(part)
        records = [file.record() for file in files.values()]
        if records:
            yield pa.RecordBatch.from_pylist(records)


class _OpenFile:
    def __init__(
        self, table_uri: str, place: Mapping[str, str | None], schema: pa.Schema, stack: ExitStack
    ) -> None:
        self._filesystem, root = open_root(table_uri)
        self._place: Final = place
        self._path: Final = f"{folder_of(place)}{uuid4().hex}.parquet"
        self._at: Final = f"{root.rstrip('/')}/{self._path}"
        sink = stack.enter_context(new_file(self._filesystem, self._at))
        self._writer: Final = stack.enter_context(parquet_writer(sink, schema))
        self._rows = 0
        self._least: dict[str, int] = {}
        self._most: dict[str, int] = {}

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, ROW_GROUP_ROWS)
        self._rows += rows.num_rows
        for name in COUNTED:
            if name in rows.column_names and pa.types.is_integer(rows.schema.field(name).type):
                seen = pc.min_max(rows[name]).as_py()
                if seen["min"] is not None:
                    self._least[name] = min(self._least.get(name, seen["min"]), seen["min"])
                    self._most[name] = max(self._most.get(name, seen["max"]), seen["max"])

    def record(self) -> dict[str, Any]:
        record = {
            "numRecords": self._rows,
            "minValues": self._least,
            "maxValues": self._most,
            "nullCount": {},
        }
        return {
            "path": self._path,
            "size_bytes": self._filesystem.get_file_info(self._at).size,
            "rows": self._rows,
            "statistics": json.dumps(record),
            "place": json.dumps(self._place),
        }


def folder_of(place: Mapping[str, str | None]) -> str:
    """Where the files of a place lie, relative to the table; with a ``/`` behind it unless it is empty."""
    parts = [
        f"{name}={NO_VALUE if value is None else quote(value, safe='')}" for name, value in place.items()
    ]
    return "".join(f"{part}/" for part in parts)


def split(rows: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Rows by the values of the columns that the table is partitioned by, without these columns."""
    if not rows.num_rows:
        return
    if not partition_by:
        yield {}, rows
        return
    kinds = rows.group_by(list(partition_by)).aggregate([]).to_pylist()
    for kind in kinds:
        mask = pa.repeat(pa.scalar(True), rows.num_rows)
        for name, value in kind.items():
            own = pc.is_null(rows[name]) if value is None else pc.equal(rows[name], pa.scalar(value))
            mask = pc.and_(mask, pc.fill_null(own, False))
        yield (
            {name: _text(value) for name, value in kind.items()},
            rows.filter(mask).drop_columns(list(partition_by)),
        )


def _text(value: object) -> str | None:
    """A partition's value as Delta writes it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
