"""What a task's process keeps, and that no other is changed; batches that are made ahead."""

import gc
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from postroom.spark.data_source.worker import in_task, made_ahead

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TASKS = 6
MODULES_HAVE: int = 10_000
"""Objects, at the least, in any process of Python that has pyspark."""


Counts = Iterator[tuple[int, int]]


def counting() -> Callable[[Iterator[int]], Counts]:
    """A task that gives its process, and the number of objects which that keeps."""

    @in_task
    def count(rows: Iterator[int]) -> Counts:
        for _ in rows:
            yield os.getpid(), gc.get_freeze_count()

    return count


def test_what_the_first_task_of_a_process_has_loaded_is_not_looked_at_again(spark: SparkSession) -> None:
    task = spark.sparkContext.parallelize([1], 1).mapPartitions(counting())
    later: dict[int, set[int]] = defaultdict(set)
    for _ in range(TASKS):
        for process, kept in task.collect():
            later[process].add(kept)
    assert any(max(kept) > MODULES_HAVE for kept in later.values())  # processes are used again
    assert all(len(kept) <= 2 for kept in later.values())  # nothing more is kept after the first task


def test_outside_of_a_task_nothing_is_kept() -> None:
    before = gc.get_freeze_count()
    assert list(counting()(iter([1]))) == [(os.getpid(), before)]
    assert gc.get_freeze_count() == before


@in_task
def allocators(rows: Iterator[int]) -> Iterator[str]:
    """A task that gives the allocator of its Arrow columns."""
    for _ in rows:
        yield pa.default_memory_pool().backend_name


def test_a_task_s_process_has_arrow_s_memory_from_the_c_library_which_keeps_it(spark: SparkSession) -> None:
    before = pa.default_memory_pool().backend_name
    assert spark.sparkContext.parallelize([1], 1).mapPartitions(allocators).collect() == ["system"]
    assert list(allocators(iter([1]))) == [before], "no other process is changed"


class Making:
    """Gives numbers in batches, and says which it has begun to make."""

    def __init__(self, until: int, error: Exception | None = None) -> None:
        self.begun = [threading.Event() for _ in range(until + 1)]
        self.until = until
        self.error = error
        self.is_closed = False

    @made_ahead
    def batches(self) -> Iterator[list[int]]:
        try:
            for number in range(self.until):
                self.begun[number].set()
                yield [number]
            self.begun[self.until].set()
            if self.error is not None:
                raise self.error
        finally:
            self.is_closed = True


def test_the_next_batch_is_made_while_one_is_taken_and_none_beyond_it() -> None:
    making = Making(4)
    batches = making.batches()
    assert not making.begun[0].is_set()
    assert next(batches) == [0]
    assert making.begun[1].wait(60)
    assert next(batches) == [1]
    assert making.begun[2].wait(60)
    assert not making.begun[3].is_set()
    assert list(batches) == [[2], [3]]
    assert making.is_closed
    assert list(Making(0).batches()) == []


def test_an_error_comes_behind_the_batches_before_it() -> None:
    making = Making(2, ValueError("broken"))
    found = []
    with pytest.raises(ValueError, match="broken"):
        for batch in making.batches():
            found += batch
    assert found == [0, 1]
    assert making.is_closed


def test_who_leaves_early_leaves_nothing_running() -> None:
    making = Making(9)
    before = threading.active_count()
    batches = making.batches()
    assert next(batches) == [0]
    assert threading.active_count() == before + 1
    assert isinstance(batches, Generator)
    batches.close()
    assert making.is_closed
    assert threading.active_count() == before
