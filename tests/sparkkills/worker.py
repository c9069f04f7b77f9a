"""A job in a process of its own: it works off what is available, and ends.

python -m tests.sparkkills.worker JOB-FILE
"""

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.readwriter import DataStreamWriter

from postroom.spark.consume.foreach_batch import append_once, confirm
from postroom.spark.session import LOOPBACK, SHORT_JOB
from tests.sparkkills.job import TABLE_APP, Job
from tests.sparkkills.points import FOLDER, Plan, Point, Victim, reached
from tests.sparkkills.source import KilledDataSource

FORMAT: Final = KilledDataSource.name()
COLUMNS: Final = ("ledger_id", "position", "ordinal", "message_id", "text")


def rows(spark: SparkSession, job: Job) -> DataFrame:
    """What the job reads."""
    options = {"path": job.data, **job.options}
    if job.subscription:
        options |= {"mode": "consume", "broker": job.broker, "subscription": job.subscription}
        options["confirm"] = job.confirm
    else:
        options["queues"] = job.queue
    return spark.readStream.format(FORMAT).options(**options).load()


def into_queue(frame: DataFrame, job: Job) -> DataStreamWriter:
    """Each message as it came, with a word added."""
    options = {"broker": job.broker, "queue": job.target, "app": job.target, **job.sink_options}
    return frame.withColumn("subject", F.lit("enriched")).writeStream.format(FORMAT).options(**options)


def into_table(frame: DataFrame, job: Job) -> DataStreamWriter:
    """Rows and position in one commit of a Delta table."""

    def take(batch: DataFrame, batch_id: int) -> None:
        append_once(batch, batch_id, job.table, TABLE_APP)
        reached(Point.AFTER_TABLE_COMMIT)
        if job.confirm == "call":
            confirm(batch, batch_id, broker=job.broker, subscription=job.subscription)
        reached(Point.BEFORE_SPARK_COMMIT_LOG)

    return frame.select(*COLUMNS).writeStream.foreachBatch(take)


def into_files(frame: DataFrame, job: Job) -> DataStreamWriter:
    """Files by batch id: idempotent as long as the checkpoint is whole."""

    def take(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(f"{job.table}/batch={batch_id}")
        reached(Point.AFTER_TABLE_COMMIT)
        reached(Point.BEFORE_SPARK_COMMIT_LOG)

    return frame.select(*COLUMNS).writeStream.foreachBatch(take)


KINDS: Final[dict[str, Callable[[DataFrame, Job], DataStreamWriter]]] = {
    "sink": into_queue,
    "table": into_table,
    "files": into_files,
}


def session(master: str, scratch: str) -> SparkSession:
    """Small, quiet, and quick to start."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": "600m",
        "spark.driver.extraJavaOptions": SHORT_JOB,
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": SHORT_JOB,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        f"spark.executorEnv.{FOLDER}": os.environ[FOLDER],
        "spark.local.dir": scratch,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.speculation": str(master.startswith("spark:")).lower(),
        "spark.speculation.interval": "200ms",
        "spark.speculation.task.duration.threshold": "3s",  # else a stage of one task is never slow
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(file: str) -> None:
    job = msgspec.json.decode(Path(file).read_bytes(), type=Job)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        spark = session(job.master, scratch)
        spark.sparkContext.setLogLevel("ERROR")
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        Plan.of_environment().note(Victim.DRIVER, jvm.ProcessHandle.current().pid(), os.getpid())
        spark.dataSource.register(KilledDataSource)
        writer = KINDS[job.kind](rows(spark, job), job).option("checkpointLocation", job.checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
