"""A pipeline in a process of its own, for tests that end processes: it works through a ledger in batches.

    python -m tests.spark.crashing MASTER LEDGER TABLES (driver | executor)

`driver`: prints a line for each batch, so that the test can end it in the midst. `executor`: ends one of its
own executors after the first batch and goes on.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.options import PipelineOptions
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.pipeline.run import run
from postroom.spark.session import LOOPBACK

BATCH_RECORDS = 40


def options(ledger: str, tables: str) -> PipelineOptions:
    return PipelineOptions(
        (ledger,), tables, only=("events", "entries"), batch_records=BATCH_RECORDS, partition_records=20
    )


class Tells:
    """Says each batch, and ends an executor after the first one if asked to."""

    def __init__(self, application_id: str | None) -> None:
        self._application_id = application_id

    def begun(self, pipeline: Pipeline) -> None:
        print("begun", flush=True)

    def batch(self, pipeline: Pipeline, done: BatchDone) -> None:
        print("batch", flush=True)
        if self._application_id is not None:
            print(f"killed {kill_an_executor(self._application_id)}", flush=True)
            self._application_id = None


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
            .config("spark.driver.host", LOOPBACK)
            .config("spark.local.dir", scratch)
            .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
            .config("spark.sql.adaptive.enabled", "false")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        run(
            spark,
            options(ledger, tables),
            (Tells(spark.sparkContext.applicationId if victim == "executor" else None),),
        )
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
