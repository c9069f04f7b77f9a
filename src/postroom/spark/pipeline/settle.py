"""Settling: partial rows are folded once, what is complete goes to part ``done``, the rest back to ``open``.

Nothing is ever merged into the done rows, and a table settles when as many partial rows have come as the last
settling left. So a row is copied about twice however large the table grows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from postroom.spark.pipeline.books import Book
from postroom.spark.pipeline.engine import Engine
from postroom.spark.pipeline.options import SETTLE_BUCKET_ROWS, Upkeep
from postroom.spark.store import DataFile, TableStore
from postroom.spark.tables import TableDefinition, arrays, fold, split


@dataclass(frozen=True, slots=True)
class SettleTask:
    """Folding the keys of one bucket."""

    store: TableStore
    files: tuple[DataFile, ...]
    bucket: int
    buckets: int


def is_due(book: Book, upkeep: Upkeep) -> bool:
    """Whether enough partial rows, or files of them, have come since the last settling."""
    if book.definition.is_done is None or not book.store.can_replace or len(book.open_files) < 2:
        return False
    fresh = book.open_rows - book.state.settled_rows
    return (
        fresh > max(upkeep.settle_rows, book.state.settled_rows) or len(book.open_files) > upkeep.settle_files
    )


def settle(books: Sequence[Book], engine: Engine) -> dict[str, int]:
    """Settle tables: tasks for all of them together, then one commit each. Returns the rows taken, by
    table."""
    tasks = [task for book in books for task in settle_tasks(book.store, book.open_files, engine.cores)]
    written = engine.map(settle_bucket, tasks)
    taken = {}
    for book in books:
        add = [
            file
            for task, files in zip(tasks, written, strict=True)
            if task.store.name == book.name
            for file in files
        ]
        taken[book.name] = book.open_rows
        book.settle(add, list(book.open_files))
    return taken


def settle_tasks(store: TableStore, files: Sequence[DataFile], cores: int) -> list[SettleTask]:
    """One task, or one a bucket of keys where there are many rows. Files of several ledgers share no key."""
    by_ledger: dict[str, list[DataFile]] = {}
    for file in files:
        by_ledger.setdefault(file.ledger_id, []).append(file)
    return [task for some in by_ledger.values() for task in _tasks_of_ledger(store, tuple(some), cores)]


def _tasks_of_ledger(store: TableStore, files: tuple[DataFile, ...], cores: int) -> Iterator[SettleTask]:
    rows = sum(file.rows for file in files)
    buckets = max(1, -(-rows // SETTLE_BUCKET_ROWS))
    if buckets > 1:
        buckets = -(-buckets // cores) * cores  # whole waves of tasks
    for bucket in range(buckets):
        yield SettleTask(store, files, bucket, buckets)


def settle_bucket(task: SettleTask) -> list[DataFile]:
    """Read, fold and write one bucket. The files are not yet part of the table."""
    definition = task.store.definition
    rows = pa.concat_tables([_rows_of_bucket(task, file) for file in task.files])
    folded = fold(definition, rows)
    ledger_id = task.files[0].ledger_id
    return [
        task.store.write(some, part, day, ledger_id)
        for part, day, some in split(definition, folded, settled=True)
        if len(some)
    ]


def _rows_of_bucket(task: SettleTask, file: DataFile) -> pa.Table:
    rows = task.store.read(file)
    if task.buckets == 1:
        return rows
    return rows.filter(pa.array(buckets_of(task.store.definition, rows, task.buckets) == task.bucket))


def buckets_of(definition: TableDefinition, rows: pa.Table, buckets: int) -> npt.NDArray[Any]:
    """The bucket of each row: rows of one key are in one, whichever file they are in.

    Only numbers of the key count (each table has one): neighbours go to different buckets.
    """
    numeric = [
        arrays.numbers(rows[name]).astype(np.uint64)
        for name in definition.key
        if not pa.types.is_string(definition.schema.field(name).type)
    ]
    mixed = reduce(lambda so_far, more: (so_far ^ more) * MIX, numeric, np.zeros(len(rows), np.uint64))
    found: npt.NDArray[Any] = (mixed >> np.uint64(32)) % np.uint64(buckets)
    return found


MIX: Final = np.uint64(0x9E3779B97F4A7C15)
"""Spreads neighbouring numbers over all 64 bits (2⁶⁴ divided by the golden ratio)."""
