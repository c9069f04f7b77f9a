"""The tables read by others: DuckDB and Polars, from the list of files, through Arrow, and as Delta."""

from pathlib import Path

import duckdb
import polars
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from postroom.spark.store import DONE, OPEN, TableStore, read_folded
from tests.tables.stores import DAY, LEDGER, OTHER, at, rows, small_store


@pytest.fixture(params=["delta", "parquet"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    """Two ledgers, done and open rows; a file that was replaced and one that was never committed."""
    store = small_store(tmp_path, str(request.param))
    files = [
        store.write(rows(1, 3), DONE, DAY, LEDGER),
        store.write(rows(1, 2, ledger_id=OTHER), DONE, "2026-11-23", OTHER),
        store.write(rows(4, 2), OPEN, None, LEDGER),
    ]
    store.commit(files, [], at(5, store.state()), "batch")
    later = store.write(rows(4, 1, "deleted"), OPEN, None, LEDGER)
    store.commit([later], files[2:], at(6, store.state()), "settle")
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
