"""The driver's side of a pipeline, without Spark: what tables there are, how far they are, what the next
batch is."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from postroom.ledger.errors import UnknownRecord
from postroom.spark.ledger_source.positions import Position, Positions, check
from postroom.spark.pipeline.batches import BatchDone, take
from postroom.spark.pipeline.checkpoint_bootstrap import note_opening, open_ledger
from postroom.spark.pipeline.engine import Engine
from postroom.spark.pipeline.errors import LedgerMissing
from postroom.spark.pipeline.high_water_marks import Reached, note_reached, reached
from postroom.spark.pipeline.ledgers import Lag, lag_of, time_at
from postroom.spark.pipeline.options import SMALL_BATCH_ROWS, PipelineOptions
from postroom.spark.pipeline.pipeline_table import PipelineTable, open_tables
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.slice_files import Job, RangeDone
from postroom.spark.pipeline.upkeep import Clock, TableUpkeep
from postroom.spark.places.place import Place, Seen, snapshots_of
from postroom.spark.places.uris import Places


class Pipeline:
    """The tables and the ledgers of a run. Whoever makes one holds the lock."""

    def __init__(self, options: PipelineOptions, engine: Engine, clock: Clock = time.monotonic) -> None:
        """`clock` in seconds: by it goes what is done to the tables every so often. Raises ``LedgerError``,
        ``OSError``."""
        self.options: Final = options
        self.tables: Final[Mapping[str, PipelineTable]] = open_tables(
            options.tables, options.names, options.format, options.upkeep.checkpoint_commits
        )
        self.upkeep: Final = TableUpkeep(self.tables, engine, options.upkeep, clock)
        self._root: Final = Root(options.tables)
        self._reached: Reached = reached(self._root) or {}
        self._places = Places(options.data, options.token)
        self._times_us: dict[str, int] = {}
        self.seen: dict[str, Seen] = {}
        self._checked: list[Place] = []

    @property
    def of_events(self) -> list[PipelineTable]:
        """The tables that are made from the ledgers themselves."""
        return [table for table in self.tables.values() if table.definition.source in ("events", table.name)]

    def refresh(self) -> None:
        """Look at the ledgers, and open those that tables don't know yet. Raises ``LedgerCorrupt``,
        ``LedgerDiverged``, ``HistoryGone``, ``LedgerMissing``."""
        places = self._places.now()
        for place in places:  # whether it is whole is asked once: what comes is checked as it is read
            if place not in self._checked:
                with suppress(UnknownRecord):  # what is before it can be read, and the intake stops there
                    place.check()
                self._checked.append(place)
        self.seen = snapshots_of(places)
        known = {ledger_id for table in self.of_events for ledger_id in table.state.positions}
        missing = known - set(self.seen)
        if missing and self.options.on_missing_ledger == "fail":
            raise LedgerMissing(sorted(missing))
        for seen in self.seen.values():
            for table in self.of_events:
                check(seen.snapshot, table.position(seen.snapshot.ledger_id))
            self._open(seen)
        for ledger_id in set(self.seen) - set(self._times_us):
            self._times_us[ledger_id] = time_at(self.seen[ledger_id], self._least(ledger_id).position)

    def _open(self, seen: Seen) -> None:
        ledger_id = seen.snapshot.ledger_id
        opened = open_ledger(seen.place, seen.snapshot, self.of_events, self.options.policy)
        if opened:
            through = self.tables[opened[0]].state.openings[ledger_id][1]
            note_opening(self._root, seen.place, seen.snapshot, through)

    def starts(self) -> Positions:
        """Where to read on: per ledger the position of the table that is least advanced. A ledger that some
        table has nothing of is left out: it is read from its beginning."""
        found = {}
        for ledger_id in self.seen:
            least = self._least(ledger_id)
            if least.position:
                found[ledger_id] = least
        return found

    def _least(self, ledger_id: str) -> Position:
        return min((table.position(ledger_id) for table in self.of_events), key=lambda at: at.position)

    def job(self) -> Job:
        """What the tasks of the next batch must know."""
        tables = tuple(table.job() for table in self.of_events)
        return Job(tables, self.options.policy, SMALL_BATCH_ROWS)

    def take(self, ranges: Iterable[RangeDone], begun_s: float) -> BatchDone:
        """Commit a batch, then do what the tables need. Raises ``PipelineGap``, ``TableError``."""
        done = take(self.of_events, ranges, begun_s)
        for one in done.ranges:
            self._times_us[one.ledger_id] = max(one.last_time_us, self._times_us.get(one.ledger_id, 0))
        self.seen = snapshots_of(self._places.now())
        upkeep = self.upkeep.after_batch(is_idle=2 * done.records < self.options.batch_records)
        self._reached = note_reached(self._root, self._reached, self.tables.values())
        return replace(done, upkeep=upkeep, seconds=time.monotonic() - begun_s)

    def lag(self, table: PipelineTable, ledger_id: str) -> Lag:
        """What a table lacks of a ledger."""
        position = table.position(ledger_id).position
        return lag_of(self.seen[ledger_id].snapshot, position, self._times_us.get(ledger_id, 0))

    def worst_lag(self) -> Lag:
        """The largest lag of any table: what people ask for."""
        lags = [self.lag(table, ledger_id) for table in self.of_events for ledger_id in self.seen]
        return max(lags, key=lambda lag: lag.events, default=Lag(0, 0.0, 0))
