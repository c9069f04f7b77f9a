"""Tables as Apache Iceberg, append-only, through pyiceberg with a catalog in SQLite (``catalog.db`` beside
the tables).

A version is a snapshot, numbered by its sequence number; the state is in the snapshot's properties. Files are
added, never taken out: partial rows stay in part ``open`` for good, and readers fold them. pyiceberg reads
partitions from the columns of files, so that here they hold ``part``, ``day`` and ``ledger_id``, too.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot
from sqlalchemy.exc import DatabaseError

from postroom.spark.store.evolution import ColumnKind, kinds
from postroom.spark.store.files import DATA, DataFiles
from postroom.spark.store.protocol import (
    CHECKPOINT_COMMITS,
    DONE,
    NO_VERSION,
    OPEN,
    PARTITION_COLUMNS,
    DataFile,
    TableError,
    TableState,
    VersionGone,
    decode_state,
    encode_state,
)
from postroom.spark.store.table_store import Entry, Listing, TableStore
from postroom.spark.tables.definition import TableDefinition

CATALOG_FILE: Final = "catalog.db"
NAMESPACE: Final = "postroom"
STATE_KEY: Final = "postroom"
OPERATION_KEY: Final = "postroom.operation"
COLUMNS_KEY: Final = "postroom.columns"

PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}


class IcebergStore(TableStore):
    """A table in Iceberg's format, on this machine's disk; it only grows."""

    can_replace = False

    def __init__(
        self, root: str, definition: TableDefinition, checkpoint_commits: int = CHECKPOINT_COMMITS
    ) -> None:
        """Raises ``TableError``: `root` is not on this machine."""
        super().__init__(root, definition, checkpoint_commits)
        if not isinstance(self._data.filesystem, pafs.LocalFileSystem):
            raise TableError(
                f"{root}: Iceberg tables have their catalog in SQLite, so they need a local folder"
            )
        self._root = str(Path(self.path).parent)
        self._data = DataFiles(self._data.filesystem, self.path, definition, holds_places=True)

    # --- versions ----------------------------------------------------------------------------------

    def _catalog(self) -> SqlCatalog:
        Path(self._root).mkdir(parents=True, exist_ok=True)
        uri = f"sqlite:///{self._root}/{CATALOG_FILE}"
        return SqlCatalog(NAMESPACE, uri=uri, warehouse=f"file://{self._root}")

    def _table(self) -> Table | None:
        if not Path(self._root, CATALOG_FILE).exists():
            return None
        try:
            return self._catalog().load_table((NAMESPACE, self.name))
        except NoSuchTableError:
            return None
        except DatabaseError as error:
            raise TableError(
                f"table {self.name} at {self.uri}: the catalog {CATALOG_FILE} can't be read ({error.orig}):"
                " if nobody else is writing it, restore it from a backup"
            ) from error
        except FileNotFoundError as error:
            raise TableError(
                f"table {self.name} at {self.uri}: what the catalog {CATALOG_FILE} names is gone ({error}):"
                " restore the catalog and the tables together"
            ) from error

    def _load(self) -> Listing | None:
        table = self._table()
        return None if table is None else self._listing(table, table.current_snapshot())

    def _older(self, version: int | None, as_of: datetime | None) -> Listing:
        table = self._table()
        if table is None:
            raise self._gone(version or 0)
        if as_of is not None:
            found = table.snapshot_as_of_timestamp(int(as_of.timestamp() * 1000))
            if found is None:
                raise VersionGone(f"table {self.name} at {self.uri} has no version as old as {as_of}")
        else:
            found = _numbered(table, version or 0)
            if found is None:
                raise self._gone(version or 0)
        return self._listing(table, found)

    def _listing(self, table: Table, snapshot: IcebergSnapshot | None) -> Listing:
        if snapshot is None:
            return Listing(TableState(version=0), _columns(table), ())
        entries = [
            entry.data_file
            for manifest in snapshot.manifests(table.io)
            for entry in manifest.fetch_manifest_entry(table.io)
        ]
        return Listing(_state(snapshot), _columns(table), tuple(self._files(table, entries)))

    def _entry(self, version: int) -> Entry | None:
        table = self._table()
        if table is not None and version == 0:  # the empty table has no snapshot
            return Entry(0, "create", True, TableState(version=0), _columns(table), (), ())
        snapshot = _numbered(table, version) if table is not None else None
        if table is None or snapshot is None:
            return None
        added = [
            entry.data_file
            for manifest in snapshot.manifests(table.io)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == ManifestEntryStatus.ADDED
        ]
        operation = _property(snapshot, OPERATION_KEY)
        files = tuple(self._files(table, added))
        return Entry(version, operation, True, _state(snapshot), _columns(table), files, ())

    def _has(self, version: int) -> bool:
        return True  # the newest version is asked for at the catalog

    def _files(self, table: Table, entries: Iterable[IcebergFile]) -> list[DataFile]:
        ids = {field.name: field.field_id for field in table.schema().fields}
        is_merged = "first_position" in ids
        first, last = ("first_position", "last_position") if is_merged else ("position", "position")
        return [
            DataFile(
                path=entry.file_path.removeprefix("file://").removeprefix(f"{self.path}/"),
                part=DONE if entry.partition[0] == DONE else OPEN,
                day=entry.partition[1],
                ledger_id=entry.partition[2],
                rows=entry.record_count,
                size_bytes=entry.file_size_in_bytes,
                first_serial=_bound(entry.lower_bounds, ids.get("serial")),
                last_serial=_bound(entry.upper_bounds, ids.get("serial")),
                first_position=_bound(entry.lower_bounds, ids[first]),
                last_position=_bound(entry.upper_bounds, ids[last]),
            )
            for entry in entries
        ]

    # --- commits -----------------------------------------------------------------------------------

    def _created(self) -> Listing:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(NAMESPACE)
        try:
            table = catalog.create_table(
                (NAMESPACE, self.name),
                self._schema(),
                f"file://{self.path}",
                properties=PROPERTIES | {COLUMNS_KEY: _encoded(kinds(self.definition))},
            )
        except TableAlreadyExistsError as error:
            raise self._conflict(NO_VERSION) from error
        with table.update_spec() as update:
            for name in PARTITION_COLUMNS:
                update.add_identity(name)
        return self._listing(table, None)

    def _schema(self) -> pa.Schema:
        places = [pa.field(name, pa.string()) for name in PARTITION_COLUMNS]
        own = [
            pa.field(f.name, f.type, metadata={"doc": f.comment})
            for f in self.definition.fields
            if f.name not in PARTITION_COLUMNS
        ]
        return pa.schema([*places, *own])

    def _widened(self, newest: Listing, new: Sequence[ColumnKind]) -> Listing:
        table = self._table()
        assert table is not None
        columns = (*newest.columns, *new)
        try:
            with table.transaction() as change:
                change.update_schema().union_by_name(self._schema()).commit()
                change.set_properties({COLUMNS_KEY: _encoded(columns)})
        except CommitFailedException as error:
            raise self._conflict(newest.state.version) from error
        return replace(newest, columns=columns)

    def _put(self, entry: Entry, removed: Sequence[DataFile]) -> None:
        if removed:
            raise TableError(f"table {self.name} at {self.uri}: files of an Iceberg table are not taken out")
        table = self._table()
        newest = None if table is None else table.current_snapshot()
        if table is None or ((newest.sequence_number or 0) if newest else 0) != entry.version - 1:
            raise FileExistsError(self.uri)
        properties = {STATE_KEY: encode_state(entry.state), OPERATION_KEY: entry.operation}
        paths = [f"file://{self._data.at(file.path)}" for file in entry.add]
        try:
            table.add_files(paths, snapshot_properties=properties, check_duplicate_files=False)
        except CommitFailedException as error:
            raise FileExistsError(self.uri) from error

    # --- upkeep ------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Every snapshot of Iceberg lists all files: nothing to do."""

    def vacuum(self, retention_s: int) -> int:
        """Forget snapshots older than `retention_s`, delete data files that were never added; returns how
        many data files."""
        newest, table = self._newest(), self._table()
        if newest is None or table is None:
            return 0
        until = datetime.now(UTC) - timedelta(seconds=retention_s)
        table.maintenance.expire_snapshots().older_than(until).commit()
        needed = {self._data.at(file.path) for file in newest.files}
        selector = pafs.FileSelector(self._data.at(DATA), allow_not_found=True, recursive=True)
        gone = [
            info.path
            for info in self._data.filesystem.get_file_info(selector)
            if info.type == pafs.FileType.File and info.mtime <= until and info.path not in needed
        ]
        for path in gone:
            self._data.filesystem.delete_file(path)
        return len(gone)


def _numbered(table: Table, version: int) -> IcebergSnapshot | None:
    found = (s for s in reversed(table.metadata.snapshots) if s.sequence_number == version)
    return next(found, None)


def _property(snapshot: IcebergSnapshot, name: str) -> str:
    return (snapshot.summary.additional_properties.get(name, "") if snapshot.summary else "") or ""


def _state(snapshot: IcebergSnapshot) -> TableState:
    text = _property(snapshot, STATE_KEY)
    if not text:
        raise TableError(
            "a snapshot of the table was not made by postroom: roll back to the one before, or rebuild it"
        )
    try:
        return replace(decode_state(text), version=snapshot.sequence_number or 0)
    except ValueError as error:
        raise TableError(
            f"what snapshot {snapshot.snapshot_id} says of its table is damaged ({error}): restore it from a "
            "backup"
        ) from error


def _columns(table: Table) -> tuple[ColumnKind, ...]:
    return tuple(ColumnKind(**column) for column in json.loads(table.properties[COLUMNS_KEY]))


def _encoded(columns: Sequence[ColumnKind]) -> str:
    return json.dumps([asdict(column) for column in columns])


def _bound(bounds: dict[int, bytes] | None, field_id: int | None) -> int:
    content = (bounds or {}).get(field_id) if field_id is not None else None
    return int.from_bytes(content, "little", signed=True) if content else 0
