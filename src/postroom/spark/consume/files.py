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
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from postroom.spark.data_source.worker import in_task
from postroom.spark.store.files import ROW_GROUP_ROWS, new_file, open_root, parquet_writer, spans_of

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
                    files[name].writer.write_table(part, ROW_GROUP_ROWS)
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
        self._metadata: Final[list[pq.FileMetaData]] = []
        self.writer: Final = stack.enter_context(parquet_writer(sink, schema, self._metadata))

    def record(self) -> dict[str, Any]:
        metadata = self._metadata[0]
        spans = spans_of(metadata, COUNTED)
        statistics = {
            "numRecords": metadata.num_rows,
            "minValues": {name: least for name, (least, _) in spans.items()},
            "maxValues": {name: most for name, (_, most) in spans.items()},
            "nullCount": {},
        }
        return {
            "path": self._path,
            "size_bytes": self._filesystem.get_file_info(self._at).size,
            "rows": metadata.num_rows,
            "statistics": json.dumps(statistics),
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
