"""What runs in a task: it asks the broker first, then sends its rows in branches, and answers with their
names. Rows are encoded in a thread beside, so that the connection lives while the rows come slowly.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from postroom.client.exceptions import JMSException
from postroom.spark.data_source.worker import task_process
from postroom.spark.sink.branches import Branches, Share
from postroom.spark.sink.link import unreachable
from postroom.spark.sink.options import SinkOptions
from postroom.spark.sink.rows import Sifter


@dataclass(frozen=True, slots=True)
class Writing:
    """Who writes which batch."""

    app: str
    query_id: str
    run_id: str
    batch_id: int
    partition: int
    attempt: int


@dataclass(frozen=True)
class TaskWrote(WriterCommitMessage):
    """What a task tells the driver; the driver has no other way to know query and run."""

    query_id: str
    run_id: str
    branches: tuple[str, ...]
    messages: int
    position: int | None
    """The highest of its rows, where there is a column of positions."""


def write(options: SinkOptions, who: Writing, batches: Iterator[pa.RecordBatch]) -> TaskWrote:
    """Send a task's rows. A task without rows says nothing to the broker.

    Raises ``SinkError``, ``RowInvalid``.
    """
    rows = (batch for batch in batches if len(batch))
    first = next(rows, None)
    if first is None:
        return TaskWrote(who.query_id, who.run_id, (), 0, None)
    try:
        with task_process():
            return asyncio.run(_Task(options, who).write(chain([first], rows)))
    except JMSException as failure:
        raise unreachable(failure, options.broker_timeout_s, who.app) from failure


class _Task:
    def __init__(self, options: SinkOptions, who: Writing) -> None:
        self._who: Final = who
        self._sifter: Final = Sifter(options)
        begin_body: dict[str, object] = {
            **{name: text for name, text in asdict(who).items() if name != "app"},
            "digest": "",
            "above": bool(options.above),
            "accept_duplicates": options.accept_duplicates,
        }
        self._branches: Final = Branches(options, who.app, begin_body)

    async def write(self, batches: Iterator[pa.RecordBatch]) -> TaskWrote:
        try:
            begun = await self._branches.begin()
            if not begun.decided:
                self._sifter.written_before = begun.position
                await self._send(batches)
            names = await self._branches.finish()
        except BaseException:
            await self._branches.abandon()
            raise
        who, sent = self._who, self._branches.messages
        return TaskWrote(who.query_id, who.run_id, tuple(names), sent, self._sifter.highest)

    async def _send(self, batches: Iterator[pa.RecordBatch]) -> None:
        """While one batch is sent the next is encoded."""
        shares = self._sifter.shares(batches)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "postroom-encode") as thread:

            def following() -> asyncio.Future[list[Share] | None]:
                return loop.run_in_executor(thread, next, shares, None)

            coming = following()
            while (some := await coming) is not None:
                coming = following()
                for share in some:
                    await self._branches.write(share)
