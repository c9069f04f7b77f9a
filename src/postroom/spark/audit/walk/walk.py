"""The walk itself: events to rows of all kinds, which Spark keeps as blocks."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk import columns, ids, totals
from postroom.spark.audit.walk.blocks import (
    BLOCK_COLUMNS,
    Batches,
    Block,
    batches_of,
    cut,
    mixed,
    part_of,
    tables_in,
    whole,
)
from postroom.spark.audit.walk.breaches import NO_BOUNDS, Bounds, breaches
from postroom.spark.audit.walk.columns import (
    ASSIGNMENTS,
    BREACHES,
    IDS,
    LIVES,
    REFUSALS,
    STAYS,
    TOTALS,
    WAITS,
)
from postroom.spark.audit.walk.lives import life_columns
from postroom.spark.audit.walk.moves import BRANCH
from postroom.spark.audit.walk.packing import Parted, events_in, texts_mixed
from postroom.spark.audit.walk.sorted_events import SortedEvents
from postroom.spark.audit.walk.stays import assignments, stays
from postroom.spark.audit.walk.waits import waits
from postroom.spark.data_source.worker import in_task
from postroom.spark.tables import arrays

Keep = Callable[[pa.Table], Array]
"""Which of some rows are wanted."""

PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class Walked:
    """What came of a walk. Rows are taken out of their blocks by the queries that ask for them."""

    blocks: DataFrame
    parts: int

    def lives(self, keep: Keep | None = None, names: Collection[str] = LIVES.names) -> DataFrame:
        """One row an entry: what arrived, where it is now or how it ended, and when it was taken; of those
        that are wanted, these columns."""
        return self._rows(columns.LIFE, LIVES, keep, names)

    def stays_of_sinks(self) -> DataFrame:
        """The stays of entries with branches of Spark sinks."""
        return self._rows(columns.STAY, STAYS, lambda held: arrays.codes(held.column("kind")).among(BRANCH))

    def by_holder(self, check: Callable[[pa.Table], pa.Table], schema: str) -> DataFrame:
        """What is found of stays, where all of a holder are together."""

        @in_task
        def checked(batches: Batches) -> Batches:
            held = [*tables_in(batches, STAYS)]
            if held:
                yield from check(pa.concat_tables(held)).to_batches()

        return self._by_part(columns.STAY).mapInArrow(checked, schema)

    def assignments(self) -> DataFrame:
        """The stays of entries with Spark subscriptions."""
        return self._rows(columns.ASSIGNMENT, ASSIGNMENTS)

    def waits(self) -> DataFrame:
        """The events by which entries that had to wait become available for the first time."""
        return self._rows(columns.WAIT, WAITS)

    def breaches(self) -> DataFrame:
        """The events that don't follow on the one before."""
        return self._rows(columns.BREACH, BREACHES)

    def refusals(self) -> DataFrame:
        """The messages that were refused and whose senders had settled them."""
        return self._rows(columns.REFUSAL, REFUSALS)

    def totals(self) -> pa.Table:
        """The sums of each queue."""

        def add(batches: Batches) -> Batches:
            some = [*tables_in(batches, TOTALS)]
            if some:
                yield from batches_of(whole(columns.TOTAL, totals.added(pa.concat_tables(some))))

        rows = self._by_part(columns.TOTAL).mapInArrow(add, BLOCK_COLUMNS).select("block").collect()
        found = [pa.RecordBatch.from_pydict({"block": [bytes(block) for (block,) in rows]})]
        return pa.concat_tables([TOTALS.empty_table(), *tables_in(iter(found), TOTALS)])

    def repeated_ids(self, most: int) -> Array:
        """Numbers (`ids`) of ids that some destination may have taken more than once; so many of them."""

        def count(batches: Batches) -> Batches:
            some = [arrays.numbers(table.column(0)) for table in tables_in(batches, IDS)]
            found = ids.repeated(np.concatenate(some)) if some else np.zeros(0, np.int64)
            yield pa.RecordBatch.from_arrays([pa.array(found[:most])], names=["number"])

        counted = self._by_part(columns.ID).mapInArrow(count, "number long")
        return np.array([number for (number,) in counted.limit(most).collect()], np.int64)

    def _by_part(self, kind: int) -> DataFrame:
        return self.blocks.where(F.col("kind") == kind).repartitionById(self.parts, "part")

    def _rows(
        self, kind: int, schema: pa.Schema, keep: Keep | None = None, names: Collection[str] = ()
    ) -> DataFrame:
        wanted = [name for name in schema.names if not names or name in names]

        def rows(batches: Batches) -> Batches:
            for table in tables_in(batches, schema):
                some = table if keep is None else table.filter(pa.array(keep(table)))
                yield from some.select(wanted).to_batches()

        struct = from_arrow_schema(pa.schema([schema.field(name) for name in wanted]))
        return self.blocks.where(F.col("kind") == kind).mapInArrow(rows, struct)


def walk(events: Parted, bounds: Bounds = NO_BOUNDS, parts: int = PARTS) -> Walked:
    """Walk the events of all ledgers, in so many parts. Spark keeps what comes of it."""

    @in_task
    def walk_part(batches: Batches) -> Batches:
        yield from batches_of(walked(events_in(batches), bounds, parts))

    return Walked(events(parts).mapInArrow(walk_part, BLOCK_COLUMNS).persist(), parts)


def walked(events: pa.Table, bounds: Bounds, parts: int) -> Iterator[Block]:
    """All that comes of the events of some entries, all of each."""
    of_entry = arrays.numbers(events.column("queue_id")) != 0
    if not of_entry.all():
        refused = events.filter(pa.array(~of_entry))
        rows = [arrays.one(refused.column(name)).cast(REFUSALS.field(name).type) for name in REFUSALS.names]
        yield from whole(columns.REFUSAL, pa.Table.from_arrays(rows, schema=REFUSALS))
        yield from _totals(totals.refused(refused), parts)
        events = events.filter(pa.array(of_entry))
    if not len(events):
        return
    steps = SortedEvents(events)
    made = life_columns(steps)
    lives = pa.Table.from_arrays([made[name] for name in LIVES.names], schema=LIVES)
    held, assigned, waited, broken = (
        stays(steps),
        assignments(steps),
        waits(steps),
        breaches(steps, bounds),
    )
    yield from whole(columns.LIFE, lives)
    yield from _by_holder(held.table, parts)
    yield from whole(columns.ASSIGNMENT, assigned.table)
    yield from whole(columns.WAIT, waited.table)
    yield from whole(columns.BREACH, broken.table)
    of_sinks = arrays.codes(held.table.column("kind")).among(BRANCH)
    counted = {"stays": held.rows, "of_sinks": held.rows[of_sinks], "assigned": assigned.rows}
    counted |= {"waited": waited.rows, "breaches": broken.rows}
    yield from _totals(totals.Totals(steps, bounds).table(lives, counted), parts)
    numbers = ids.id_numbers(lives.filter(pa.array(ids.took_id(lives))))
    of_ids = pa.Table.from_arrays([pa.array(numbers.view(np.int64))], schema=IDS)
    yield from cut(columns.ID, of_ids, part_of(numbers, parts), parts)


def _by_holder(held: pa.Table, parts: int) -> Iterator[Block]:
    if len(held):
        ledgers = texts_mixed(held.column("ledger_id"))
        holders = arrays.numbers(held.column("holder"))
        yield from cut(columns.STAY, held, part_of(mixed(ledgers, holders), parts), parts)


def _totals(found: pa.Table, parts: int) -> Iterator[Block]:
    queues = arrays.numbers(found.column("queue_id"))
    part = part_of(mixed(texts_mixed(found.column("ledger_id")), queues), parts)
    yield from cut(columns.TOTAL, found, part, parts)
