"""What the pipeline does beside batches: lock, settings, settling, openings, status, rebuilding, erasing."""

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from postroom.spark.pipeline.engine import HereEngine
from postroom.spark.pipeline.errors import (
    EXIT_IN_USE,
    HistoryGone,
    PipelineError,
    PipelineInUse,
    SettingsConflict,
    exit_code_of,
)
from postroom.spark.pipeline.lock import held, holder
from postroom.spark.pipeline.operations.erase import erase
from postroom.spark.pipeline.operations.metrics import Metrics
from postroom.spark.pipeline.operations.rebuild import rebuild
from postroom.spark.pipeline.operations.status import status
from postroom.spark.pipeline.options import PipelineOptions, Upkeep
from postroom.spark.pipeline.progress import batch_line
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import ledger_names, note_ledgers, settled_options
from postroom.spark.store import open_store
from postroom.spark.store.protocol import NO_VERSION, VersionGone
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.policy import Policy
from tests.ledger.dropped_history import with_dropped_history
from tests.ledger.ledger_maker import LedgerMaker
from tests.sampling import spread
from tests.spark.local_pipeline import assert_whole, catch_up, piped, read_all, rows_of, settle_all
from tests.spark.random_lives import Lives, live


def made(folder: Path, *ledgers: Path, **more: Any) -> Path:
    """Tables of ledgers with the settings that a run writes down."""
    tables = folder / "tables"
    root = Root(str(tables))
    options = settled_options(root, PipelineOptions(tuple(map(str, ledgers)), str(tables), **more))
    pipeline = read_all(tables, *ledgers, policy=options.policy, only=options.only)
    note_ledgers(root, pipeline.seen)
    return tables


# --- lock and settings ----------------------------------------------------------------------------


def _hold(tables: str, ready: Any) -> None:
    with held(Root(tables)):
        ready.set()
        signal.pause()


@contextmanager
def _another_holds(tables: Path) -> Iterator[multiprocessing.process.BaseProcess]:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(str(tables), ready))
    process.start()
    assert ready.wait(90)
    yield process
    process.kill()
    process.join()


def test_a_second_pipeline_is_told_who_holds_the_tables(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    assert holder(root) is None
    with _another_holds(tmp_path) as process:
        with pytest.raises(PipelineInUse, match=f"process {process.pid} on ") as refused, held(root):
            pass
        assert exit_code_of(refused.value) == EXIT_IN_USE
        assert str(process.pid) in str(holder(root))
        process.kill()  # however it ends, the lock ends with it
        process.join()
        assert holder(root) is None
        with held(root):
            pass


def test_settings_stay_with_the_tables(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    first = PipelineOptions(("a",), str(tmp_path), only=("entries",))
    assert settled_options(root, first).names == ("entries",)
    again = settled_options(root, PipelineOptions(("a",), str(tmp_path)))
    assert (again.names, again.format) == (("entries",), "delta")
    with pytest.raises(SettingsConflict, match="format delta, not parquet"):
        settled_options(root, PipelineOptions(("a",), str(tmp_path), "parquet"))
    hashed = Policy({"message_id": "hash"}, b"k" * 16)
    with pytest.raises(SettingsConflict, match="personal data"):
        settled_options(root, PipelineOptions(("a",), str(tmp_path), policy=hashed))
    with pytest.raises(SettingsConflict, match="no such table: entires"):
        settled_options(root, PipelineOptions(("a",), str(tmp_path), only=("entires",)))


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[1]"])
def test_what_is_noted_beside_the_tables_and_damaged_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    root = Root(str(tmp_path))
    options = PipelineOptions(("a",), str(tmp_path))
    settled_options(root, options)
    for name in ("settings.json", "ledgers.json", "lease.json"):
        (tmp_path / "_pipeline" / name).write_bytes(text)
    with pytest.raises(PipelineError, match=r"settings\.json is damaged"):
        settled_options(root, options)
    with pytest.raises(PipelineError, match=r"ledgers\.json is damaged"):
        ledger_names(str(tmp_path))
    monkeypatch.setattr(root, "local", None)  # as in an object store
    with pytest.raises(PipelineError, match=r"lease\.json can't be read"):
        holder(root)


def test_settings_of_another_version_are_told(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    root.note("settings.json", {"format": "delta", "tables": 7})
    with pytest.raises(PipelineError, match="another version"):
        settled_options(root, PipelineOptions(("a",), str(tmp_path)))


def test_a_root_keeps_its_format_where_none_is_named(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    settled_options(root, PipelineOptions(("a",), str(tmp_path), "parquet"))
    assert settled_options(root, PipelineOptions(("a",), str(tmp_path))).format == "parquet"


# --- cost -----------------------------------------------------------------------------------------


def test_a_row_is_copied_about_twice_however_large_the_table_is(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    queue = maker.queue("a")
    for number in range(1200):
        serial = maker.put(queue)
        if number % 5:
            maker.consume(serial, queue)
    upkeep = Upkeep(settle_rows=50, settle_files=10_000)
    pipeline = piped(tmp_path / "tables", maker.finish(), only=("entries",), upkeep=upkeep)
    catch_up(pipeline, 40)
    state = pipeline.tables["entries"].state
    assert state.rows_in >= 1200
    assert 0 < state.rows_copied <= 2.2 * state.rows_in


@pytest.mark.parametrize("table_format", ["delta", "parquet"])  # Iceberg's tables only grow
def test_a_pipeline_goes_on_after_a_vacuum_that_found_something(tmp_path: Path, table_format: str) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    queue = maker.queue("a")
    for _ in range(25):
        maker.consume(maker.put(queue), queue)
    ledger = maker.finish()
    upkeep = Upkeep(settle_rows=5, settle_files=2, vacuum_interval_s=0.0, vacuum_retention_s=0)
    pipeline = piped(tmp_path / "tables", ledger, format=table_format, upkeep=upkeep)

    batches = catch_up(pipeline)
    settle_all(pipeline)

    vacuumed = [batch for batch in batches if any("vacuumed" in each for each in batch.upkeep)]
    assert len(vacuumed) > 1
    assert_whole(tmp_path / "tables", ledger)


# --- openings -------------------------------------------------------------------------------------


def test_tables_open_with_what_a_checkpoint_tells_of_dropped_history(tmp_path: Path) -> None:
    alive = with_dropped_history(tmp_path / "ledger")
    pipeline = read_all(tmp_path / "tables", tmp_path / "ledger", records=50)
    (seen,) = pipeline.seen.values()
    assert seen.snapshot.first_position > 1
    entries = rows_of(tmp_path / "tables", "entries")
    assert {row["serial"] for row in entries if row["state"] != "deleted"} == set(alive)
    assert_whole(tmp_path / "tables", tmp_path / "ledger")
    assert Root(str(tmp_path / "tables")).read("openings.json")


def test_history_that_was_dropped_before_it_was_read_is_missed_aloud(tmp_path: Path) -> None:
    with_dropped_history(tmp_path / "ledger")
    pipeline = piped(tmp_path / "tables", tmp_path / "ledger", only=("entries",))
    table = pipeline.tables["entries"]
    (ledger_id,) = pipeline.seen
    opening = table.state.openings[ledger_id]
    table.open_ledger(ledger_id, (opening[0] - 10, 0), [], {})  # as if the history had begun earlier then
    with pytest.raises(HistoryGone, match="a lease"):
        piped(tmp_path / "tables", tmp_path / "ledger", only=("entries",))


# --- status, metrics, lines -----------------------------------------------------------------------


def test_status_and_metrics_say_position_and_lag(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    queue = maker.queue("a")
    for _ in range(20):
        maker.put(queue)
    maker.commit()
    maker.marker()
    tables = made(tmp_path, tmp_path / "ledger")
    found = status(str(tables))
    assert {at.lag.events for one in found.tables for at in one.ledgers if at.lag} == {0}
    for _ in range(1500):
        maker.put(queue)
    maker.finish()
    found = status(str(tables))
    (entries,) = [one for one in found.tables if one.name == "entries"]
    (at,) = entries.ledgers
    assert at.position == 21
    assert at.lag is not None
    assert at.lag.events == 1500
    assert at.lag.seconds == pytest.approx(1.5)
    assert at.lag.size_bytes == pytest.approx(1500 * 128, rel=0.01)
    assert found.holder is None
    assert ledger_names(str(tables)) == {at.ledger_id: "ledger"}

    registry = CollectorRegistry()
    metrics = Metrics(registry)
    pipeline = piped(tables, tmp_path / "ledger")
    metrics.begun(pipeline)
    labels = {"table": "entries", "ledger": at.ledger_id}
    assert registry.get_sample_value("postroom_pipeline_lag_events", labels) == 1500
    assert registry.get_sample_value("postroom_pipeline_lag_seconds", labels) == pytest.approx(1.5)
    (done,) = catch_up(pipeline, 100_000)
    metrics.batch(pipeline, done)
    assert registry.get_sample_value("postroom_pipeline_lag_events", labels) == 0
    assert registry.get_sample_value("postroom_pipeline_position", labels) == 1521
    assert registry.get_sample_value("postroom_pipeline_events_total") == 1500
    line = batch_line(done, pipeline.worst_lag())
    assert line.startswith("positions 22–1,521 (1,500 records, 1,500 events) in ")
    assert "all read" in line


def test_status_of_no_tables_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="postroom pipeline run"):
        status(str(tmp_path))


# --- rebuild --------------------------------------------------------------------------------------


REBUILT = ("entries", "messages", "destinations", "deliveries", "dwell_times")


@pytest.mark.parametrize("name", spread(REBUILT, 2))
def test_a_table_is_rebuilt_from_the_events_without_the_ledger(tmp_path: Path, name: str) -> None:
    ledger = live(tmp_path / "ledger", 120, 2)
    tables = made(tmp_path, ledger)
    before = rows_of(tables, name)
    store = open_store(str(tables), name)
    state = store.state()
    spoiled = store.files()[0]  # a file is lost
    store.commit([], [spoiled], state, "spoil")
    assert rows_of(tables, name) != before
    rebuild(str(tables), name, HereEngine())
    assert rows_of(tables, name) == before
    assert_whole(tables, ledger)
    assert open_store(str(tables), name).state().positions == state.positions


def test_the_rebuilt_table_goes_on(tmp_path: Path) -> None:
    lives = Lives(tmp_path / "ledger", Random(3))
    for _ in range(30):
        lives.random.choice((lives._arrive, lives._change))()
    lives.maker.commit()
    lives.maker.marker()
    tables = made(tmp_path, tmp_path / "ledger")
    rebuild(str(tables), "entries", HereEngine())
    for _ in range(30):
        lives.random.choice((lives._arrive, lives._change))()
    lives.maker.finish()
    read_all(tables, tmp_path / "ledger")
    assert_whole(tables, tmp_path / "ledger")


def test_a_table_of_a_table_begins_though_the_log_of_that_one_is_cleaned(tmp_path: Path) -> None:
    ledger, tables = live(tmp_path / "ledger"), tmp_path / "tables"
    others = tuple(name for name in DEFINITIONS if name != "dwell_times")
    read_all(tables, ledger, only=others, format="parquet")
    store = open_store(str(tables), "entries", "parquet")
    store.checkpoint()
    store.vacuum(0)
    with pytest.raises(VersionGone):
        store.added_since(NO_VERSION)
    read_all(tables, ledger, only=tuple(DEFINITIONS), format="parquet").take([], 0.0)
    assert_whole(tables, ledger)


def test_events_are_not_rebuilt_from_themselves(tmp_path: Path) -> None:
    tables = made(tmp_path, live(tmp_path / "ledger", 10))
    with pytest.raises(PipelineError, match="what the others are rebuilt from"):
        rebuild(str(tables), "events", HereEngine())


# --- erase ----------------------------------------------------------------------------------------


def _ids(tables: Path) -> Path:
    maker = LedgerMaker(tables.parent / "ledger")
    queue = maker.queue("a")
    maker.producer(5, "shop")
    for name in (b"alice-1", b"bob-1", b"alice-2"):
        maker.consume(maker.put(queue, message_id=name, correlation_id=b"c-" + name, producer=5), queue)
    return maker.finish()


def _bytes_of(tables: Path, text: bytes) -> list[Path]:
    """Files that hold a text in the clear; Parquet pages are compressed, so tables are read, too."""
    return [path for path in tables.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_erasing_takes_a_message_from_all_tables_and_their_old_versions(tmp_path: Path) -> None:
    ledger = _ids(tmp_path / "tables")
    tables = made(tmp_path, ledger)
    found = erase(str(tables), "message_id", "alice-1", Policy())
    assert found.messages == 1
    assert set(found.rows) >= {"events", "entries", "messages"}
    for name in ("events", "entries", "messages"):
        texts = str(rows_of(tables, name))
        assert "alice-1" not in texts
        assert "bob-1" in texts
        assert len(rows_of(tables, name)) == (9 if name == "events" else 3)
        store = open_store(str(tables), name)
        kept = {file.path for file in store.files()}
        on_disk = {str(path.relative_to(store.uri)) for path in Path(store.uri).rglob("*.parquet")}
        assert {path for path in on_disk if path.startswith("data/")} == kept
    assert not _bytes_of(tables, b"alice-1")
    again = erase(str(tables), "message_id", "alice-1", Policy())
    assert (again.messages, again.rows) == (0, {})
    read_all(tables, ledger)  # what was erased is not read again, and dwell times count nothing twice
    assert rows_of(tables, "dwell_times") == rows_of(made(tmp_path / "other", ledger), "dwell_times")


def test_erasing_looks_for_the_hash_where_ids_are_hashed(tmp_path: Path) -> None:
    policy = Policy({"message_id": "hash", "correlation_id": "drop"}, b"k" * 16)
    tables = made(tmp_path, _ids(tmp_path / "tables"), policy=policy)
    assert policy.hashed("bob-1") in str(rows_of(tables, "entries"))
    with pytest.raises(SettingsConflict):
        erase(str(tables), "message_id", "bob-1", Policy())
    assert erase(str(tables), "message_id", "bob-1", policy).messages == 1
    assert policy.hashed("bob-1") not in str(rows_of(tables, "entries"))


def test_erasing_wants_a_personal_column(tmp_path: Path) -> None:
    tables = made(tmp_path, _ids(tmp_path / "tables"))
    with pytest.raises(PipelineError, match="message_id"):
        erase(str(tables), "queue", "a", Policy())
