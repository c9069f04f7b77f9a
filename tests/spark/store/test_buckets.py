"""Buckets of keys: each row is in one of them, and a bucket reads little of a file that has many."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.spark.store.buckets import (
    GROUP_ROWS,
    SLOTS,
    SLOTS_NOTE,
    by_slots,
    in_bucket,
    note_of,
    row_groups,
    slots_of,
)
from tests.spark.store.small_tables import LEDGER, rows, small_store

KEY = ["serial"]
MANY = 5 * GROUP_ROWS


@pytest.mark.parametrize("count", [2, 3, 7, 64])
def test_each_row_of_a_file_is_in_one_bucket(tmp_path: Path, count: int) -> None:
    store = small_store(tmp_path, "delta")
    file = store.write(rows(1, MANY), "open", None, LEDGER)
    names = store.definition.schema.names
    pieces = [store.read_bucket(file, names, number, count) for number in range(count)]
    assert sorted(pa.concat_tables(pieces)["serial"].to_pylist()) == list(range(1, MANY + 1))
    for number, piece in enumerate(pieces):
        assert all(in_bucket(piece, KEY, number, count).to_pylist())


def test_a_bucket_reads_few_row_groups(tmp_path: Path) -> None:
    store = small_store(tmp_path, "delta")
    file = store.write(rows(1, MANY), "open", None, LEDGER)
    metadata = pq.read_metadata(f"{store.uri}/{file.path}")
    assert metadata.num_row_groups == MANY // GROUP_ROWS
    assert SLOTS_NOTE in metadata.metadata
    read = [row_groups(metadata.metadata, metadata.num_row_groups, number, 64) for number in range(64)]
    assert max(map(len, read)) <= 2
    assert {group for some in read for group in some} == set(range(metadata.num_row_groups))


def test_few_rows_and_finished_ones_stay_in_their_order(tmp_path: Path) -> None:
    store = small_store(tmp_path, "delta")
    for part, count in (("open", GROUP_ROWS), ("done", MANY)):
        file = store.write(rows(1, count), part, None, LEDGER)  # type: ignore[arg-type]
        assert store.read(file)["serial"].to_pylist() == list(range(1, count + 1))
        buckets = [store.read_bucket(file, store.definition.schema.names, n, 3) for n in range(3)]
        assert sum(map(len, buckets)) == count


@given(
    serials=st.lists(st.integers(1, 1 << 62), min_size=1, max_size=200),
    first=st.integers(0, 1 << 40),
    count=st.integers(1, SLOTS),
)
def test_row_groups_leave_nothing_out(serials: list[int], first: int, count: int) -> None:
    table = pa.table({"serial": [*serials, *range(first + 1, first + 2 * GROUP_ROWS)]})
    first_slots, groups = zip(*by_slots(table, KEY), strict=True)
    assert sum(map(len, groups)) == len(table)
    note = {SLOTS_NOTE: note_of(first_slots)}
    for number, group in enumerate(groups):
        slots = set((slots_of(group, KEY) * count // SLOTS).tolist())
        for bucket in slots:
            assert number in row_groups(note, len(groups), bucket, count)
