"""The audit of a pipeline's tables: its events as of their position, and every other table folded anew.

Spark itself folds them, by the merge that each column declares, and all events at once: without the settled
parts and states in between that the pipeline has. What the pipeline keeps incrementally must be the same.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from postroom.spark.audit.result import Cut, Unproven
from postroom.spark.audit.rows import violation_rows
from postroom.spark.audit.subject import Subject, by_ledger
from postroom.spark.audit.sums import Told
from postroom.spark.pipeline.openings import OPENINGS_FILE
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import ledger_names, ledger_uris
from postroom.spark.positions import BEGINNING, Positions
from postroom.spark.store import NO_VERSION, TableError, TableState, open_store
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.fold import partials
from postroom.spark.tables.views import fold_frame
from postroom.spark.worker import in_task

EVENTS: Final = "events"
RANGE_ROWS: Final = 500_000
"""A task folds the events in pieces of so many rows before it sends them on."""

Say = Callable[[str], None]
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class Refolded:
    """What folding anew has shown."""

    violations: DataFrame
    compared: DataFrame
    """A row for each row of each table: ``table``."""
    unproven: tuple[Unproven, ...]
    tables: tuple[str, ...]


def subject_of_tables(root: str, table_format: str, elsewhere: Sequence[str]) -> Subject:
    """The subject of an audit of tables: the cut is the position of the table of events. Raises
    ``TableError``."""
    state = _state(root, EVENTS, table_format)
    if state.version == NO_VERSION:
        raise TableError(f"{root}: no table of events here; name the root of a pipeline's tables")
    names, uris, told = ledger_names(root), ledger_uris(Root(root)), _told(root)
    cuts = []
    for ledger_id, position in sorted(state.positions.items()):
        first = state.openings.get(ledger_id, (1, 0))[0]
        opening = told.get(ledger_id)
        opened_from = 0 if first <= 1 else opening.position if opening else None
        name, uri = names.get(ledger_id, ledger_id), uris.get(ledger_id, "")
        cut = (ledger_id, name, uri, first, position.position, position.position)
        cuts.append(Cut(*cut, position.epoch, position.epoch_id, 0, opened_from))
    return Subject(tuple(cuts), told, {}, elsewhere)


def _told(root: str) -> dict[str, Told]:
    said = json.loads(Root(root).read(OPENINGS_FILE) or "{}")
    return {ledger_id: Told.from_json(one) for ledger_id, one in said.items()}


def events_of_tables(spark: SparkSession, root: str, table_format: str) -> DataFrame:
    """The table of events."""
    return _read(spark, root, EVENTS, table_format, _state(root, EVENTS, table_format).version)


def _state(root: str, name: str, table_format: str) -> TableState:
    return open_store(root, name, table_format).state()


def _read(spark: SparkSession, root: str, name: str, table_format: str, version: int) -> DataFrame:
    options = {"path": root, "table": name, "tableFormat": table_format, "version": str(version)}
    return spark.read.format("postroom.table").options(**options).load()


# --- folding anew ---------------------------------------------------------------------------------


def refold(spark: SparkSession, root: str, table_format: str) -> Refolded:
    """Fold the events anew and hold every other table against that. Lazy but for the tables' states."""
    states = {name: _state(root, name, table_format) for name in DEFINITIONS}
    there = [name for name, state in states.items() if state.version != NO_VERSION]
    through = states[EVENTS].positions
    unproven: list[Unproven] = []
    sides = []
    for name in there:
        definition = DEFINITIONS[name]
        if name == EVENTS:
            continue
        ahead = _ahead(states[name].positions, through)
        unproven += [
            Unproven(ledger_id, f"table {name}", "it is ahead of the table of events", 0)
            for ledger_id in ahead
        ]
        if ahead:
            continue
        source = _source(spark, root, table_format, definition, states)
        actual = _read(spark, root, name, table_format, states[name].version)
        sides.append(_compared(definition, folded(source, definition), actual))
    names = tuple(name for name in there if name != EVENTS)
    compared = reduce(DataFrame.unionByName, sides).persist()
    return Refolded(_violations(compared), compared, tuple(unproven), names)


def _ahead(positions: Positions, through: Positions) -> list[str]:
    return [
        ledger_id
        for ledger_id, position in positions.items()
        if position.position > through.get(ledger_id, BEGINNING).position
    ]


def _source(
    spark: SparkSession,
    root: str,
    table_format: str,
    definition: TableDefinition,
    states: dict[str, TableState],
) -> DataFrame:
    """What a table is made of, up to where it is: events up to its position, or the finished rows of another
    table as of the version that it has seen."""
    state = states[definition.name]
    if definition.source == EVENTS:
        events = _read(spark, root, EVENTS, table_format, states[EVENTS].version)
        return _up_to(events, state)
    options = {"path": root, "table": definition.source, "tableFormat": table_format, "raw": "true"}
    rows = spark.read.format("postroom.table").options(**options, version=str(state.source_version)).load()
    return rows.where("part = 'done'").drop("part", "day")


def _up_to(events: DataFrame, state: TableState) -> DataFrame:
    """The events that a table is made of: up to its position, without those that its opening tells."""
    positions = {ledger_id: one.position for ledger_id, one in state.positions.items()}
    is_carried = F.col("event") == "none"
    first = by_ledger({ledger_id: one[0] for ledger_id, one in state.openings.items()})
    through = by_ledger({ledger_id: one[1] for ledger_id, one in state.openings.items()})
    is_told = F.coalesce((F.col("serial") < first) & (F.col("position") <= through), F.lit(False))
    return events.where(is_carried | ((F.col("position") <= by_ledger(positions)) & ~is_told))


def folded(source: DataFrame, definition: TableDefinition) -> DataFrame:
    """The table that `source` folds to: each task makes rows of its range, Spark merges those of one key."""
    struct = _struct(definition)
    arrow = to_arrow_schema(struct, timezone="UTC")

    @in_task
    def by_range(batches: Batches) -> Batches:
        for rows in _pieces(batches):
            yield from partials(definition, rows).cast(arrow).to_batches()

    return fold_frame(definition, source.mapInArrow(by_range, struct))


def _pieces(batches: Batches) -> Iterator[pa.Table]:
    """Batches joined to tables of about `RANGE_ROWS`."""
    some: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        some.append(batch)
        count += len(batch)
        if count >= RANGE_ROWS:
            yield pa.Table.from_batches(some)
            some, count = [], 0
    if count:
        yield pa.Table.from_batches(some)


def _struct(definition: TableDefinition) -> StructType:
    return StructType(
        [
            StructField(field.name, from_arrow_type(field.type, prefer_timestamp_ntz=False), True)
            for field in definition.fields
        ]
    )


# --- comparing ------------------------------------------------------------------------------------


def _compared(definition: TableDefinition, expected: DataFrame, actual: DataFrame) -> DataFrame:
    """One row for each key: table, the key in words, ledger_id, queue_id, serial, positions, and ``said``:
    what differs, null where nothing does."""
    names = [field.name for field in definition.fields]
    key = list(definition.key)
    row = F.struct(*names)
    both = expected.select(*key, row.alias("row"), F.lit(True).alias("is_expected")).unionByName(
        actual.select(*key, row.alias("row"), F.lit(False).alias("is_expected"))
    )
    beside = both.groupBy(*key).agg(
        F.count_if("is_expected").alias("wanted"),
        F.count_if(~F.col("is_expected")).alias("found"),
        F.max(F.when(F.col("is_expected"), F.col("row"))).alias("e"),
        F.max(F.when(~F.col("is_expected"), F.col("row"))).alias("a"),
    )
    either = F.coalesce("e", "a")
    return beside.select(
        F.lit(definition.name).alias("table"),
        F.concat_ws(
            ", ",
            *(
                F.concat_ws("=", F.lit(name), F.col(name).cast("string"))
                for name in key
                if name != "ledger_id"
            ),
        ).alias("words"),
        "ledger_id",
        (F.col("queue_id") if "queue_id" in key else F.lit(None)).cast("long").alias("queue_id"),
        (F.col("serial") if "serial" in key else F.lit(None)).cast("long").alias("serial"),
        (either["queue"] if "queue" in names else F.lit(None)).cast("string").alias("queue"),
        either["first_position"].alias("first_position"),
        either["last_position"].alias("last_position"),
        _difference([name for name in names if name not in key]).alias("said"),
    )


def _difference(names: list[str]) -> Column:
    e, a = F.col("e"), F.col("a")
    others = F.array_compact(
        F.array(
            *(
                F.when(
                    ~e[name].eqNullSafe(a[name]),
                    F.format_string(
                        f"{name} is %s, folded anew %s", a[name].cast("string"), e[name].cast("string")
                    ),
                )
                for name in names
            )
        )
    )
    return (
        F.when(F.col("found") == 0, "the row is missing")
        .when(F.col("wanted") == 0, "the row is one too many")
        .when(F.col("found") > 1, F.format_string("the row is there %d times", "found"))
        .when(F.size(others) > 0, F.array_join(others, "; "))
    )


def _violations(compared: DataFrame) -> DataFrame:
    detail = F.concat(F.lit("table "), "table", F.lit(" ("), "words", F.lit("): "), "said")
    positions = [F.col("first_position"), F.col("last_position")]
    return violation_rows(compared.where("said is not null"), "table differs", positions, detail)
