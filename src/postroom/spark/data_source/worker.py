"""The Python processes in which Spark runs tasks, many one after the other in each."""

import ctypes
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import cache, wraps
from typing import Final, ParamSpec, TypeVar

import pyarrow as pa

KEPT_BYTES: Final = 1 << 30
"""Memory up to this size is kept for the next array rather than given back to the system: mapping it anew
costs a third of a task's time."""

M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3

P = ParamSpec("P")
Row = TypeVar("Row")


def in_task(rows: Callable[P, Iterator[Row]]) -> Callable[P, Iterator[Row]]:
    """For what gives the rows of a task: its process is made fit for many such tasks. In others nothing is
    changed."""

    @wraps(rows)
    def run(*arguments: P.args, **named: P.kwargs) -> Iterator[Row]:
        with task_process():
            yield from rows(*arguments, **named)

    return run


def made_ahead(rows: Callable[P, Iterator[Row]]) -> Callable[P, Iterator[Row]]:
    """For what gives the rows of a task in batches: the next one is made while Spark takes the one before,
    which it else waits for. So there is one batch more in memory."""

    @wraps(rows)
    def run(*arguments: P.args, **named: P.kwargs) -> Iterator[Row]:
        with closing(row for row in rows(*arguments, **named)) as made, ThreadPoolExecutor(1) as maker:
            coming = maker.submit(next, made, None)
            while (batch := coming.result()) is not None:
                coming = maker.submit(next, made, None)
                yield batch

    return run


@contextmanager
def task_process() -> Iterator[None]:
    """The same around a task that gives no rows."""
    from pyspark import TaskContext

    is_task = TaskContext.get() is not None
    if is_task:
        _keep_memory()
    yield
    if is_task:
        _keep_loaded()


_keep_loaded: Final = cache(gc.freeze)
"""What the first task has loaded stays. Spark has Python look for garbage after each task, among all that was
ever imported: a tenth of a second."""


@cache
def _keep_memory() -> None:
    """Have the C library keep memory in this process, that of Arrow's columns too; nothing where it has no
    such setting. Arrow's own allocator gives back within milliseconds what is free."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())
