"""Which rows belong together when a table is folded in buckets, each on its own.

A row's *slot* follows from the numbers of its key; a bucket is a run of slots. Files of many partial rows are
written in the order of their slots, with a row group for every few thousand rows and a note of where each
begins: so a bucket reads little more of a file than its own rows, however many buckets there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from postroom.spark.tables.definition import TableDefinition

SLOT_BITS: Final = 10
SLOTS: Final = 1 << SLOT_BITS

GROUP_ROWS: Final = 8192
"""Rows of one row group, about, where a file is written by slots."""

SLOTS_NOTE: Final = b"postroom.slots"
"""In the metadata of such a file: the first slot of each row group, and of the rows behind the last."""

SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
"""Odd, and far from any pattern of the numbers that keys are made of."""


def stable_key(definition: TableDefinition) -> list[str]:
    """The numbers of the key that every row knows: a row may not know its link yet."""
    known = (definition.field(name) for name in definition.key if name != definition.link)
    return [field.name for field in known if not pa.types.is_string(field.type)]


def slots_of(rows: pa.Table, key: Sequence[str]) -> npt.NDArray[np.int64]:
    """The slot of each row: by its numbers in these columns."""
    mixed = np.zeros(len(rows), np.uint64)
    for name in key:
        mixed = (mixed ^ _numbers(rows[name])) * SPREAD
    return (mixed >> np.uint64(64 - SLOT_BITS)).astype(np.int64)


def in_bucket(rows: pa.Table, key: Sequence[str], number: int, count: int) -> pa.Array:
    """Which rows fall into bucket `number` of `count`."""
    return pa.array(slots_of(rows, key) * count >> SLOT_BITS == number)


def by_slots(rows: pa.Table, key: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """The rows in groups of ascending slots, each with its first slot; within a group in the order given."""
    slots = slots_of(rows, key)
    low, width = int(slots.min()), int(slots.max() - slots.min()) + 1
    count = min(width, -(-len(rows) // GROUP_ROWS))
    group = (slots - low) * count // width
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(1, count + 1))
    ordered = rows.take(pa.array(order))
    start = 0
    for number, end in enumerate(ends.tolist()):
        if end > start:
            yield low + -(-number * width // count), ordered.slice(start, end - start)
        start = end


def note_of(first_slots: Sequence[int]) -> bytes:
    """What `row_groups` needs to know of a file that was written by slots."""
    return ",".join(map(str, [*first_slots, SLOTS])).encode()


def row_groups(metadata: Mapping[bytes, bytes] | None, all: int, number: int, count: int) -> list[int]:
    """The row groups of a file of `all` that may have rows of a bucket."""
    note = (metadata or {}).get(SLOTS_NOTE)
    if note is None:
        return list(range(all))
    bounds = [int(text) for text in note.split(b",")]
    return [
        group
        for group, (first, end) in enumerate(pairwise(bounds))
        if first * count >> SLOT_BITS <= number <= (end - 1) * count >> SLOT_BITS
    ]


def _numbers(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    if not pa.types.is_integer(column.type):  # a time
        column = column.cast(pa.int64())
    filled: npt.NDArray[np.int64] = column.fill_null(0).cast(pa.int64()).to_numpy()
    return filled.astype(np.uint64)
