"""What every table format offers: files that tasks write, commits that make them part of the table, and the
putting together of small files."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from postroom.spark.store import evolution
from postroom.spark.store.compaction import bins
from postroom.spark.store.evolution import ColumnKind
from postroom.spark.store.files import DataFiles, open_root
from postroom.spark.store.protocol import (
    CHECKPOINT_COMMITS,
    DONE,
    NO_VERSION,
    OWN_FOLDER,
    SETTINGS_FILE,
    DataFile,
    Part,
    Snapshot,
    TableConflict,
    TableState,
    VersionGone,
    checked,
)
from postroom.spark.tables.definition import TableDefinition


@dataclass(frozen=True, slots=True)
class Entry:
    """What a commit changes."""

    version: int
    operation: str
    is_new: bool
    """Whether the rows of the files added are new; else they were in the table before."""
    state: TableState
    columns: tuple[ColumnKind, ...]
    add: tuple[DataFile, ...]
    remove: tuple[str, ...]
    """Their paths."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A version with all its files."""

    state: TableState
    columns: tuple[ColumnKind, ...]
    files: tuple[DataFile, ...]

    def then(self, entry: Entry) -> "Listing":
        """The version that the entry makes of this one."""
        gone = set(entry.remove)
        kept = tuple(file for file in self.files if file.path not in gone) if gone else self.files
        return Listing(entry.state, entry.columns, kept + entry.add)


class TableStore(ABC):
    """A table of files; a format says how versions are kept. Picklable: tasks write through it, the driver
    commits."""

    can_replace = True
    """Whether commits may remove files; else rows in ``open`` stay there, and readers fold them."""

    def __init__(
        self, root: str, definition: TableDefinition, checkpoint_commits: int = CHECKPOINT_COMMITS
    ) -> None:
        """The table of that definition in a folder of tables; its list of files is written whole every
        `checkpoint_commits` versions. Raises ``TableError``: no such file system."""
        filesystem, path = open_root(root)
        self.definition = definition
        self.name = definition.name
        self.path = f"{path.rstrip('/')}/{self.name}"
        self.uri = f"{root.rstrip('/')}/{self.name}" if "://" in root else self.path
        self._data = DataFiles(filesystem, self.path, definition)
        self._checkpoint_commits = checkpoint_commits
        self._known: Listing | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": None}

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
        """State and files of a version, or of the newest at a time; no files of a table that the pipeline
        makes and has had no rows for yet. Raises ``VersionGone``."""
        is_newest = version is None and as_of is None
        listing = self._newest() if is_newest else self._older(version, as_of)
        if listing is None and self._is_awaited():
            return Snapshot(TableState(), ())
        if listing is None:
            raise VersionGone(f"there is no table {self.name} at {self.uri}")
        return Snapshot(listing.state, listing.files)

    def _is_awaited(self) -> bool:
        """Whether the pipeline beside it makes this table."""
        settings = f"{self.path.rpartition('/')[0]}/{OWN_FOLDER}/{SETTINGS_FILE}"
        try:
            with self._data.filesystem.open_input_stream(settings) as stream:
                awaited = json.loads(checked(stream.read()))
        except (FileNotFoundError, ValueError):
            return False
        return self.name in awaited.get("tables", ())

    def added_since(self, version: int) -> list[DataFile]:
        """Files with new rows in part ``done`` that came after a version, in the order of their commits;
        files that only hold others' rows again are left out. Raises ``VersionGone``."""
        found: list[DataFile] = []
        for number in range(version + 1, self.state().version + 1):
            entry = self._entry(number)
            if entry is None:
                raise self._gone(number)
            found += [file for file in entry.add if entry.is_new and file.part == DONE]
        return found

    def read(self, file: DataFile, columns: Sequence[str] | None = None, coded: bool = False) -> pa.Table:
        """A file's rows in the definition's columns or those named (also ``part`` and ``day``); columns
        newer than the file are null. `coded`: texts that come again and again as dictionary arrays, which
        are quicker to read and to fold."""
        return self._data.read(file, columns, coded)

    def read_bucket(
        self, file: DataFile, columns: Sequence[str], number: int, count: int, coded: bool = False
    ) -> pa.Table:
        """The rows of a file whose key falls into bucket `number` of `count` (see `buckets`); `columns` must
        have the key's. `coded` as for `read`."""
        return self._data.read_bucket(file, columns, number, count, coded)

    def pieces(self, file: DataFile, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The same a piece at a time, whatever the file's size."""
        return self._data.pieces(file, columns)

    def _newest(self) -> Listing | None:
        if self._known is None or not self._has(self._known.state.version):
            self._known = self._load()  # the log was cleaned since: what follows may be gone, too
        while self._known is not None and (entry := self._entry(self._known.state.version + 1)) is not None:
            self._known = self._known.then(entry)
        return self._known

    # --- writing -----------------------------------------------------------------------------------

    def write(self, rows: pa.Table, part: Part, day: str | None, ledger_id: str) -> DataFile:
        """Rows (columns of the definition, in any order) as a durable file that is not yet part of the
        table."""
        return self._data.write(rows, part, day, ledger_id)

    def commit(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        is_new: bool = True,
    ) -> int:
        """Make the version after ``state.version``: files added and removed, and the new state. Returns
        it. `is_new` False: the rows added were in the table before, so that tables made of this one
        don't take them again. Raises ``TableConflict`` if that version exists already,
        ``SchemaConflict``."""
        newest = self._newest()  # once: what another commits from here on is found by the put
        if (NO_VERSION if newest is None else newest.state.version) != state.version:
            raise self._conflict(state.version)
        before = self._prepared(newest)
        version = before.state.version + 1
        reached = replace(
            state,
            version=version,
            schema_version=max(before.state.schema_version, self.definition.version),
            updated_us=time.time_ns() // 1000,
        )
        gone = tuple(file.path for file in remove)
        entry = Entry(version, operation, is_new, reached, before.columns, tuple(add), gone)
        try:
            self._put(entry, remove)
        except FileExistsError as error:
            raise self._conflict(state.version) from error
        self._known = before.then(entry)
        if version and version % self._checkpoint_commits == 0:
            self.checkpoint()
        return version

    def _prepared(self, newest: Listing | None) -> Listing:
        """The version to follow, with all the columns of this program."""
        if newest is None:
            return self._created()
        new = evolution.added(self.definition, newest.columns)
        evolution.check_writing(self.definition, newest.columns, newest.state.schema_version)
        return self._widened(newest, new) if new else newest

    def small_files(self, target_bytes: int, below_bytes: int) -> list[list[DataFile]]:
        """Groups of finished files of a part, day and ledger, each below `below_bytes`, that are worth
        putting together to files of about `target_bytes`."""
        newest = self._newest()
        if newest is None or not self.can_replace:
            return []
        if evolution.missing(self.definition, newest.columns):
            return []  # this program is the older one: it would lose what newer columns hold
        small = (file for file in newest.files if file.part == DONE and file.size_bytes < below_bytes)
        return bins(small, target_bytes)

    def join(self, files: Sequence[DataFile]) -> DataFile:
        """The rows of several files of one part, day and ledger as one durable file that is not yet part of
        the table."""
        return self._data.join(files)

    def joined(self, groups: Sequence[Sequence[DataFile]], files: Sequence[DataFile]) -> None:
        """Put each of these files in the place of a group that it was made from, by one commit."""
        rows = sum(file.rows for file in files)
        state = self.state()
        copied = replace(state, rows_written=state.rows_written + rows, rows_copied=state.rows_copied + rows)
        self.commit(files, [file for group in groups for file in group], copied, "compact", is_new=False)

    def _conflict(self, version: int) -> TableConflict:
        return TableConflict(
            f"table {self.name} at {self.uri} has a version after {version}: another program writes to it. "
            "Only one pipeline may; stop the other one, then start this one again"
        )

    def _gone(self, version: int) -> VersionGone:
        return VersionGone(f"table {self.name} at {self.uri} has no version {version} (any more)")

    # --- what a format does ------------------------------------------------------------------------

    @abstractmethod
    def _load(self) -> Listing | None:
        """The newest version, read anew; None if there is no table."""

    @abstractmethod
    def _older(self, version: int | None, as_of: datetime | None) -> Listing:
        """A version. Raises ``VersionGone``."""

    @abstractmethod
    def _entry(self, version: int) -> Entry | None:
        """What made a version; None if there is no such commit (any more)."""

    @abstractmethod
    def _has(self, version: int) -> bool:
        """Whether the commit that made a version is still there."""

    @abstractmethod
    def _created(self) -> Listing:
        """The empty version that the first commit follows. Raises ``TableConflict``."""

    @abstractmethod
    def _widened(self, newest: Listing, new: Sequence[ColumnKind]) -> Listing:
        """The newest version with more columns."""

    @abstractmethod
    def _put(self, entry: Entry, removed: Sequence[DataFile]) -> None:
        """Make the version, durable. Raises ``FileExistsError`` if another made it."""

    @abstractmethod
    def checkpoint(self) -> None:
        """Write the whole list of files at once, so that readers need not read each commit."""

    @abstractmethod
    def vacuum(self, retention_s: int) -> int:
        """Delete files that no version younger than `retention_s` needs, strays, and old log entries; returns
        how many data files."""
