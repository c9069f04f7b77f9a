"""What Spark runs on its executors. A slice comes as pickled by the source `postroom.ranges`, what became of
it goes back pickled: a few kilobytes, while the rows themselves never pass through the JVM."""

import pickle
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from postroom.spark.data_source.worker import in_task
from postroom.spark.pipeline.slice_files import Job, write_slice

DONE_SCHEMA: Final = "done binary"


class RunSlices:
    """The function for ``mapInArrow``: rows of `postroom.ranges` → one row ``done`` each."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @in_task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pickled in batch.column("slice").to_pylist():
                done = write_slice(pickle.loads(pickled), self._job)
                yield pa.RecordBatch.from_pydict({"done": pa.array([pickle.dumps(done)], pa.binary())})
