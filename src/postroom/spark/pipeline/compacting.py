"""Putting small finished files together: tasks for all tables at once, then one commit each."""

from collections.abc import Sequence
from dataclasses import dataclass

from postroom.spark.pipeline.engine import Engine
from postroom.spark.store.protocol import DataFile
from postroom.spark.store.table_store import TableStore


@dataclass(frozen=True, slots=True)
class JoinTask:
    """Putting some files of a table together."""

    store: TableStore
    files: tuple[DataFile, ...]


def compact(
    stores: Sequence[TableStore], engine: Engine, target_bytes: int, below_bytes: int
) -> dict[str, int]:
    """Put files below `below_bytes` together to files of about `target_bytes`. Returns how many files went,
    by table; a table that had none worth it is left out."""
    tasks = [
        JoinTask(store, tuple(files))
        for store in stores
        for files in store.small_files(target_bytes, below_bytes)
    ]
    written = engine.map(join, tasks)
    gone = {}
    for store in stores:
        own = [at for at, task in enumerate(tasks) if task.store.name == store.name]
        if own:
            groups = [tasks[at].files for at in own]
            store.joined(groups, [written[at] for at in own])
            gone[store.name] = sum(map(len, groups))
    return gone


def join(task: JoinTask) -> DataFile:
    """One file of several; it is not yet part of the table."""
    return task.store.join(task.files)
