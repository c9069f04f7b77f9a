"""Tables in Iceberg's format only grow; everything else is as with the others."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from postroom.spark.store import open_store, read_folded
from postroom.spark.store.formats import detect_format
from postroom.spark.store.protocol import DONE, NO_VERSION, OPEN, TableConflict, TableError, VersionGone
from postroom.spark.store.table_store import TableStore
from tests.spark.store.small_tables import (
    DAY,
    LEDGER,
    NEWER,
    again,
    append,
    at,
    compact,
    rows,
    serials,
    small_store,
)


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    return small_store(tmp_path, "iceberg")


def test_rows_and_position_are_there_after_one_commit(store: TableStore) -> None:
    assert store.state().version == NO_VERSION
    done, partial = append(store, 1, 5), append(store, 6, 2, OPEN)
    for seen in (store, again(store)):
        assert seen.state().positions[LEDGER].position == 7
        assert sorted(seen.files(), key=lambda file: file.first_serial) == [done, partial]
        assert seen.read(done).equals(rows(1, 5))
        assert seen.added_since(NO_VERSION) == seen.added_since(0) == [done]


def test_texts_are_read_by_dictionary_also_those_that_the_path_repeats(store: TableStore) -> None:
    made = append(store, 1, 5)
    names = ["serial", "state", "part", "day", "ledger_id"]
    coded, plain = store.read(made, names, coded=True), store.read(made, names)
    assert [pa.types.is_dictionary(kind) for kind in coded.schema.types] == [False, True, True, True, True]
    assert coded.to_pylist() == plain.to_pylist()


def test_a_commit_may_change_the_state_alone(store: TableStore) -> None:
    store.commit([], [], at(3), "batch")
    assert again(store).state().positions[LEDGER].position == 3
    assert again(store).files() == []


def test_the_second_of_two_writers_is_refused(store: TableStore) -> None:
    append(store, 1, 5)
    slow = again(store)
    state = slow.state()
    append(store, 6, 5)
    with pytest.raises(TableConflict):
        slow.commit([slow.write(rows(6, 5), DONE, DAY, LEDGER)], [], at(10, state), "batch")
    assert serials(again(store)) == list(range(1, 11))


def test_files_are_not_taken_out(store: TableStore) -> None:
    made = append(store, 1, 5, OPEN)
    assert not store.can_replace
    assert compact(store, 1 << 20) == 0
    with pytest.raises(TableError, match="not taken out"):
        store.commit([], [made], store.state(), "settle")


def test_older_versions_can_be_read(store: TableStore) -> None:
    append(store, 1, 2)
    version, then = store.state().version, datetime.now(UTC)
    while datetime.now(UTC).timestamp() <= then.timestamp() + 0.002:
        time.sleep(0)
    append(store, 3, 2)
    for snapshot in (store.snapshot(version), store.snapshot(as_of=then)):
        assert snapshot.state.positions[LEDGER].position == 2
        assert [file.rows for file in snapshot.files] == [2]
    with pytest.raises(VersionGone):
        store.snapshot(version + 5)


def test_partial_rows_fold(store: TableStore) -> None:
    append(store, 1, 2, OPEN)
    later = rows(1, 1, "deleted").set_column(7, "last_position", pa.array([9], pa.int64()))
    store.commit([store.write(later, OPEN, None, LEDGER)], [], at(9, store.state()), "batch")
    record = read_folded(store, ["serial", "state", "count"]).to_pylist()
    assert [tuple(row.values()) for row in record] == [(1, "deleted", 2), (2, "available", 1)]


def test_columns_are_added(store: TableStore, tmp_path: Path) -> None:
    append(store, 1, 2)
    newer = small_store(tmp_path, "iceberg", NEWER)
    coloured = rows(3, 1).append_column("colour", pa.array(["red"]))
    newer.commit([newer.write(coloured, DONE, DAY, LEDGER)], [], at(3, newer.state()), "batch")
    record = read_folded(small_store(tmp_path, "iceberg", NEWER), ["serial", "colour"]).to_pylist()
    assert {row["serial"]: row["colour"] for row in record} == {1: None, 2: None, 3: "red"}
    assert serials(small_store(tmp_path, "iceberg")) == [1, 2, 3]


def test_strays_are_vacuumed_and_old_versions_forgotten(store: TableStore) -> None:
    append(store, 1, 2)
    append(store, 3, 2)
    store.write(rows(5, 2), DONE, DAY, LEDGER)
    assert store.vacuum(86_400) == 0
    assert store.vacuum(0) == 1
    assert serials(again(store)) == [1, 2, 3, 4]
    append(store, 5, 1)
    assert serials(again(store)) == [1, 2, 3, 4, 5]


def test_any_reader_of_iceberg_finds_the_table(store: TableStore, tmp_path: Path) -> None:
    append(store, 1, 3)
    append(store, 4, 2, OPEN)
    catalog = SqlCatalog("postroom", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    table = catalog.load_table("postroom.small")
    found = table.scan(row_filter="part = 'done'", selected_fields=("serial", "ledger_id")).to_arrow()
    assert sorted(found["serial"].to_pylist()) == [1, 2, 3]
    assert set(found["ledger_id"].to_pylist()) == {LEDGER}
    assert table.schema().find_field("state").doc == "Where it is"


def test_a_folder_tells_its_format(tmp_path: Path) -> None:
    made = open_store(str(tmp_path), "entries", "iceberg")
    made.commit([], [], made.state(), "batch")
    assert detect_format(str(tmp_path)) == "iceberg"


def test_the_catalog_needs_a_local_folder() -> None:
    with pytest.raises(TableError, match="local folder"):
        small_store("fsspec+memory://tables", "iceberg")  # type: ignore[arg-type]
