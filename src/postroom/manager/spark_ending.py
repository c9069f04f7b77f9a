"""How what a Spark subscription holds ends, or goes back: in bulk, from the packed form."""

from typing import Any, Final

from mypy_extensions import i64

from postroom.ledger.format.block import Group, encode_groups
from postroom.ledger.format.records import RecordType
from postroom.manager import annotating
from postroom.manager.core import Core
from postroom.manager.entry import Entry
from postroom.manager.placing import ended
from postroom.manager.queue import Queue
from postroom.manager.ranges import group_of_many, runs
from postroom.manager.returning import settle_down
from postroom.manager.spark_assigning import write_open
from postroom.manager.spark_held import HeldChunk
from postroom.manager.spark_subscription import SparkSubscription
from postroom.manager.statistics import UNACKNOWLEDGED, slot_of
from postroom.model import numbers as n
from postroom.model.codes import Outcome
from postroom.model.packed import PackedEntry

_GROUP_EVENT: Final = int(RecordType.GROUP_EVENT)
_CONSUMED: Final = int(Outcome.CONSUMED)
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
    detail = group_of_many(int(queue.id), n.GET_UNCONFIRMED, n.DELETED, _CONSUMED, rows["serial"])
    core.ledger.record(_GROUP_EVENT, 0, queue.id, spark.id, n.SPARK_SUBSCRIPTION, n.EVENT_CONFIRM, detail)
    queue.statistics.end_many(UNACKNOWLEDGED, _CONSUMED, end - first, size)
    _report(core, queue, chunk, rows, first)
    if queue.annotated is not None:
        for serial in rows["serial"].tolist():
            annotating.drop(core, queue, serial)
    if queue.units is not None:
        _free_units(core, queue, rows["serial"].tolist())
    for index in [each for each in chunk.objects if first <= each < end]:
        entry = chunk.objects[index]
        entry.state = n.DELETED
        ended(core, entry)
    spark.held.drop(chunk, first, end, size)
    return end - first


def _free_units(core: Core, queue: Queue, serials: list[int]) -> None:
    """Members of units of order have ended: those behind them may go."""
    units = queue.units
    assert units is not None
    for serial in serials:
        if units.ended(serial):
            core.woken.append(queue)


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
    _release(core, spark, entries, rows["serial"].tolist(), size)
    spark.held.drop(chunk, first, chunk.end, size)
    for entry in reversed(entries):
        settle_down(core, entry)
    core.ledger.boundary()
    return len(entries)


def _release(
    core: Core, spark: SparkSubscription, entries: list[Entry], serials: list[int], size: i64
) -> None:
    """One record, and one change of the counters, for all of them."""
    queue = spark.queue
    to, causes = (n.DELAYED, n.PAUSED) if queue.insertion_paused else (n.AVAILABLE, 0)
    group = Group(int(queue.id), n.GET_UNCONFIRMED, to, 0, causes, 0, 0, runs(serials))
    core.ledger.record(
        _GROUP_EVENT,
        0,
        queue.id,
        spark.id,
        n.SPARK_SUBSCRIPTION,
        n.EVENT_RELEASE,
        encode_groups([group]),
    )
    queue.statistics.move_many(UNACKNOWLEDGED, slot_of(to, 0, causes), len(entries), size)
    for entry in entries:
        if not entry.counted:
            entry.counted = True
            core.live_entries += 1
        entry.state = to
        entry.causes = causes
        entry.due_us = 0
        entry.holder_kind = 0
        entry.holder = 0
        entry.owner = None
