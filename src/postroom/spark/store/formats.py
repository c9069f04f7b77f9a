"""Which formats tables have, and a table opened in one."""

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow.fs as pafs

from postroom.spark.store.delta import LOG as DELTA_LOG
from postroom.spark.store.delta import DeltaStore
from postroom.spark.store.files import open_root
from postroom.spark.store.parquet import LOG as PARQUET_LOG
from postroom.spark.store.parquet import ParquetStore
from postroom.spark.store.protocol import CHECKPOINT_COMMITS, TableError
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition

ICEBERG_CATALOG: Final = "catalog.db"


def _iceberg(root: str, definition: TableDefinition, checkpoint_commits: int) -> TableStore:
    try:
        from postroom.spark.store.iceberg import IcebergStore
    except ImportError as error:
        raise TableError("tables in Iceberg's format need more: pip install 'postroom[iceberg]'") from error
    return IcebergStore(root, definition, checkpoint_commits)


FORMATS: Final[Mapping[str, Callable[[str, TableDefinition, int], TableStore]]] = {
    "delta": DeltaStore,
    "parquet": ParquetStore,
    "iceberg": _iceberg,
}

DEFAULT_FORMAT: Final = "delta"


def open_store(
    root: str, name: str, format: str = "", checkpoint_commits: int = CHECKPOINT_COMMITS
) -> TableStore:
    """A table in the folder (or URI) `root`; it need not exist yet.

    Without a format: that of the tables which are there, `DEFAULT_FORMAT` if there are none. Commits write
    its list of files whole every `checkpoint_commits` versions. Raises ``TableError``.
    """
    chosen = format or detect_format(root) or DEFAULT_FORMAT
    if chosen not in FORMATS:
        raise TableError(f"no such table format: {chosen}; there are {', '.join(FORMATS)}")
    if name not in DEFINITIONS:
        raise TableError(f"no such table: {name}; there are {', '.join(DEFINITIONS)}")
    return FORMATS[chosen](root, DEFINITIONS[name], checkpoint_commits)


def detect_format(root: str) -> str | None:
    """The format of the tables in a folder (or URI), None if there are none. Raises ``TableError``."""
    filesystem, path = open_root(root)
    marks = {f"{path}/{ICEBERG_CATALOG}": "iceberg"}
    for name in DEFINITIONS:
        marks |= {f"{path}/{name}/{DELTA_LOG}": "delta", f"{path}/{name}/{PARQUET_LOG}": "parquet"}
    for info in filesystem.get_file_info(list(marks)):
        if info.type != pafs.FileType.NotFound:
            return marks[info.path]
    return None
