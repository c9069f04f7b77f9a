"""Reads tables for the report with Arrow, without Spark: as much as fits its bounds, the newest first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from postroom.spark.pipeline.options import load_settings
from postroom.spark.pipeline.root import Root
from postroom.spark.store import (
    DEFAULT_FORMAT,
    DONE,
    OPEN,
    DataFile,
    Snapshot,
    TableStore,
    VersionGone,
    open_store,
)
from postroom.spark.tables import Merge, TableDefinition, fold
from postroom.spark.tables.definition import ORDER

MAX_ROWS: Final = 5_000_000
"""So many rows of a table are looked at where single messages are counted; of a larger one, the newest."""

MAX_OPEN_ROWS: Final = 10_000_000
"""So many partial rows are folded at once (about 300 bytes each); a table with more is left out."""


class TooManyRows(Exception):
    """A table has more partial rows than are folded here; the message says what to do."""


class Reader:
    """The tables in one folder, each as of its newest version at the first look."""

    def __init__(self, root: str) -> None:
        """Raises ``LedgerError``, ``OSError``."""
        settings = load_settings(Root(root))
        self._root = root
        self.format: Final = settings.format if settings else DEFAULT_FORMAT
        self._snapshots: dict[str, Snapshot | None] = {}

    def store(self, name: str) -> TableStore:
        return open_store(self._root, name, self.format)

    def snapshot(self, name: str) -> Snapshot | None:
        """State and files of a table; None if there is no such table here."""
        if name not in self._snapshots:
            try:
                self._snapshots[name] = self.store(name).snapshot()
            except VersionGone:
                self._snapshots[name] = None
        return self._snapshots[name]

    def rows(self, name: str) -> int:
        """How many rows the table's files have."""
        snapshot = self.snapshot(name)
        return sum(file.rows for file in snapshot.files) if snapshot else 0

    def files(self, name: str, part: str | None = None) -> list[DataFile]:
        """The newest first."""
        snapshot = self.snapshot(name)
        found = [file for file in snapshot.files if part in (None, file.part)] if snapshot else []
        return sorted(found, key=lambda file: (file.day or "9", file.last_position), reverse=True)

    def sums(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows as they lie in the files, for columns that add up: unfolded, in bounded memory."""
        store = self.store(name)
        return (store.read(file, columns) for file in self.files(name))

    def whole(self, name: str, columns: Sequence[str], max_rows: int = MAX_ROWS) -> Iterator[pa.Table]:
        """Folded rows, those still open first, then the newest files until there are `max_rows`. Raises
        ``TooManyRows``."""
        store = self.store(name)
        left = max_rows
        folded = self._open(store, columns)
        if folded is not None:
            left -= len(folded)
            yield folded
        for file in self.files(name, DONE):
            if left <= 0:
                return
            left -= file.rows
            yield store.read(file, columns)

    def _open(self, store: TableStore, columns: Sequence[str]) -> pa.Table | None:
        files = self.files(store.name, OPEN)
        if not files:
            return None
        rows = sum(file.rows for file in files)
        if rows > MAX_OPEN_ROWS:
            raise TooManyRows(
                f"Table {store.name} has {rows:,} partial rows, more than the {MAX_OPEN_ROWS:,} that are"
                " folded here: let the pipeline settle them, or ask Spark (format postroom.table)."
            )
        narrow = narrowed(store.definition, columns)
        read = [store.read(file, narrow.schema.names) for file in files]
        return fold(narrow, pa.concat_tables(read)).select(list(columns))


def narrowed(definition: TableDefinition, columns: Sequence[str]) -> TableDefinition:
    """The same table with no more columns than a fold of these needs."""
    needed = {*columns, *(field.name for field in ORDER)}
    needed |= {field.of for field in definition.fields if field.name in needed and field.of}
    kept = tuple(one for one in definition.fields if one.merge is Merge.KEY or one.name in needed)
    return replace(definition, fields=kept)
