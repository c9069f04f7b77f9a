"""A table's files as actions of Delta's log, and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from deltalake.transaction import AddAction, RemoveAction

from postroom.spark.store.protocol import DONE, OPEN, DataFile, encode_state
from postroom.spark.store.table_store import Entry
from postroom.spark.tables.definition import TableDefinition

STATE_KEY: Final = "postroom"
OPERATION_KEY: Final = "postroom.operation"
APP_PREFIX: Final = "postroom:"


@dataclass(frozen=True, slots=True)
class Actions:
    """Files as actions, and back. The names are those of the columns that tell positions."""

    first_position: str
    last_position: str

    def objects(self, entry: Entry, removed: Sequence[DataFile]) -> list[AddAction | RemoveAction]:
        """A commit's actions as `deltalake` takes them."""
        now_ms = entry.state.updated_us // 1000
        added = [
            AddAction(f.path, f.size_bytes, _place(f), now_ms, entry.is_new, self._statistics(f))
            for f in entry.add
        ]
        gone = [RemoveAction(f.path, entry.is_new, now_ms, f.size_bytes, _place(f)) for f in removed]
        return [*added, *gone]

    def commit(self, entry: Entry, removed: Sequence[DataFile]) -> bytes:
        """A commit as a file of the log: one action a line."""
        lines = [json.dumps(action) for action in self._lines(entry, removed)]
        return ("\n".join(lines) + "\n").encode()

    def _lines(self, entry: Entry, removed: Sequence[DataFile]) -> Iterator[dict[str, object]]:
        now_ms = entry.state.updated_us // 1000
        yield {
            "commitInfo": {
                "timestamp": now_ms,
                "operation": "WRITE" if entry.is_new else "OPTIMIZE",
                "operationParameters": {"mode": "Append"},
                "engineInfo": "postroom",
                "isBlindAppend": not removed,
                STATE_KEY: encode_state(entry.state),
                OPERATION_KEY: entry.operation,
            }
        }
        for ledger_id, position in sorted(entry.state.positions.items()):
            yield {
                "txn": {"appId": APP_PREFIX + ledger_id, "version": position.position, "lastUpdated": now_ms}
            }
        for file in removed:
            yield {
                "remove": _moved(file, entry) | {"deletionTimestamp": now_ms, "extendedFileMetadata": True}
            }
        for file in entry.add:
            yield {"add": _moved(file, entry) | {"modificationTime": now_ms, "stats": self._statistics(file)}}

    def _statistics(self, file: DataFile) -> str:
        """What a reader may skip the file by."""
        least = {"serial": file.first_serial, self.first_position: file.first_position}
        most = {"serial": file.last_serial, self.last_position: file.last_position}
        statistics = {
            "numRecords": file.rows,
            "minValues": {name: number for name, number in least.items() if number},
            "maxValues": {name: number for name, number in most.items() if number},
            "nullCount": {},
        }
        return json.dumps(statistics)

    def file(self, flat: Mapping[str, Any]) -> DataFile:
        """A file as `DeltaTable.get_add_actions` tells of it."""
        return DataFile(
            path=flat["path"],
            part=DONE if flat["partition.part"] == DONE else OPEN,
            day=flat["partition.day"],
            ledger_id=flat["partition.ledger_id"],
            rows=flat["num_records"] or 0,
            size_bytes=flat["size_bytes"],
            first_serial=flat.get("min.serial") or 0,
            last_serial=flat.get("max.serial") or 0,
            first_position=flat.get(f"min.{self.first_position}") or 0,
            last_position=flat.get(f"max.{self.last_position}") or 0,
        )

    def logged(self, add: Mapping[str, Any]) -> DataFile:
        """A file as the log tells of it."""
        place = {f"partition.{name}": value for name, value in add["partitionValues"].items()}
        statistics = json.loads(add["stats"] or "{}")
        least = {f"min.{name}": value for name, value in statistics.get("minValues", {}).items()}
        most = {f"max.{name}": value for name, value in statistics.get("maxValues", {}).items()}
        file = {"path": add["path"], "size_bytes": add["size"], "num_records": statistics.get("numRecords")}
        return self.file(file | place | least | most)


def actions_of(definition: TableDefinition) -> Actions:
    """With the columns that tell a table's positions."""
    is_merged = "first_position" in definition.schema.names
    return Actions("first_position", "last_position") if is_merged else Actions("position", "position")


def _place(file: DataFile) -> dict[str, str | None]:
    return {"part": file.part, "day": file.day, "ledger_id": file.ledger_id}


def _moved(file: DataFile, entry: Entry) -> dict[str, object]:
    return {
        "path": file.path,
        "partitionValues": _place(file),
        "size": file.size_bytes,
        "dataChange": entry.is_new,
    }
