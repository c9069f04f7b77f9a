"""A small table for the tests of stores, and what they do with it."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from postroom.spark.ledger_source.positions import Position
from postroom.spark.pipeline import upkeep
from postroom.spark.pipeline.engine import HereEngine
from postroom.spark.store.formats import FORMATS
from postroom.spark.store.protocol import CHECKPOINT_COMMITS, DataFile, TableState
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.definition import LEDGER_ID, ORDER, TIMESTAMP, Field, Merge, TableDefinition

LEDGER = "00000000-0000-0000-0000-00000000000a"
OTHER = "00000000-0000-0000-0000-00000000000b"
EPOCH_ID = "ab" * 16
DAY = "2026-11-22"

FIELDS = (
    LEDGER_ID,
    Field("serial", pa.int64(), Merge.KEY, "The message"),
    Field("state", pa.string(), Merge.LAST, "Where it is"),
    Field("count", pa.int64(), Merge.SUM, "How many events"),
    Field("ended_time", TIMESTAMP, Merge.LAST, "When it ended"),
    *ORDER,
)


def _no_units(_: Any) -> pa.Table:
    """These tests make rows themselves."""
    raise NotImplementedError


def _has_ended(rows: pa.Table, _events: Any, _settled: bool) -> Any:
    return rows["ended_time"].is_valid().to_numpy()


def definition(version: int = 1, *more: Field, name: str = "small") -> TableDefinition:
    """The small table, with more columns in later versions."""
    return TableDefinition(
        name=name,
        comment="A table of the tests",
        version=version,
        fields=(*FIELDS, *more),
        units=_no_units,
        is_done=_has_ended,
        day_of="ended_time",
    )


SMALL = definition()


def small_store(
    root: Path | str,
    format: str,
    table: TableDefinition = SMALL,
    checkpoint_commits: int = CHECKPOINT_COMMITS,
) -> TableStore:
    """The small table in a folder of tables."""
    return FORMATS[format](str(root), table, checkpoint_commits)


def rows(first: int, count: int, state: str = "available", ledger_id: str = LEDGER) -> pa.Table:
    """Rows with serials and positions from first on."""
    numbers = pa.array(range(first, first + count), pa.int64())
    ordinals = pa.array([0] * count, pa.int32())
    columns = {
        "ledger_id": pa.array([ledger_id] * count),
        "serial": numbers,
        "state": pa.array([state] * count),
        "count": pa.array([1] * count, pa.int64()),
        "ended_time": pa.nulls(count, TIMESTAMP),
        "first_position": numbers,
        "first_ordinal": ordinals,
        "last_position": numbers,
        "last_ordinal": ordinals,
    }
    return pa.table(columns)


def at(position: int, state: TableState = TableState()) -> TableState:  # noqa: B008 - it never changes
    """A state whose position in the ledger is that."""
    return replace(state, positions={LEDGER: Position(1, EPOCH_ID, position)})


def append(store: TableStore, first: int, count: int, part: str = "done") -> DataFile:
    """One commit of one file; the position goes to its last row."""
    made = store.write(rows(first, count), part, DAY if part == "done" else None, LEDGER)
    store.commit([made], [], at(first + count - 1, store.state()), "batch")
    return made


def serials(store: TableStore) -> list[int]:
    """Of all rows of the newest version, in order."""
    return sorted(s for file in store.files() for s in store.read(file, ["serial"])["serial"].to_pylist())


def compact(store: TableStore, target_bytes: int) -> int:
    """Put its small files together, as the pipeline does when it has nothing else to do; how many went."""
    gone = upkeep.compact([store], HereEngine(), target_bytes, target_bytes // 2)
    return gone.get(store.name, 0)


COLOUR = Field("colour", pa.string(), Merge.LAST, "Its colour")


NEWER = definition(2, COLOUR)


def again(store: TableStore) -> TableStore:
    """The same table as another process sees it."""
    return pickle.loads(pickle.dumps(store))  # type: ignore[no-any-return]
