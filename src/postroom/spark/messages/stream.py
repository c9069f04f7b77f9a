"""Mode *tap* as a stream, and the rows of one slice."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from postroom.spark.messages.decode import decode
from postroom.spark.messages.options import TapOptions
from postroom.spark.messages.rows import becomes_available, events_of
from postroom.spark.places import Slice
from postroom.spark.stream import LedgerStream, SlicePartition

BLOCK_ROWS = 2048
"""So many messages are fetched at once."""


def tap_rows(slice: Slice, schema: pa.Schema, options: TapOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, by (position, ordinal)."""
    for events in events_of(slice, becomes_available, options.source.queues):
        for start in range(0, len(events), BLOCK_ROWS):
            part = events.part(start, start + BLOCK_ROWS)
            messages = slice.place.messages(None, part.serial.astype(np.uint64))
            yield decode(messages, part, schema)


class TapStream(LedgerStream):
    """Rows of messages, as they become available."""

    def __init__(self, options: TapOptions, schema: StructType) -> None:
        super().__init__(options.source)
        self._tap = options
        self._schema = schema

    def __getstate__(self) -> Any:
        return self._tap, self._schema

    def __setstate__(self, state: Any) -> None:
        self._tap, self._schema = state
        super().__setstate__(self._tap.source)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice."""
        assert isinstance(partition, SlicePartition)
        yield from tap_rows(partition.slice, to_arrow_schema(self._schema, timezone="UTC"), self._tap)
