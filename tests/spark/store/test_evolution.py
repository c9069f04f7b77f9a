"""Columns of tables from version to version: they may only gain some, and an upgrade can be taken back."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from postroom.spark.store import read_folded
from postroom.spark.store.compaction import LEAST_FILES
from postroom.spark.store.protocol import NO_VERSION, OPEN, SchemaConflict
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import Field, Merge
from tests.spark.store.small_tables import (
    COLOUR,
    DAY,
    LEDGER,
    NEWER,
    SMALL,
    append,
    at,
    compact,
    definition,
    rows,
    serials,
    small_store,
)

WEIGHT = Field("weight", pa.int64(), Merge.SUM, "Its weight")

NEWEST = definition(3, COLOUR, WEIGHT)


def _append_newer(root: Path, format: str, first: int) -> None:
    store = small_store(root, format, NEWER)
    coloured = rows(first, 2).append_column("colour", pa.array(["red", "blue"]))
    made = store.write(coloured, "done", DAY, LEDGER)
    store.commit([made], [], at(first + 1, store.state()), "batch")


def test_an_upgrade_adds_columns_that_are_null_in_older_rows(tmp_path: Path, format: str) -> None:
    append(small_store(tmp_path, format), 1, 2)
    _append_newer(tmp_path, format, 3)
    store = small_store(tmp_path, format, NEWER)
    assert store.state().schema_version == 2
    record = read_folded(store, ["serial", "colour"]).to_pylist()
    assert sorted((row["serial"], row["colour"]) for row in record) == [
        (1, None),
        (2, None),
        (3, "red"),
        (4, "blue"),
    ]


def test_texts_are_read_by_dictionary_where_asked_for_also_where_a_file_has_none(
    tmp_path: Path, format: str
) -> None:
    append(small_store(tmp_path, format), 1, 2)
    _append_newer(tmp_path, format, 3)
    store = small_store(tmp_path, format, NEWER)
    names = [*NEWER.schema.names, "part", "day"]
    for file in store.files():
        coded, plain = store.read(file, names, coded=True), store.read(file, names)
        texts = {name for name in names if pa.types.is_dictionary(coded.schema.field(name).type)}
        assert texts == {"ledger_id", "state", "colour", "part", "day"}
        assert coded.to_pylist() == plain.to_pylist()
    both = pa.concat_tables([store.read(file, names, coded=True) for file in store.files()])
    assert sorted(both["colour"].to_pylist(), key=str) == [None, None, "blue", "red"]


def test_an_upgrade_keeps_positions_and_versions_in_order(tmp_path: Path, format: str) -> None:
    before = small_store(tmp_path, format)
    append(before, 1, 2)
    old = before.state().version
    _append_newer(tmp_path, format, 3)
    store = small_store(tmp_path, format, NEWER)
    assert store.state().positions[LEDGER].position == 4
    assert [file.rows for file in store.added_since(NO_VERSION)] == [2, 2]
    assert [file.rows for file in store.added_since(old)] == [2]


def test_an_older_reader_leaves_newer_columns_out(tmp_path: Path, format: str) -> None:
    append(small_store(tmp_path, format), 1, 2)
    _append_newer(tmp_path, format, 3)
    store = small_store(tmp_path, format)
    assert read_folded(store).schema.names == SMALL.schema.names
    assert serials(store) == [1, 2, 3, 4]


def test_an_upgrade_can_be_taken_back_and_done_again(tmp_path: Path, format: str) -> None:
    """The program of one version before writes on; the newer columns are null in its rows."""
    _append_newer(tmp_path, format, 1)
    append(small_store(tmp_path, format), 3, 2)
    assert small_store(tmp_path, format).state().schema_version == 2
    _append_newer(tmp_path, format, 5)
    record = read_folded(small_store(tmp_path, format, NEWER), ["serial", "colour"]).to_pylist()
    colours = {row["serial"]: row["colour"] for row in record}
    assert colours == {1: "red", 2: "blue", 3: None, 4: None, 5: "red", 6: "blue"}


def test_a_program_more_than_one_version_behind_may_read_but_not_write(tmp_path: Path, format: str) -> None:
    newest = small_store(tmp_path, format, NEWEST)
    newest.commit([], [], newest.state(), "batch")
    store = small_store(tmp_path, format)
    assert serials(store) == []
    with pytest.raises(SchemaConflict, match=r"schema version 3, this program knows 1 .* upgrade postroom"):
        append(store, 1, 2)


def test_old_and_new_files_are_put_together(tmp_path: Path, format: str) -> None:
    for number in range(LEAST_FILES):
        append(small_store(tmp_path, format), 1 + number, 1)
    _append_newer(tmp_path, format, 100)
    store = small_store(tmp_path, format, NEWER)
    assert compact(store, 1 << 20) > LEAST_FILES
    record = read_folded(store, ["serial", "colour"]).to_pylist()
    assert {row["serial"]: row["colour"] for row in record}[100] == "red"
    assert len(store.files()) == 1


def test_an_older_program_does_not_lose_newer_columns_by_putting_files_together(
    tmp_path: Path, format: str
) -> None:
    for number in range(LEAST_FILES):
        _append_newer(tmp_path, format, 1 + 2 * number)
    assert compact(small_store(tmp_path, format), 1 << 20) == 0
    record = read_folded(small_store(tmp_path, format, NEWER), ["serial", "colour"]).to_pylist()
    assert sum(row["colour"] is None for row in record) == 0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (Field("colour", pa.int64(), Merge.LAST, ""), "colour is string .* and int64"),
        (Field("colour", pa.string(), Merge.FIRST, ""), r"merged by last\).* \(merged by first"),
        (Field("shade", pa.string(), Merge.LAST, ""), "no longer knows: colour"),
        (Field("shade", pa.string(), Merge.KEY, ""), "its key has no column shade"),
    ],
)
def test_any_other_change_is_refused(tmp_path: Path, format: str, changed: Field, why: str) -> None:
    _append_newer(tmp_path, format, 1)
    other = definition(2, changed)
    store = small_store(tmp_path, format, other)
    with pytest.raises(SchemaConflict, match=why):
        store.commit([], [], store.state(), "batch")
    assert serials(small_store(tmp_path, format)) == [1, 2]


def test_open_rows_of_both_programs_fold_together(tmp_path: Path, format: str) -> None:
    append(small_store(tmp_path, format), 1, 2, OPEN)
    store = small_store(tmp_path, format, NEWER)
    later = rows(1, 2, "deleted").append_column("colour", pa.array(["red", None]))
    later = later.set_column(7, "last_position", pa.array([8, 9], pa.int64()))
    store.commit([store.write(later, OPEN, None, LEDGER)], [], at(9, store.state()), "batch")
    record = read_folded(store, ["serial", "colour", "count"]).to_pylist()
    assert [tuple(row.values()) for row in record] == [(1, "red", 2), (2, None, 2)]


def test_delta_tells_every_reader_what_columns_mean(tmp_path: Path) -> None:
    _append_newer(tmp_path, "delta", 1)
    fields = {field.name: field for field in DeltaTable(str(tmp_path / "small")).schema().fields}
    assert fields["colour"].metadata == {"comment": "Its colour", "postroom.merge": "last"}


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_every_table_can_be_made_in_every_format(tmp_path: Path, format: str, name: str) -> None:
    table = DEFINITIONS[name]
    store = small_store(tmp_path, format, table)
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in table.fields})
    made = store.write(nulls, OPEN, None, LEDGER)
    store.commit([made], [], store.state(), "batch")
    again = small_store(tmp_path, format, table)
    assert again.read(made).schema.types == table.schema.types
    again.commit([], [], again.state(), "batch")
