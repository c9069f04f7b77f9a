"""Events on their way to the task that walks them: each task that reads some cuts them by entry."""

from collections.abc import Callable, Iterator
from typing import Final
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from postroom.ledger.format.layout import Array
from postroom.spark.audit.rows import ENTRY_KEY
from postroom.spark.audit.walk.blocks import (
    BLOCK_COLUMNS,
    Batches,
    Block,
    batches_of,
    cut,
    mixed,
    part_of,
    tables_in,
)
from postroom.spark.audit.walk.columns import EVENT, EVENT_COLUMNS
from postroom.spark.audit.walk.moves import Move, text_of
from postroom.spark.data_source.portions import portions
from postroom.spark.data_source.worker import in_task
from postroom.spark.ledger_source.columns import ACT, EVENTS_SCHEMA
from postroom.spark.ledger_source.names import TEXT_CODES
from postroom.spark.tables import arrays

Parted = Callable[[int], DataFrame]
"""Events in so many parts, all events of an entry in one: blocks of `PACKED`."""

ROWS_AT_ONCE: Final = 500_000
"""So many events a task cuts at a time."""

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


def of_rows(events: DataFrame) -> Parted:
    """The events of a DataFrame."""

    def parted(parts: int) -> DataFrame:
        @in_task
        def pack(batches: Batches) -> Batches:
            yield from packed(batches, parts)

        rows = events.select(*EVENT_COLUMNS).mapInArrow(pack, BLOCK_COLUMNS)
        return rows.repartitionById(parts, "part")

    return parted


def packed(batches: Batches, parts: int) -> Batches:
    """The events of a task as blocks."""
    yield from batches_of(_blocks(batches, parts))


def _blocks(batches: Batches, parts: int) -> Iterator[Block]:
    for some in portions(batches, len, ROWS_AT_ONCE):
        events = _packed(pa.Table.from_batches(some))
        ledgers = texts_mixed(events.column("ledger_id"))
        keys = [arrays.numbers(events.column(name)) for name in ENTRY_KEY[1:]]
        yield from cut(EVENT, events, part_of(mixed(ledgers, *keys), parts), parts)


def texts_mixed(column: pa.ChunkedArray) -> Array:
    """A number for each of few texts, the same wherever it is read."""
    codes = arrays.codes(column)
    table = np.array([crc32(text.encode()) for text in codes.texts] or [0], np.uint64)
    found: Array = table[codes.numbers]
    return found


def _packed(events: pa.Table) -> pa.Table:
    """The columns of `PACKED`, without rows of acts, which tell of no entry."""
    words = [arrays.codes(events.column(name)) for name in Move._fields]
    acts = words[Move._fields.index("event")].among(ACT)
    combined = np.zeros(len(events), np.int64)
    for word in words:
        combined = combined * (len(word.texts) + 1) + (word.numbers + 1)
    _, first, which = np.unique(combined, return_index=True, return_inverse=True)
    texts = [text_of(Move(*(_text(word, row) for word in words))) for row in first.tolist()]
    moves = pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), pa.array(texts, pa.string()))
    ledgers = arrays.codes(events.column("ledger_id")).array()
    beside = [arrays.one(events.column(name)) for name in _BESIDE]
    made = pa.Table.from_arrays([ledgers, moves, *beside], schema=PACKED)
    return made.filter(pa.array(~acts)) if acts.any() else made


def _text(words: arrays.Codes, row: int) -> str | None:
    number = int(words.numbers[row])
    return None if number < 0 else words.texts[number]


def events_in(batches: Batches) -> pa.Table:
    """All events of a task's blocks."""
    return pa.concat_tables([PACKED.empty_table(), *tables_in(batches, PACKED)])
