"""A table as a query of DuckDB, which reads its files itself."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from postroom.spark.store.folded import halves
from postroom.spark.store.protocol import DataFile, Snapshot
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.definition import TIMESTAMP
from postroom.spark.tables.views import fold_sql, view_sql

TYPES: Final = {
    pa.string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.bool_(): "BOOLEAN",
    TIMESTAMP: "TIMESTAMPTZ",
}
OPTIONS: Final = "union_by_name = true, hive_partitioning = true, hive_types_autocast = false"
"""Older files have fewer columns; what a path says is text."""


def duckdb_query(store: TableStore, snapshot: Snapshot | None = None) -> str:
    """A query for the rows of a table's newest version, or of `snapshot`: each key once.

    It names the files of that version: make it anew to see a newer one. Raises ``TableError``.
    """
    known = snapshot or store.snapshot()
    final, partial = halves(store.definition, known.files)
    if final and partial:
        return view_sql(store.definition, files_sql(store, final), files_sql(store, partial), "duckdb")
    if partial:
        return fold_sql(store.definition, files_sql(store, partial), "duckdb")
    if final:
        return f"SELECT {', '.join(store.definition.schema.names)} FROM {files_sql(store, final)}"
    fields = store.definition.fields
    columns = [f'CAST(NULL AS {TYPES[field.type]}) AS "{field.name}"' for field in fields]
    return f"SELECT {', '.join(columns)} WHERE false"


def files_sql(store: TableStore, files: Sequence[DataFile]) -> str:
    """Some of a table's files as a relation."""
    paths = ", ".join("'" + f"{store.uri}/{file.path}".replace("'", "''") + "'" for file in files)
    return f"read_parquet([{paths}], {OPTIONS})"
