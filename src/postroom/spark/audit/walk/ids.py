"""Which ids a destination may have taken more than once, by a number for each id: equal ids have equal ones,
so that none is left out, and few others have."""

from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.walk.blocks import mixed
from postroom.spark.audit.walk.packing import texts_mixed
from postroom.spark.tables import arrays

_NOT_TAKEN: Final = ("rolled_back", "lost")
_WORD_BYTES: Final = 8


def took_id(lives: pa.Table) -> Array:
    """The entries that came with an id and stayed."""
    gone = arrays.codes(lives.column("outcome")).among(*_NOT_TAKEN)
    found: Array = (
        arrays.valid(lives.column("message_id")) & arrays.valid(lives.column("taken_position")) & ~gone
    )
    return found


def id_numbers(lives: pa.Table) -> Array:
    """A number for each entry's ledger, queue and id."""
    queues = arrays.numbers(lives.column("queue_id"))
    return mixed(texts_mixed(lives.column("ledger_id")), queues, text_numbers(lives.column("message_id")))


def text_numbers(column: pa.ChunkedArray) -> Array:
    """A number for each of many different texts; 0 for null."""
    array = arrays.one(column).cast(pa.large_binary())
    buffers = array.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[array.offset : array.offset + len(array) + 1]
    characters = np.frombuffer(buffers[2], np.uint8) if buffers[2] else np.zeros(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    found = np.zeros(len(array), np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        words = np.zeros((len(rows), -(-length // _WORD_BYTES) * _WORD_BYTES), np.uint8)
        words[:, :length] = characters[starts[rows, None] + np.arange(length)]
        found[rows] = mixed(np.full(len(rows), length), *words.view(np.uint64).T)
    return found


def repeated(numbers: Array) -> Array:
    """The numbers that are there more than once."""
    distinct, counts = np.unique(numbers, return_counts=True)
    found: Array = distinct[counts > 1]
    return found
