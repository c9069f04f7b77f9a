"""Rows and the position that they reach to, into a Delta table by one commit: `append_once`.

What decides is what the table itself says in its transactions (`table`). Batch ids are never looked at: a
checkpoint that is lost begins again with batch 0.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import BooleanType, DataType, DateType, IntegralType, StringType, StructType

from postroom.ledger.errors import LedgerError
from postroom.spark.consume.confirmation import checkpoint_of
from postroom.spark.consume.errors import AppendRefused, PositionGap
from postroom.spark.consume.files import WrittenFile, write_files
from postroom.spark.consume.offsets import Appended, Range, offsets_of, positions_in, ranges_of
from postroom.spark.consume.table import Recorded, open_table, recorded, transactions
from postroom.spark.filesystems.exclusive_files import local_folder, sync
from postroom.spark.ledger_source.positions import Position
from postroom.spark.store.files import open_root

ATTEMPTS: Final = 20
"""So often a commit is tried while other writers of the table come first."""

NEEDED: Final = ("ledger_id", "position")
_PARTITION_TYPES: Final[tuple[type[DataType], ...]] = (StringType, IntegralType, DateType, BooleanType)
_REFUSED_SETTINGS: Final = ("delta.constraints.", "delta.columnMapping.mode")
_MS_A_SECOND: Final = 1000


@dataclass(frozen=True, slots=True)
class _Target:
    """What is appended where."""

    uri: str
    app: str
    checkpoint: str
    batch_id: int
    partition_by: tuple[str, ...]


def append_batch(
    batch: DataFrame,
    batch_id: int,
    table_uri: str,
    app: str,
    columns: Sequence[str] | None,
    partition_by: Sequence[str],
    checkpoint: str,
) -> Appended:
    """See `foreach_batch.append_once`."""
    _check_columns(batch, columns, partition_by)
    target = _Target(table_uri, app, checkpoint_of(batch, checkpoint), batch_id, tuple(partition_by))
    ranges = ranges_of(target.checkpoint, batch_id)
    if not ranges:
        raise AppendRefused(f"batch {batch_id} reads no ledger: append_once has no position to write down")
    chosen = list(columns) if columns is not None else batch.columns
    files: list[WrittenFile] | None = None
    written_for: Mapping[str, Recorded | None] = {}
    for _ in range(ATTEMPTS):
        table = _table(target, batch.select(chosen).schema)
        has = {ledger_id: recorded(table, app, ledger_id) for ledger_id in ranges}
        due = _due(target, ranges, has)
        if not due:
            return Appended(table.version(), 0, _positions(has))
        if files is None or written_for != has:
            rows = batch
            for ledger_id, it_has in has.items():  # without what the table has
                if it_has is not None:
                    is_old = F.col("ledger_id").eqNullSafe(ledger_id) & (F.col("position") <= it_has.position)
                    rows = rows.filter(~F.coalesce(is_old, F.lit(False)))
            rows = rows.select(*chosen)
            files, written_for = write_files(rows, table_uri, table.metadata().partition_columns), has
        if _commit(target, table, files, due):
            positions = _positions(has) | {
                ledger_id: position.position for ledger_id, position in due.items()
            }
            return Appended(table.version() + 1, sum(file.rows for file in files), positions)
    raise AppendRefused(f"table {table_uri}: other writers came first {ATTEMPTS} times; try again")


def _positions(has: Mapping[str, Recorded | None]) -> dict[str, int]:
    return {ledger_id: recorded.position for ledger_id, recorded in has.items() if recorded is not None}


# --- what is to be written -------------------------------------------------------------------------


def _check_columns(batch: DataFrame, columns: Sequence[str] | None, partition_by: Sequence[str]) -> None:
    missing = [name for name in (*NEEDED, *(columns or ()), *partition_by) if name not in batch.columns]
    if missing:
        raise AppendRefused(
            f"the batch has no columns {', '.join(missing)}; append_once needs {' and '.join(NEEDED)} as the"
            " source gave them (columns= says which ones are written)"
        )
    left_out = [name for name in partition_by if columns is not None and name not in columns]
    if left_out:
        raise AppendRefused(f"partition_by names {', '.join(left_out)}, which columns= leaves out")


def _due(
    target: _Target, ranges: Mapping[str, Range], has: Mapping[str, Recorded | None]
) -> dict[str, Position]:
    """Where the table is to be afterwards, of the ledgers where it isn't yet. Raises ``PositionGap``."""
    found: dict[str, Position] = {}
    for ledger_id, range in ranges.items():
        recorded = has[ledger_id]
        if recorded is not None and range.end.position <= recorded.position:
            continue
        _require_no_gap(target, ledger_id, range, recorded)
        found[ledger_id] = range.end
    return found


def _require_no_gap(target: _Target, ledger_id: str, range: Range, recorded: Recorded | None) -> None:
    begins = range.end if range.after is None else range.after
    if recorded is None:
        if range.after is None or _began_at(target, ledger_id) == begins.position:
            return
    elif begins.position <= recorded.position:
        return
    what = "nothing" if recorded is None else f"everything up to position {recorded.position}"
    raise PositionGap(
        f"table {target.uri} has {what} of ledger {ledger_id} for app {target.app}, but batch"
        f" {target.batch_id} begins behind position {begins.position}: what is between would be missing."
        " Call append_once for every batch, empty ones too; begin a new checkpoint where the table ends"
        " (startingPosition) or before it, what it has is left out; or take another app"
    )


def _began_at(target: _Target, ledger_id: str) -> int | None:
    """Where the checkpoint's first batch says that it begins; None if that is not there any more."""
    try:
        first = offsets_of(target.checkpoint, 0)
    except LedgerError:
        return None
    for offset in first.values():
        position = positions_in(offset).get(ledger_id)
        if position is not None:
            return position.position
    return None


# --- the table -------------------------------------------------------------------------------------


def _table(target: _Target, schema: StructType) -> DeltaTable:
    """The table's newest version; it is made if there is none. Raises ``AppendRefused``."""
    table = open_table(target.uri) or _created(target, schema)
    configuration = table.metadata().configuration.items()
    settings = [
        name for name, value in configuration if name.startswith(_REFUSED_SETTINGS) and value != "none"
    ]
    if settings:
        raise AppendRefused(f"table {target.uri} has {', '.join(settings)}: append_once can't keep that")
    own = {f.name: f.dataType for f in StructType.fromJson(json.loads(table.schema().to_json())).fields}
    for field in schema.fields:
        if field.name not in own:
            raise AppendRefused(
                f"table {target.uri} has no column {field.name}: add it to the table first"
                " (DeltaTable.alter.add_columns), or leave it out (columns=)"
            )
        if own[field.name].simpleString() != field.dataType.simpleString():
            raise AppendRefused(
                f"column {field.name} of table {target.uri} is {own[field.name].simpleString()}, of the batch"
                f" {field.dataType.simpleString()}: cast it"
            )
    missing = [name for name in table.metadata().partition_columns if name not in schema.names]
    if missing:
        raise AppendRefused(
            f"table {target.uri} is partitioned by {', '.join(missing)}: the batch lacks that"
        )
    return table


def _created(target: _Target, schema: StructType) -> DeltaTable:
    for name in target.partition_by:
        if not isinstance(schema[name].dataType, _PARTITION_TYPES):
            kind = schema[name].dataType.simpleString()
            raise AppendRefused(f"column {name} is {kind}: partition by text, whole numbers, dates or flags")
    nullable = StructType.fromJson(json.loads(schema.json()))
    for field in nullable.fields:
        field.nullable, field.metadata = True, {}
    try:
        table = DeltaTable.create(
            target.uri, Schema.from_json(nullable.json()), partition_by=list(target.partition_by)
        )
    except (DeltaError, ValueError) as error:
        there = open_table(target.uri)  # another may have made it just now
        if there is None:
            raise AppendRefused(f"table {target.uri} can't be made: {error}") from error
        return there
    _sync(target.uri, table.version())
    return table


def _commit(
    target: _Target, table: DeltaTable, files: Sequence[WrittenFile], due: Mapping[str, Position]
) -> bool:
    """Make the version after the one that was looked at; False if another writer did."""
    now_ms = int(time.time() * _MS_A_SECOND)
    places = table.metadata().partition_columns
    actions: list[AddAction | RemoveAction] = [
        AddAction(f.path, f.size_bytes, f.place, now_ms, True, f.statistics) for f in files
    ]
    properties = CommitProperties(
        max_commit_retries=0,
        app_transactions=[Transaction(name, version) for name, version in transactions(target.app, due)],
    )
    try:
        table.create_write_transaction(
            actions, "append", table.schema(), places, commit_properties=properties
        )
    except CommitFailedError:
        return False
    _sync(target.uri, table.version() + 1)
    return True


def _sync(uri: str, version: int) -> None:
    """On this machine: the commit is on disk before anything is told of it."""
    filesystem, root = open_root(uri)
    path = local_folder(filesystem, f"{root.rstrip('/')}/_delta_log/{version:020d}.json")
    if path is not None:
        sync(path)
        sync(path.parent)
