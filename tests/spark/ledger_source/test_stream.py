"""What a stream over ledgers reads next: offsets, limits, bounds, joining, leaving, what was dropped."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from postroom.ledger.reading.reader import NoLedger
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA
from postroom.spark.ledger_source.options import SourceOptions, read_options
from postroom.spark.ledger_source.positions import LedgerDiverged, Position, Positions, to_json
from postroom.spark.ledger_source.ranges import (
    DataLost,
    LedgerMissing,
    Limit,
    Planner,
    rows_of,
    shares,
)
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.place import LedgerTwice, Slice
from tests.ledger.ledger_maker import LEDGER_ID, START_US, STEP_US, LedgerMaker

OTHER_ID = UUID("0195f2a0-0000-7000-8000-00000000000b")
A, B = str(LEDGER_ID), str(OTHER_ID)
ALL = Limit()


def _options(*folders: Path, **more: str) -> SourceOptions:
    return read_options({"path": json.dumps([str(folder) for folder in folders]), **more})


def _ledger(folder: Path, messages: int = 10, ledger_id: UUID = LEDGER_ID) -> LedgerMaker:
    """Position 1 is the queue, 2 and on the messages, a block each."""
    maker = LedgerMaker(folder, ledger_id)
    queue = maker.queue("q")
    for _ in range(messages):
        maker.put(queue)
        maker.commit()
    maker.marker()
    return maker


def _more(maker: LedgerMaker, messages: int) -> None:
    for _ in range(messages):
        maker.put(1)
        maker.commit()
    maker.marker()


def _run(planner: Planner, limit: Limit = ALL, start: Positions | None = None) -> list[Positions]:
    """The offsets of batches until nothing is left."""
    offsets: list[Positions] = [start or {}]
    while (end := planner.next(offsets[-1], limit)) != offsets[-1]:
        offsets.append(end)
    return offsets


def _ends(offsets: list[Positions], ledger: str = A) -> list[int]:
    return [offset[ledger].position for offset in offsets if ledger in offset]


def _slices(planner: Planner, start: Positions, end: Positions) -> list[Slice]:
    return [piece for part in planner.parts(start, end) for piece in part]


def _read(planner: Planner, start: Positions, end: Positions) -> list[int]:
    rows = [
        row
        for slice in _slices(planner, start, end)
        for batch in read_events(slice)
        for row in batch.to_pylist()
    ]
    return sorted(row["position"] for row in rows)


def test_the_first_batch_only_writes_down_where_to_begin(tmp_path: Path) -> None:
    _ledger(tmp_path)
    planner = Planner(_options(tmp_path))
    first, begun, end = _run(planner)
    assert (first, begun[A].position, end[A].position) == ({}, 0, 11)
    assert planner.parts(first, begun) == []
    assert _read(planner, begun, end) == list(range(2, 12))


@pytest.mark.parametrize("records", [1, 3, 4, 100])
def test_a_batch_has_at_most_so_many_records_and_the_batches_have_all(tmp_path: Path, records: int) -> None:
    _ledger(tmp_path)
    planner = Planner(_options(tmp_path))
    offsets = _run(planner, Limit(records=records))
    ends = _ends(offsets)
    assert all(0 < high - low <= records for low, high in pairwise(ends))
    read = [
        p for n in range(1, len(offsets)) for p in _read(Planner(_options(tmp_path)), *offsets[n - 1 : n + 1])
    ]
    assert read == list(range(2, 12))


@pytest.mark.parametrize("size", [1, 300, 1000, 1 << 20])
def test_a_batch_has_about_so_many_bytes(tmp_path: Path, size: int) -> None:
    _ledger(tmp_path, 100)
    ends = _ends(_run(Planner(_options(tmp_path)), Limit(size_bytes=size)))
    steps = [high - low for low, high in pairwise(ends)]
    assert ends[-1] == 101
    assert max(steps) <= max(1, size // 100)


def test_batches_can_be_served_again_while_the_ledger_grows(tmp_path: Path) -> None:
    maker = _ledger(tmp_path)
    planner = Planner(_options(tmp_path, startingPosition="latest"))
    begun = planner.next({}, ALL)
    _more(maker, 5)
    end = planner.next(begun, ALL)
    _more(maker, 5)
    maker.next_file(new_epoch=True)
    _more(maker, 5)
    maker.seal(1)
    for again in (planner, Planner(_options(tmp_path, startingPosition="latest"))):
        assert again.parts({}, begun) == []
        assert _read(again, begun, end) == list(range(12, 17))


def test_what_is_available_now_is_read_and_no_more(tmp_path: Path) -> None:
    maker = _ledger(tmp_path)
    planner = Planner(_options(tmp_path))
    planner.stop_here()
    _more(maker, 5)
    assert _ends(_run(planner, Limit(records=4)))[-1] == 11
    assert planner.latest()[A].position == 11


def test_a_ledger_that_joins_begins_where_a_new_stream_would(tmp_path: Path) -> None:
    _ledger(tmp_path / "a")
    end = _run(Planner(_options(tmp_path / "a")))[-1]
    _ledger(tmp_path / "b", 3, OTHER_ID)
    both = Planner(_options(tmp_path / "a", tmp_path / "b"))
    offsets = _run(both, start=end)
    assert _ends(offsets, B) == [0, 4]
    assert _read(both, offsets[0], offsets[1]) == []
    assert _read(both, offsets[1], offsets[2]) == [2, 3, 4]


def test_a_ledger_that_a_pattern_finds_joins_a_stream_that_runs(tmp_path: Path) -> None:
    _ledger(tmp_path / "a")
    (tmp_path / "notes").mkdir()
    running = Planner(_options(tmp_path / "*"))
    end = _run(running)[-1]
    assert set(end) == {A}
    _ledger(tmp_path / "b", 3, OTHER_ID)
    offsets = _run(running, start=end)
    assert _ends(offsets, B) == [0, 4]
    assert _read(running, offsets[1], offsets[2]) == [2, 3, 4]
    (tmp_path / "b").rename(tmp_path.parent / f"{tmp_path.name} gone")
    with pytest.raises(LedgerMissing, match=f"no path leads to ledger {B}"):
        running.next(offsets[-1], ALL)
    with pytest.raises(NoLedger, match="z"):
        Planner(_options(tmp_path / "z*")).refresh()


def test_leaving_out_a_ledger_must_be_said(tmp_path: Path) -> None:
    _ledger(tmp_path / "a")
    _ledger(tmp_path / "b", 3, OTHER_ID)
    end = _run(Planner(_options(tmp_path / "a", tmp_path / "b")))[-1]
    with pytest.raises(LedgerMissing, match=f"no path leads to ledger {B}"):
        Planner(_options(tmp_path / "a")).next(end, ALL)
    with pytest.raises(LedgerMissing):
        Planner(_options(tmp_path / "a")).parts(end, end)
    without = Planner(_options(tmp_path / "a", onMissingLedger="drop"))
    assert set(without.next(end, ALL)) == {A}
    assert without.parts(end, without.next(end, ALL)) == []


def test_two_paths_to_one_ledger_are_refused(tmp_path: Path) -> None:
    _ledger(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with pytest.raises(LedgerTwice, match="name one of them"):
        Planner(_options(tmp_path / "a", tmp_path / "copy")).refresh()


def test_several_ledgers_share_a_limit(tmp_path: Path) -> None:
    assert shares({"a": 2, "b": 50, "c": 9}, 20) == {"a": 2, "b": 9, "c": 9}
    assert shares({"a": 2, "b": 50}, None) == {"a": 2, "b": 50}
    assert shares({"a": 9, "b": 50}, 1) == {"a": 0, "b": 1}


def _dropped(folder: Path) -> None:
    """Positions 1 to 11 are gone, 12 to 16 are there."""
    maker = _ledger(folder)
    maker.next_file()
    _more(maker, 5)
    maker.seal(1)
    maker.drop(1)


def test_what_was_dropped_before_it_was_read_is_told(tmp_path: Path) -> None:
    _dropped(tmp_path)
    after = {A: Position(1, (b"e" * 16).hex(), 5)}
    with pytest.raises(DataLost, match="positions 6 to 11 were not read and are dropped"):
        Planner(_options(tmp_path)).next(after, ALL)
    with pytest.raises(DataLost):
        Planner(_options(tmp_path, startingPosition=to_json(after))).next({}, ALL)
    content = Planner(_options(tmp_path, failOnDataLoss="false"))
    end = content.next(after, Limit(records=2))
    assert (end[A].position, _read(content, after, end)) == (13, [12, 13])
    whole = {A: Position(1, (b"e" * 16).hex(), 11)}
    assert Planner(_options(tmp_path)).next(whole, ALL)[A].position == 16
    assert _ends(_run(Planner(_options(tmp_path)))) == [11, 16]  # earliest: what there is


def test_a_file_that_goes_between_planning_and_reading_is_told(tmp_path: Path) -> None:
    maker = _ledger(tmp_path)
    maker.next_file()
    _more(maker, 5)
    maker.seal(1)
    options = _options(tmp_path)
    planner = Planner(options)
    begun, end = _run(planner)[1:]
    slices = _slices(planner, begun, end)
    maker.drop(1)
    with pytest.raises(DataLost, match="positions 1 to 11 were not read"):
        list(rows_of(slices[0], EVENTS_SCHEMA, options))
    content = _options(tmp_path, failOnDataLoss="false")
    assert list(rows_of(slices[0], EVENTS_SCHEMA, content)) == []
    assert sum(batch.num_rows for batch in rows_of(slices[1], EVENTS_SCHEMA, content)) == 5


def test_slices_are_as_few_as_can_be_and_parts_are_even(tmp_path: Path) -> None:
    maker = _ledger(tmp_path)
    _more(maker, 4)
    maker.next_file()
    _more(maker, 5)
    planner = Planner(_options(tmp_path, partitionRecords="12"))
    begun, end = _run(planner)[1:]
    spans = [(piece.first, piece.last) for piece in planner.slices(begun, end)]
    parts = [[(piece.first, piece.last) for piece in part] for part in planner.parts(begun, end)]
    files = [(one.first_position, one.last_position) for one in planner.refresh()[A].snapshot.segments]
    assert len(files) == 2
    assert len(spans) == sum(-(-(last - first + 1) // 12) for first, last in files)
    assert [first for first, _ in spans if first in {one for one, _ in files}] == [one for one, _ in files]
    sizes = [sum(last - first + 1 for first, last in part) for part in parts]
    assert max(sizes) <= min(sizes) + 1 <= 13
    whole = range(1, files[-1][1] + 1)
    for some in (spans, [piece for part in parts for piece in part]):
        assert [p for first, last in some for p in range(first, last + 1)] == list(whole)


def test_a_restored_ledger_stops_the_stream(tmp_path: Path) -> None:
    folder, backup = tmp_path / "data", tmp_path / "backup"
    maker = _ledger(folder)
    shutil.copytree(folder, backup)
    planner = Planner(_options(folder))
    begun = planner.next({}, ALL)
    _more(maker, 5)
    end = planner.next(begun, ALL)
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    for again in (planner, Planner(_options(folder))):
        with pytest.raises(LedgerDiverged):
            again.next(end, ALL)
        with pytest.raises(LedgerDiverged):
            again.refresh()
            again.parts(begun, end)


def _time(position: int) -> str:
    """The time of the record at a position."""
    since = timedelta(microseconds=START_US + position * STEP_US)
    return (datetime(1970, 1, 1, tzinfo=UTC) + since).isoformat()


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"startingPosition": _time(5)}, range(5, 12)),
        ({"startingPosition": "2000-01-01T00:00:00Z"}, range(2, 12)),
        ({"fromTime": _time(4), "toTime": _time(7)}, range(4, 7)),
        ({"toTime": "2000-01-01T00:00:00Z"}, range(0)),
        ({"fromPosition": "4", "toPosition": "6"}, range(4, 7)),
        ({"toPosition": "600"}, range(2, 12)),
        ({"startingPosition": to_json({A: Position(1, (b"e" * 16).hex(), 8)})}, range(9, 12)),
        ({"startingPosition": to_json({B: Position(1, (b"e" * 16).hex(), 8)})}, range(2, 12)),
        ({"startingPosition": "latest"}, range(0)),
    ],
)
def test_where_a_read_begins_and_ends(tmp_path: Path, options: dict[str, str], read: range) -> None:
    _ledger(tmp_path)
    planner = Planner(_options(tmp_path, **options))
    offsets = _run(planner, Limit(records=3))
    assert [p for n in range(1, len(offsets)) for p in _read(planner, *offsets[n - 1 : n + 1])] == list(read)


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"fromPosition": "14"}, [14, 15, 16]),
        ({"fromTime": _time(14)}, [14, 15, 16]),
        ({"startingPosition": _time(14)}, [14, 15, 16]),
        ({"startingPosition": "latest"}, [12, 13, 14, 15, 16]),
        ({"toTime": _time(14)}, [*range(2, 14)]),
        ({"toPosition": "13"}, [*range(2, 14)]),
    ],
)
def test_bounds_that_the_ledger_has_not_reached_hold_when_it_does(
    tmp_path: Path, options: dict[str, str], read: list[int]
) -> None:
    maker = _ledger(tmp_path)
    planner = Planner(_options(tmp_path, **options))
    offsets = _run(planner)
    _more(maker, 5)
    offsets += _run(planner, start=offsets[-1])[1:]
    found = [p for n in range(1, len(offsets)) for p in _read(planner, *offsets[n - 1 : n + 1])]
    assert found == read


def _named(message: str) -> Callable[[dict[str, str]], None]:
    def check(options: dict[str, str]) -> None:
        with pytest.raises(SourceOptionError, match=message):
            read_options({"path": "x", **options})

    return check


def test_a_bad_option_is_named_with_what_it_should_be() -> None:
    _named('"startingPosition" must be earliest, latest, a time or JSON')({"startingPosition": "now"})
    _named('"startingPosition": ledger a: a position is')({"startingPosition": '{"a": 5}'})
    _named('"fromTime" must be a time, not .2026-03-01T08:00:00.')({"fromTime": "2026-03-01T08:00:00"})
    _named("toTime must be later than fromTime")(
        {"fromTime": "2026-03-01T08:00:00Z", "toTime": "2026-03-01T09:00:00+01:00"}
    )
    _named('"onMissingLedger" is fail or drop')({"onMissingLedger": "skip"})
    _named('"failOnDataLoss" is true or false')({"failOnDataLoss": "maybe"})
    _named('"maxRows" is a whole number from 1')({"maxRows": "0"})
    _named('"queues" is no JSON list')({"queues": "[a"})
    _named('"path" is a JSON list of texts')({"path": "[]"})
    _named('"path" names a ledger twice')({"path": '["a", "a"]'})
    _named('"carried" is true or false')({"carried": "perhaps"})
    _named('"partitionRecords" is a whole number from 1')({"partitionRecords": "-5"})
    _named('"toPosition" is a whole number from 1')({"toPosition": "many"})
    _named("toPosition 3 is below fromPosition 9")({"fromPosition": "9", "toPosition": "3"})
    _named('"path" is missing')({"path": ""})
    _named("positions of one ledger")({"path": '["a", "b"]', "fromPosition": "3"})


def test_options_in_any_case_and_both_forms_of_lists() -> None:
    read = read_options({"PATHS": '["a", "b"]', "Queues": "x, y", "MAXROWS": "5", "failondataloss": "FALSE"})
    assert (read.uris, read.queues, read.max_rows, read.fail_on_data_loss) == (
        ("a", "b"),
        frozenset({"x", "y"}),
        5,
        False,
    )
    assert read_options({"path": "a", "queues": '["x, y"]'}).queues == frozenset({"x, y"})
