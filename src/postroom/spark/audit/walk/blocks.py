"""Events on their way to the task that walks them: each task that reads some makes blocks of columns of them,
one for each part, and Spark carries these as they are. It never takes a step for an event.
"""

from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from postroom.ledger.format.layout import Array
from postroom.spark.audit.rows import ENTRY_KEY
from postroom.spark.audit.walk.columns import EVENT_COLUMNS
from postroom.spark.audit.walk.moves import Move, text_of
from postroom.spark.data_source.portions import portions
from postroom.spark.data_source.worker import in_task
from postroom.spark.ledger_source.columns import ACT, EVENTS_SCHEMA
from postroom.spark.ledger_source.names import TEXT_CODES
from postroom.spark.tables import arrays

Batches = Iterator[pa.RecordBatch]

Parted = Callable[[int], DataFrame]
"""Events in so many parts, all events of an entry in one: rows of `BLOCKS`."""

BLOCKS: Final = pa.schema([("part", pa.int32()), ("block", pa.binary())])
"""A part, and some of its events: a stream of Arrow with the columns of `PACKED` that have a value."""

BLOCK_COLUMNS: Final = "part int, block binary"
"""The same in Spark's words."""

BLOCK_ROWS: Final = 500_000
"""So many events a task cuts into blocks at a time."""

BATCH_BYTES: Final = 4 << 20
"""So many bytes of blocks go to Spark at a time, or one block."""

_BESIDE: Final = [name for name in EVENT_COLUMNS if name not in {"ledger_id", *Move._fields}]

READ: Final = pa.schema(
    [
        (name, TEXT_CODES if name in {"ledger_id", *Move._fields} else EVENTS_SCHEMA.field(name).type)
        for name in EVENT_COLUMNS
    ]
)
"""What is read of events, where their reader can choose."""

PACKED: Final = pa.schema(
    [
        *(("ledger_id", TEXT_CODES), ("move", TEXT_CODES)),
        *((name, EVENTS_SCHEMA.field(name).type) for name in _BESIDE),
    ]
)
"""The columns of events in a block: the words of what an event does are one (`moves`)."""

_MIX: Final = [np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)]


def of_rows(events: DataFrame) -> Parted:
    """The events of a DataFrame."""

    def parted(parts: int) -> DataFrame:
        @in_task
        def cut(batches: Batches) -> Batches:
            yield from blocks(batches, parts)

        rows = events.select(*EVENT_COLUMNS).mapInArrow(cut, BLOCK_COLUMNS)
        return rows.repartitionById(parts, "part")

    return parted


# --- making them ----------------------------------------------------------------------------------


def blocks(batches: Batches, parts: int) -> Batches:
    """Rows of `BLOCKS`, of a task's events."""
    for some in portions(batches, len, BLOCK_ROWS):
        packed = _packed(pa.Table.from_batches(some))
        for cut in portions(_cut(packed, parts), lambda made: len(made[1]), BATCH_BYTES):
            numbers, made = zip(*cut, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), pa.array(made)], schema=BLOCKS)


def _packed(events: pa.Table) -> pa.Table:
    """The columns of `PACKED`, without rows of acts, which tell of no entry."""
    words = [arrays.codes(events.column(name)) for name in Move._fields]
    acts = words[Move._fields.index("event")].among(ACT)
    mixed = np.zeros(len(events), np.int64)
    for word in words:
        mixed = mixed * (len(word.texts) + 1) + (word.numbers + 1)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    texts = [text_of(Move(*(_text(word, row) for word in words))) for row in first.tolist()]
    moves = pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), pa.array(texts, pa.string()))
    ledgers = arrays.codes(events.column("ledger_id")).array()
    beside = [arrays.one(events.column(name)) for name in _BESIDE]
    packed = pa.Table.from_arrays([ledgers, moves, *beside], schema=PACKED)
    return packed.filter(pa.array(~acts)) if acts.any() else packed


def _text(words: arrays.Codes, row: int) -> str | None:
    number = int(words.numbers[row])
    return None if number < 0 else words.texts[number]


def _cut(packed: pa.Table, parts: int) -> Iterator[tuple[int, bytes]]:
    """A block for each part that has any of these events."""
    part = _part_of(packed, parts)
    order = np.argsort(part, kind="stable")
    has_values = [name for name in packed.column_names if packed.column(name).null_count < len(packed)]
    ordered = packed.select(has_values).take(pa.array(order)).combine_chunks()
    ends = np.cumsum(np.bincount(part, minlength=parts))
    start = 0
    for number, end in enumerate(ends.tolist()):
        if end > start:
            yield number, _encoded(ordered.slice(start, end - start))
        start = end


def _part_of(packed: pa.Table, parts: int) -> Array:
    """The part of each event: the same for all of an entry, wherever they are read."""
    ledgers = arrays.codes(packed.column("ledger_id"))
    mixed = np.array([crc32(text.encode()) for text in ledgers.texts], np.uint64)[ledgers.numbers]
    for name, odd in zip(ENTRY_KEY[1:], _MIX[1:], strict=True):
        mixed = (mixed ^ arrays.numbers(packed.column(name)).astype(np.uint64)) * odd
        mixed ^= mixed >> np.uint64(32)
    mixed *= _MIX[0]
    return ((mixed >> np.uint64(32)) % np.uint64(parts)).astype(np.uint16 if parts < 1 << 16 else np.int64)


def _encoded(events: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as stream:
        stream.write_table(events)
    return sink.getvalue().to_pybytes()


# --- taking them ----------------------------------------------------------------------------------


def events_in(batches: Batches) -> pa.Table:
    """All events of a task's blocks, with all columns of `PACKED`."""
    found = [PACKED.empty_table()]
    for batch in batches:
        for block in batch.column("block"):
            with pa.ipc.open_stream(block.as_buffer()) as stream:
                found.append(stream.read_all())
    return pa.concat_tables(found, promote_options="default")
