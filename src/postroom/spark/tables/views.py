"""The tables as SQL, for DuckDB and Spark: the fold of partial rows, and questions that are often asked.

The fold is made from the merges of the columns, like `fold.fold`, and gives the same rows: who has only SQL
can read tables, and each checks the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa

from postroom.spark.ledger_source.state_names import LIVE_STATES
from postroom.spark.tables.definition import Field, Merge, TableDefinition
from postroom.spark.tables.dwell_times import GAMMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Dialect = Literal["duckdb", "spark"]

IN_ORDER: Final = "first_position, first_ordinal"

UNTIL_HERE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
BEFORE: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


@dataclass(frozen=True, slots=True)
class _Words:
    """What the two engines call it. ``{x}``: a column, ``{by}``: the columns of an order."""

    first: str
    last: str
    latest: str
    carried_on: str


_WORDS: Final[dict[Dialect, _Words]] = {
    "duckdb": _Words(
        "arg_min_null({x}, row({by}))",
        "arg_max_null({x}, row({by}))",
        "arg_max({x}, row({by}))",
        "last_value({x} IGNORE NULLS)",
    ),
    "spark": _Words(
        "min_by({x}, struct({by}))",
        "max_by({x}, struct({by}))",
        "max_by({x}, struct({by})) FILTER (WHERE {x} IS NOT NULL)",
        "last_value({x}) IGNORE NULLS",
    ),
}
_TYPES: Final[dict[Dialect, dict[pa.DataType, str]]] = {
    "duckdb": {pa.int64(): "BIGINT", pa.int32(): "INTEGER"},
    "spark": {pa.int64(): "BIGINT", pa.int32(): "INT"},
}


def fold_sql(definition: TableDefinition, rows: str, dialect: Dialect, ongoing: bool = False) -> str:
    """A query that folds the rows of a relation (a table, a view, or a query in parentheses).

    `ongoing`: durations that go on as the sums that are stored, else null.
    """
    if definition.is_done is None:
        return f"SELECT {_names(definition, dialect)} FROM {rows}"
    prepared = _prepared(definition, rows, dialect)
    columns = ", ".join(
        f"{_merged(field, dialect, ongoing)} AS {_quoted(field.name, dialect)}" for field in definition.fields
    )
    keys = ", ".join(_quoted(name, dialect) for name in definition.key)
    return f"SELECT {columns} FROM ({prepared}) GROUP BY {keys}"


def view_sql(definition: TableDefinition, done: str, open_rows: str, dialect: Dialect) -> str:
    """A query that gives the table from its two parts: done as it is, open folded; of a table whose done rows
    may be followed by others of their keys, both folded."""
    names = _names(definition, dialect)
    if definition.is_late:
        both = f"(SELECT {names} FROM {done} UNION ALL SELECT {names} FROM {open_rows})"
        return fold_sql(definition, both, dialect)
    return f"SELECT {names} FROM {done} UNION ALL {fold_sql(definition, open_rows, dialect)}"


def fold_frame(definition: TableDefinition, rows: "DataFrame", ongoing: bool = False) -> "DataFrame":
    """Rows folded by Spark; `ongoing` as for `fold_sql`."""
    return rows.sparkSession.sql(fold_sql(definition, "{rows}", "spark", ongoing), rows=rows)


def _names(definition: TableDefinition, dialect: Dialect) -> str:
    return ", ".join(_quoted(field.name, dialect) for field in definition.fields)


def _quoted(name: str, dialect: Dialect) -> str:
    return f'"{name}"' if dialect == "duckdb" else f"`{name}`"


def _prepared(definition: TableDefinition, rows: str, dialect: Dialect) -> str:
    """The rows with what only their neighbours tell: links, and running sums before each row."""
    replaced = {field.name: _from_neighbours(definition, field, dialect) for field in definition.fields}
    columns = ", ".join(
        f"{replaced[field.name] or _quoted(field.name, dialect)} AS {_quoted(field.name, dialect)}"
        for field in definition.fields
    )
    return f"SELECT {columns} FROM {rows}"


def _from_neighbours(definition: TableDefinition, field: Field, dialect: Dialect) -> str:
    name = _quoted(field.name, dialect)
    keys = [_quoted(key, dialect) for key in definition.key if key != definition.link]
    partition = f"PARTITION BY {', '.join(keys)} ORDER BY {IN_ORDER}"
    if field.merge is Merge.LINK:
        before = f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END"  # what an event ends is before what it begins
        window = f"({partition}, {before} {UNTIL_HERE})"
        return f"{_WORDS[dialect].carried_on.format(x=name)} OVER {window}"
    if field.merge is Merge.HIGH:
        window = f"({partition} {BEFORE})"
        return f"{name} + coalesce(sum({_quoted(field.of, dialect)}) OVER {window}, 0)"
    return ""


def _merged(field: Field, dialect: Dialect, ongoing: bool) -> str:
    name, words = _quoted(field.name, dialect), _WORDS[dialect]
    merges: dict[Merge, Callable[[], str]] = {
        Merge.KEY: lambda: name,
        Merge.LINK: lambda: name,
        Merge.ONLY: lambda: f"max({name})",
        Merge.FIRST: lambda: words.first.format(x=name, by=IN_ORDER),
        Merge.LAST: lambda: words.last.format(x=name, by="last_position, last_ordinal"),
        Merge.LATEST: lambda: words.latest.format(x=name, by=IN_ORDER),
        Merge.SUM: lambda: _sum(field, name, dialect, ongoing),
        Merge.MAX: lambda: f"max({name})",
        Merge.MIN: lambda: f"min({name})",
        Merge.HIGH: lambda: f"CAST(max({name}) AS {_TYPES[dialect][field.type]})",
    }
    return merges[field.merge]()


def _sum(field: Field, name: str, dialect: Dialect, ongoing: bool) -> str:
    """A duration that goes on is null, unless what is stored is wanted."""
    total = f"CAST(sum({name}) AS {_TYPES[dialect][field.type]})"
    return f"CASE WHEN sum({name}) >= 0 THEN {total} END" if field.is_duration and not ongoing else total


# --- questions -------------------------------------------------------------------------------------


def levels_sql(destinations: str) -> str:
    """Per queue and minute: how many entries were in each state at its end, how many in all (``depth``), and
    the highest depth and number available within it. Both dialects. A queue's minutes must all be there, from
    its first."""
    window = f"(PARTITION BY ledger_id, queue_id ORDER BY minute {UNTIL_HERE})"
    levels = [f"sum({state}_change) OVER {window} AS {state}" for state in (*LIVE_STATES, "depth")]
    highs = [
        f"greatest(0, {what}_high) + sum({what}_change) OVER {window} - {what}_change AS highest_{what}"
        for what in ("available", "depth")
    ]
    columns = ", ".join(["ledger_id", "queue_id", "queue", "minute", *levels, *highs])
    return f"SELECT {columns} FROM {destinations}"


def pending_sql(entries: str) -> str:
    """Per queue: what it holds by state, and why what is delayed waits. ``entries``: the table, or its open
    part folded, which has all that lives. Both dialects."""
    return (
        "SELECT ledger_id, queue_id, max(queue) AS queue, state, delay_causes, count(*) AS entries, "
        f"sum(body_bytes) AS bytes FROM {entries} WHERE state <> 'deleted' "
        "GROUP BY ledger_id, queue_id, state, delay_causes"
    )


def quantile_sql(dwell_times: str, quantile: float) -> str:
    """Per queue and state: the time (µs, at most 2 % off) that this part of the entries (0 to 1) did not
    exceed, from the sketches. Both dialects."""
    by = "ledger_id, queue_id, state"
    counted = (
        f"SELECT {by}, bucket, max(queue) AS queue, sum(entries) AS entries "
        f"FROM {dwell_times} GROUP BY {by}, bucket"
    )
    ranked = (
        f"SELECT {by}, queue, bucket, "
        f"sum(entries) OVER (PARTITION BY {by} ORDER BY bucket) AS until, "
        f"sum(entries) OVER (PARTITION BY {by}) AS of_all FROM ({counted})"
    )
    middle = f"2 * power({GAMMA!r}, min(bucket)) / {GAMMA + 1!r}"
    return (
        f"SELECT {by}, max(queue) AS queue, max(of_all) AS entries, {middle} AS time_us "
        f"FROM ({ranked}) WHERE until >= {quantile!r} * of_all GROUP BY {by}"
    )


# --- ready views -----------------------------------------------------------------------------------

STUCK_AFTER_S: Final = 3600
"""Unless it is said: what has not moved for so long is stuck."""


def stuck_sql(entries: str, after_s: int = STUCK_AFTER_S) -> str:
    """What lives and has had no event for so many seconds, though nothing is to come: who holds it, or why it
    waits. A delay whose end is still to come is none. Both dialects."""
    since = "coalesce(last_event_time, arrival_time)"
    return (
        "SELECT ledger_id, queue_id, queue, serial, message_id, state, delay_causes, due, holder_kind, "
        f"holder, delivery_count, failure_count, {since} AS since FROM {entries} WHERE state <> 'deleted' "
        f"AND {since} < now() - INTERVAL '{int(after_s)}' SECOND AND NOT coalesce(due > now(), false)"
    )


def in_doubt_sql(transactions: str) -> str:
    """XA branches that are prepared and not decided, and batches of channels whose partner hasn't said
    whether it has them. Both dialects."""
    return (
        "SELECT ledger_id, holder_kind, holder_id, holder, channel, luwid, container, puts, gets, "
        f"opened_time, prepared_time, last_time FROM {transactions} "
        "WHERE decision IS NULL AND (prepared_time IS NOT NULL OR holder_kind = 'channel_batch')"
    )


def lineage_sql(entries: str) -> str:
    """Each entry with the one that it was made of and how that ended, and the root of them all: by
    ``root_serial`` the whole family of a message. Both dialects."""
    return (
        "SELECT e.ledger_id, e.root_serial, e.root_queue_id, root.queue AS root_queue, e.message_id, "
        "e.serial, e.queue_id, e.queue, e.arrival_event, e.arrival_time, "
        "e.parent_serial, parent.queue AS parent_queue, "
        "parent.outcome AS parent_outcome, parent.reason AS parent_reason, e.state, e.outcome, e.ended_time "
        f"FROM {entries} AS e "
        f"LEFT JOIN {entries} AS parent ON parent.ledger_id = e.ledger_id "
        "AND parent.serial = e.parent_serial AND parent.queue_id = e.parent_queue_id "
        f"LEFT JOIN {entries} AS root ON root.ledger_id = e.ledger_id "
        "AND root.serial = e.root_serial AND root.queue_id = e.root_queue_id"
    )


def ready_views(after_s: int = STUCK_AFTER_S, prefix: str = "") -> dict[str, tuple[str, str]]:
    """By name: the table that a view is of, and its query over views of Spark with `prefix` before their
    names."""
    entries, transactions = f"`{prefix}entries`", f"`{prefix}transactions`"
    return {
        "stuck": ("entries", stuck_sql(entries, after_s)),
        "in_doubt": ("transactions", in_doubt_sql(transactions)),
        "lineage": ("entries", lineage_sql(entries)),
    }
