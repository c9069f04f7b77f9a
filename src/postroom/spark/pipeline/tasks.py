"""What Spark runs on its executors. A slice comes as pickled by the source `postroom.ranges`, what became of
it goes back pickled: a few kilobytes, while the rows themselves never pass through the JVM."""

import ctypes
import pickle
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Final

import pyarrow as pa

from postroom.spark.pipeline.work import Job, work

DONE_SCHEMA: Final = "done binary"

KEPT_BYTES: Final = 1 << 30
"""Memory up to this size is kept for the next array rather than given back to the system: mapping it anew
costs a third of a task's time."""

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3


@cache
def keep_memory() -> None:
    """Have the C library keep memory in this process; nothing where it has no such setting."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


class RunSlices:
    """The function for ``mapInArrow``: rows of `postroom.ranges` → one row ``done`` each."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_memory()
        for batch in batches:
            for pickled in batch.column("slice").to_pylist():
                done = work(pickle.loads(pickled), self._job)
                yield pa.RecordBatch.from_pydict({"done": pa.array([pickle.dumps(done)], pa.binary())})
