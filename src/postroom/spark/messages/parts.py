"""Parts of many encoded messages at once: bytes that are the same in every row, or an Arrow array with the
bytes of each row.

Variable values get the constructor with a size of four bytes where one row of the batch needs it, and then in
all rows: readers take either.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.types import MAX_UBYTE

Part: TypeAlias = bytes | pa.Array
"""The same in all rows, or of type `BYTES`, one value a row."""

BYTES: Final = pa.large_binary()
NULL: Final = bytes([c.NULL])
STRING: Final = c.STRING_8
SYMBOL: Final = c.SYMBOL_8
BINARY: Final = c.BINARY_8
WIDE: Final = 0x10
"""From a constructor with a size of one byte to that with four."""


class Values:
    """A column of text or bytes; None: nothing in any row."""

    def __init__(self, column: pa.Array | None, count: int) -> None:
        self._count: Final = count
        if column is not None and pa.types.is_string(column.type):
            column = column.cast(pa.large_string())
        self._values = None if column is None else column.cast(BYTES)

    def value(self, row: int) -> bytes | None:
        found: bytes | None = None if self._values is None else self._values[row].as_py()
        return found

    def plain(self) -> Part:
        """The bytes as they are; null where there are none."""
        return pa.nulls(self._count, BYTES) if self._values is None else self._values

    def or_nothing(self) -> Part:
        """The bytes as they are; no bytes where there are none."""
        return b"" if self._values is None else self._values.fill_null(b"")

    def or_else(self, other: "Values") -> "Values":
        """These, and where there are none the others."""
        if self._values is None or other._values is None:
            return other if self._values is None else self
        return Values(pc.coalesce(self._values, other._values), self._count)

    def sized(self, constructor: int) -> Part:
        """As a field: constructor, size, bytes; AMQP's null where there are none."""
        return NULL if self._values is None else join([self._prefix(b"", constructor), self._values], NULL)

    def section(self, descriptor: int, constructor: int) -> Part:
        """As a section of its own; null where there are none."""
        if self._values is None:
            return self.plain()
        start = bytes([c.DESCRIBED, c.ULONG_8, descriptor])
        return join([self._prefix(start, constructor), self._values], None)

    def _prefix(self, start: bytes, constructor: int) -> pa.Array:
        """What stands before the bytes of each row."""
        lengths = _lengths(self._values)
        if len(lengths) and lengths.max() > MAX_UBYTE:
            return _records(start + bytes([constructor + WIDE]), lengths, ">u4")
        return _records(start + bytes([constructor]), lengths, "u1")


# --- fields of one width


def numbers(column: pa.Array, highest: int) -> Part:
    """As ubytes or uints, as `highest` says."""
    constructor, kind = (c.UBYTE, "u1") if highest == MAX_UBYTE else (c.UINT, ">u4")
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return _or_null(_records(bytes([constructor]), values, kind), column)


def timestamps(column: pa.Array, divisor: int) -> Part:
    """Times in µs since 1970 over `divisor`, rounded down."""
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // divisor
    return _or_null(_records(bytes([c.TIMESTAMP]), values, ">i8"), column)


def booleans(column: pa.Array | None, otherwise: bool) -> Part:
    """``otherwise``: what a null is."""
    if column is None:
        return _flag(otherwise)
    values = column.fill_null(otherwise)
    for same in (True, False):
        if pc.all(pc.equal(values, same)).as_py():
            return _flag(same)
    yes, no = (pa.scalar(_flag(value), BYTES) for value in (True, False))
    return pc.if_else(values, yes, no)


def _flag(value: bool) -> bytes:
    return bytes([c.TRUE if value else c.FALSE])


def _or_null(made: pa.Array, column: pa.Array) -> Part:
    if column.null_count == 0:
        return made
    return pc.if_else(column.is_valid(), made, pa.scalar(NULL, BYTES))


def _records(start: bytes, numbers: np.ndarray[Any, Any], kind: str) -> pa.Array:
    """``start`` and a number, for each of the numbers."""
    # In a type's text a shape would be parsed by `ast`: in threads of CPython 3.11 that fails now and then.
    records = np.empty(len(numbers), dtype=[("start", np.uint8, (len(start),)), ("number", kind)])
    records["start"] = np.frombuffer(start, np.uint8)
    records["number"] = numbers
    ends = np.arange(len(numbers) + 1, dtype=np.int64) * records.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(records.tobytes())]
    return pa.Array.from_buffers(BYTES, len(numbers), buffers)


def outside(column: pa.Array, highest: int) -> pa.Array:
    """The rows whose number isn't 0 to ``highest``."""
    return pc.or_(pc.less(column, 0), pc.greater(column, highest))


def first(found: pa.Array) -> int | None:
    """The first row that is true."""
    row = pc.index(found, pa.scalar(True)).as_py()
    return None if row < 0 else int(row)


# --- whole sections


def list_section(descriptor: int, fields: Sequence[Part]) -> Part:
    """A section of a list of fields; nothing if all are null in all rows."""
    while fields and isinstance(fields[-1], bytes) and fields[-1] == NULL:
        fields = fields[:-1]
    if not fields:
        return b""
    start = bytes([c.DESCRIBED, c.ULONG_8, descriptor])
    content = join(fields)
    if isinstance(content, bytes):
        return start + bytes([c.LIST_8, len(content) + 1, len(fields)]) + content
    lengths = _lengths(content)
    if lengths.max(initial=0) < MAX_UBYTE:
        sizes = _records(start + bytes([c.LIST_8]), lengths + 1, "u1")
        return join([sizes, bytes([len(fields)]), content])
    sizes = _records(start + bytes([c.LIST_32]), lengths + 4, ">u4")
    return join([sizes, struct.pack(">I", len(fields)), content])


def map_sections(descriptor: int, ends: np.ndarray[Any, Any], pairs: Part) -> Part:
    """A section for each map of encoded keys with their values; nothing where there are none.

    ``ends``: where each map begins among the pairs, and where the last one ends.
    """
    lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), pairs)
    content = pc.binary_join(lists, pa.scalar(b"", BYTES))
    counts, lengths = 2 * np.diff(ends), _lengths(content)
    start = bytes([c.DESCRIBED, c.ULONG_8, descriptor])
    if lengths.max() < MAX_UBYTE and counts.max() <= MAX_UBYTE:
        sizes = [_records(start + bytes([c.MAP_8]), lengths + 1, "u1"), _records(b"", counts, "u1")]
    else:
        sizes = [_records(start + bytes([c.MAP_32]), lengths + 4, ">u4"), _records(b"", counts, ">u4")]
    sections = join([*sizes, content])
    return pc.if_else(pa.array(counts == 0), pa.scalar(b"", BYTES), sections)


# --- parts together


def of(values: list[bytes]) -> Part:
    return pa.array(values, BYTES)


def join(some: Iterable[Part], null: bytes | None = b"") -> Part:
    """One after the other; ``null``: what a row is in which one of them is null (None: null)."""
    together: list[Part] = []
    for part in some:
        if isinstance(part, bytes) and together and isinstance(together[-1], bytes):
            together[-1] += part
        elif not isinstance(part, bytes) or part:
            together.append(part)
    if all(isinstance(part, bytes) for part in together):
        return b"".join(part for part in together if isinstance(part, bytes))
    columns = [pa.scalar(part, BYTES) if isinstance(part, bytes) else part for part in together]
    made = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, pa.scalar(b"", BYTES))
    return made if null is None or made.null_count == 0 else made.fill_null(null)


def choose(which: pa.Array, some: list[Part]) -> Part:
    """In each row one of them."""
    if len(some) == 1 and not isinstance(some[0], bytes):
        return some[0]
    columns = [pa.scalar(part, BYTES) if isinstance(part, bytes) else part for part in some]
    return pc.choose(which, *columns)


def first_missing(part: Part) -> int | None:
    """The first row that is null."""
    return None if isinstance(part, bytes) else first(part.is_null())


def filled(part: Part) -> Part:
    """Nothing in place of null."""
    return part if isinstance(part, bytes) or part.null_count == 0 else part.fill_null(b"")


def at(part: Part, row: int) -> bytes:
    """What one row has."""
    return part if isinstance(part, bytes) else bytes(part[row].as_py())


def as_list(part: Part, count: int) -> list[bytes]:
    """The bytes of each row."""
    if isinstance(part, bytes):
        return [part] * count
    ends = np.frombuffer(part.buffers()[1], np.int64)[part.offset : part.offset + count + 1].tolist()
    data = memoryview(part.buffers()[2]) if part.buffers()[2] is not None else memoryview(b"")
    return [bytes(data[start:end]) for start, end in pairwise(ends)]


def _lengths(column: pa.Array) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return found
