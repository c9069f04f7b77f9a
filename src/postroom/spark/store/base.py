"""What the formats have in common: versions, commits and the putting together of small files."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from postroom.spark.store import evolution
from postroom.spark.store.compaction import bins
from postroom.spark.store.evolution import ColumnKind
from postroom.spark.store.files import DataFiles, open_root
from postroom.spark.store.protocol import (
    NO_VERSION,
    DataFile,
    Part,
    Snapshot,
    TableConflict,
    TableState,
    VersionGone,
)
from postroom.spark.tables.definition import TableDefinition


class BaseStore(ABC):
    """A table of files; a format says how versions are kept."""

    can_replace = True

    def __init__(self, root: str, definition: TableDefinition) -> None:
        """The table of that definition in a folder of tables. Raises ``TableError``: no such file system."""
        filesystem, path = open_root(root)
        self.definition = definition
        self.name = definition.name
        self.path = f"{path.rstrip('/')}/{self.name}"
        self.uri = f"{root.rstrip('/')}/{self.name}" if "://" in root else self.path
        self._data = DataFiles(filesystem, self.path, definition)

    # --- reading -----------------------------------------------------------------------------------

    def state(self) -> TableState:
        """The newest commit's; version `NO_VERSION` if there is none yet."""
        newest = self._newest()
        return newest.state if newest else TableState()

    def files(self, part: Part | None = None) -> list[DataFile]:
        """The newest version's files."""
        newest = self._newest()
        return [file for file in newest.files if part in (None, file.part)] if newest else []

    def snapshot(self, version: int | None = None, as_of: datetime | None = None) -> Snapshot:
        """State and files of a version, or of the newest at a time. Raises ``VersionGone``."""
        if version is None and as_of is None:
            newest = self._newest()
            if newest is None:
                raise VersionGone(f"there is no table {self.name} at {self.uri}")
            return newest
        return self._older(version, as_of)

    def read(self, file: DataFile, columns: Sequence[str] | None = None) -> pa.Table:
        """A file's rows in the definition's columns or those named; columns newer than the file are null."""
        return self._data.read(file, columns)

    def pieces(self, file: DataFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The same a piece at a time, whatever the file's size."""
        return self._data.pieces(file, columns)

    # --- writing -----------------------------------------------------------------------------------

    def write(self, rows: pa.Table, part: Part, day: str | None, ledger_id: str) -> DataFile:
        """Rows as a durable file that is not yet part of the table."""
        return self._data.write(rows, part, day, ledger_id)

    def commit(
        self, add: Sequence[DataFile], remove: Sequence[DataFile], state: TableState, operation: str
    ) -> int:
        """Make the version after ``state.version``. Raises ``TableConflict``, ``SchemaConflict``."""
        return self._commit_checked(add, remove, state, operation, is_new=True)

    def compact(self, target_bytes: int) -> int:
        """Put small files of a part, day and ledger together; returns how many files went."""
        newest = self._newest()
        if newest is None or not self.can_replace:
            return 0
        groups = bins(newest.files, target_bytes)
        joined = [self._data.join(files) for files in groups]
        gone = [file for files in groups for file in files]
        if gone:
            self._commit_checked(joined, gone, newest.state, "compact", is_new=False)
        return len(gone)

    def _commit_checked(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        is_new: bool,
    ) -> int:
        newest = self._newest()
        at = newest.state.version if newest else NO_VERSION
        if at != state.version:
            raise self._conflict(state.version)
        if newest:
            evolution.added(self.definition, self._stored())
            evolution.check_writing(self.definition, self._stored(), newest.state.schema_version)
        told = replace(
            state,
            schema_version=max(state.schema_version, self.definition.version),
            updated_us=time.time_ns() // 1000,
        )
        return self._commit(add, remove, told, operation, is_new)

    def _conflict(self, version: int) -> TableConflict:
        return TableConflict(
            f"table {self.name} at {self.uri} has a version after {version}: another program writes to it. "
            "Only one pipeline may; stop the other one, then start this one again"
        )

    # --- what a format does ------------------------------------------------------------------------

    @abstractmethod
    def _newest(self) -> Snapshot | None: ...

    @abstractmethod
    def _older(self, version: int | None, as_of: datetime | None) -> Snapshot: ...

    @abstractmethod
    def _stored(self) -> Sequence[ColumnKind]:
        """The columns of the newest version, without those that tell the partition."""

    @abstractmethod
    def _commit(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        is_new: bool,
    ) -> int:
        """Make the version after ``state.version``; `is_new`: the rows added are new ones."""
