"""Tables as Delta Lake: commits through `deltalake`, without a JVM.

The state is in each commit's own information under ``postroom``; each ledger's position is also the version
of the application transaction ``postroom:<ledger id>``, which Delta keeps with the table. Commits of others
(an OPTIMIZE, a VACUUM) carry no state: the newest before them counts. After a RESTORE the state is that of
the version restored to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from postroom.spark.store import evolution
from postroom.spark.store.base import BaseStore
from postroom.spark.store.evolution import ColumnKind
from postroom.spark.store.files import local_folder, sync_file, sync_folder
from postroom.spark.store.protocol import (
    CHECKPOINT_COMMITS,
    DONE,
    NO_VERSION,
    OPEN,
    PARTITION_COLUMNS,
    RETENTION_S,
    DataFile,
    Snapshot,
    TableError,
    TableState,
    VersionGone,
    decode_state,
    encode_state,
)
from postroom.spark.tables.definition import TableDefinition

LOG: Final = "_delta_log"
STATE_KEY: Final = "postroom"
OPERATION_KEY: Final = "postroom.operation"
MERGE_KEY: Final = "postroom.merge"
APP_PREFIX: Final = "postroom:"

CONFIGURATION: Final = {
    "delta.checkpointInterval": str(CHECKPOINT_COMMITS),
    "delta.logRetentionDuration": f"interval {RETENTION_S} seconds",
    "delta.deletedFileRetentionDuration": f"interval {RETENTION_S} seconds",
}

RESTORE: Final = "RESTORE"

PLACE_FIELDS: Final = (
    pa.field("part", pa.string(), metadata={"comment": "done: final rows; open: partial rows, to be folded"}),
    pa.field("day", pa.string(), metadata={"comment": "Day in UTC of a final row, null for partial rows"}),
)

HOUR_S: Final = 3600


class DeltaStore(BaseStore):
    """A table in Delta Lake's format."""

    def __init__(self, root: str, definition: TableDefinition) -> None:
        super().__init__(root, definition)
        self._actions = actions_of(definition)
        self._table: DeltaTable | None = None
        self._known: Snapshot | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_table": None, "_known": None}

    # --- versions ----------------------------------------------------------------------------------

    def _newest(self) -> Snapshot | None:
        table = self._refreshed()
        if table is None:
            return None
        if self._known is None or self._known.state.version != table.version():
            self._known = self._snapshot(table)
        return self._known

    def _refreshed(self) -> DeltaTable | None:
        try:
            if self._table is None:
                self._table = DeltaTable(self.uri)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            self._table = None
        except DeltaError as error:
            raise self._unreadable(error) from error
        return self._table

    def _older(self, version: int | None, as_of: datetime | None) -> Snapshot:
        try:
            table = DeltaTable(self.uri, version=version)
            if as_of is not None:
                table.load_as_version(as_of)
        except (DeltaError, TableNotFoundError) as error:
            asked = f"version {version}" if version is not None else f"version at {as_of}"
            raise VersionGone(
                f"table {self.name} at {self.uri} has no {asked} (any more): {error}"
            ) from error
        return self._snapshot(table)

    def _snapshot(self, table: DeltaTable) -> Snapshot:
        state = self._state_at(table.version())
        self._check_transactions(table, state)
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return Snapshot(replace(state, version=table.version()), tuple(map(self._actions.file, actions)))

    def _state_at(self, version: int) -> TableState:
        while version > NO_VERSION:
            info = self._commit_info(version)
            if STATE_KEY in info:
                return decode_state(info[STATE_KEY])
            version = self._restored(info) if info.get("operation") == RESTORE else version - 1
        raise TableError(f"{self.uri} is a Delta table, but none that postroom made: choose another folder")

    def _restored(self, info: dict[str, Any]) -> int:
        """The version that a RESTORE went back to."""
        told = info["operationParameters"]
        if "version" in told:
            return int(told["version"])
        table = DeltaTable(self.uri)
        table.load_as_version(told["datetime"])
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

    def _commit_info(self, version: int) -> dict[str, Any]:
        return next((action["commitInfo"] for action in self._log(version) if "commitInfo" in action), {})

    def _log(self, version: int) -> list[dict[str, Any]]:
        path = self._data.at(log_path(version))
        try:
            with self._data.filesystem.open_input_stream(path) as stream:
                return [json.loads(line) for line in stream.read().splitlines()]
        except FileNotFoundError as error:
            raise VersionGone(
                f"table {self.name} at {self.uri}: the commit of version {version} is no longer there"
            ) from error
        except ValueError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> TableError:
        return TableError(
            f"table {self.name} at {self.uri}: its log can't be read ({error}). If the machine lost power, "
            f"the newest file in {LOG} may be cut off: move it away, and the version before it counts"
        )

    def added_since(self, version: int) -> list[DataFile]:
        """Files with new rows in part ``done``, in the order of their commits. Raises ``VersionGone``."""
        newest = self.state().version
        adds = [
            action["add"]
            for number in range(version + 1, newest + 1)
            for action in self._log(number)
            if "add" in action and action["add"]["dataChange"]
        ]
        files = map(self._actions.logged, adds)
        return [file for file in files if file.part == DONE]

    # --- commits -----------------------------------------------------------------------------------

    def _stored(self) -> list[ColumnKind]:
        assert self._table is not None
        schema = pa.schema(self._table.schema().to_arrow())
        return [
            ColumnKind(
                field.name, str(field.type), (field.metadata or {}).get(MERGE_KEY.encode(), b"").decode()
            )
            for field in schema
            if field.name not in ("part", "day")
        ]

    def _commit(
        self,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
        state: TableState,
        operation: str,
        is_new: bool,
    ) -> int:
        now_ms = state.updated_us // 1000
        table = self._table or self._create(state)
        self._add_columns(table, state)
        actions: list[AddAction | RemoveAction] = [self._actions.add(file, now_ms, is_new) for file in add]
        actions += [_remove_action(file, now_ms, is_new) for file in remove]
        try:
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                list(PARTITION_COLUMNS),
                commit_properties=_properties(state, operation),
            )
        except CommitFailedError as error:
            raise self._failed(table, state, error) from error
        table.update_incremental()
        self._sync(table.version())
        return table.version()

    def _create(self, state: TableState) -> DeltaTable:
        """Version 0: the table without rows."""
        try:
            table = DeltaTable.create(
                self.uri,
                self._schema(),
                partition_by=list(PARTITION_COLUMNS),
                name=self.name,
                description=self.definition.comment,
                configuration=CONFIGURATION,
                commit_properties=_properties(
                    TableState(schema_version=state.schema_version, updated_us=state.updated_us), "create"
                ),
            )
        except DeltaError as error:
            raise self._conflict(NO_VERSION) from error
        self._sync(0)
        self._table = table
        return table

    def _schema(self) -> Schema:
        own = [
            pa.field(f.name, f.type, metadata={"comment": f.comment, MERGE_KEY: f.merge.value})
            for f in self.definition.fields
        ]
        return Schema.from_arrow(pa.schema([*PLACE_FIELDS, *own]))

    def _add_columns(self, table: DeltaTable, state: TableState) -> None:
        """A commit of its own before the rows: columns that the table hasn't yet."""
        new = {column.name for column in evolution.added(self.definition, self._stored())}
        if not new:
            return
        fields = [field for field in self._schema().fields if field.name in new]
        before = self._state_at(table.version())
        try:
            table.alter.add_columns(fields, commit_properties=_properties(before, "add columns"))
        except CommitFailedError as error:
            raise self._failed(table, state, error) from error
        table.update_incremental()
        self._sync(table.version())

    def _failed(self, table: DeltaTable, state: TableState, error: Exception) -> TableError:
        at = table.version()
        table.update_incremental()
        if table.version() != at:
            return self._conflict(state.version)
        return TableError(f"table {self.name} at {self.uri}: can't commit: {error}")

    def _sync(self, version: int) -> None:
        """On this machine: the commit is on disk before anything is told of it."""
        local = local_folder(self._data.filesystem, self._data.at(log_path(version)))
        if local is not None:
            sync_file(local)
            sync_folder(local.parent)

    # --- upkeep ------------------------------------------------------------------------------------

    def vacuum(self, retention_s: int) -> int:
        """Delete files that no version younger than `retention_s` (rounded up to hours) needs, and strays."""
        table = self._refreshed()
        if table is None:
            return 0
        hours = -(-retention_s // HOUR_S)

        def run(is_dry: bool, properties: CommitProperties | None = None) -> list[str]:
            return table.vacuum(
                hours, is_dry, enforce_retention_duration=False, full=True, commit_properties=properties
            )

        if not run(True):
            return 0
        gone = run(False, _properties(self._state_at(table.version()), "vacuum"))
        table.update_incremental()
        self._sync(table.version())
        table.cleanup_metadata()
        return len(gone)

    def checkpoint(self) -> None:
        """Write the list of files at once; commits do so by themselves every 100 versions."""
        table = self._refreshed()
        if table is not None:
            table.create_checkpoint()


def log_path(version: int) -> str:
    """Where a version's commit is, relative to the table."""
    return f"{LOG}/{version:020d}.json"


def _properties(state: TableState, operation: str) -> CommitProperties:
    return CommitProperties(
        custom_metadata={STATE_KEY: encode_state(state), OPERATION_KEY: operation},
        max_commit_retries=0,
        app_transactions=[
            Transaction(APP_PREFIX + ledger_id, position.position)
            for ledger_id, position in sorted(state.positions.items())
        ],
    )


def _remove_action(file: DataFile, now_ms: int, is_new: bool) -> RemoveAction:
    return RemoveAction(file.path, is_new, now_ms, file.size_bytes, _place(file))


def _place(file: DataFile) -> dict[str, str | None]:
    return {"part": file.part, "day": file.day, "ledger_id": file.ledger_id}


@dataclass(frozen=True, slots=True)
class Actions:
    """Files as Delta's actions, and back. The names are those of the columns that tell positions."""

    first_position: str
    last_position: str

    def add(self, file: DataFile, now_ms: int, is_new: bool) -> AddAction:
        """The action that makes a file part of the table."""
        statistics = json.dumps(self._statistics(file))
        return AddAction(file.path, file.size_bytes, _place(file), now_ms, is_new, statistics)

    def _statistics(self, file: DataFile) -> dict[str, object]:
        """What a reader may skip the file by."""
        least = {"serial": file.first_serial, self.first_position: file.first_position}
        most = {"serial": file.last_serial, self.last_position: file.last_position}
        return {
            "numRecords": file.rows,
            "minValues": {name: number for name, number in least.items() if number},
            "maxValues": {name: number for name, number in most.items() if number},
            "nullCount": {},
        }

    def file(self, flat: Mapping[str, Any]) -> DataFile:
        """A file as `DeltaTable.get_add_actions` tells of it."""
        return DataFile(
            flat["path"],
            DONE if flat["partition.part"] == DONE else OPEN,
            flat["partition.day"],
            flat["partition.ledger_id"],
            flat["num_records"] or 0,
            flat["size_bytes"],
            flat.get("min.serial") or 0,
            flat.get("max.serial") or 0,
            flat.get(f"min.{self.first_position}") or 0,
            flat.get(f"max.{self.last_position}") or 0,
        )

    def logged(self, add: Mapping[str, Any]) -> DataFile:
        """A file as the log tells of it."""
        place = {f"partition.{name}": value for name, value in add["partitionValues"].items()}
        told = json.loads(add["stats"] or "{}")
        least = {f"min.{name}": value for name, value in told.get("minValues", {}).items()}
        most = {f"max.{name}": value for name, value in told.get("maxValues", {}).items()}
        file = {"path": add["path"], "size_bytes": add["size"], "num_records": told.get("numRecords")}
        return self.file(file | place | least | most)


def actions_of(definition: TableDefinition) -> Actions:
    """With the columns that tell a table's positions."""
    is_merged = "first_position" in definition.schema.names
    return Actions("first_position", "last_position") if is_merged else Actions("position", "position")
