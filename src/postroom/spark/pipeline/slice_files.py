"""What a task does: one slice of a ledger becomes files of every table. No Spark in here.

The files are not yet part of the tables. The task hands back what it wrote, and the driver makes it count,
with the position that it reaches to, in one commit for each table; so a task may be killed anywhere, run
twice, or be run by two executors at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.ledger.errors import UnknownRecord
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA
from postroom.spark.ledger_source.names import TEXT_CODES
from postroom.spark.ledger_source.positions import Position
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.place import Slice
from postroom.spark.store.files import UNIQUE_TEXTS
from postroom.spark.store.protocol import OPEN, DataFile, Part
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables.events import EVENTS
from postroom.spark.tables.fold import partials, split
from postroom.spark.tables.policy import Policy, apply
from postroom.spark.tables.range import Range
from postroom.spark.tables.row_sums import NOTHING, RowSum, added, row_sum

CARRIED_EVENT: Final = "none"

READ_SCHEMA: Final = pa.schema(
    [
        field.with_type(TEXT_CODES)
        if pa.types.is_string(field.type) and field.name not in UNIQUE_TEXTS
        else field
        for field in EVENTS_SCHEMA
    ]
)
"""Events as tasks read them: texts by dictionary all the way to the files, which are written so, too."""


@dataclass(frozen=True, slots=True)
class TableJob:
    """What a task must know of one table."""

    store: TableStore
    positions: Mapping[str, int]
    """Rows at or below are in the table; by ledger."""
    openings: Mapping[str, tuple[int, int]]
    """By ledger: (first position of the history, position of the checkpoint that tells what is older)."""


def not_carried(events: pa.Table, first_position: int, carried_through: int) -> pa.Table:
    """Events without those of older entries that the checkpoint has told of already; carried rows stay."""
    is_old = pc.less(events["serial"], first_position)
    is_early = pc.less_equal(events["position"], carried_through)
    is_carried = pc.equal(events["event"], CARRIED_EVENT)
    return events.filter(pc.or_(pc.invert(pc.and_(is_old, is_early)), is_carried))


@dataclass(frozen=True, slots=True)
class Job:
    """What a task must know."""

    tables: tuple[TableJob, ...]
    policy: Policy
    small_rows: int
    """See `options.SMALL_BATCH_ROWS`."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file of a table, not yet part of it."""

    table: str
    file: DataFile
    sum: RowSum = NOTHING
    """Of its rows, if they never merge."""


@dataclass(frozen=True, slots=True)
class RangeDone:
    """What became of a slice."""

    ledger_id: str
    first: int
    last: int
    """The last position that was read: before the slice's own if intake stopped."""
    epoch: int
    epoch_id: str
    rows: int
    """Events."""
    last_time_us: int
    """Of the last of them, 0 if there are none."""
    files: tuple[Written, ...]
    stopped: str = ""
    """Why intake stopped behind `last`; empty if it didn't."""

    @property
    def position(self) -> Position:
        """How far a table is that has this range and all before it."""
        return Position(self.epoch, self.epoch_id, self.last)


def write_slice(slice: Slice, job: Job) -> RangeDone:
    """Read a slice and write the rows that it gives each table. Raises ``LedgerError``, ``OSError``."""
    ledger_id = slice.ledger_id
    events, last, stopped = _read(slice)
    events = apply(job.policy, events)
    ranges = _Ranges(events, ledger_id)
    files = [
        written
        for table in job.tables
        if table.positions.get(ledger_id, 0) < last
        for written in write_partials(table.store, ranges.new_to(table), ledger_id, job.small_rows)
    ]
    return RangeDone(
        ledger_id=ledger_id,
        first=slice.first,
        last=last,
        epoch=slice.segment.epoch,
        epoch_id=slice.segment.epoch_id.hex(),
        rows=len(events),
        last_time_us=int(pc.max(events["time"]).cast(pa.int64()).as_py() or 0),
        files=tuple(files),
        stopped=stopped,
    )


def write_partials(store: TableStore, rows: Range, ledger_id: str, small_rows: int) -> Iterator[Written]:
    """Files of what a range of rows of one ledger gives a table."""
    definition = store.definition
    if definition.is_done is not None:
        rows = rows.of_entries
    if not len(rows):
        return
    made = partials(definition, rows, coded=True)
    if len(rows) <= small_rows and definition.is_done is not None:
        yield from _written(store, made, OPEN, None, ledger_id)
        return
    for part, day, some in split(definition, made, rows):
        for one in _written(store, some, part, day, ledger_id):
            if definition.is_done is None:
                whole = rows if definition is EVENTS and len(some) == len(rows) else Range(some)
                one = replace(one, sum=row_sum(whole, definition.summed))
            yield one


def sums_of(written: Iterable[Written]) -> dict[str, RowSum]:
    """The sums of files whose rows never merge, by ledger."""
    found: dict[str, RowSum] = {}
    for one in written:
        if one.sum.rows:
            found = added(found, {one.file.ledger_id: one.sum})
    return found


class _Ranges:
    """The events of a slice as each table needs them: those that it doesn't have. Tables that are equally far
    share them, and what is worked out of them."""

    def __init__(self, events: pa.Table, ledger_id: str) -> None:
        self._events = events
        self._ledger_id = ledger_id
        self._first = int(pc.min(events["position"]).as_py() or 0)
        self._known: dict[tuple[int, tuple[int, int] | None], Range] = {}

    def new_to(self, table: TableJob) -> Range:
        position = table.positions.get(self._ledger_id, 0)
        opening = None if table.store.definition.is_done is None else table.openings.get(self._ledger_id)
        key = (position if position >= self._first else 0, opening)
        if key not in self._known:
            events = self._events
            if key[0]:
                events = events.filter(pc.greater(events["position"], position))
            self._known[key] = Range(events if opening is None else not_carried(events, *opening))
        return self._known[key]


def _written(
    store: TableStore, rows: pa.Table, part: Part, day: str | None, ledger_id: str
) -> Iterator[Written]:
    if len(rows):
        yield Written(store.name, store.write(rows, part, day, ledger_id))


def _read(slice: Slice) -> tuple[pa.Table, int, str]:
    """The events of a slice, the last position read, and why no further, if so."""
    batches: list[pa.RecordBatch] = []
    try:
        for batch in read_events(slice, READ_SCHEMA):
            batches.append(batch)  # one by one: what came before an error counts
    except UnknownRecord as error:
        events = pa.Table.from_batches(batches, READ_SCHEMA).unify_dictionaries()
        before = events.filter(pc.less(events["position"], error.position))
        return before, error.position - 1, str(error)
    return pa.Table.from_batches(batches, READ_SCHEMA).unify_dictionaries(), slice.last, ""
