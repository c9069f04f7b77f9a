"""From a task's record batches to messages: which rows are sent, where each goes, how far positions reach."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.messages.encode import RowInvalid, encode
from postroom.spark.sink.branches import Share
from postroom.spark.sink.options import SinkOptions

MAX_QUEUES: Final = 256
"""That one task sends to; each has a link."""


class Sifter:
    """Turns record batches into messages by queue; the order of rows is kept for each queue."""

    def __init__(self, options: SinkOptions) -> None:
        self._options: Final = options
        self._queues: set[str] = set()
        self.written_before: int | None = None
        """Rows up to this position are not sent."""
        self.highest: int | None = None
        """Position of the rows seen."""

    def shares(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[Share]]:
        """The messages of each batch. Raises ``RowInvalid``."""
        for batch in batches:
            found = self._share(self._unwritten(batch))
            if found:
                yield found

    def _unwritten(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        name = self._options.above
        if not name:
            return batch
        positions = batch.column(name)
        if positions.null_count:
            raise RowInvalid(f"column {name}, that of abovePosition, has a null: each row needs its position")
        if len(batch):
            highest = pc.max(positions).as_py()
            self.highest = highest if self.highest is None else max(highest, self.highest)
        if self.written_before is None:
            return batch
        return batch.filter(pc.greater(positions, self.written_before))

    def _share(self, batch: pa.RecordBatch) -> list[Share]:
        if not len(batch):
            return []
        payloads = list(encode(batch))
        if not self._options.queue_column:
            return [Share(self._options.queue, payloads)]
        names = self._names(batch.column(self._options.queue_column))
        if len(set(names)) == 1:
            return [Share(names[0], payloads)]
        by_queue: dict[str, list[bytes]] = {}
        for name, payload in zip(names, payloads, strict=True):
            by_queue.setdefault(name, []).append(payload)
        return [Share(name, some) for name, some in by_queue.items()]

    def _names(self, column: pa.Array) -> list[str]:
        """Where each row goes."""
        names = [name or self._options.queue for name in column.to_pylist()]
        if not all(names):
            raise RowInvalid(
                f"row {names.index('')}: its column {self._options.queue_column} is empty, and there is no"
                ' option "queue" to say where such rows go'
            )
        self._queues.update(names)
        if len(self._queues) > MAX_QUEUES:
            raise RowInvalid(
                f"one task sends to more than {MAX_QUEUES} queues: repartition the rows by"
                f" {self._options.queue_column} first"
            )
        return names
