"""A sink without Spark: tasks and drivers are called as Spark calls them, beside a broker of the test."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from postroom.client.aio import ConnectionFactory
from postroom.spark.sink import commit as driver
from postroom.spark.sink.digest import offsets_of
from postroom.spark.sink.options import SinkOptions, read_stream_options
from postroom.spark.sink.task import TaskWrote, Writing, write
from tests.client.breakable_connection import texts
from tests.server.harness import BrokerThread

Rows = list[tuple[int, str]]


class Query:
    """A streaming query that writes rows of a position and a text; each object is a run of it."""

    def __init__(
        self, url: str, app: str, folder: Path, run: str = "run-1", query: str = "query", **options: str
    ) -> None:
        fields = {
            "broker": url,
            "queue": app,
            "app": app,
            "checkpointLocation": str(folder),
            "brokerTimeoutS": "20",
        }
        self.options: SinkOptions = read_stream_options(fields | options)
        self._app = app
        self._folder = folder
        self._query, self._run = query, run

    def plan(self, batch_id: int, offsets: str) -> None:
        """Write the checkpoint's log, as Spark does before a batch runs."""
        path = self._folder / "offsets" / str(batch_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'v1\n{{"batchTimestampMs":{id(path)}}}\n{offsets}')

    def task(self, batch_id: int, rows: Rows, partition: int = 0, attempt: int = 0) -> TaskWrote:
        """Run a task."""
        who = Writing(self._app, self._query, self._run, batch_id, partition, attempt)
        return write(self.options, who, batches_of(rows))

    def commit(self, batch_id: int, *wrote: TaskWrote) -> str:
        """What the driver does when all tasks are done."""
        offsets = offsets_of(self.options.checkpoint, batch_id)
        return driver.commit(self.options, self._app, batch_id, offsets, wrote)

    def batch(self, batch_id: int, *rows: Rows, offsets: str | None = None) -> str:
        """A whole batch, of as many tasks as there are lists of rows."""
        self.plan(batch_id, offsets or f"offsets of {batch_id}")
        done = [self.task(batch_id, some, number, number) for number, some in enumerate(rows)]
        return self.commit(batch_id, *done)


def batches_of(rows: Rows, size: int = 3) -> Iterator[pa.RecordBatch]:
    """Rows as Spark brings them: in record batches; an empty one among them."""
    schema = pa.schema([("position", pa.int64()), ("text", pa.string()), ("message_id", pa.string())])
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        columns: list[list[Any]] = [
            [position for position, _ in some],
            [text for _, text in some],
            [f"ID:{position}" for position, _ in some],
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)],
            schema=schema,
        )
        yield pa.RecordBatch.from_pylist([], schema)


def numbered(first: int, last: int) -> Rows:
    """Rows from one position to another, both included."""
    return [(position, f"m{position}") for position in range(first, last + 1)]


def received(broker: BrokerThread, queue: str) -> list[object]:
    """The bodies of what is in a queue, in order; it is empty then."""
    return [body for body, _ in asyncio.run(texts(broker, queue))]


def bodies(rows: Rows) -> list[str]:
    return [text for _, text in rows]


def shown(broker: BrokerThread, app: str) -> dict[str, object]:
    """The broker's attributes of an app."""

    async def read() -> dict[str, object]:
        async with await ConnectionFactory(broker.url).create_connection() as connection:
            return await (await connection.create_management()).read("postroom.sink", app)

    return asyncio.run(read())
