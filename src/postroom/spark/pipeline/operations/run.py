"""``postroom pipeline run``: Structured Streaming plans ranges of the ledgers and has tasks work on them;
each batch becomes part of the tables by one commit a table.

Spark's checkpoint is written anew in every run and never believed: where to go on is what the tables say.
"""

import json
import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from postroom.spark.ledger_source.positions import to_json
from postroom.spark.ledger_source.stream import RangesDataSource
from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.engine import SparkEngine
from postroom.spark.pipeline.lock import Hold, held
from postroom.spark.pipeline.options import PipelineOptions
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import note_ledgers, settled_options
from postroom.spark.pipeline.tasks import DONE_SCHEMA, RunSlices

CHECKPOINT_FOLDER: Final = "checkpoint"
STOP_POLL_S: Final = 1


class Watcher(Protocol):
    """Who is told how it goes: a person's terminal, metrics."""

    def begun(self, pipeline: Pipeline) -> None:
        """The ledgers were looked at; nothing is read yet."""

    def batch(self, pipeline: Pipeline, done: BatchDone) -> None:
        """A batch is in the tables."""


class Stop:
    """Asks a running pipeline to end after the batch at hand."""

    def __init__(self) -> None:
        self._requested = threading.Event()

    def request(self) -> None:
        self._requested.set()

    def is_requested(self) -> bool:
        return self._requested.is_set()


def run(
    spark: SparkSession,
    options: PipelineOptions,
    watchers: tuple[Watcher, ...] = (),
    stop: Stop | None = None,
) -> None:
    """Run the pipeline: until all is read that there is, or, with `continuous`, until asked to stop.

    Raises ``LedgerError`` (``PipelineInUse``, ``LeaseLost``, ``PipelineStopped``, ``LedgerDiverged``,
    ``TableError``), ``OSError``, ``PySparkException``.
    """
    root = Root(options.tables)
    with held(root) as hold, _checkpoint(root) as checkpoint:
        pipeline = Pipeline(settled_options(root, options), SparkEngine(spark))
        pipeline.refresh()
        note_ledgers(root, pipeline.seen)
        for watcher in watchers:
            watcher.begun(pipeline)
        spark.dataSource.register(RangesDataSource)
        _Running(spark, pipeline, watchers, stop or Stop(), hold).until_done(checkpoint)
        hold.check()
        if not options.continuous:
            pipeline.upkeep.at_end()


@contextmanager
def _checkpoint(root: Root) -> Iterator[Path]:
    """An empty folder for Spark's log of offsets: only the driver writes it."""
    if root.local is None:
        with tempfile.TemporaryDirectory(prefix="postroom-pipeline-") as scratch:
            yield Path(scratch)
        return
    folder = root.local / CHECKPOINT_FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    yield folder


class _Running:
    """One streaming query and its batches."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, watchers: tuple[Watcher, ...], stop: Stop, hold: Hold
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._watchers = watchers
        self._stop = stop
        self._hold = hold
        self._in_batch = threading.Lock()
        self._error: Exception | None = None

    def until_done(self, checkpoint: Path) -> None:
        query = self._start(checkpoint)
        try:
            while not query.awaitTermination(STOP_POLL_S):
                if self._must_end():
                    with self._in_batch:  # never between two commits; later ones are not begun
                        pass
                    query.stop()
                    return
        except PySparkException:
            if self._error is not None:
                raise self._error from None
            self._pipeline.refresh()  # what stopped the source says it better here
            raise
        finally:
            query.stop()

    def _start(self, checkpoint: Path) -> StreamingQuery:
        options = self._pipeline.options
        stream = (
            self._spark.readStream.format(RangesDataSource.name())
            .options(**stream_options(self._pipeline))
            .load()
        )
        writer = stream.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", f"file:{checkpoint.resolve()}"
        )
        if options.continuous:
            return writer.trigger(processingTime=f"{options.interval_ms} milliseconds").start()
        return writer.trigger(availableNow=True).start()

    def _must_end(self) -> bool:
        return self._stop.is_requested() or self._hold.lost is not None

    def _batch(self, slices: DataFrame, batch_id: int) -> None:
        with self._in_batch:
            if self._must_end():
                return
            try:
                self._one(slices)
            except Exception as error:
                self._error = error
                raise

    def _one(self, slices: DataFrame) -> None:
        begun_s = time.monotonic()
        self._pipeline.refresh()
        rows = slices.mapInArrow(RunSlices(self._pipeline.job()), DONE_SCHEMA).collect()
        self._hold.check()
        done = self._pipeline.take([pickle.loads(row.done) for row in rows], begun_s)
        if done.ranges:
            for watcher in self._watchers:
                watcher.batch(self._pipeline, done)
        if done.stopped is not None:
            raise done.stopped


def stream_options(pipeline: Pipeline) -> dict[str, str]:
    """Options of the source `postroom.ranges` for a run that goes on from the tables' positions."""
    options = pipeline.options
    return {
        "paths": json.dumps(list(options.data)),
        "token": options.token,
        "startingPosition": to_json(pipeline.starts()) if pipeline.starts() else "earliest",
        "maxRows": str(options.batch_records),
        "partitionRecords": str(options.partition_records),
        "onMissingLedger": options.on_missing_ledger,
    }
