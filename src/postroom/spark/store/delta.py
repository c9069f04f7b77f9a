"""Tables as Delta Lake: read and kept through `deltalake`, without a JVM.

The state is in each commit's own information under ``postroom``; each ledger's position is also the version
of the application transaction ``postroom:<ledger id>``, which Delta keeps with the table. Commits of others
(an OPTIMIZE, a VACUUM) carry no state: the newest before them counts. After a RESTORE the state is that of
the version restored to.

On this machine a commit is written here: synced first, then linked under its name, so that a power cut leaves
none that is cut off, and without reading the table again for each. On object stores `deltalake` commits,
which knows their conditional puts.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from postroom.spark.filesystems.exclusive_files import create_only, local_folder, sync
from postroom.spark.store.delta_actions import APP_PREFIX, OPERATION_KEY, STATE_KEY, Actions, actions_of
from postroom.spark.store.evolution import ColumnKind
from postroom.spark.store.protocol import (
    CHECKPOINT_COMMITS,
    NO_VERSION,
    PARTITION_COLUMNS,
    RETENTION_S,
    DataFile,
    TableError,
    TableState,
    VersionGone,
    decode_state,
    encode_state,
)
from postroom.spark.store.table_store import Entry, Listing, TableStore
from postroom.spark.tables.definition import TableDefinition

LOG: Final = "_delta_log"
MERGE_KEY: Final = "postroom.merge"
RESTORE: Final = "RESTORE"

WRITER_VERSION: Final = 2
"""Of Delta's protocol: what tables are made with. Newer ones may have features that are not written here."""

CONFIGURATION: Final = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    "delta.logRetentionDuration": f"interval {RETENTION_S} seconds",
    "delta.deletedFileRetentionDuration": f"interval {RETENTION_S} seconds",
}

PLACE_FIELDS: Final = (
    pa.field("part", pa.string(), metadata={"comment": "done: final rows; open: partial rows, to be folded"}),
    pa.field("day", pa.string(), metadata={"comment": "Day in UTC of a final row, null for partial rows"}),
)

NOTHING_AFTER: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Of a commit by `deltalake`: checkpoints and the log's cleaning are the store's."""

HOUR_S: Final = 3600


class DeltaStore(TableStore):
    """A table in Delta Lake's format."""

    def __init__(
        self, root: str, definition: TableDefinition, checkpoint_commits: int = CHECKPOINT_COMMITS
    ) -> None:
        super().__init__(root, definition, checkpoint_commits)
        self._actions: Actions = actions_of(definition)

    # --- versions ----------------------------------------------------------------------------------

    def _load(self) -> Listing | None:
        try:
            return self._listing(DeltaTable(self.uri))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise self._unreadable(error) from error

    def _older(self, version: int | None, as_of: datetime | None) -> Listing:
        try:
            table = DeltaTable(self.uri, version=version)
            if as_of is not None:
                table.load_as_version(as_of)
        except (DeltaError, TableNotFoundError) as error:
            wanted = f"version {version}" if version is not None else f"version at {as_of}"
            raise VersionGone(
                f"table {self.name} at {self.uri} has no {wanted} (any more): {error}"
            ) from error
        return self._listing(table)

    def _listing(self, table: DeltaTable) -> Listing:
        version = table.version()
        state = self._state_at(version)
        self._check_transactions(table, state)
        if table.protocol().min_writer_version > WRITER_VERSION:
            raise TableError(
                f"table {self.name} at {self.uri} was given features of Delta that postroom does not write: "
                "undo that (RESTORE), or copy it and rebuild"
            )
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        columns = _columns(pa.schema(table.schema().to_arrow()))
        return Listing(replace(state, version=version), columns, tuple(map(self._actions.file, files)))

    def _state_at(self, version: int) -> TableState:
        while version > NO_VERSION:
            info = _information(self._log(version) or [])
            if STATE_KEY in info:
                return self._decoded(info[STATE_KEY], version)
            version = self._restored(info) if info.get("operation") == RESTORE else version - 1
        raise TableError(
            f"{self.uri} is a Delta table, but its log has no commit of postroom (any more): choose another "
            f"folder, or restore it from a backup"
        )

    def _decoded(self, text: str, version: int) -> TableState:
        try:
            return decode_state(text)
        except ValueError as error:
            raise TableError(
                f"table {self.name} at {self.uri}: what version {version} in {LOG} says of it is damaged "
                f"({error}): restore it from a backup"
            ) from error

    def _restored(self, info: dict[str, Any]) -> int:
        """The version that a RESTORE went back to."""
        parameters = info["operationParameters"]
        if "version" in parameters:
            return int(parameters["version"])
        table = DeltaTable(self.uri)
        table.load_as_version(parameters["datetime"])
        return table.version()

    def _check_transactions(self, table: DeltaTable, state: TableState) -> None:
        for ledger_id, position in state.positions.items():
            recorded = table.transaction_version(APP_PREFIX + ledger_id)
            if recorded is None or recorded < position.position:
                raise TableError(
                    f"table {self.name} at {self.uri}: its state says position {position.position} of ledger "
                    f"{ledger_id}, its transactions say {recorded}: its log was changed by hand. Restore it "
                    f"from a backup, or rebuild it (postroom pipeline rebuild {self.name})"
                )

    # --- the log -----------------------------------------------------------------------------------

    def _entry(self, version: int) -> Entry | None:
        actions = self._log(version)
        if actions is None:
            return None
        information = _information(actions)
        operation = information.get(OPERATION_KEY, information.get("operation", ""))
        added = [action["add"] for action in actions if "add" in action]
        return Entry(
            version,
            operation,
            any(add["dataChange"] for add in added),
            replace(self._state_at(version), version=version),
            self._columns_after(actions),
            tuple(map(self._actions.logged, added)),
            tuple(action["remove"]["path"] for action in actions if "remove" in action),
        )

    def _has(self, version: int) -> bool:
        return self._data.has(log_path(version))

    def _columns_after(self, actions: Iterable[dict[str, Any]]) -> tuple[ColumnKind, ...]:
        for action in actions:
            if "metaData" in action:
                schema = Schema.from_json(action["metaData"]["schemaString"])
                return _columns(pa.schema(schema.to_arrow()))
        return self._known.columns if self._known else ()

    def _log(self, version: int) -> list[dict[str, Any]] | None:
        try:
            with self._data.filesystem.open_input_stream(self._data.at(log_path(version))) as stream:
                return [json.loads(line) for line in stream.read().splitlines()]
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> TableError:
        text = str(error).partition("\n")[0]  # the rest is the library's own stack
        return TableError(
            f"table {self.name} at {self.uri}: its log can't be read ({text}). If the machine lost power, "
            f"the newest file in {LOG} may be cut off: move it away, and the version before it counts"
        )

    # --- commits -----------------------------------------------------------------------------------

    def _created(self) -> Listing:
        try:
            table = DeltaTable.create(
                self.uri,
                self._schema(),
                partition_by=list(PARTITION_COLUMNS),
                name=self.name,
                description=self.definition.comment,
                configuration=CONFIGURATION,
                commit_properties=_properties(TableState(schema_version=self.definition.version), "create"),
            )
        except DeltaError as error:
            raise self._conflict(NO_VERSION) from error
        self._sync(0)
        return self._listing(table)

    def _schema(self) -> Schema:
        own = [
            pa.field(f.name, f.type, metadata={"comment": f.comment, MERGE_KEY: f.merge.value})
            for f in self.definition.fields
        ]
        return Schema.from_arrow(pa.schema([*PLACE_FIELDS, *own]))

    def _widened(self, newest: Listing, new: Sequence[ColumnKind]) -> Listing:
        """By a commit of its own, before the rows."""
        names = {column.name for column in new}
        fields = [field for field in self._schema().fields if field.name in names]
        table = DeltaTable(self.uri, version=newest.state.version)
        try:
            table.alter.add_columns(fields, commit_properties=_properties(newest.state, "add columns"))
        except CommitFailedError as error:
            raise self._conflict(newest.state.version) from error
        self._sync(table.version())
        return self._listing(DeltaTable(self.uri))

    def _put(self, entry: Entry, removed: Sequence[DataFile]) -> None:
        path = self._data.at(log_path(entry.version))
        if local_folder(self._data.filesystem, path) is not None:
            content = self._actions.commit(entry, removed)
            create_only(self._data.filesystem, path, content)
            return
        table = DeltaTable(self.uri)
        if table.version() != entry.version - 1:
            raise FileExistsError(path)
        try:
            table.create_write_transaction(
                self._actions.objects(entry, removed),
                "append",
                table.schema(),
                list(PARTITION_COLUMNS),
                commit_properties=_properties(entry.state, entry.operation),
                post_commithook_properties=NOTHING_AFTER,
            )
        except CommitFailedError as error:
            if self._log(entry.version) is not None:
                raise FileExistsError(path) from error
            raise TableError(f"table {self.name} at {self.uri}: can't commit: {error}") from error

    def _sync(self, version: int) -> None:
        """On this machine: a commit that `deltalake` wrote is on disk before anything is told of it."""
        local = local_folder(self._data.filesystem, self._data.at(log_path(version)))
        if local is not None:
            sync(local)
            sync(local.parent)

    # --- upkeep ------------------------------------------------------------------------------------

    def vacuum(self, retention_s: int) -> int:
        """Delete files that no version younger than `retention_s` (rounded up to hours) needs, strays, and
        old log entries; returns how many data files."""
        newest = self._newest()
        if newest is None:
            return 0
        table = DeltaTable(self.uri)
        hours = -(-retention_s // HOUR_S)
        # Its own deleting would write two commits that aren't synced: a power cut could leave half of one.
        unused = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        gone = self._there(unused)
        for path in gone:
            self._data.delete(path)
        table.cleanup_metadata()
        return len(gone)

    def _there(self, paths: Iterable[str]) -> list[str]:
        """Those that still are: Delta also names what earlier runs deleted while its log tells of it."""
        found = self._data.filesystem.get_file_info([self._data.at(path) for path in paths])
        return [info.path for info in found if info.type == pafs.FileType.File]

    def checkpoint(self) -> None:
        """Write the list of files at once; commits do so by themselves every so many versions."""
        if self._newest() is not None:
            DeltaTable(self.uri).create_checkpoint()


def log_path(version: int) -> str:
    """Where a version's commit is, relative to the table."""
    return f"{LOG}/{version:020d}.json"


def _information(actions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _columns(schema: pa.Schema) -> tuple[ColumnKind, ...]:
    return tuple(
        ColumnKind(field.name, str(field.type), (field.metadata or {}).get(MERGE_KEY.encode(), b"").decode())
        for field in schema
        if field.name not in ("part", "day")
    )


def _properties(state: TableState, operation: str) -> CommitProperties:
    return CommitProperties(
        custom_metadata={STATE_KEY: encode_state(state), OPERATION_KEY: operation},
        max_commit_retries=0,
        app_transactions=[
            Transaction(APP_PREFIX + ledger_id, position.position)
            for ledger_id, position in sorted(state.positions.items())
        ],
    )
