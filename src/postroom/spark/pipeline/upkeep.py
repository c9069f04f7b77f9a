"""What the pipeline does to its tables between batches: settle, compact, vacuum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from postroom.spark.pipeline.derived import derive
from postroom.spark.pipeline.engine import Engine
from postroom.spark.pipeline.open_rows import is_cheap, is_due, settle
from postroom.spark.pipeline.options import SMALL_BATCH_ROWS, Upkeep
from postroom.spark.pipeline.pipeline_table import PipelineTable
from postroom.spark.store.protocol import DataFile
from postroom.spark.store.table_store import TableStore

Clock = Callable[[], float]


class TableUpkeep:
    """Remembers when what was done last."""

    def __init__(
        self, tables: Mapping[str, PipelineTable], engine: Engine, upkeep: Upkeep, clock: Clock
    ) -> None:
        self._tables = tables
        self._engine = engine
        self._upkeep = upkeep
        self._clock = clock
        self._settled_s = self._compacted_s = self._vacuumed_s = clock()

    def after_batch(self, is_idle: bool) -> tuple[str, ...]:
        """Do what is due; says what was done. `is_idle`: the batch took all there was. What costs readers
        little is left for then: while a pipeline is catching up its time is worth more."""
        is_late = self._clock() - self._settled_s >= self._upkeep.settle_interval_s
        if is_late:
            self._settled_s = self._clock()
        settled = self._settle(lambda table: is_due(table, self._upkeep) or (is_late and is_cheap(table)))
        self._derive()
        return (*settled, *self._compact(is_idle), *self._vacuum())

    def at_end(self) -> tuple[str, ...]:
        """When all is read: settle what costs little, so that tables made of others are as far as can be."""
        settled = self._settle(is_cheap)
        self._derive()
        return (*settled, *self._settle(is_cheap))

    def _settle(self, wanted: Callable[[PipelineTable], bool]) -> list[str]:
        due = [table for table in self._tables.values() if wanted(table)]
        taken = settle(due, self._engine) if due else {}
        return [f"settled {name} ({rows:,} rows)" for name, rows in taken.items()]

    def _derive(self) -> None:
        for table in self._tables.values():
            source = self._tables.get(table.definition.source)
            if source is not None and table.definition.source != "events":
                derive(table, source, self._engine, SMALL_BATCH_ROWS)

    def _compact(self, is_idle: bool) -> list[str]:
        if self._clock() - self._compacted_s < self._upkeep.compact_interval_s:
            return []
        target_bytes = self._upkeep.target_file_bytes
        below_bytes = target_bytes // 2 if is_idle else self._upkeep.tiny_file_bytes
        stores = [table.store for table in self._tables.values()]
        gone = compact(stores, self._engine, target_bytes, below_bytes)
        for name in gone:
            self._tables[name].reload()
        self._compacted_s = self._clock()
        return [f"compacted {name} ({files} files)" for name, files in gone.items()]

    def _vacuum(self) -> list[str]:
        if self._clock() - self._vacuumed_s < self._upkeep.vacuum_interval_s:
            return []
        gone = sum(table.store.vacuum(self._upkeep.vacuum_retention_s) for table in self._tables.values())
        self._vacuumed_s = self._clock()
        return [f"vacuumed ({gone} files)"] if gone else []


# --- compaction ------------------------------------------------------------------------------------


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
