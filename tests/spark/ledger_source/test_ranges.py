"""Any split of a ledger into ranges, down to single positions, gives the same rows of the events table."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.ledger.errors import UnknownRecord
from postroom.ledger.format import expand
from postroom.model.codes import Event
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA, NEVER_NULL
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.place import Place
from postroom.spark.places.slices import plan, plan_parts
from tests.ledger.ledger_maker import LedgerMaker
from tests.sampling import examples
from tests.spark.lives import Life, histories, made

Rows = list[dict[str, Any]]


def rows_of(place: Place, cuts: list[int], records: int = 1 << 20, schema: pa.Schema = EVENTS_SCHEMA) -> Rows:
    """All rows by (position, ordinal), read range by range: from the first cut up to before the next."""
    snapshot = place.snapshot()
    edges = sorted(
        {
            snapshot.first_position,
            *(c for c in cuts if c <= snapshot.durable_through),
            snapshot.durable_through + 1,
        }
    )
    batches = [
        batch
        for first, behind in pairwise(edges)
        for slice in plan(place, snapshot, first, behind - 1, records)
        for batch in read_events(slice, schema)
    ]
    rows = pa.Table.from_batches(batches, schema).to_pylist()
    return sorted(rows, key=lambda row: (row["position"], row["ordinal"]))


@settings(max_examples=examples(60), deadline=None)
@given(histories, st.lists(st.integers(1, 120), max_size=5), st.integers(1, 9))
def test_every_split_gives_the_same_rows(
    history: list[tuple[str, int]], cuts: list[int], records: int
) -> None:
    with TemporaryDirectory() as name:
        place = FolderPlace(made(Path(name), history))
        whole = rows_of(place, [])
        assert rows_of(place, cuts) == whole
        assert rows_of(place, [], records) == whole
        assert rows_of(place, list(range(1, 200))) == whole  # single positions, so every block too


@settings(max_examples=examples(60), deadline=None)
@given(histories, st.integers(1, 9), st.integers(0, 60), st.integers(1, 200))
def test_parts_for_a_task_each_are_even_and_have_every_position_once(
    history: list[tuple[str, int]], records: int, first: int, last: int
) -> None:
    with TemporaryDirectory() as name:
        place = FolderPlace(made(Path(name), history))
        snapshot = place.snapshot()
        parts = plan_parts(place, snapshot, first, last, records)
        whole = range(max(first, snapshot.first_position), min(last, snapshot.durable_through) + 1)
        positions = [[p for piece in part for p in range(piece.first, piece.last + 1)] for part in parts]
        assert [position for part in positions for position in part] == list(whole)
        sizes = [len(part) for part in positions]
        assert len(sizes) == -(-len(whole) // records)  # no more tasks than it takes
        assert not sizes or max(sizes) <= min(records, min(sizes) + 1)
        assert all(p.segment.first_position <= p.first <= p.last for part in parts for p in part)


@settings(max_examples=examples(60), deadline=None)
@given(histories)
def test_columns_that_are_never_null(history: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as name:
        for row in rows_of(FolderPlace(made(Path(name), history)), []):
            assert [column for column in NEVER_NULL if row[column] is None] == []


@settings(max_examples=examples(60), deadline=None)
@given(histories, st.integers(0, 8))
def test_changes_of_a_kind_by_themselves_are_the_same_rows(history: list[tuple[str, int]], most: int) -> None:
    """Few kinds or more than are parted, and blocks of any size."""
    with TemporaryDirectory() as name:
        place = FolderPlace(made(Path(name), history))
        snapshot = place.snapshot()
        parted: Rows = []
        with patch.object(expand, "LEAST_ROWS", 1), patch.object(expand, "MOST_KINDS", most):
            for slice in plan(place, snapshot, 1, snapshot.durable_through, 1 << 20):
                for batch in read_events(slice, in_kinds=True):
                    rows = batch.to_pylist()
                    assert [row["position"] for row in rows] == sorted(row["position"] for row in rows)
                    parted += rows
        assert sorted(parted, key=lambda row: (row["position"], row["ordinal"])) == rows_of(place, [])


def test_blocks_of_a_kind_say_so_by_columns_of_one_value(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("a")
    for _ in range(expand.LEAST_ROWS):
        maker.consume(maker.put(queue), queue)
    maker.finish()
    place = FolderPlace(tmp_path)
    (slice,) = plan(place, place.snapshot(), 1, place.snapshot().durable_through, 1 << 20)
    blocks = [
        rows
        for chunk, definitions in place.read(slice)
        for rows in expand.expand(chunk, definitions.routing_sets, in_kinds=True)
    ]
    assert [(len(rows), rows["event"][0]) for rows in blocks] == [
        (expand.LEAST_ROWS, event) for event in (Event.PUT, Event.ACQUIRE, Event.CONFIRM)
    ]
    for rows in blocks:
        for field in ("event", "from_state", "to_state", "holder_kind", "causes", "outcome"):
            assert rows[field].strides == (0,)


@pytest.mark.parametrize("in_kinds", [False, True])
@pytest.mark.parametrize("field", ["event", "holder_kind", "outcome", "type"])
def test_all_before_a_record_that_is_not_known_is_read(tmp_path: Path, field: str, in_kinds: bool) -> None:
    """All of them in one chunk of the file."""
    maker = LedgerMaker(tmp_path)
    queue = maker.queue("a")
    serials = [maker.put(queue) for _ in range(3)]
    maker.consume(serials[0], queue)
    codes = {"event": int(Event.ACQUIRE), field: 200}
    if field == "type":
        unknown = maker.unknown()
    else:
        unknown = maker.change(serials[1], queue, codes.pop("event"), 1, 2, **codes)
    maker.consume(serials[2], queue)
    maker.finish()
    place = FolderPlace(tmp_path)
    (slice,) = plan(place, place.snapshot(), 1, place.snapshot().durable_through, 1 << 20)
    read: Rows = []
    with pytest.raises(UnknownRecord) as error:
        for batch in read_events(slice, in_kinds=in_kinds):
            read += batch.to_pylist()
    assert error.value.position == unknown
    before = [row["position"] for row in read if row["position"] < unknown]
    assert sorted(before) == [*serials, unknown - 2, unknown - 1]


@settings(max_examples=examples(30), deadline=None)
@given(histories, st.integers(1, 9))
def test_sealing_changes_no_row(history: list[tuple[str, int]], records: int) -> None:
    with TemporaryDirectory() as name:
        life = Life(LedgerMaker(Path(name)))
        life.begin()
        for step, number in history:
            life.step(step, number)
        life.maker.finish()
        place = FolderPlace(Path(name))
        snapshot = place.snapshot()
        slices = plan(place, snapshot, 1, snapshot.durable_through, records)
        whole = rows_of(place, [], records)
        while life.sealed + 1 < life.files:
            life.seal(0)
        assert rows_of(FolderPlace(Path(name)), [], records) == whole
        rows = [row for slice in slices for batch in read_events(slice) for row in batch.to_pylist()]
        assert sorted(rows, key=lambda row: (row["position"], row["ordinal"])) == whole  # planned before


@settings(max_examples=examples(30), deadline=None)
@given(histories, st.integers(1, 9))
def test_texts_as_dictionaries_are_the_same_texts(history: list[tuple[str, int]], records: int) -> None:
    coded = pa.schema(
        [
            pa.field(
                field.name,
                pa.dictionary(pa.int32(), pa.string()) if pa.types.is_string(field.type) else field.type,
            )
            for field in EVENTS_SCHEMA
        ]
    )
    with TemporaryDirectory() as name:
        place = FolderPlace(made(Path(name), history))
        snapshot = place.snapshot()
        for slice in plan(place, snapshot, 1, snapshot.durable_through, records):
            for plain, texts in zip(read_events(slice), read_events(slice, coded), strict=True):
                assert texts.to_pylist() == plain.to_pylist()


@settings(max_examples=examples(20), deadline=None)
@given(histories)
def test_only_the_entries_of_some_queues(history: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as name:
        place = FolderPlace(made(Path(name), history))
        wanted = [row for row in rows_of(place, []) if row["queue"] == "a"]
        snapshot = place.snapshot()
        slices = plan(place, snapshot, 1, snapshot.durable_through, 7)
        batches = [batch for slice in slices for batch in read_events(slice, queues=frozenset({"a"}))]
        rows = pa.Table.from_batches(batches, EVENTS_SCHEMA).to_pylist()
        assert sorted(rows, key=lambda row: (row["position"], row["ordinal"])) == wanted


def test_what_a_row_says_of_holders_and_channels(tmp_path: Path) -> None:
    history = [("put", 0), ("put", 2), ("put", 4), ("consume", 0), ("batch", 0), ("forward", 0), ("put", 1)]
    rows = rows_of(FolderPlace(made(tmp_path, history)), [])
    names = ("record", "event", "holder", "container", "user", "channel", "luwid", "queue")
    values = [tuple(row[name] for name in names) for row in rows]
    assert values[3:] == [
        ("entry", "acquire", "receiver-0", "app", "guest", None, None, "a"),
        ("entry", "confirm", "receiver-0", "app", "guest", None, None, "a"),
        ("entry", "acquire", "batch", None, None, "TO.QM2", "ab" * 16, "a"),
        ("decision", "forward", "batch", None, None, "TO.QM2", "ab" * 16, "a"),
        ("entry", "acquire", "QM1/TO.QM2", "QM1", None, "TO.QM2", None, "a"),
        ("entry", "forward", "QM1/TO.QM2", "QM1", None, "TO.QM2", None, "a"),
        ("arrival", "put", None, "app", "guest", None, None, "b"),
    ]
