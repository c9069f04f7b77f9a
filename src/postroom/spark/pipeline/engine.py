"""Who runs tasks: Spark's executors, or this process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from pyspark.sql import SparkSession

from postroom.spark.data_source.worker import in_task

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs a function over items, each as a task of its own; function, items and results are pickled."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results in the order of the items. Raises what a task raised."""


class HereEngine:
    """One after the other in this process."""

    cores = 1

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        return [function(item) for item in items]


class SparkEngine:
    """As tasks of Spark, which tries them again where an executor is lost."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.cores = self._context.defaultParallelism

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """A single item is done by the driver itself: a job would cost more than it
        saves."""
        if len(items) <= 1:
            return [function(item) for item in items]

        @in_task
        def run(some: Iterable[Item]) -> Iterator[Result]:
            yield from map(function, some)

        results: list[Result] = self._context.parallelize(items, len(items)).mapPartitions(run).collect()
        return results
