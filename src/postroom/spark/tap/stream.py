"""Mode *tap* as a stream, and the rows of one slice."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from postroom.spark.data_source.worker import in_task, made_ahead
from postroom.spark.ledger_source.positions import from_dict
from postroom.spark.ledger_source.ranges import unless_dropped
from postroom.spark.ledger_source.stream import LedgerStream, Offset, SlicesPartition
from postroom.spark.messages.decode import decode
from postroom.spark.messages.rows import Events, Wanted, becomes_available, events_of
from postroom.spark.messages.schema import EVENT_COLUMNS
from postroom.spark.places.place import Place, Slice
from postroom.spark.tap.lease import LeaseOptions, TapLease
from postroom.spark.tap.options import TapOptions

_OF_EVENTS: Final = frozenset(EVENT_COLUMNS)

BLOCK_ROWS: Final = 16_384
BLOCK_BYTES: Final = 32 << 20
"""At most so many messages, and of their bodies so much, are fetched at once."""


def rows_of(
    slice: Slice, schema: pa.Schema, options: TapOptions, wanted: Wanted = becomes_available
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, one for each event that is wanted, by (position, ordinal).

    Raises ``DataLost`` where its file was dropped since it was planned, unless that is accepted.
    """
    found = events_of(slice, wanted, options.source.queues)
    for events in unless_dropped(slice, found, options.source):
        if set(schema.names) <= _OF_EVENTS:  # no message need be looked at
            yield events.batch(schema)
        else:
            yield from _joined(slice.place, events, schema, options.check_bodies)


def _joined(place: Place, events: Events, schema: pa.Schema, check: bool) -> Iterator[pa.RecordBatch]:
    """Events and the messages that they are of."""
    start = 0
    while start < len(events):
        part = events.part(start, min(start + BLOCK_ROWS, len(events)))
        messages = place.messages(None, part.serial.astype(np.uint64), check, BLOCK_BYTES)
        part = part.part(0, len(messages))
        yield decode(messages, part, schema)
        start += len(part)


def read_slices(
    partition: InputPartition, schema: StructType, options: TapOptions, wanted: Wanted = becomes_available
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition's slices, as `rows_of`."""
    assert isinstance(partition, SlicesPartition)
    arrow = to_arrow_schema(schema, timezone="UTC")
    for piece in partition.slices:
        yield from rows_of(piece, arrow, options, wanted)


class TapStream(LedgerStream):
    """Rows of messages, as they become available."""

    def __init__(self, options: TapOptions, schema: StructType) -> None:
        super().__init__(options.source)
        self._tap = options
        self._schema = schema
        self._lease: TapLease | None = None
        self._begins = self._began = 0
        """The first positions of this batch and of the one before."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._tap, self._schema)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Where the batch that begins behind `start` ends.

        The lease moves up to where the batch before began: Spark may lose the last entry of its checkpoint.
        """
        end = super().latestOffset(start, limit)
        if self._tap.lease is not None:
            for position in from_dict(start or end).values():
                self._keep(self._tap.lease, position.position + 1)
        return end

    def _keep(self, options: LeaseOptions, position: int) -> None:
        if self._lease is None:
            self._lease = TapLease(options)
        if position != self._begins:
            self._begins, self._began = position, self._begins or position
        self._lease.keep(self._began)

    def stop(self) -> None:
        """The query ends; its lease lasts for its duration."""
        if self._lease is not None:
            self._lease.close()

    @in_task
    @made_ahead
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        yield from read_slices(partition, self._schema, self._tap)
