"""What a task's process keeps, and that no other is changed."""

import gc
import os
from collections import defaultdict
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from postroom.spark.worker import in_task

TASKS = 6
MODULES_HAVE: int = 10_000
"""Objects, at the least, in any process of Python that has pyspark."""


Told = Iterator[tuple[int, int]]


def telling() -> Callable[[Iterator[int]], Told]:
    """A task that gives its process, and the number of objects which that keeps."""

    @in_task
    def told(rows: Iterator[int]) -> Told:
        for _ in rows:
            yield os.getpid(), gc.get_freeze_count()

    return told


def test_what_the_first_task_of_a_process_has_loaded_is_not_looked_at_again(spark: SparkSession) -> None:
    task = spark.sparkContext.parallelize([1], 1).mapPartitions(telling())
    later: dict[int, set[int]] = defaultdict(set)
    for _ in range(TASKS):
        for process, kept in task.collect():
            later[process].add(kept)
    assert any(max(kept) > MODULES_HAVE for kept in later.values())  # processes are used again
    assert all(len(kept) <= 2 for kept in later.values())  # nothing more is kept after the first task


def test_outside_of_a_task_nothing_is_kept() -> None:
    before = gc.get_freeze_count()
    assert list(telling()(iter([1]))) == [(os.getpid(), before)]
    assert gc.get_freeze_count() == before
