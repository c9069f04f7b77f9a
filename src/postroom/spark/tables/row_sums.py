"""Sums of rows: how many there are, and a number that every value of every row goes into.

The sum of rows is the sum of their parts, in whatever order and files they lie, so that it is carried on from
batch to batch and outlives compaction. Null counts for nothing: a column that is added later changes no sum.
It tells what was damaged, doubled, lost or written by another program; it is no signature, anyone can make
it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.tables import arrays
from postroom.spark.tables.range import Range

CHUNK_ROWS: Final = 1 << 15
"""Summed at once: what is worked with stays in the processor's cache."""

GATHER_BYTES: Final = 1 << 20
"""So many bytes of texts of one length are brought together at once."""

SAMPLE_ROWS: Final = 256
"""By so many it is told whether texts come again, and are worth a dictionary."""

WORD_BYTES: Final = 8
DIGEST_MASK: Final = (1 << 64) - 1
SEED: Final = 0x9E3779B97F4A7C15
LENGTH_KEY: Final = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True)
class RowSum:
    """Of rows of one ledger."""

    rows: int = 0
    digest: int = 0
    """Modulo 2^64."""

    def __add__(self, other: "RowSum") -> "RowSum":
        return RowSum(self.rows + other.rows, (self.digest + other.digest) & DIGEST_MASK)

    def __sub__(self, other: "RowSum") -> "RowSum":
        return RowSum(self.rows - other.rows, (self.digest - other.digest) & DIGEST_MASK)


NOTHING: Final = RowSum()


def row_sum(rows: Range, names: Iterable[str]) -> RowSum:
    """The sum of all rows in these columns."""
    columns = [column for name in names if (column := _column(rows, name)) is not None]
    total, buffer = 0, np.empty(CHUNK_ROWS, np.uint64)
    for first in range(0, len(rows), CHUNK_ROWS):
        end = min(first + CHUNK_ROWS, len(rows))
        mixed = np.zeros(end - first, np.uint64)
        for column in columns:
            mixed += column.part(first, end, buffer[: end - first])
        total += int(_spread(mixed).sum(dtype=np.uint64))
    return RowSum(len(rows), total & DIGEST_MASK)


def added(sums: Mapping[str, RowSum], more: Mapping[str, RowSum]) -> dict[str, RowSum]:
    """Sums by ledger, with what has come to some of them."""
    return {**sums, **{ledger_id: sums.get(ledger_id, NOTHING) + one for ledger_id, one in more.items()}}


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column gives each row: another number for every value, 0 for null."""

    numbers: Array
    """Of each row, or with `by_code` its place there."""
    by_code: Array | None
    offset: np.uint64
    key: np.uint64
    valid: Array | None
    """Which rows are not null; None: all."""

    def part(self, first: int, end: int, into: Array) -> Array:
        """For the rows from first to end."""
        numbers = self.numbers[first:end]
        if self.by_code is not None:
            return np.take(self.by_code, numbers, out=into, mode="wrap")  # -1, for null, is the last one
        np.add(numbers.view(np.uint64), self.offset, out=into)
        np.multiply(into, self.key, out=into)
        if self.valid is not None:
            np.multiply(into, self.valid[first:end], out=into)
        return into


def _column(rows: Range, name: str) -> _Column | None:
    """None: null in all rows."""
    column = arrays.one(rows.column(name, pa.int64()))
    if column.null_count == len(column):
        return None
    offset, key = _keys_of(name)
    is_text = pa.types.is_string(column.type) or pa.types.is_dictionary(column.type)
    some = column.slice(0, SAMPLE_ROWS).drop_null() if pa.types.is_string(column.type) else ()
    if is_text and not (some and len(some.unique()) * 2 > len(some)):  # else most are of their own
        codes = rows.codes(name)
        by_code = (_of_texts(pa.array(codes.texts, pa.string())) + offset) * key
        return _Column(codes.numbers, np.append(by_code, np.uint64(0)), offset, key, None)
    numbers = _of_texts(column) if is_text else rows.numbers(name).astype(np.int64, copy=False)
    return _Column(numbers, None, offset, key, arrays.valid(column) if column.null_count else None)


def _of_texts(texts: pa.StringArray) -> Array:
    """A number for each text: its bytes in words of eight, each times a number of its own, and its length."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, ends, content = texts.buffers()
    bounds = np.frombuffer(ends, np.int32, len(texts) + 1, texts.offset * 4)
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    lengths = np.diff(bounds)
    found = lengths.astype(np.uint64) * LENGTH_KEY
    for length in np.flatnonzero(np.bincount(lengths)).tolist():
        for some in _runs(np.flatnonzero(lengths == length), length):
            found[some] += _of_length(data, bounds[:-1][some], length)
    return found


def _runs(rows: Array, length: int) -> Iterator[Array]:
    """Rows whose texts have that length, as many at once as `GATHER_BYTES` allows."""
    if not length:
        return
    step = max(1, GATHER_BYTES // length)
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _of_length(data: Array, starts: Array, length: int) -> Array:
    words = -(-length // WORD_BYTES)
    padded = np.zeros((len(starts), words * WORD_BYTES), np.uint8)
    first, end = int(starts[0]), int(starts[-1]) + length
    if end - first == len(starts) * length:  # one behind the other
        padded[:, :length] = data[first:end].reshape(-1, length)
    else:
        padded[:, :length] = data[starts[:, None] + np.arange(length)]
    found: Array = (padded.view("<u8") * _word_keys(words)).sum(axis=1, dtype=np.uint64)
    return found


@cache
def _keys_of(column: str) -> tuple[np.uint64, np.uint64]:
    """Of a column: what is added to its numbers, and the odd number that they are multiplied by."""
    offset, key = _spread(
        _of_texts(pa.array([f"{column} offset", f"{column} key"])) * np.uint64(SEED)
    ).tolist()
    return np.uint64(offset), np.uint64(key | 1)


@cache
def _word_keys(count: int) -> Array:
    numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(SEED)
    return _spread(numbers) | np.uint64(1)


def _spread(numbers: Array) -> Array:
    """Every bit goes into every other (the end of MurmurHash3)."""
    numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    found: Array = numbers ^ (numbers >> np.uint64(33))
    return found
