"""Giving entries to Spark subscriptions: one at a time where others take turns, else as many as there are;
and how what one holds ends, or goes back: in bulk, from the packed form.

No body is read for it, and what is packed stays so. One record assigns many: it is written when it is full,
when the order of serials breaks, before anything else is said about what it assigns, and at the end of the
turn.
"""

from typing import Any, Final, final

import numpy as np
from mypy_extensions import i64

from postroom.manager.consuming.unit_turns import catch_up
from postroom.manager.kernel.consumer import BulkReceiver
from postroom.manager.kernel.core import Core
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.group_transitions import (
    assign_object,
    assign_packed,
    assigned_group,
    consume_assigned,
    end_with_many,
    record_assigned,
    release_assigned,
)
from postroom.manager.kernel.memory import drop_body, forget, stored
from postroom.manager.queues import annotations
from postroom.manager.queues.backlog import Chunk
from postroom.manager.queues.band import Band
from postroom.manager.queues.held_entries import HeldChunk
from postroom.manager.queues.placement import ended, refill, take_out
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.subscription import ASSIGNED_TOGETHER, SparkSubscription, spark_subscriptions_of
from postroom.manager.undeliverable.expiry import expire_available
from postroom.manager.undeliverable.returned_entries import settle_down
from postroom.model import numbers as n
from postroom.model.packed import PACKED_BYTES, PACKED_FIELDS, PackedEntry

_PACKED: Final = np.dtype(PACKED_FIELDS)
_PLACE_BYTES: Final = 16


def assign(core: Core, spark: SparkSubscription, entry: Entry) -> None:
    """Give an available object, which is in no order any more, to ``spark``."""
    if not spark.takes_next(entry.serial):
        write_open(core, spark)
    if spark.open_count == 0:
        spark_subscriptions_of(core).assigning.append(spark)
    spark.note(entry.serial)
    keep = not stored(entry) or entry.annotations is not None or entry.excluded is not None
    spark.held.add(entry, keep)
    assign_object(entry, spark.id, spark)
    if keep:
        drop_body(core, entry)
    else:
        forget(core, entry)
    core.budget.assignments -= 1


@final
class SparkReceiver(BulkReceiver):
    """A Spark subscription, as its consumer sees it."""

    def __init__(self, core: Core, spark: SparkSubscription) -> None:
        self._core = core
        self._spark = spark

    def room(self) -> i64:
        return self._spark.room()

    def take(self, entry: Entry) -> None:
        assign(self._core, self._spark, entry)

    def take_next(self, alone: bool) -> bool:
        return _assign_next(self._core, self._spark.queue, self._spark, alone)


def write_open(core: Core, spark: SparkSubscription) -> None:
    """Write the record that is being filled, if there is one."""
    count = spark.open_count
    if count > 0:
        _record(core, spark, spark.close_record(), count)
        spark.held.settle()


def write_all(core: Core) -> None:
    """The turn is over: no record stays open."""
    subscriptions = spark_subscriptions_of(core)
    some = subscriptions.assigning
    subscriptions.assigning = []
    for spark in some:
        write_open(core, spark)


def _record(core: Core, spark: SparkSubscription, detail: bytes, count: i64) -> None:
    position = record_assigned(core, spark.queue, spark.id, detail)
    spark.held.mark(position, count)
    spark.assigned = position


def _assign_next(core: Core, queue: Queue, spark: SparkSubscription, alone: bool) -> bool:
    """Give ``spark``, which has room, the next that is available: whole runs where nobody else wants any
    (``alone``). False if there is nothing."""
    while True:
        catch_up(core, queue)
        band = queue.top_band()
        if band is None:
            return False
        if alone and _assign_packed(core, queue, spark, band) > 0:
            return True
        if band.head == len(band.live) and band.backlog.count > 0:
            refill(core, queue, band)
        entry = band.first()
        if entry is None:
            return False
        if entry.expiry_us != 0 and entry.expiry_us <= core.now_us:
            expire_available(core, entry)
            continue
        take_out(queue, entry)
        queue.bodies.ahead = 0
        assign(core, spark, entry)
        return True


def _assign_packed(core: Core, queue: Queue, spark: SparkSubscription, band: Band) -> i64:
    """Give it what is packed at the front of ``band`` as it is; returns how many, 0 if there is none."""
    backlog = band.backlog
    if backlog.count < core.options.packed_run_entries or band.head < len(band.live):
        return 0
    chunk = backlog.front()
    if chunk.objects:
        return 0
    end = min(chunk.count, chunk.head + min(spark.room(), core.budget.assignments))
    if band.returned:
        back = band.returned[-1]
        end = min(end, chunk.first_at(back.place, back.ordinal))
    count = _living(chunk, _unexpired(core, chunk, end)) - chunk.head
    if count < core.options.packed_run_entries:
        return 0
    rows: Any = np.frombuffer(chunk.data, _PACKED)[chunk.head : chunk.head + count]
    sizes: Any = np.cumsum(rows["body_len"], dtype=np.int64)
    left: i64 = spark.definition.window_bytes - spark.held.size_bytes
    count = min(count, int(np.searchsorted(sizes, int(left))) + 1)
    size: i64 = int(sizes[count - 1])
    _take_over(core, spark, chunk, count, size)
    backlog.passed(chunk, count)
    assign_packed(queue, count, size)
    core.budget.assignments -= count
    return count


def _unexpired(core: Core, chunk: Chunk, end: i64) -> i64:
    """Behind the last packed entry, from the head on, before the first whose time is over."""
    if chunk.min_expiry_us == 0 or chunk.min_expiry_us > core.now_us:
        return end
    times: Any = np.frombuffer(chunk.data, _PACKED)["expiry_us"][chunk.head : end]
    over: Any = np.flatnonzero((times != 0) & (times <= int(core.now_us)))
    return chunk.head + int(over[0]) if len(over) else end


def _living(chunk: Chunk, end: i64) -> i64:
    """Behind the last, from the head on, before the first that has ended where it stands."""
    dead = chunk.dead
    if dead is None:
        return end
    bits: Any = np.unpackbits(np.frombuffer(dead, np.uint8), bitorder="little")[chunk.head : end]
    over: Any = np.flatnonzero(bits)
    return chunk.head + int(over[0]) if len(over) else end


def _take_over(core: Core, spark: SparkSubscription, chunk: Chunk, count: i64, size: i64) -> None:
    """Hold the first ``count`` entries of ``chunk``, and write the records that say so."""
    write_open(core, spark)
    first, end = chunk.head, chunk.head + count
    data = chunk.data[first * PACKED_BYTES : end * PACKED_BYTES]
    places = chunk.places[first * _PLACE_BYTES : end * _PLACE_BYTES]
    spark.held.add_packed(data, places, count, size)
    serials: Any = np.frombuffer(data, _PACKED)["serial"]
    for start, stop in _ascending(serials):
        _record(core, spark, assigned_group(spark.queue, serials[start:stop]), stop - start)
    spark.held.settle()


def _ascending(serials: Any) -> list[tuple[int, int]]:
    """Pieces for one record each: within one the serials ascend."""
    breaks: list[int] = (np.flatnonzero(serials[1:] <= serials[:-1]) + 1).tolist()
    pieces: list[tuple[int, int]] = []
    start = 0
    for stop in [*breaks, len(serials)]:
        while start < stop:
            end = min(stop, start + ASSIGNED_TOGETHER)
            pieces.append((start, end))
            start = end
    return pieces


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
    for index in (rows["flags"] & n.FLAG_REPORTS).nonzero()[0].tolist():
        core.reports.note(chunk.entry(first + index, queue, _SCRATCH), n.FEEDBACK_COD)
    if queue.annotated is not None:
        for serial in rows["serial"].tolist():
            annotations.drop(core, queue, serial)
    if queue.units is not None:
        units = queue.units
        assert units is not None
        for serial in rows["serial"].tolist():
            if units.ended(serial):
                core.agenda.woken.append(queue)
    for index in [each for each in chunk.objects if first <= each < end]:
        entry = chunk.objects[index]
        end_with_many(entry)
        ended(core, entry)
    spark.held.drop(chunk, first, end, size)
    return end - first


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
