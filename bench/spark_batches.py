"""A source of Spark that costs nothing: record batches that are made already, the same ones again and again.

Whatever Spark does with the rows of any Python source it does with these, so what they reach is the most that
a source of ours can.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from bench.reader_bench import TEN_COLUMNS
from postroom.spark.data_source.worker import in_task
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.ledger_source.source import EVENTS_STRUCT
from postroom.spark.places.place import Slice
from postroom.spark.places.uris import place_of

SCHEMA: Final = StructType([EVENTS_STRUCT[name] for name in TEN_COLUMNS])
ARROW: Final = to_arrow_schema(SCHEMA, timezone="UTC")


class MadeBatches(DataSource):
    """Ten columns of the largest file of the ledger at ``path``, in each of ``partitions``."""

    @classmethod
    def name(cls) -> str:
        return "made_batches"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["path"], int(self.options["partitions"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str, partitions: int) -> None:
        self._path = path
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]

    @in_task
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from made(self._path)


@cache
def made(path: str) -> list[pa.RecordBatch]:
    """The batches of the ledger's largest file, kept by each process that asks."""
    place = place_of(path)
    largest = max(place.snapshot().segments, key=lambda segment: segment.record_count)
    slice = Slice(place, largest, largest.first_position, largest.last_position)
    return list(read_events(slice, ARROW, in_kinds=True))


def rows_of(path: str) -> int:
    """How many rows each partition has."""
    return sum(len(batch) for batch in made(path))
