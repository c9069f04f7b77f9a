"""Tables as Parquet files with a commit log of their own: nothing but Arrow is needed to read or write them.

``_log/00000000000000000012.json`` is version 12: the files it adds, the names of those it removes, the state,
the columns. It is created under a name that must be free, so that of two writers one fails, and it appears
whole or not at all: after a crash at any point the table is at the old version or at the new one.
``_log/00000000000000000100.checkpoint.json`` repeats all the files of version 100, so that a reader starts
there. What no version names is no part of the table, and vacuumed.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import msgspec
import pyarrow.fs as pafs

from postroom.spark.filesystems import exclusive_files
from postroom.spark.store.evolution import ColumnKind, kinds
from postroom.spark.store.files import DATA
from postroom.spark.store.protocol import (
    NO_VERSION,
    DataFile,
    TableError,
    TableState,
    VersionGone,
    checked,
    with_check,
)
from postroom.spark.store.table_store import Entry, Listing, TableStore

LOG: Final = "_log"
ENTRY: Final = ".json"
CHECKPOINT: Final = ".checkpoint.json"
DIGITS: Final = 20

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

T = TypeVar("T")


class ParquetStore(TableStore):
    """A table of Parquet files with a commit log."""

    # --- versions ----------------------------------------------------------------------------------

    def _load(self) -> Listing | None:
        versions = self._versions(ENTRY)
        return self._listing(versions[-1]) if versions else None

    def _older(self, version: int | None, as_of: datetime | None) -> Listing:
        return self._listing(version if version is not None else self._version_at(as_of))

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
        listing = Listing(TableState(), (), ())
        if starts:
            content = self._content(log_path(starts[-1], CHECKPOINT))
            if content is None:
                raise self._gone(starts[-1])
            listing = self._decoded(content, Listing, starts[-1])
        while listing.state.version < version:
            entry = self._entry(listing.state.version + 1)
            if entry is None:
                raise self._gone(listing.state.version + 1)
            listing = listing.then(entry)
        return listing

    # --- the log -----------------------------------------------------------------------------------

    def _entry(self, version: int) -> Entry | None:
        content = self._content(log_path(version, ENTRY))
        return None if content is None else self._decoded(content, Entry, version)

    def _has(self, version: int) -> bool:
        return self._data.has(log_path(version, ENTRY))

    def _decoded(self, content: bytes, kind: type[T], version: int) -> T:
        try:
            return msgspec.json.decode(checked(content), type=kind)
        except ValueError as error:
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

    def _created(self) -> Listing:
        return Listing(TableState(), kinds(self.definition), ())

    def _widened(self, newest: Listing, new: Sequence[ColumnKind]) -> Listing:
        return replace(newest, columns=(*newest.columns, *new))

    def _put(self, entry: Entry, removed: Sequence[DataFile]) -> None:
        path = self._data.at(log_path(entry.version, ENTRY))
        try:
            exclusive_files.create_only(self._data.filesystem, path, with_check(msgspec.json.encode(entry)))
        except exclusive_files.NoConditionalPut as error:
            raise TableError(f"{error}; the commit log needs that. Use tableFormat delta") from error

    # --- upkeep ------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write the list of files at once; commits do so by themselves every so many versions."""
        newest = self._newest()
        if newest is not None:
            path = self._data.at(log_path(newest.state.version, CHECKPOINT))
            exclusive_files.replace(self._data.filesystem, path, with_check(msgspec.json.encode(newest)))

    def vacuum(self, retention_s: int) -> int:
        """Delete files that no version younger than `retention_s` needs, strays, and old log entries; returns
        how many data files."""
        newest = self._newest()
        if newest is None:
            return 0
        until = datetime.now(UTC) - timedelta(seconds=retention_s)
        try:
            oldest = self._version_at(until)
        except VersionGone:  # the oldest there is is younger
            oldest = (self._versions(CHECKPOINT) or self._versions(ENTRY))[0]
        needed = self._needed(oldest, newest.state.version)
        strays = [info for info in self._found(DATA) if info.path not in needed]
        gone = [info.path for info in strays if info.mtime <= until]
        for path in gone:
            self._data.delete(path)
        self._clean_log(oldest, until)
        return len(gone)

    def _needed(self, oldest: int, newest: int) -> set[str]:
        """The paths of all files of the versions from oldest to newest."""
        needed = {self._data.at(file.path) for file in self._listing(oldest).files}
        for version in range(oldest + 1, newest + 1):
            entry = self._entry(version)
            if entry is None:
                raise self._gone(version)
            needed |= {self._data.at(file.path) for file in entry.add}
        return needed

    def _clean_log(self, oldest: int, until: datetime) -> None:
        """Delete what no version from `oldest` on starts from, and what a crash left over."""
        start = max(
            (version for version in self._versions(CHECKPOINT) if version <= oldest), default=NO_VERSION
        )
        for info in self._found(LOG):
            if info.base_name.endswith(exclusive_files.TEMPORARY):
                is_old = info.mtime <= until
            else:
                is_old = int(info.base_name[:DIGITS]) < start
            if is_old:
                self._data.delete(info.path)


def log_path(version: int, suffix: str) -> str:
    """Where a version's entry or checkpoint is, relative to the table."""
    return f"{LOG}/{version:0{DIGITS}d}{suffix}"
