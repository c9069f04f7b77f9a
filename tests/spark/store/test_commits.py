"""Every format that can replace files: commits, conflicts, older versions, putting together, vacuum."""

import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from postroom.spark.ledger_source.positions import Position
from postroom.spark.store import open_store, read_folded
from postroom.spark.store.compaction import LEAST_FILES
from postroom.spark.store.formats import detect_format
from postroom.spark.store.protocol import (
    CHECKPOINT_COMMITS,
    DONE,
    NO_VERSION,
    OPEN,
    TableConflict,
    TableError,
    VersionGone,
)
from postroom.spark.store.table_store import TableStore
from tests.spark.store.small_tables import (
    DAY,
    EPOCH_ID,
    LEDGER,
    OTHER,
    SMALL,
    again,
    append,
    at,
    compact,
    rows,
    serials,
    small_store,
)

DAY_S = 86_400
MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path, format: str) -> TableStore:
    return small_store(tmp_path, format)


def _data_files(store: TableStore) -> list[Path]:
    return sorted(Path(store.uri, "data").rglob("*.parquet"))


def _age(store: TableStore, seconds: int) -> None:
    """Make everything under the table that much older."""
    then = time.time() - seconds
    for path in Path(store.uri).rglob("*"):
        os.utime(path, (then, then))


def test_a_table_that_nobody_wrote_to_is_empty(store: TableStore) -> None:
    assert store.state().version == NO_VERSION
    assert store.files() == []
    assert store.vacuum(0) == 0
    assert compact(store, MIB) == 0
    with pytest.raises(VersionGone, match="no table small"):
        store.snapshot()


def test_rows_and_position_are_there_after_one_commit(store: TableStore) -> None:
    made = append(store, 1, 5)
    for seen in (store, again(store)):
        assert seen.state().positions == {LEDGER: Position(1, EPOCH_ID, 5)}
        assert seen.files() == [made]
        assert seen.read(made).equals(rows(1, 5))
    assert (made.part, made.day, made.rows) == (DONE, DAY, 5)
    assert (made.first_serial, made.last_serial, made.first_position, made.last_position) == (1, 5, 1, 5)
    assert made.size_bytes == Path(store.uri, made.path).stat().st_size


def test_what_is_written_is_not_in_the_table_before_the_commit(store: TableStore) -> None:
    append(store, 1, 5)
    store.write(rows(6, 5), OPEN, None, LEDGER)
    assert serials(again(store)) == [1, 2, 3, 4, 5]


def test_the_whole_state_comes_back(store: TableStore) -> None:
    state = replace(
        at(7),
        openings={LEDGER: (3, 2)},
        settled_rows=11,
        source_version=4,
        rows_in=5,
        rows_written=6,
        rows_copied=1,
    )
    version = store.commit([], [], state, "settle")
    known = again(store).state()
    assert known.version == version == store.state().version
    assert known.updated_us > 0
    assert known == replace(state, version=version, schema_version=1, updated_us=known.updated_us)


def test_a_settle_takes_open_files_out_and_adds_done_ones_at_once(store: TableStore) -> None:
    append(store, 1, 5, OPEN)
    done = store.write(rows(1, 4), DONE, DAY, LEDGER)
    rest = store.write(rows(5, 1), OPEN, None, LEDGER)
    store.commit([done, rest], store.files(OPEN), store.state(), "settle")
    seen = again(store)
    assert (seen.files(DONE), seen.files(OPEN)) == ([done], [rest])
    assert serials(seen) == [1, 2, 3, 4, 5]


def test_the_second_of_two_writers_is_refused(store: TableStore) -> None:
    append(store, 1, 5)
    slow = again(store)
    state = slow.state()
    append(store, 6, 5)
    stray = slow.write(rows(6, 5), DONE, DAY, LEDGER)
    with pytest.raises(TableConflict, match="small"):
        slow.commit([stray], [], at(10, state), "batch")
    assert serials(slow) == list(range(1, 11))


def test_who_is_overtaken_right_after_looking_is_refused(
    store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other commits as soon as the version was read: nothing is committed upon its version."""
    append(store, 1, 5)
    slow = again(store)
    state = slow.state()
    stray = slow.write(rows(6, 5), DONE, DAY, LEDGER)
    newest = type(slow)._newest  # type: ignore[attr-defined]
    lookups = 0

    def newest_and_append(self: TableStore) -> object:
        nonlocal lookups
        found = newest(self)
        if self is slow:
            lookups += 1
            if lookups == 1:
                append(store, 6, 5)
        return found

    monkeypatch.setattr(type(slow), "_newest", newest_and_append)
    with pytest.raises(TableConflict):
        slow.commit([stray], [], at(10, state), "batch")
    assert serials(again(store)) == list(range(1, 11))


def test_the_second_of_two_that_make_a_table_is_refused(store: TableStore) -> None:
    other = again(store)
    state = other.state()
    append(store, 1, 5)
    with pytest.raises(TableConflict):
        other.commit([], [], state, "batch")


def test_two_writers_at_the_same_moment(store: TableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other commits between the reading of the version and the commit itself."""
    append(store, 1, 5)
    other = again(store)
    other.state()
    before_put = type(store)._put  # type: ignore[attr-defined]

    def put(self: TableStore, *arguments: object) -> None:
        if self is store:
            append(other, 6, 5)
        before_put(self, *arguments)

    monkeypatch.setattr(type(store), "_put", put)
    with pytest.raises(TableConflict):
        append(store, 6, 5)
    assert serials(again(store)) == list(range(1, 11))


COARSE_CLOCK = timedelta(milliseconds=20)
"""So far behind may be the times that a file system gives, by which Delta tells its versions apart."""


def test_older_versions_can_be_read_by_number_and_by_time(store: TableStore) -> None:
    append(store, 1, 2)
    version, then = store.state().version, datetime.now(UTC)
    while datetime.now(UTC) < then + COARSE_CLOCK:
        pass
    append(store, 3, 2)
    for snapshot in (store.snapshot(version), store.snapshot(as_of=then)):
        assert snapshot.state.version == version
        assert snapshot.state.positions[LEDGER].position == 2
        assert [file.rows for file in snapshot.files] == [2]
    with pytest.raises(VersionGone):
        store.snapshot(version + 2)


def test_rows_added_since_a_version_are_told_in_order_and_never_twice(store: TableStore) -> None:
    first = append(store, 1, 2)
    version = store.state().version
    append(store, 3, 2, OPEN)
    files = [append(store, 10 + 2 * number, 2) for number in range(LEAST_FILES)]
    assert compact(store, MIB) > 0
    rewritten = store.write(rows(1, 1), DONE, DAY, LEDGER)
    store.commit([rewritten], [], store.state(), "erase", is_new=False)
    for seen in (store, again(store)):
        assert seen.added_since(version) == files
        assert seen.added_since(NO_VERSION) == [first, *files]
        assert seen.added_since(seen.state().version) == []


def test_small_files_are_put_together_and_rows_stay_as_they_are(store: TableStore) -> None:
    for number in range(LEAST_FILES):
        append(store, 1 + 3 * number, 3, DONE)
        append(store, 1001 + number, 1, OPEN)
    before, positions = serials(store), store.state().positions
    whole = [row for file in store.files() for row in store.read(file).to_pylist()]
    assert compact(store, MIB) == LEAST_FILES
    for seen in (store, again(store)):
        assert [file.rows for file in seen.files(DONE)] == [3 * LEAST_FILES]
        assert [file.rows for file in seen.files(OPEN)] == LEAST_FILES * [1], "settling takes those"
        assert serials(seen) == before
        assert seen.state().positions == positions
        assert seen.state().rows_copied == seen.state().rows_written == 3 * LEAST_FILES
    now = [row for file in store.files() for row in store.read(file).to_pylist()]
    assert sorted(now, key=str) == sorted(whole, key=str)
    (done,) = store.files(DONE)
    assert (done.first_serial, done.last_serial) == (1, 3 * LEAST_FILES)


def test_files_of_different_days_and_ledgers_are_not_put_together(store: TableStore) -> None:
    places = [(day, ledger) for day in (DAY, "2026-11-23") for ledger in (LEDGER, OTHER)]
    files = [
        store.write(rows(number, 1, ledger_id=ledger), DONE, day, ledger)
        for number in range(1, LEAST_FILES + 1)
        for day, ledger in places
    ]
    store.commit(files, [], store.state(), "batch")
    assert compact(store, MIB) == len(files)
    assert sorted((str(file.day), file.ledger_id) for file in store.files()) == places
    for file in store.files():
        assert set(store.read(file)["ledger_id"].to_pylist()) == {file.ledger_id}


def test_vacuum_deletes_strays_and_what_was_replaced_after_the_retention(store: TableStore) -> None:
    replaced = append(store, 1, 5, OPEN)
    stray = store.write(rows(6, 5), OPEN, None, LEDGER)
    kept = store.write(rows(1, 5), DONE, DAY, LEDGER)
    store.commit([kept], [replaced], store.state(), "settle")
    assert store.vacuum(DAY_S) == 0
    assert len(_data_files(store)) == 3
    assert store.vacuum(0) == 2
    version = store.state().version
    assert store.vacuum(0) == 0
    assert store.state().version == version
    assert _data_files(store) == [Path(store.uri, kept.path)]
    assert stray.path not in {file.path for file in store.files()}
    append(store, 6, 5)  # with a state that vacuum may have given a new version
    assert serials(again(store)) == list(range(1, 11))


def test_what_a_task_is_writing_is_younger_than_the_retention(store: TableStore) -> None:
    append(store, 1, 5)
    _age(store, 3 * DAY_S)
    fresh = store.write(rows(6, 5), DONE, DAY, LEDGER)
    store.vacuum(DAY_S)
    store.commit([fresh], [], at(10, store.state()), "batch")
    assert serials(again(store)) == list(range(1, 11))


def test_a_vacuumed_version_says_what_to_do(store: TableStore) -> None:
    old = append(store, 1, 5, OPEN)
    store.commit([], [old], store.state(), "settle")
    store.vacuum(0)
    with pytest.raises(TableError, match="is gone: it was vacuumed"):
        store.read(old)


def test_many_commits_leave_checkpoints_and_the_log_is_cleaned(store: TableStore, format: str) -> None:
    for number in range(CHECKPOINT_COMMITS + 5):
        append(store, 1 + number, 1)
    log = Path(store.uri, {"delta": "_delta_log", "parquet": "_log"}[format])
    assert list(log.glob(f"*{CHECKPOINT_COMMITS}.checkpoint*"))
    assert serials(again(store)) == list(range(1, CHECKPOINT_COMMITS + 6))
    if format == "parquet":
        store.vacuum(0)
        assert len(list(log.iterdir())) < 10
        assert serials(again(store)) == list(range(1, CHECKPOINT_COMMITS + 6))
        with pytest.raises(VersionGone):
            store.snapshot(3)
        with pytest.raises(VersionGone):
            store.added_since(3)


def test_a_folder_tells_its_format(tmp_path: Path, format: str) -> None:
    assert detect_format(str(tmp_path)) is None
    store = open_store(str(tmp_path), "entries", format)
    store.commit([], [], store.state(), "batch")
    assert detect_format(str(tmp_path)) == format
    assert type(open_store(str(tmp_path), "events")) is type(store)


def test_names_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no such table: nothing"):
        open_store(str(tmp_path), "nothing")
    with pytest.raises(TableError, match="no such table format: orc"):
        open_store(str(tmp_path), "entries", "orc")


def test_a_reader_gets_each_key_once(store: TableStore) -> None:
    append(store, 1, 3, DONE)
    append(store, 4, 3, OPEN)
    later = rows(4, 2, "deleted").set_column(7, "last_position", [[20, 21]])
    more = store.write(later, OPEN, None, LEDGER)
    store.commit([more], [], at(21, store.state()), "batch")
    seen = read_folded(store, ["serial", "state", "count"])
    assert sorted(zip(*(seen[name].to_pylist() for name in seen.column_names), strict=True)) == [
        (1, "available", 1),
        (2, "available", 1),
        (3, "available", 1),
        (4, "deleted", 2),
        (5, "deleted", 2),
        (6, "available", 1),
    ]
    assert read_folded(store).schema.names == SMALL.schema.names
    assert read_folded(store).num_rows == 6


# --- Delta beside other writers of Delta ----------------------------------------------------------------


def test_delta_tells_positions_as_transactions(tmp_path: Path) -> None:
    store = small_store(tmp_path, "delta")
    append(store, 1, 5)
    table = DeltaTable(store.uri)
    assert table.transaction_version(f"postroom:{LEDGER}") == 5
    assert table.metadata().partition_columns == ["part", "day", "ledger_id"]


def test_delta_goes_on_after_the_commits_of_others(tmp_path: Path) -> None:
    store = small_store(tmp_path, "delta")
    for number in range(3):
        append(store, 1 + number, 1)
    DeltaTable(store.uri).optimize.compact()
    for seen in (store, again(store)):
        assert seen.state().positions[LEDGER].position == 3
        assert serials(seen) == [1, 2, 3]
    append(store, 4, 1)
    assert serials(again(store)) == [1, 2, 3, 4]


def test_who_was_asleep_while_the_log_was_cleaned_neither_commits_nor_reads_the_old(
    store: TableStore,
) -> None:
    """The names of the next versions are free again by then."""
    append(store, 1, 1)
    writer, reader = again(store), again(store)
    state = writer.state()
    reader.state()
    for number in range(2 * CHECKPOINT_COMMITS):
        append(store, 2 + number, 1)
    _age(store, 3 * DAY_S)
    store.vacuum(0)
    with pytest.raises(TableConflict):
        writer.commit([], [], at(2, state), "batch")
    assert reader.state().positions[LEDGER].position == 2 * CHECKPOINT_COMMITS + 1
    assert serials(again(store)) == list(range(1, 2 * CHECKPOINT_COMMITS + 2))


@pytest.mark.parametrize("commits", [CHECKPOINT_COMMITS, CHECKPOINT_COMMITS + 3])
def test_deltas_log_is_cleaned_and_the_state_stays(tmp_path: Path, commits: int) -> None:
    """Also where the checkpoint is the newest version, and all of the log is old."""
    store = small_store(tmp_path, "delta")
    for number in range(commits):
        append(store, 1 + number, 1)
    _age(store, 3 * DAY_S)
    store.vacuum(DAY_S)
    assert len(list(Path(store.uri, "_delta_log").glob("*.json"))) <= 4
    for seen in (store, again(store)):
        assert seen.state().positions[LEDGER].position == commits
        assert serials(seen) == list(range(1, commits + 1))
    append(store, commits + 1, 1)
    assert serials(again(store)) == list(range(1, commits + 2))


def test_delta_restored_to_an_older_version_has_that_versions_position(tmp_path: Path) -> None:
    store = small_store(tmp_path, "delta")
    append(store, 1, 1)
    version = store.state().version
    append(store, 2, 1)
    DeltaTable(store.uri).restore(version)
    for seen in (store, again(store)):
        assert seen.state().positions[LEDGER].position == 1
        assert serials(seen) == [1]
    append(store, 2, 1)
    assert serials(again(store)) == [1, 2]


def test_delta_that_others_made_is_refused(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "small"), rows(1, 1))
    with pytest.raises(TableError, match="no commit of postroom"):
        small_store(tmp_path, "delta").state()


def test_delta_whose_last_commit_is_cut_off_says_so(tmp_path: Path) -> None:
    store = small_store(tmp_path, "delta")
    append(store, 1, 1)
    append(store, 2, 1)
    last = max(Path(store.uri, "_delta_log").glob("*.json"))
    last.write_bytes(last.read_bytes()[:40])
    with pytest.raises(TableError, match="cut off"):
        again(store).state()
