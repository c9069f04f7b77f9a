"""The contents of the messages that stand on a queue: read in the tasks, and only the columns that are asked
for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from postroom.spark.data_source.worker import in_task
from postroom.spark.jobs.queued_messages import STATE_COLUMNS
from postroom.spark.ledger_source.names import Names
from postroom.spark.messages.decode import decode
from postroom.spark.messages.rows import Events
from postroom.spark.messages.schema import EVENT_COLUMNS, FULL_SCHEMA, messages_struct
from postroom.spark.places.place import Place

BLOCK_ROWS: Final = 2048
"""So many messages are fetched at once."""
BLOCK_BYTES: Final = 64 << 20
"""And so many bytes of them, or one message."""

CONTENT_COLUMNS: Final = tuple(
    name for name in FULL_SCHEMA.names if name not in EVENT_COLUMNS and name not in STATE_COLUMNS
)
"""The columns of messages that aren't told by how they stand on the queue."""


def with_contents(rows: DataFrame, place: Place, ledger_id: str, columns: list[str]) -> DataFrame:
    """Messages by their serials, with these of `CONTENT_COLUMNS`."""
    if not columns:
        return rows
    added = messages_struct(pa.schema([FULL_SCHEMA.field(name) for name in columns]))
    schema = StructType([*rows.schema.fields, *added.fields])
    return rows.mapInArrow(_Read(place, ledger_id, tuple(columns), schema), schema)


@dataclass(frozen=True)
class _Read:
    """Called in the tasks."""

    place: Place
    ledger_id: str
    columns: tuple[str, ...]
    schema: StructType

    @in_task
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        whole = to_arrow_schema(self.schema, timezone="UTC")
        wanted = pa.schema([FULL_SCHEMA.field(name) for name in self.columns])
        for batch in batches:
            start = 0
            while start < batch.num_rows:
                block = batch.slice(start, BLOCK_ROWS)
                read = self._contents(block, wanted)
                block = block.slice(0, read.num_rows)
                start += read.num_rows
                arrays = [*block.columns, *read.columns]
                yield pa.RecordBatch.from_arrays(
                    [array.cast(field.type) for array, field in zip(arrays, whole, strict=True)], schema=whole
                )

    def _contents(self, block: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
        """Of as many of the messages as were read at once, from the first on."""
        serials = np.asarray(block["serial"], np.uint64)
        messages = self.place.messages(None, serials, max_bytes=BLOCK_BYTES)
        serials = serials[: len(messages.found)]
        nothing = np.zeros(len(serials), np.int64)
        events = Events(self.ledger_id, nothing, nothing, serials, nothing, nothing, Names({}))
        return decode(messages, events, wanted)
