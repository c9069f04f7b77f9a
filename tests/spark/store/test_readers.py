"""The tables read by others: DuckDB and Polars, from the list of files, through Arrow, and as Delta."""

from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from postroom.spark.store import read_folded
from postroom.spark.store.folded import read_bucket
from postroom.spark.store.protocol import DONE, OPEN, TableError
from postroom.spark.store.queries import duckdb_query
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from tests.spark.store.small_tables import DAY, LEDGER, OTHER, at, rows, small_store


@pytest.fixture(params=["delta", "parquet", "iceberg"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    """Two ledgers, done and open rows; a file that was replaced and one that was never committed."""
    store = small_store(tmp_path, str(request.param))
    files = [
        store.write(rows(1, 3), DONE, DAY, LEDGER),
        store.write(rows(1, 2, ledger_id=OTHER), DONE, "2026-11-23", OTHER),
    ]
    replaced = [store.write(rows(4, 2), OPEN, None, LEDGER)] if store.can_replace else []
    store.commit(files + replaced, [], at(5, store.state()), "batch")
    later = store.write(rows(4, 1, "deleted"), OPEN, None, LEDGER)
    store.commit([later], replaced, at(6, store.state()), "settle")
    store.write(rows(7, 7), DONE, DAY, LEDGER)
    return store


def _paths(store: TableStore) -> list[str]:
    return [f"{store.uri}/{file.path}" for file in store.files()]


EXPECTED = {(LEDGER, 1), (LEDGER, 2), (LEDGER, 3), (LEDGER, 4), (OTHER, 1), (OTHER, 2)}


def test_duckdb_reads_the_list_of_files(store: TableStore) -> None:
    found = duckdb.sql(
        f"select ledger_id, serial, part, day from read_parquet({_paths(store)}, hive_partitioning = true)"
    ).fetchall()
    assert {(ledger, serial) for ledger, serial, _, _ in found} == EXPECTED
    assert {(part, day and str(day)) for _, _, part, day in found} == {
        ("done", DAY),
        ("done", "2026-11-23"),
        ("open", None),
    }


def test_duckdb_queries_the_folded_table_through_arrow(store: TableStore) -> None:
    small = read_folded(store)
    counted = duckdb.sql("select state, count(*) as entries from small group by all order by all").fetchall()
    assert small.num_rows == 6
    assert counted == [("available", 5), ("deleted", 1)]


def test_duckdb_folds_what_the_query_says(store: TableStore) -> None:
    later = rows(4, 1, "locked").set_column(7, "last_position", pa.array([9], pa.int64()))
    store.commit([store.write(later, OPEN, None, LEDGER)], [], at(9, store.state()), "batch")
    by_duckdb = duckdb.sql(duckdb_query(store)).to_arrow_table()
    by_arrow = read_folded(store)
    assert sorted(by_duckdb.to_pylist(), key=str) == sorted(by_arrow.to_pylist(), key=str)
    assert by_duckdb.num_rows == 6


@pytest.mark.parametrize("name", [name for name, table in DEFINITIONS.items() if table.link])
def test_rows_that_are_to_meet_fall_into_one_bucket(tmp_path: Path, name: str) -> None:
    """A row that doesn't know its link yet is folded with the one that does, in whatever bucket."""
    table = DEFINITIONS[name]
    store = small_store(tmp_path, "parquet", table)
    nothing = {field.name: pa.nulls(40, field.type) for field in table.fields}
    numbers = pa.array([n // 2 for n in range(40)], pa.int64())
    known = {key: numbers.cast(table.field(key).type) for key in table.key}
    known[table.link] = pa.array([7, None] * 20, table.field(table.link).type)
    order = {
        "first_position": pa.array(range(40), pa.int64()),
        "last_position": pa.array(range(40), pa.int64()),
        "first_ordinal": pa.array([0] * 40, pa.int32()),
        "last_ordinal": pa.array([0] * 40, pa.int32()),
    }
    partial = pa.table(nothing | known | order | {"ledger_id": pa.array([LEDGER] * 40)})
    files = [store.write(partial, OPEN, None, LEDGER)]
    one = read_bucket(store, files, table.key, 0, 1)
    many = pa.concat_tables([read_bucket(store, files, table.key, number, 5) for number in range(5)])
    assert one.num_rows == 20
    assert sorted(many.to_pylist(), key=str) == sorted(one.to_pylist(), key=str)


def test_duckdb_reads_a_table_with_one_part(tmp_path: Path) -> None:
    for name, part in (("a", DONE), ("b", OPEN)):
        store = small_store(tmp_path / name, "parquet")
        with pytest.raises(TableError, match="no table"):
            duckdb_query(store)
        store.commit([], [], store.state(), "batch")
        assert duckdb.sql(duckdb_query(store)).to_arrow_table().num_rows == 0
        made = store.write(rows(1, 3), part, DAY if part == DONE else None, LEDGER)
        store.commit([made], [], store.state(), "batch")
        assert duckdb.sql(duckdb_query(store)).to_arrow_table().num_rows == 3


def test_polars_reads_the_list_of_files(store: TableStore) -> None:
    found = polars.scan_parquet(_paths(store), hive_partitioning=True).collect()
    assert set(found.select("ledger_id", "serial").rows()) == EXPECTED


def test_polars_takes_the_folded_table_from_arrow(store: TableStore) -> None:
    frame = polars.from_arrow(read_folded(store, ["ledger_id", "serial"]))
    assert isinstance(frame, polars.DataFrame)
    assert set(frame.rows()) == EXPECTED


def test_arrow_alone_reads_the_list_of_files(store: TableStore) -> None:
    dataset = pyarrow.dataset.dataset(
        _paths(store), partitioning="hive", partition_base_dir=store.uri + "/data"
    )
    found = dataset.to_table(["ledger_id", "serial"]).to_pylist()
    assert {(row["ledger_id"], row["serial"]) for row in found} == EXPECTED


def test_a_file_holds_no_more_than_its_own_columns(store: TableStore) -> None:
    if not store.can_replace:
        pytest.skip("Iceberg takes partitions from the columns")
    names = pq.read_schema(_paths(store)[0]).names
    assert not {"part", "day", "ledger_id"} & set(names)


def test_polars_and_deltalake_read_delta(tmp_path: Path) -> None:
    store = small_store(tmp_path, "delta")
    done = store.write(rows(1, 300), DONE, DAY, LEDGER)
    partial = store.write(rows(301, 5), OPEN, None, LEDGER)
    store.commit([done, partial], [], at(305, store.state()), "batch")
    scanned = polars.scan_delta(store.uri)
    assert scanned.filter(polars.col("serial") > 298).collect()["serial"].sort().to_list() == list(
        range(299, 306)
    )
    assert scanned.filter(polars.col("part") == "done").collect().height == 300
    by_delta = DeltaTable(store.uri).to_pyarrow_table(filters=[("part", "=", "open")])
    assert sorted(by_delta["serial"].to_pylist()) == [301, 302, 303, 304, 305]
    assert set(by_delta["ledger_id"].to_pylist()) == {LEDGER}
