"""The pipeline on Spark: whatever of it is lost or killed, its tables are one fold of the ledger."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.operations.run import CHECKPOINT_FOLDER, Stop, run
from postroom.spark.pipeline.options import PipelineOptions
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.store import open_store
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.local_pipeline import assert_whole
from tests.spark.random_lives import Lives
from tests.spark.session.pipeline.pipeline_process import BATCH_RECORDS
from tests.spark.session.pipeline.pipeline_process import options as crashing_options

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ONLY = ("events", "entries", "dwell_times")


def options(tables: Path, *ledgers: Path, **more: object) -> PipelineOptions:
    return PipelineOptions(
        tuple(map(str, ledgers)),
        str(tables),
        only=ONLY,
        batch_records=60,
        partition_records=30,
        **more,  # type: ignore[arg-type]
    )


class Counts:
    """How many batches there were, and what is to happen after each."""

    def __init__(self, stop: Stop | None = None) -> None:
        self.batches = 0
        self._stop = stop

    def begun(self, pipeline: Pipeline) -> None:
        pass

    def batch(self, pipeline: Pipeline, done: BatchDone) -> None:
        self.batches += 1
        if self._stop is not None:
            self._stop.request()


def grow(lives: Lives, steps: int = 40) -> None:
    """More happens, and becomes readable."""
    for _ in range(steps):
        lives.random.choice((lives._arrive, lives._change, lives._change, lives._many))()
    lives.maker.commit()
    lives.maker.marker()


def test_a_lost_checkpoint_loses_nothing_and_doubles_nothing_while_the_ledger_grows(
    spark: SparkSession, tmp_path: Path
) -> None:
    ledger, tables = tmp_path / "ledger", tmp_path / "tables"
    checkpoint = tables / "_pipeline" / CHECKPOINT_FOLDER
    lives = Lives(ledger, Random(5))
    grow(lives, 150)
    stop = Stop()
    run(spark, options(tables, ledger), (Counts(stop),), stop)  # broken off after the first batch
    at = open_store(str(tables), "entries").state()
    assert 0 < next(iter(at.positions.values())).position < lives.maker.builder.next_position - 1

    for folder in ("offsets", "commits"):  # its last entry, as after a power cut
        entries = sorted((checkpoint / folder).glob("[0-9]*"), key=lambda path: int(path.name))
        entries[-1].unlink()
    grow(lives)
    run(spark, options(tables, ledger))
    assert_whole(tables, ledger, names=("events", "entries"))

    ahead = tmp_path / "ahead"
    shutil.copytree(checkpoint, ahead)
    shutil.rmtree(checkpoint)
    grow(lives)
    run(spark, options(tables, ledger))
    assert_whole(tables, ledger, names=("events", "entries"))

    store = open_store(str(tables), "entries")  # one table is restored from a backup, the checkpoint is not
    shutil.rmtree(store.uri)
    shutil.rmtree(checkpoint)
    shutil.copytree(ahead, checkpoint)
    counts = Counts()
    run(spark, options(tables, ledger), (counts,))
    assert counts.batches > 1
    assert_whole(tables, ledger, names=("events", "entries"))
    lives.maker.finish()


def test_a_continuous_pipeline_ends_between_batches_when_asked(spark: SparkSession, tmp_path: Path) -> None:
    lives = Lives(tmp_path / "ledger", Random(6))
    grow(lives, 150)
    stop = Stop()
    counts = Counts(stop)
    run(
        spark,
        options(tmp_path / "tables", tmp_path / "ledger", continuous=True, interval_ms=50),
        (counts,),
        stop,
    )
    assert counts.batches == 1
    run(spark, options(tmp_path / "tables", tmp_path / "ledger"))
    lives.maker.finish()
    assert_whole(tmp_path / "tables", tmp_path / "ledger", names=("events", "entries"))


def _long_ledger(folder: Path) -> Path:
    maker = LedgerMaker(folder)
    queue = maker.queue("a")
    for number in range(200):
        serial = maker.put(queue, message_id=b"m%d" % number)
        if number % 4:
            maker.consume(serial, queue)
    return maker.finish()


def _process(master: str, ledger: Path, tables: Path, victim: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tests.spark.session.pipeline.pipeline_process",
        master,
        str(ledger),
        str(tables),
        victim,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )


@pytest.mark.long
def test_a_driver_killed_in_the_midst_of_batches(spark: SparkSession, tmp_path: Path) -> None:
    ledger, tables = _long_ledger(tmp_path / "ledger"), tmp_path / "tables"
    process = _process("local[2]", ledger, tables, "driver")
    with process:
        assert process.stdout is not None
        output = [process.stdout.readline().strip() for _ in range(3)]
        assert output == ["begun", "batch", "batch"]
        process.send_signal(signal.SIGKILL)  # its JVM ends with it
    reached = open_store(str(tables), "entries").state()
    assert next(iter(reached.positions.values())).position >= 2 * BATCH_RECORDS
    run(spark, crashing_options(str(ledger), str(tables)))
    assert_whole(tables, ledger, names=("events", "entries"))


def test_an_executor_killed_while_it_works(tmp_path: Path) -> None:
    ledger, tables = _long_ledger(tmp_path / "ledger"), tmp_path / "tables"
    process = _process("local-cluster[2,1,900]", ledger, tables, "executor")
    record, _ = process.communicate(timeout=500)
    assert process.returncode == 0, record
    assert "killed" in record
    assert record.count("batch") > 3
    assert_whole(tables, ledger, names=("events", "entries"))
