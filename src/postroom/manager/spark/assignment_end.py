"""How what a Spark subscription holds ends, or goes back: in bulk, from the packed form."""

from typing import Any, Final

from mypy_extensions import i64

from postroom.manager.kernel.core import Core
from postroom.manager.kernel.group_transitions import consume_assigned, end_with_many, release_assigned
from postroom.manager.queues import annotations
from postroom.manager.queues.held_entries import HeldChunk
from postroom.manager.queues.placement import ended
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.assignment import write_open
from postroom.manager.spark.subscription import SparkSubscription
from postroom.manager.undeliverable.returned_entries import settle_down
from postroom.model import numbers as n
from postroom.model.packed import PackedEntry

_SCRATCH: Final = PackedEntry()


def consume_through(core: Core, spark: SparkSubscription, position: i64) -> i64:
    """End everything that was assigned at ``position`` or before; returns how many entries that were."""
    write_open(core, spark)
    count: i64 = 0
    for chunk in list(spark.held.chunks()):
        end = chunk.end_through(position)
        if end > chunk.head:
            count += _consume(core, spark, chunk, end)
            core.ledger.boundary()
    return count


def _consume(core: Core, spark: SparkSubscription, chunk: HeldChunk, end: i64) -> i64:
    """End the entries of ``chunk`` before index ``end``."""
    queue, first = spark.queue, chunk.head
    rows: Any = chunk.rows(first, end)
    size: i64 = int(rows["body_len"].sum(dtype="i8"))
    consume_assigned(core, queue, spark.id, rows["serial"], int(size))
    _report(core, queue, chunk, rows, first)
    if queue.annotated is not None:
        for serial in rows["serial"].tolist():
            annotations.drop(core, queue, serial)
    if queue.units is not None:
        _free_units(core, queue, rows["serial"].tolist())
    for index in [each for each in chunk.objects if first <= each < end]:
        entry = chunk.objects[index]
        end_with_many(entry)
        ended(core, entry)
    spark.held.drop(chunk, first, end, size)
    return end - first


def _free_units(core: Core, queue: Queue, serials: list[int]) -> None:
    """Members of units of order have ended: those behind them may go."""
    units = queue.units
    assert units is not None
    for serial in serials:
        if units.ended(serial):
            core.agenda.woken.append(queue)


def _report(core: Core, queue: Queue, chunk: HeldChunk, rows: Any, first: i64) -> None:
    """Those of the messages that want to be told of their delivery are."""
    for index in (rows["flags"] & n.FLAG_REPORTS).nonzero()[0].tolist():
        core.reports.note(chunk.entry(first + index, queue, _SCRATCH), n.FEEDBACK_COD)


def give_back_some(core: Core, spark: SparkSubscription, limit: i64) -> i64:
    """Have up to ``limit`` of what it holds go back to their places, the last first; returns how many."""
    write_open(core, spark)
    chunks = spark.held.chunks()
    if not chunks:
        return 0
    chunk = chunks[-1]
    first = max(chunk.head, chunk.end - limit)
    rows: Any = chunk.rows(first, chunk.end)
    size: i64 = int(rows["body_len"].sum(dtype="i8"))
    entries = [chunk.entry(index, spark.queue, _SCRATCH) for index in range(first, chunk.end)]
    release_assigned(core, spark.queue, spark.id, entries, size)
    for entry in entries:
        if not entry.counted:
            entry.counted = True
            core.memory.live_entries += 1
    spark.held.drop(chunk, first, chunk.end, size)
    for entry in reversed(entries):
        settle_down(core, entry)
    core.ledger.boundary()
    return len(entries)
