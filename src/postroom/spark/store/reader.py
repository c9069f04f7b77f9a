"""Reads the tables of one folder with Arrow, without Spark: in bounded memory, and no more than it has to."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from postroom.spark.store.folded import halves, read_bucket
from postroom.spark.store.formats import open_store
from postroom.spark.store.protocol import DataFile, Snapshot, VersionGone
from postroom.spark.store.table_store import TableStore

MAX_ROWS: Final = 5_000_000
"""So many rows of a table are looked at where single messages are counted; of a larger one, the newest."""

BUCKET_ROWS: Final = 2_000_000
"""So many partial rows are folded at once (about 300 bytes each)."""


class Reader:
    """The tables in one folder, each as of its newest version at the first look."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._snapshots: dict[str, Snapshot | None] = {}

    def store(self, name: str) -> TableStore:
        """Raises ``TableError``."""
        return open_store(self._root, name)

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
        return sum(file.rows for file in self._files(name))

    def stored(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows as they lie in the files, file by file: for columns that add up."""
        store = self.store(name)
        return (store.read(file, columns) for file in self._files(name))

    def whole(self, name: str, columns: Sequence[str], max_rows: int = MAX_ROWS) -> Iterator[pa.Table]:
        """Rows with each key once, piece by piece: those still open, then the newest, until there are
        about ``max_rows``."""
        store = self.store(name)
        final, partial = halves(store.definition, self._files(name))
        left, buckets = max_rows, 1 + sum(file.rows for file in partial) // BUCKET_ROWS
        for number in range(buckets):
            if left > 0:
                piece = read_bucket(store, partial, columns, number, buckets)
                left -= len(piece)
                yield piece
        for file in final:
            if left > 0:
                left -= file.rows
                yield store.read(file, columns)

    def partial(self, name: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Folded rows of the part open, in all columns or those named."""
        store = self.store(name)
        _, partial = halves(store.definition, self._files(name))
        names = store.definition.schema.names if columns is None else columns
        buckets = 1 + sum(file.rows for file in partial) // BUCKET_ROWS
        for number in range(buckets):
            yield read_bucket(store, partial, names, number, buckets)

    def final(self, name: str, columns: Sequence[str], since_day: str) -> Iterator[pa.Table]:
        """Rows of the part done, of a day (``YYYY-MM-DD``) and those that follow it."""
        store = self.store(name)
        files, _ = halves(store.definition, self._files(name))
        return (store.read(file, columns) for file in files if (file.day or since_day) >= since_day)

    def newest(
        self, name: str, columns: Sequence[str], since_position: int, max_rows: int = MAX_ROWS
    ) -> Iterator[pa.Table]:
        """Stored rows of the files that go beyond a position, the newest first, about ``max_rows``."""
        store, left = self.store(name), max_rows
        for file in self._files(name):
            is_late = file.last_position >= since_position or not file.last_position
            if left > 0 and is_late:
                left -= file.rows
                yield store.read(file, columns)

    def _files(self, name: str) -> list[DataFile]:
        """The newest first."""
        snapshot = self.snapshot(name)
        found = snapshot.files if snapshot else ()
        return sorted(found, key=lambda file: (file.day or "9", file.last_position), reverse=True)
