"""Settling: partial rows are folded once, what is complete goes to part ``done``, the rest back to ``open``.

Nothing is ever merged into the done rows, and a table settles when as many partial rows have come as the last
settling left. So a row is copied about twice however large the table grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from postroom.spark.pipeline.engine import Engine
from postroom.spark.pipeline.options import FEW_ROWS, SETTLE_BUCKET_ROWS, Upkeep
from postroom.spark.pipeline.pipeline_table import PipelineTable
from postroom.spark.store.protocol import DataFile
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.fold import fold, split


@dataclass(frozen=True, slots=True)
class SettleTask:
    """Folding the keys of one bucket."""

    store: TableStore
    files: tuple[DataFile, ...]
    bucket: int
    buckets: int


def is_due(table: PipelineTable, upkeep: Upkeep) -> bool:
    """Whether enough partial rows, or files of them, have come since the last settling."""
    if not can_settle(table):
        return False
    many = max(upkeep.settle_rows, table.state.settled_rows)
    return fresh_rows(table) > many or len(table.open_files) > upkeep.settle_files


def is_cheap(table: PipelineTable) -> bool:
    """Whether settling copies few rows, or not many more than have come: it may be done though it isn't
    due."""
    if not can_settle(table) or not fresh_rows(table):
        return False
    return table.open_rows <= FEW_ROWS or fresh_rows(table) >= table.state.settled_rows


def can_settle(table: PipelineTable) -> bool:
    """Whether there are partial rows, and the table's format lets them be replaced."""
    return bool(table.definition.is_done is not None and table.store.can_replace and table.open_files)


def fresh_rows(table: PipelineTable) -> int:
    """Partial rows that have come since the last settling."""
    return table.open_rows - table.state.settled_rows


def settle(tables: Sequence[PipelineTable], engine: Engine) -> dict[str, int]:
    """Settle tables: tasks for all of them together, then one commit each. Returns the rows taken, by
    table."""
    tasks = [task for table in tables for task in settle_tasks(table.store, table.open_files, engine.cores)]
    written = engine.map(settle_bucket, tasks)
    taken = {}
    for table in tables:
        add = [
            file
            for task, files in zip(tasks, written, strict=True)
            if task.store.name == table.name
            for file in files
        ]
        taken[table.name] = table.open_rows
        table.settle(add, list(table.open_files))
    return taken


def settle_tasks(store: TableStore, files: Sequence[DataFile], cores: int) -> list[SettleTask]:
    """One task, or one a bucket of keys where there are many rows. Files of several ledgers share no key."""
    by_ledger: dict[str, list[DataFile]] = {}
    for file in files:
        by_ledger.setdefault(file.ledger_id, []).append(file)
    tasks = []
    for some in by_ledger.values():
        buckets = max(1, -(-sum(file.rows for file in some) // SETTLE_BUCKET_ROWS))
        if buckets > 1:
            buckets = -(-buckets // cores) * cores  # whole waves of tasks
        tasks += [SettleTask(store, tuple(some), bucket, buckets) for bucket in range(buckets)]
    return tasks


def settle_bucket(task: SettleTask) -> list[DataFile]:
    """Read, fold and write one bucket. The files are not yet part of the table."""
    definition = task.store.definition
    names = definition.schema.names
    rows = pa.concat_tables(
        [task.store.read_bucket(file, names, task.bucket, task.buckets, coded=True) for file in task.files]
    )
    folded = fold(definition, rows, coded=True)
    ledger_id = task.files[0].ledger_id
    return [
        task.store.write(some, part, day, ledger_id)
        for part, day, some in split(definition, folded, settled=True)
        if len(some)
    ]
