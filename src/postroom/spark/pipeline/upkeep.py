"""What the pipeline does to its tables between batches: settle, compact, vacuum."""

import time
from collections.abc import Callable, Mapping

from postroom.spark.pipeline.compaction import compact
from postroom.spark.pipeline.derived import derive
from postroom.spark.pipeline.engine import Engine
from postroom.spark.pipeline.open_rows import is_cheap, is_due, settle
from postroom.spark.pipeline.options import SMALL_BATCH_ROWS, Upkeep
from postroom.spark.pipeline.pipeline_table import PipelineTable

Clock = Callable[[], float]


class TableUpkeep:
    """Remembers when what was done last."""

    def __init__(
        self,
        tables: Mapping[str, PipelineTable],
        engine: Engine,
        upkeep: Upkeep,
        clock: Clock = time.monotonic,
    ) -> None:
        self._tables = tables
        self._engine = engine
        self._upkeep = upkeep
        self._clock = clock
        self._settled_s = clock()
        self._compacted_s = clock()
        self._vacuumed_s = clock()

    def after_batch(self, is_idle: bool) -> tuple[str, ...]:
        """Do what is due; says what was done. `is_idle`: the batch took all there was. What costs readers
        little is left for then: while a pipeline is catching up its time is worth more."""
        return (*self._settle_due(), *self._derive(), *self._compact(is_idle), *self._vacuum())

    def at_end(self) -> tuple[str, ...]:
        """When all is read: settle what costs little, so that tables made of others are as far as can be."""
        return (*self._settle(is_cheap), *self._derive(), *self._settle(is_cheap))

    def _settle_due(self) -> list[str]:
        if self._clock() - self._settled_s < self._upkeep.settle_interval_s:
            return self._settle(lambda table: is_due(table, self._upkeep))
        self._settled_s = self._clock()
        return self._settle(lambda table: is_due(table, self._upkeep) or is_cheap(table))

    def _settle(self, wanted: Callable[[PipelineTable], bool]) -> list[str]:
        due = [table for table in self._tables.values() if wanted(table)]
        taken = settle(due, self._engine) if due else {}
        return [f"settled {name} ({rows:,} rows)" for name, rows in taken.items()]

    def _derive(self) -> list[str]:
        for table in self._tables.values():
            source = self._tables.get(table.definition.source)
            if source is not None and table.definition.source != "events":
                derive(table, source, self._engine, SMALL_BATCH_ROWS)
        return []

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
        gone = 0
        for table in self._tables.values():
            gone += table.store.vacuum(self._upkeep.vacuum_retention_s)
        self._vacuumed_s = self._clock()
        return [f"vacuumed ({gone} files)"] if gone else []
