"""Tables as Parquet files with a commit log of their own: nothing but Arrow is needed to read or write them.

``_log/00000000000000000012.json`` is version 12: the files it adds, the names of those it removes, the state,
the columns. It is created under a name that must be free, so that of two writers one fails, and it appears
whole or not at all: after a crash at any point the table is at the old version or at the new one.
``_log/00000000000000000100.checkpoint.json`` repeats all the files of version 100, so that a reader starts
there. What no version names is no part of the table, and vacuumed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec
import pyarrow.fs as pafs

from postroom.spark.store import creating, evolution
from postroom.spark.store.base import BaseStore
from postroom.spark.store.evolution import ColumnKind, kinds
from postroom.spark.store.files import DATA
from postroom.spark.store.protocol import (
    CHECKPOINT_COMMITS,
    DONE,
    NO_VERSION,
    DataFile,
    Snapshot,
    TableError,
    TableState,
    VersionGone,
)
from postroom.spark.tables.definition import TableDefinition

LOG: Final = "_log"
ENTRY: Final = ".json"
CHECKPOINT: Final = ".checkpoint.json"
DIGITS: Final = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A version, as the log has it."""

    version: int
    operation: str
    is_new: bool
    """Whether the rows of the files added are new; else they are others' rows again."""
    state: TableState
    columns: tuple[ColumnKind, ...]
    add: tuple[DataFile, ...]
    remove: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A version with all its files, as a checkpoint has it."""

    state: TableState
    columns: tuple[ColumnKind, ...]
    files: tuple[DataFile, ...]

    def then(self, entry: Entry) -> "Listing":
        """The version that the entry makes of this one."""
        gone = set(entry.remove)
        kept = tuple(file for file in self.files if file.path not in gone)
        return Listing(entry.state, entry.columns, kept + entry.add)


T = TypeVar("T")

NOTHING: Final = Listing(TableState(), (), ())


class ParquetStore(BaseStore):
    """A table of Parquet files with a commit log."""

    def __init__(self, root: str, definition: TableDefinition) -> None:
        super().__init__(root, definition)
        self._known = NOTHING

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": NOTHING}

    # --- versions ----------------------------------------------------------------------------------

    def _newest(self) -> Snapshot | None:
        if self._known.state.version == NO_VERSION:
            versions = self._versions(ENTRY)
            if not versions:
                return None
            self._known = self._listing(versions[-1])
        for entry in self._entries_after(self._known.state.version):
            self._known = self._known.then(entry)
        return Snapshot(self._known.state, self._known.files)

    def _older(self, version: int | None, as_of: datetime | None) -> Snapshot:
        listing = self._listing(version if version is not None else self._version_at(as_of))
        return Snapshot(listing.state, listing.files)

    def _version_at(self, as_of: datetime | None) -> int:
        assert as_of is not None
        until_us = (as_of - EPOCH) // timedelta(microseconds=1)
        for version in reversed(self._versions(ENTRY)):
            entry = self._entry(version)
            if entry is not None and entry.state.updated_us <= until_us:
                return version
        raise VersionGone(f"table {self.name} at {self.uri} has no version as old as {as_of} (any more)")

    def _listing(self, version: int) -> Listing:
        """A version from the newest checkpoint up to it, and the entries since."""
        starts = [start for start in self._versions(CHECKPOINT) if start <= version]
        listing = self._checkpoint_of(starts[-1]) if starts else NOTHING
        while listing.state.version < version:
            entry = self._entry(listing.state.version + 1)
            if entry is None:
                raise VersionGone(
                    f"table {self.name} at {self.uri} has no version {version} (any more): version "
                    f"{listing.state.version + 1} is missing from its log"
                )
            listing = listing.then(entry)
        return listing

    def added_since(self, version: int) -> list[DataFile]:
        """Files with new rows in part ``done``, in the order of their commits. Raises ``VersionGone``."""
        newest = self.state().version
        entries = list(self._entries_after(version))
        if len(entries) < newest - version:
            raise VersionGone(
                f"table {self.name} at {self.uri}: the commit after {version} is no longer there"
            )
        return [file for entry in entries if entry.is_new for file in entry.add if file.part == DONE]

    # --- the log -----------------------------------------------------------------------------------

    def _entries_after(self, version: int) -> Iterator[Entry]:
        while (entry := self._entry(version + 1)) is not None:
            yield entry
            version += 1

    def _entry(self, version: int) -> Entry | None:
        content = self._content(log_path(version, ENTRY))
        return None if content is None else self._decoded(content, Entry, version)

    def _checkpoint_of(self, version: int) -> Listing:
        content = self._content(log_path(version, CHECKPOINT))
        if content is None:
            raise VersionGone(f"table {self.name} at {self.uri}: checkpoint {version} was just cleaned up")
        return self._decoded(content, Listing, version)

    def _decoded(self, content: bytes, kind: type[T], version: int) -> T:
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.DecodeError as error:
            raise TableError(
                f"table {self.name} at {self.uri}: version {version} in {LOG} is damaged ({error}): "
                "restore it from a backup"
            ) from error

    def _content(self, path: str) -> bytes | None:
        try:
            with self._data.filesystem.open_input_stream(self._data.at(path)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def _versions(self, suffix: str) -> list[int]:
        names = [info.base_name for info in self._found(LOG)]
        return sorted(int(name[:DIGITS]) for name in names if name[DIGITS:] == suffix)

    def _found(self, folder: str) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(self._data.at(folder), allow_not_found=True, recursive=True)
        found = self._data.filesystem.get_file_info(selector)
        return [info for info in found if info.type == pafs.FileType.File]

    # --- commits -----------------------------------------------------------------------------------

    def _stored(self) -> Sequence[ColumnKind]:
        return self._known.columns

    def _commit(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        is_new: bool,
    ) -> int:
        version = state.version + 1
        known = self._known.columns
        columns = known + evolution.added(self.definition, known) if known else kinds(self.definition)
        gone = tuple(file.path for file in remove)
        entry = Entry(version, operation, is_new, replace(state, version=version), columns, tuple(add), gone)
        path = self._data.at(log_path(version, ENTRY))
        try:
            creating.create_only(self._data.filesystem, path, msgspec.json.encode(entry))
        except FileExistsError as error:
            raise self._conflict(state.version) from error
        self._known = self._known.then(entry)
        if version and version % CHECKPOINT_COMMITS == 0:
            self.checkpoint()
        return version

    # --- upkeep ------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the list of files at once; commits do so by themselves every 100 versions."""
        if self._newest() is not None:
            path = log_path(self._known.state.version, CHECKPOINT)
            creating.replace(self._data.filesystem, self._data.at(path), msgspec.json.encode(self._known))

    def vacuum(self, retention_s: int) -> int:
        """Delete files that no version younger than `retention_s` needs, strays, and old log entries."""
        if self._newest() is None:
            return 0
        until = datetime.now(UTC) - timedelta(seconds=retention_s)
        oldest = self._oldest_needed(until)
        needed = {self._data.at(file.path) for file in self._listing(oldest).files}
        for entry in self._entries_after(oldest):
            needed |= {self._data.at(file.path) for file in entry.add}
        old = [info.path for info in self._found(DATA) if info.mtime <= until and info.path not in needed]
        for path in old:
            self._delete(path)
        self._clean_log(oldest, until)
        return len(old)

    def _oldest_needed(self, until: datetime) -> int:
        try:
            return self._version_at(until)
        except VersionGone:
            return (self._versions(CHECKPOINT) or self._versions(ENTRY))[0]

    def _clean_log(self, oldest: int, until: datetime) -> None:
        """Entries and checkpoints that no version from `oldest` on starts from; what a crash left over."""
        start = max((version for version in self._versions(CHECKPOINT) if version <= oldest), default=0)
        for info in self._found(LOG):
            if info.base_name.endswith(creating.TEMPORARY):
                is_old = info.mtime <= until
            else:
                is_old = int(info.base_name[:DIGITS]) < start
            if is_old:
                self._delete(info.path)

    def _delete(self, path: str) -> None:
        try:
            self._data.filesystem.delete_file(path)
        except FileNotFoundError:
            return


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def log_path(version: int, suffix: str) -> str:
    """Where a version's entry or checkpoint is, relative to the table."""
    return f"{LOG}/{version:0{DIGITS}d}{suffix}"
