"""The audit of a pipeline's tables: that all of each is there, that the events are those that were written,
and that every other table is what they fold to.

What is looked at is fixed before Spark starts: one version of each table. The cut of a ledger is the position
that all tables have come to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from postroom.spark.audit.refold import EVENTS, compared, differences, read_table
from postroom.spark.audit.result import Cut, TableCovered, Unproven, Violation
from postroom.spark.audit.rows import is_carried
from postroom.spark.audit.subject import Subject, by_ledger
from postroom.spark.data_source.portions import portions
from postroom.spark.ledger_source.checkpoint_totals import CheckpointTotals
from postroom.spark.pipeline.checkpoint_bootstrap import noted_openings
from postroom.spark.pipeline.engine import Engine, SparkEngine
from postroom.spark.pipeline.high_water_marks import Reached, reached
from postroom.spark.pipeline.options import load_settings
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import ledger_names, ledger_uris
from postroom.spark.store.formats import open_store
from postroom.spark.store.protocol import NO_VERSION, DataFile, Snapshot, TableError, TableState
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.range import Range
from postroom.spark.tables.row_sums import NOTHING, RowSum, added, row_sum

AHEAD: Final = "it is ahead of the table of events"
BEHIND: Final = "it has nothing of the ledger yet"
NOTHING_YET: Final = "the tables have nothing of any ledger yet"
NOT_MADE: Final = "the pipeline doesn't make it any more; move its folder away, or have it made again"
NOT_YET: Final = "the pipeline has not made it yet"
NO_FLOOR: Final = "nothing tells how far the tables had come; the next run of the pipeline writes it down"
NO_SUMS: Final = "it was begun before its rows were summed; the next run of the pipeline sums them"
TOO_NEW: Final = "a newer program wrote it; audit it with that"
OPENS_LATER: Final = "the tables don't reach the checkpoint yet that they open from"


@dataclass(frozen=True, slots=True)
class Tables:
    """One version of each table under a root."""

    root: str
    format: str
    stores: Mapping[str, TableStore]
    snapshots: Mapping[str, Snapshot]
    """Of those that there are, events among them."""
    kept: Sequence[str]
    """The tables that the pipeline makes."""
    floor: Reached | None

    @property
    def states(self) -> dict[str, TableState]:
        return {name: snapshot.state for name, snapshot in self.snapshots.items()}

    @property
    def events(self) -> TableState:
        return self.snapshots[EVENTS].state

    @property
    def ledgers(self) -> list[str]:
        """Ids of all ledgers that a table knows of."""
        states = self.states.values()
        return sorted({ledger_id for one in states for ledger_id in (*one.positions, *one.openings)})

    def positions(self, ledger_id: str) -> dict[str, int]:
        """How far each table is; those that have nothing of the ledger are left out."""
        found = {name: state.positions.get(ledger_id) for name, state in self.states.items()}
        return {name: at.position for name, at in found.items() if at is not None}


@dataclass(frozen=True, slots=True)
class Refolded:
    """What folding anew has shown."""

    violations: DataFrame
    compared: DataFrame
    """A row for each row of each table: ``table``."""
    found: tuple[Violation, ...]
    """What is wrong with tables as wholes."""
    tables: Tables

    def covered(self) -> tuple[TableCovered, ...]:
        """What of each table was looked at."""
        rows = {row["table"]: row["count"] for row in self.compared.groupBy("table").count().collect()}
        return tuple(
            TableCovered(
                name,
                snapshot.state.version,
                len(snapshot.files),
                sum(file.size_bytes for file in snapshot.files),
                sum(file.rows for file in snapshot.files) if name == EVENTS else rows.get(name, 0),
            )
            for name, snapshot in self.tables.snapshots.items()
        )


def open_tables(root: str, table_format: str) -> Tables:
    """The tables that there are. Raises ``TableError``, ``PipelineError``."""
    stores = {name: open_store(root, name, table_format) for name in DEFINITIONS}
    # events last: what comes meanwhile comes to them first, so that no other table is ahead of them
    order = [*(name for name in DEFINITIONS if name != EVENTS), EVENTS]
    found = {name: _newest(stores[name]) for name in order}
    snapshots = {name: found[name] for name in DEFINITIONS if found[name].state.version != NO_VERSION}
    if EVENTS not in snapshots:
        raise TableError(f"{root}: no table of events here; name the root of a pipeline's tables")
    folder = Root(root)
    settings = load_settings(folder)
    kept = tuple(settings.tables) if settings else tuple(snapshots)
    return Tables(root, table_format, stores, snapshots, kept, reached(folder))


def _newest(store: TableStore) -> Snapshot:
    return Snapshot(TableState(), ()) if store.state().version == NO_VERSION else store.snapshot()


# --- what it is about -----------------------------------------------------------------------------


def subject_of_tables(tables: Tables, elsewhere: Sequence[str]) -> Subject:
    """The subject of an audit of tables."""
    folder = Root(tables.root)
    names, uris, openings = ledger_names(tables.root), ledger_uris(folder), noted_openings(folder)
    cuts = [
        _cut(tables, ledger_id, names.get(ledger_id, ledger_id), uris.get(ledger_id, ""), openings)
        for ledger_id in sorted(tables.events.positions)
    ]
    opened = {cut.ledger_id: openings[cut.ledger_id] for cut in cuts if cut.opened_from}
    late = [cut.ledger_id for cut in cuts if cut.opened_from is None and cut.ledger_id in openings]
    gaps = [*_gaps(tables), *(Unproven(ledger_id, "everything", OPENS_LATER, 0) for ledger_id in late)]
    return Subject(tuple(cuts), opened, {}, elsewhere, gaps)


def _cut(
    tables: Tables, ledger_id: str, name: str, uri: str, openings: Mapping[str, CheckpointTotals]
) -> Cut:
    """At the position that all tables have that the pipeline makes."""
    kept = [tables.states[name] for name in tables.kept if name in tables.snapshots]
    known = [state.positions[ledger_id] for state in kept if ledger_id in state.positions]
    at = min([tables.events.positions[ledger_id], *known], key=lambda at: at.position)
    opening = openings.get(ledger_id)
    first = tables.events.openings.get(ledger_id, (1, 0))[0]
    opened_from = (
        0 if first <= 1 else opening.position if opening and opening.position <= at.position else None
    )
    return Cut(
        ledger_id=ledger_id,
        name=name,
        uri=uri,
        first_position=first,
        first_look=at.position,
        position=at.position,
        epoch=at.epoch,
        epoch_id=at.epoch_id,
        last_time_us=0,
        opened_from=opened_from,
    )


def _gaps(tables: Tables) -> Iterator[Unproven]:
    """What the tables can't tell, for each ledger."""
    if not tables.ledgers:
        yield Unproven("", "everything", NOTHING_YET, 0)
    with_rows = {file.ledger_id for file in tables.snapshots[EVENTS].files}  # of no rows there is no sum
    for ledger_id in tables.ledgers:
        if tables.floor is None:
            yield Unproven(ledger_id, "tables", NO_FLOOR, 0)
        if ledger_id in with_rows & set(tables.events.positions) - set(tables.events.sums):
            yield Unproven(ledger_id, f"table {EVENTS}", NO_SUMS, 0)
        for name in DEFINITIONS:
            why = _gap(tables, name, ledger_id)
            if why:
                yield Unproven(ledger_id, f"table {name}", why, 0)


def _gap(tables: Tables, name: str, ledger_id: str) -> str:
    if name not in tables.snapshots:
        return NOT_YET if name in tables.kept else ""
    if tables.states[name].schema_version > DEFINITIONS[name].version:
        return TOO_NEW
    if name not in tables.kept:
        return NOT_MADE
    positions = tables.positions(ledger_id)
    if name not in positions:
        return BEHIND
    return AHEAD if positions[name] > positions.get(EVENTS, 0) else ""


def _gone_back(tables: Tables) -> tuple[Violation, ...]:
    """The tables that aren't as far as they were."""
    found = []
    for name, floor in (tables.floor or {}).items():
        for ledger_id, position in floor.items():
            at = tables.positions(ledger_id).get(name, 0)
            if at < position:
                detail = f"table {name}: it ends at position {at:,}, and had come to {position:,}"
                where = (ledger_id, None, None, None, (at, position))
                found.append(Violation("table gone back", *where, detail))
    return tuple(found)


# --- with Spark -----------------------------------------------------------------------------------


def events_of_tables(spark: SparkSession, tables: Tables, subject: Subject) -> DataFrame:
    """The table of events up to the cut."""
    events = read_table(spark, tables.root, EVENTS, tables.format, tables.events.version)
    cut = by_ledger({cut.ledger_id: cut.position for cut in subject.cuts})
    return events.where(is_carried() | (events["position"] <= cut))


def refold(spark: SparkSession, tables: Tables) -> Refolded:
    """Fold the events anew and hold every other table against that (lazily), and the events against what was
    written."""
    names = refolded_names(tables)
    rows = compared(spark, tables.root, tables.format, tables.states, names).persist()
    return Refolded(differences(rows), rows, wrong_tables(tables, SparkEngine(spark)), tables)


def refolded_names(tables: Tables) -> list[str]:
    """The tables that events can be folded to: those that aren't ahead of them."""
    through = {ledger_id: at.position for ledger_id, at in tables.events.positions.items()}
    others = [(name, state.positions) for name, state in tables.states.items() if name != EVENTS]
    return [
        name
        for name, own in others
        if all(at.position <= through.get(ledger_id, 0) for ledger_id, at in own.items())
    ]


def wrong_tables(tables: Tables, engine: Engine) -> tuple[Violation, ...]:
    """What is wrong with tables as wholes: one isn't as far as it was, or the events are others."""
    return (*_gone_back(tables), *_changed_events(tables, engine))


def _changed_events(tables: Tables, engine: Engine) -> list[Violation]:
    """Where the table of events has other rows than were written, by ledger."""
    snapshot = tables.snapshots[EVENTS]
    if snapshot.state.schema_version > DEFINITIONS[EVENTS].version:
        return []  # with columns that aren't known here; see `_gaps`
    found = sums_of_files(tables.stores[EVENTS], snapshot.files, engine)
    written = snapshot.state.sums
    if not written:
        return []  # see `_gaps`
    wrong = []
    for ledger_id in sorted({*found, *written}):
        has, had = found.get(ledger_id, NOTHING), written.get(ledger_id, NOTHING)
        if has != had:
            difference = f"values of its {has.rows:,} rows aren't those that were written"
            if has.rows != had.rows:
                difference = f"the table has {has.rows:,} rows, and {had.rows:,} were written"
            wrong.append(Violation("events changed", ledger_id, None, None, None, (), difference))
    return wrong


# --- sums of rows, taken from files: to hold what commits say against -----------------------------

SUM_BYTES: Final = 32 << 20
"""A task sums files of about so many bytes."""


@dataclass(frozen=True, slots=True)
class SumTask:
    """Some files of a table."""

    store: TableStore
    files: tuple[DataFile, ...]


def sums_of_files(store: TableStore, files: Sequence[DataFile], engine: Engine) -> dict[str, RowSum]:
    """The sums of all their rows, by ledger. Raises ``TableError``, ``OSError``, what a task raised."""
    empty: dict[str, RowSum] = {}
    some = portions(files, lambda file: file.size_bytes, SUM_BYTES)
    return reduce(added, engine.map(sum_files, [SumTask(store, tuple(one)) for one in some]), empty)


def sum_files(task: SumTask) -> dict[str, RowSum]:
    """The sums of one task's files."""
    names = task.store.definition.summed
    found: dict[str, RowSum] = {}
    for file in task.files:
        sums = (row_sum(Range(rows), names) for rows in task.store.pieces(file, names))
        found = added(found, {file.ledger_id: reduce(RowSum.__add__, sums, NOTHING)})
    return found
