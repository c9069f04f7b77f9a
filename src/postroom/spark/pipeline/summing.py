"""The sums of a table's rows, taken from its files: to hold what its commits say against."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from postroom.spark.data_source.portions import portions
from postroom.spark.pipeline.engine import Engine
from postroom.spark.store.protocol import DataFile
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.range import Range
from postroom.spark.tables.row_sums import NOTHING, RowSum, added, row_sum

TASK_BYTES: Final = 32 << 20
"""A task sums files of about so many bytes."""


@dataclass(frozen=True, slots=True)
class SumTask:
    """Some files of a table."""

    store: TableStore
    files: tuple[DataFile, ...]


def sums_of_files(store: TableStore, files: Sequence[DataFile], engine: Engine) -> dict[str, RowSum]:
    """The sums of all their rows, by ledger. Raises ``TableError``, ``OSError``, what a task raised."""
    empty: dict[str, RowSum] = {}
    some = portions(files, lambda file: file.size_bytes, TASK_BYTES)
    return reduce(added, engine.map(sum_files, [SumTask(store, tuple(one)) for one in some]), empty)


def sum_files(task: SumTask) -> dict[str, RowSum]:
    """The sums of one task's files."""
    names = task.store.definition.summed
    found: dict[str, RowSum] = {}
    for file in task.files:
        sums = (row_sum(Range(rows), names) for rows in task.store.pieces(file, names))
        found = added(found, {file.ledger_id: reduce(RowSum.__add__, sums, NOTHING)})
    return found
