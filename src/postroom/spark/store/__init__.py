"""The tables as files: Delta Lake, Parquet with a commit log of its own, Iceberg (append-only).

`protocol` says what each format offers, `files` writes and reads the Parquet files, `evolution` says how
columns may change, `compaction` which files to put together; `delta` is a format.
"""

from collections.abc import Callable, Mapping
from typing import Final

from postroom.spark.store.delta import DeltaStore
from postroom.spark.store.protocol import (
    DONE,
    NO_VERSION,
    OPEN,
    DataFile,
    Part,
    SchemaConflict,
    Snapshot,
    TableConflict,
    TableError,
    TableState,
    TableStore,
    VersionGone,
)
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition

FORMATS: Final[Mapping[str, Callable[[str, TableDefinition], TableStore]]] = {"delta": DeltaStore}

DEFAULT_FORMAT: Final = "delta"

__all__ = [
    "DEFAULT_FORMAT",
    "DONE",
    "FORMATS",
    "NO_VERSION",
    "OPEN",
    "DataFile",
    "Part",
    "SchemaConflict",
    "Snapshot",
    "TableConflict",
    "TableError",
    "TableState",
    "TableStore",
    "VersionGone",
    "open_store",
]


def open_store(root: str, name: str, format: str = DEFAULT_FORMAT) -> TableStore:
    """A table in the folder (or URI) `root`; it need not exist yet. Raises ``TableError``."""
    if format not in FORMATS:
        raise TableError(f"no such table format: {format}; there are {', '.join(FORMATS)}")
    if name not in DEFINITIONS:
        raise TableError(f"no such table: {name}; there are {', '.join(DEFINITIONS)}")
    return FORMATS[format](root, DEFINITIONS[name])
