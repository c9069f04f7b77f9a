"""The tables as SQL, run by DuckDB: the same rows as the fold gives; questions with answers worked out by
hand."""

from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.dwell_times import ACCURACY, buckets, middle_us
from postroom.spark.tables.fold import DONE, partials, shown, split
from postroom.spark.tables.range import Range
from postroom.spark.tables.views import fold_sql, levels_sql, pending_sql, quantile_sql, view_sql
from tests.spark.event_ranges import cut, every_position, table
from tests.spark.folded_tables import FOLDED, lived


def query(sql: str, **relations: pa.Table) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in relations.items():
            connection.register(name, rows)
        return connection.sql(sql).to_arrow_table()


def ordered(definition: TableDefinition, rows: pa.Table) -> list[dict[str, Any]]:
    keys = [(name, "ascending") for name in definition.key]
    listed: list[dict[str, Any]] = rows.cast(definition.schema).sort_by(keys).to_pylist()
    return listed


@pytest.mark.parametrize("definition", FOLDED, ids=lambda definition: definition.name)
def test_duckdb_folds_as_we_do(definition: TableDefinition) -> None:
    for seed in range(3):
        events = lived(Random(seed))
        made = [partials(definition, piece) for piece in cut(events, every_position(events))]
        found = query(fold_sql(definition, "rows", "duckdb"), rows=pa.concat_tables(made))
        assert ordered(definition, found) == ordered(definition, shown(definition, table(definition, events)))


@pytest.mark.parametrize("definition", FOLDED, ids=lambda definition: definition.name)
def test_a_view_of_both_parts_is_the_table(definition: TableDefinition) -> None:
    events = lived(Random(7))
    parts: dict[str, list[pa.Table]] = {DONE: [], "open": []}
    for piece in cut(events, every_position(events)[::4]):
        shared = Range(piece)
        for part, _, rows in split(definition, partials(definition, shared), shared):
            parts[part].append(rows)
    nothing = definition.schema.empty_table()
    done, waiting = (pa.concat_tables([nothing, *parts[part]]) for part in (DONE, "open"))
    found = query(view_sql(definition, "done", "waiting", "duckdb"), done=done, waiting=waiting)
    assert ordered(definition, found) == ordered(definition, shown(definition, table(definition, events)))


def test_levels_are_what_is_held_at_each_minutes_end() -> None:
    events = lived(Random(3))
    destinations = table(DEFINITIONS["destinations"], events)
    levels = query(levels_sql("destinations"), destinations=destinations).to_pylist()
    entries = table(DEFINITIONS["entries"], events).to_pylist()
    held: dict[tuple[int, str], int] = {}
    for entry in entries:
        key = entry["queue_id"], entry["state"]
        held[key] = held.get(key, 0) + 1
    last = {row["queue_id"]: row for row in sorted(levels, key=lambda row: row["minute"])}
    for queue_id, row in last.items():
        states = [name for name in row if f"{name}_change" in destinations.column_names and name != "depth"]
        assert {name: row[name] for name in states} == {
            name: held.get((queue_id, name), 0) for name in states
        }
        assert row["depth"] == sum(row[name] for name in states)
    assert all(row["highest_depth"] >= row["depth"] for row in levels)


def test_pending_by_cause_counts_what_lives() -> None:
    entries = table(DEFINITIONS["entries"], lived(Random(4)))
    rows = query(pending_sql("entries"), entries=entries).to_pylist()
    alive = [row for row in entries.to_pylist() if row["state"] != "deleted"]
    assert sum(row["entries"] for row in rows) == len(alive)
    assert all((row["delay_causes"] is not None) == (row["state"] == "delayed") for row in rows)


def test_quantiles_are_as_exact_as_promised() -> None:
    rng = np.random.default_rng(5)
    times = np.sort(rng.lognormal(12, 3, 1001).astype(np.int64) + 1)
    rows = pa.table(
        {
            "ledger_id": ["l"] * len(times),
            "queue_id": [1] * len(times),
            "queue": ["q"] * len(times),
            "state": ["available"] * len(times),
            "bucket": buckets(times),
            "entries": [1] * len(times),
        }
    )
    for quantile in (0.01, 0.5, 0.9, 0.99, 1.0):
        (row,) = query(quantile_sql("dwell", quantile), dwell=rows).to_pylist()
        exact = times[max(int(np.ceil(quantile * len(times))) - 1, 0)]
        assert row["entries"] == len(times)
        assert abs(row["time_us"] - exact) <= exact * (ACCURACY + 1e-9)


def test_the_middle_of_a_bucket_is_near_all_that_lies_in_it() -> None:
    times = np.array([1, 2, 999, 1_000_000, 86_400_000_000, 1 << 50])
    for time, bucket in zip(times, buckets(times), strict=True):
        assert abs(middle_us(int(bucket)) - time) <= time * (ACCURACY + 1e-9)
