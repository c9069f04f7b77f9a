"""Tables that are made of another table's finished rows: they follow its versions, as the others follow
positions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Final

import pyarrow as pa

from postroom.spark.data_source.portions import portions
from postroom.spark.pipeline.engine import Engine
from postroom.spark.pipeline.pipeline_table import PipelineTable
from postroom.spark.pipeline.slice_files import Written, write_partials
from postroom.spark.store.protocol import DONE, NO_VERSION, DataFile
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.range import Range

TASK_ROWS: Final = 500_000
"""Rows that one task reads, about."""


@dataclass(frozen=True, slots=True)
class DeriveTask:
    """Some files of one ledger."""

    source: TableStore
    files: tuple[DataFile, ...]


def derive(target: PipelineTable, source: PipelineTable, engine: Engine, small_rows: int) -> int:
    """Take what is new in the source's part ``done`` into the target; returns its rows."""
    if source.state.version == target.state.source_version:
        return 0
    known = target.state.source_version  # of a new target all: the source's log may not reach back so far
    fresh = source.store.files(DONE) if known == NO_VERSION else source.store.added_since(known)
    written = engine.map(partial(derive_files, target.store, small_rows), tasks_of(source.store, fresh))
    files = [one.file for some in written for one in some]
    target.derive(files, source.state.version, source.state.positions)
    return sum(file.rows for file in fresh)


def tasks_of(source: TableStore, files: Sequence[DataFile]) -> list[DeriveTask]:
    """Files together up to `TASK_ROWS`; each task's are of one ledger."""
    ordered = sorted(files, key=lambda file: (file.ledger_id, file.first_position))
    return [
        DeriveTask(source, tuple(some))
        for _, of_ledger in groupby(ordered, lambda file: file.ledger_id)
        for some in portions(of_ledger, lambda file: file.rows, TASK_ROWS)
    ]


def derive_files(target: TableStore, small_rows: int, task: DeriveTask) -> list[Written]:
    """The target's rows of some files."""
    columns = target.definition.source_columns
    rows = pa.concat_tables([task.source.read(file, columns, coded=True) for file in task.files])
    return list(write_partials(target, Range(rows), task.files[0].ledger_id, small_rows))
