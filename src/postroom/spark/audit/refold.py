"""Every table but that of events folded anew and held against what it has.

Spark itself folds them, by the merge that each column declares, and all events at once: without the settled
parts and states in between that the pipeline has. What the pipeline keeps incrementally must be the same.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from postroom.spark.audit.rows import violation_rows
from postroom.spark.audit.subject import by_ledger
from postroom.spark.data_source.portions import portions
from postroom.spark.data_source.worker import in_task
from postroom.spark.store.protocol import TableState
from postroom.spark.store.source import table_struct
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.fold import partials
from postroom.spark.tables.views import fold_frame

EVENTS: Final = "events"
RANGE_ROWS: Final = 500_000
"""A task folds the events in pieces of so many rows before it sends them on."""

COMPARED: Final = (
    "table string, words string, ledger_id string, queue_id long, serial long, queue string, "
    "first_position long, last_position long, said string"
)

Batches = Iterator[pa.RecordBatch]


def read_table(spark: SparkSession, root: str, name: str, table_format: str, version: int) -> DataFrame:
    """A version of a table as its readers see it, but for durations that go on: those are what is stored."""
    options = {
        "path": root,
        "table": name,
        "tableFormat": table_format,
        "version": str(version),
        "ongoing": "sum",
    }
    return spark.read.format("postroom.table").options(**options).load()


def compared(
    spark: SparkSession, root: str, table_format: str, states: Mapping[str, TableState], names: list[str]
) -> DataFrame:
    """A row for each row of each of the tables named: `COMPARED`. `states`: of all tables, as of one
    moment."""
    sides = [spark.createDataFrame([], COMPARED)]
    for name in names:
        definition = DEFINITIONS[name]
        source = _source(spark, root, table_format, definition, states)
        actual = read_table(spark, root, name, table_format, states[name].version)
        sides.append(_compared(definition, folded(source, definition), actual))
    return reduce(DataFrame.unionByName, sides)


def _source(
    spark: SparkSession,
    root: str,
    table_format: str,
    definition: TableDefinition,
    states: Mapping[str, TableState],
) -> DataFrame:
    """What a table is made of, up to where it is: events up to its position, or the finished rows of another
    table as of the version that it has seen."""
    state = states[definition.name]
    if definition.source == EVENTS:
        # those up to its position, without those that its opening tells
        events = read_table(spark, root, EVENTS, table_format, states[EVENTS].version)
        is_carried = F.col("event") == "none"
        reached = by_ledger({ledger_id: at.position for ledger_id, at in state.positions.items()})
        first = by_ledger({ledger_id: one[0] for ledger_id, one in state.openings.items()})
        through = by_ledger({ledger_id: one[1] for ledger_id, one in state.openings.items()})
        is_covered = F.coalesce((F.col("serial") < first) & (F.col("position") <= through), F.lit(False))
        return events.where(is_carried | ((F.col("position") <= reached) & ~is_covered))
    options = {"path": root, "table": definition.source, "tableFormat": table_format, "raw": "true"}
    rows = spark.read.format("postroom.table").options(**options, version=str(state.source_version)).load()
    return rows.where("part = 'done'").drop("part", "day")


def folded(source: DataFrame, definition: TableDefinition) -> DataFrame:
    """The table that `source` folds to: each task makes rows of its range, Spark merges those of one key."""
    struct = table_struct(definition)
    arrow = to_arrow_schema(struct, timezone="UTC")

    @in_task
    def by_range(batches: Batches) -> Batches:
        for some in portions(batches, len, RANGE_ROWS):
            yield from partials(definition, pa.Table.from_batches(some)).cast(arrow).to_batches()

    return fold_frame(definition, source.mapInArrow(by_range, struct), ongoing=True)


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
        _position(either, "first_position", names).alias("first_position"),
        _position(either, "last_position", names).alias("last_position"),
        _difference([name for name in names if name not in key]).alias("said"),
    )


def _position(row: Column, name: str, names: list[str]) -> Column:
    """Of an event that a row tells of; rows that never merge have but one."""
    return row[name] if name in names else F.col("position")


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


def differences(compared: DataFrame) -> DataFrame:
    """The rows that differ."""
    detail = F.concat(F.lit("table "), "table", F.lit(" ("), "words", F.lit("): "), "said")
    positions = [F.col("first_position"), F.col("last_position")]
    return violation_rows(compared.where("said is not null"), "table differs", positions, detail)
