"""A pipeline in a process of its own, for tests that end processes: it works through a ledger in batches.

    python -m tests.spark.session.pipeline.pipeline_process MASTER LEDGER TABLES (driver | executor)

`driver`: prints a line for each batch, so that the test can end it in the midst. `executor`: ends one of its
own executors in the midst of a batch and goes on.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.operations.run import run
from postroom.spark.pipeline.options import PipelineOptions
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.session import LOOPBACK

BATCH_RECORDS = 100


def options(ledger: str, tables: str) -> PipelineOptions:
    return PipelineOptions(
        (ledger,), tables, only=("events", "entries"), batch_records=BATCH_RECORDS, partition_records=50
    )


class BatchReporter:
    """Prints each batch. With an application: once the second batch has written files, ends an executor."""

    def __init__(self, tables: str, application_id: str | None) -> None:
        self._tables = Path(tables)
        self._application_id = application_id
        self._killing: threading.Thread | None = None

    def begun(self, pipeline: Pipeline) -> None:
        print("begun", flush=True)

    def batch(self, pipeline: Pipeline, done: BatchDone) -> None:
        print("batch", flush=True)
        if self._application_id is not None and self._killing is None:
            self._killing = threading.Thread(target=self._kill, args=(self._files(), self._application_id))
            self._killing.start()

    def _files(self) -> set[Path]:
        return set(self._tables.rglob("*.parquet"))

    def _kill(self, before: set[Path], application_id: str) -> None:
        while not self._files() - before:
            time.sleep(0.001)
        print(f"killed {kill_an_executor(application_id)}", flush=True)


def kill_an_executor(application_id: str) -> int:
    """SIGKILL to one executor of this application; returns its process id."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "ExecutorBackend" in command and application_id in command:
                os.kill(int(entry.name), signal.SIGKILL)
                return int(entry.name)
    raise RuntimeError("no executor found")


def main(master: str, ledger: str, tables: str, victim: str) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        spark = (
            SparkSession.builder.master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", LOOPBACK)
            .config("spark.local.dir", scratch)
            .config("spark.executor.memory", "600m")
            .config("spark.driver.memory", "600m")
            .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
            .config("spark.sql.adaptive.enabled", "false")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        application_id = spark.sparkContext.applicationId if victim == "executor" else None
        run(spark, options(ledger, tables), (BatchReporter(tables, application_id),))
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
