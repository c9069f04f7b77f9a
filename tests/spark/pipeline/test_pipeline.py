"""The pipeline without Spark: however it is cut, broken off and begun again, its tables are one fold of the
ledgers."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from postroom.spark.ledger_source import record_batches
from postroom.spark.pipeline.errors import LedgerMissing, PipelineGap
from postroom.spark.pipeline.options import Upkeep
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.pipeline.pipeline_table import PipelineTable
from postroom.spark.pipeline.slice_files import write_slice
from tests.ledger.ledger_maker import LedgerMaker
from tests.sampling import stride
from tests.spark.local_pipeline import (
    assert_whole,
    catch_up,
    piped,
    read_all,
    rows_of,
    settle_all,
    slices,
    take,
)
from tests.spark.random_lives import Lives, live


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_batches_and_settlings_give_the_tables_of_one_fold(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    ledger = live(tmp_path / "ledger", 50, seed)
    upkeep = Upkeep(
        settle_rows=random.randrange(1, 40), settle_files=random.randrange(1, 9), compact_interval_s=0.0
    )
    pipeline = piped(tmp_path / "tables", ledger, upkeep=upkeep)
    catch_up(pipeline, random.randrange(5, 30), random.randrange(1, 4))
    settle_all(pipeline)
    assert_whole(tmp_path / "tables", ledger)


class Died(Exception):
    """The driver is gone."""


class Fragile:
    """Stores whose commits are counted, and end the driver before or after one of them."""

    def __init__(self, dies_at: int, is_after: bool) -> None:
        self.left = dies_at
        self.is_after = is_after

    def watch(self, pipeline: Pipeline) -> None:
        for table in pipeline.tables.values():
            self._watch(table)

    def _watch(self, table: PipelineTable) -> None:
        commit = table.store.commit

        def fragile(*arguments: Any, **more: Any) -> int:
            self.left -= 1
            if self.left == 0 and not self.is_after:
                raise Died
            version = commit(*arguments, **more)
            if self.left == 0:
                raise Died
            return version

        table.store.commit = fragile  # type: ignore[method-assign]


@pytest.mark.parametrize("is_after", [False, True])
def test_a_driver_that_dies_at_any_commit_loses_nothing_and_doubles_nothing(
    tmp_path: Path, is_after: bool
) -> None:
    ledger = live(tmp_path / "ledger", 60)
    only = ("events", "entries", "dwell_times")
    died = 0
    for dies_at in range(1, 60, stride(3)):
        tables = tmp_path / f"tables{dies_at}{is_after}"
        fragile = Fragile(dies_at, is_after)
        pipeline = piped(tables, ledger, only=only)
        fragile.watch(pipeline)
        try:
            catch_up(pipeline, 10)
        except Died:
            died += 1
        read_all(tables, ledger, records=20, only=only)
        assert_whole(tables, ledger, names=only)
        if fragile.left > 0:
            break
    assert died > 10 // stride(3)


def test_a_range_that_is_worked_on_twice_counts_once(tmp_path: Path) -> None:
    ledger = live(tmp_path / "ledger")
    pipeline = piped(tmp_path / "tables", ledger)
    todo = slices(pipeline, 10)
    first = pipeline.job()
    take(pipeline, todo[:3])
    pipeline.take(
        [write_slice(slice, first) for slice in todo[:3]], 0.0
    )  # what a stream repeats after a crash
    take(pipeline, todo[1:5])
    take(pipeline, todo[5:])
    settle_all(pipeline)
    assert_whole(tmp_path / "tables", ledger)


def test_a_range_that_leaves_a_hole_is_refused_and_nothing_of_it_taken(tmp_path: Path) -> None:
    ledger = live(tmp_path / "ledger")
    pipeline = piped(tmp_path / "tables", ledger)
    todo = slices(pipeline, 10)
    take(pipeline, todo[:1])
    versions = {name: table.store.state().version for name, table in pipeline.tables.items()}
    with pytest.raises(PipelineGap, match=f"reaches position {todo[0].last} "):
        take(pipeline, todo[2:3])
    with pytest.raises(PipelineGap):
        take(pipeline, [todo[1], todo[3]])
    assert {name: table.store.state().version for name, table in pipeline.tables.items()} == versions
    read_all(tmp_path / "tables", ledger)
    assert_whole(tmp_path / "tables", ledger)


def test_tables_that_are_apart_meet_again(tmp_path: Path) -> None:
    """As after a restore of one table from a backup, or where tables were added later."""
    ledger = live(tmp_path / "ledger")
    ahead = piped(tmp_path / "tables", ledger, only=("entries",))
    for slice in slices(ahead, 10)[:3]:
        take(ahead, [slice])
    pipeline = piped(tmp_path / "tables", ledger)
    assert pipeline.starts() == {}
    catch_up(pipeline)
    settle_all(pipeline)
    assert_whole(tmp_path / "tables", ledger)


def test_a_ledger_that_grows_is_read_on_from_the_tables(tmp_path: Path) -> None:
    lives = Lives(tmp_path / "ledger", Random(4))
    for _ in range(4):
        for _ in range(15):
            lives.random.choice((lives._arrive, lives._change, lives._change, lives._many))()
        lives.maker.commit()
        lives.maker.marker()
        read_all(tmp_path / "tables", tmp_path / "ledger", records=11)
        assert_whole(tmp_path / "tables", tmp_path / "ledger")
    lives.maker.finish()


def test_several_ledgers_of_which_one_joins_later(tmp_path: Path) -> None:
    from uuid import UUID

    one = live(tmp_path / "one")
    other = LedgerMaker(tmp_path / "other", UUID(int=77))
    queue = other.queue("elsewhere")
    for number in range(20):
        serial = other.put(queue, message_id=b"x%d" % number)
        if number % 3:
            other.consume(serial, queue)
    two = other.finish()
    catch_up(piped(tmp_path / "tables", one))
    read_all(tmp_path / "tables", one, two)
    assert_whole(tmp_path / "tables", one, two)
    with pytest.raises(LedgerMissing, match="--on-missing-ledger"):
        piped(tmp_path / "tables", two)
    assert not catch_up(piped(tmp_path / "tables", two, on_missing_ledger="drop"))
    assert_whole(tmp_path / "tables", one, two)


def test_a_ledger_joins_a_pipeline_that_runs(tmp_path: Path) -> None:
    from uuid import UUID

    (tmp_path / "ledgers").mkdir()
    one = live(tmp_path / "ledgers" / "one")
    running = piped(tmp_path / "tables", tmp_path / "ledgers" / "*")
    catch_up(running)
    other = LedgerMaker(tmp_path / "ledgers" / "two", UUID(int=77))
    other.put(other.queue("elsewhere"), message_id=b"x")
    two = other.finish()
    running.refresh()
    catch_up(running)
    settle_all(running)
    assert_whole(tmp_path / "tables", one, two)


def test_intake_stops_before_what_it_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is in the same chunk of the file: what is before is in the tables, nothing else is."""
    maker = LedgerMaker(tmp_path / "ledger")
    queue = maker.queue("orders")
    serials = [maker.put(queue, message_id=b"m") for _ in range(10)]
    maker.consume(serials[0], queue)
    unknown = maker.unknown()
    maker.consume(serials[1], queue)
    ledger = maker.finish()
    pipeline = piped(tmp_path / "tables", ledger)
    done = take(pipeline, slices(pipeline, 1000))
    assert done.stopped is not None
    assert done.stopped.position == unknown
    assert {table.position(ledger_of(table)).position for table in pipeline.of_events} == {unknown - 1}
    positions = sorted(row["position"] for row in rows_of(tmp_path / "tables", "events"))
    assert positions == [*serials, unknown - 2, unknown - 1]
    monkeypatch.setattr(record_batches, "_HIGHEST_TYPE", 255)  # an upgrade
    read_all(tmp_path / "tables", ledger)
    assert_whole(tmp_path / "tables", ledger)


def ledger_of(table: PipelineTable) -> str:
    return next(iter(table.state.positions))
