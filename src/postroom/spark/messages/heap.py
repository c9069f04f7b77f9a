"""Bytes of many messages in one heap, read at many places at once: one numpy step for all rows."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from postroom.amqp.encoding import constructors as c
from postroom.ledger.format.layout import Array

Mask = npt.NDArray[np.bool_]

_INLINE_BYTES: Final = 12
"""Arrow keeps shorter strings of a view in the view itself."""
_TOO_LONG: Final = 1 << 40
"""The length of what is no value that is read here: it never fits."""
_VARIABLE_8: Final = -1
_VARIABLE_32: Final = -4


def _width(code: int) -> int:
    width = c.WIDTHS[code]
    if code == c.DESCRIBED or width == c.NO_WIDTH:
        return _TOO_LONG
    return {c.WIDTH_1: _VARIABLE_8, c.WIDTH_4: _VARIABLE_32}.get(width, width)


_WIDTHS: Final = np.array([_width(code) for code in range(256)], np.int64)
_LOW_BYTES: Final = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


@dataclass(frozen=True, slots=True)
class Values:
    """AMQP values, one a row: constructor, where the content begins behind constructor and size, how long it
    is. One that isn't read here (a described one, no constructor) is longer than anything."""

    code: Array
    at: Array
    length: Array

    @property
    def end(self) -> Array:
        """Where the next value begins."""
        after: Array = self.at + self.length
        return after

    @classmethod
    def nulls(cls, count: int) -> "Values":
        """Nulls without a length, to be set."""
        return cls(np.full(count, c.NULL, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64))

    def set(self, rows: Array, values: "Values") -> None:
        """Put values in some rows."""
        self.code[rows], self.at[rows], self.length[rows] = values.code, values.at, values.length

    def where(self, mask: Array) -> "Values":
        """Only some rows: those of a mask, or of indexes."""
        return Values(self.code[mask], self.at[mask], self.length[mask])


class Heap:
    """Messages, each from a start up to an end."""

    def __init__(self, data: npt.NDArray[np.uint8], start: Array, end: Array) -> None:
        """At the end of the data are `BODIES_END` bytes of no message: they can be read, and mean nothing."""
        self.start: Final = start
        self.end: Final = end
        self.data: Final = data
        self._u32: Final = np.ndarray((len(self.data) - 3,), "<u4", self.data, strides=(1,))
        self._u64: Final = np.ndarray((len(self.data) - 7,), "<u8", self.data, strides=(1,))

    def byte(self, at: Array) -> Array:
        """The bytes at some places."""
        found: Array = self.data[at]
        return found

    def number(self, at: Array, size_bytes: int, is_signed: bool = False) -> Array:
        """Numbers of 1, 2, 4 or 8 bytes, highest first: int64, or uint64 where that can't hold them."""
        raw: Array = self._u64[at].byteswap() >> np.uint64(64 - 8 * size_bytes)
        if not is_signed:
            return raw if size_bytes == 8 else raw.astype(np.int64)
        return raw.astype(f"u{size_bytes}").view(f"i{size_bytes}").astype(np.int64)

    def values(self, at: Array) -> Values:
        """The values that begin at some places."""
        code = self.data[at]
        length = _WIDTHS[code]
        start = at + 1
        if length.min(initial=0) < 0:
            narrow = length == _VARIABLE_8
            if narrow.all():
                return Values(code, start + 1, self.data[start].astype(np.int64))
            length, start = self._variable(length, start, narrow)
        return Values(code, start, length)

    def _variable(self, length: Array, start: Array, narrow: Mask) -> tuple[Array, Array]:
        length = np.where(narrow, self.data[start], length)
        wide = np.flatnonzero(length == _VARIABLE_32)
        length[wide] = self._u32[start[wide]].byteswap()
        start = start + narrow
        start[wide] += 4
        return length, start

    def strings(self, at: Array, length: Array, valid: Mask | None = None) -> pa.Array:
        """Stretches as an Arrow array of binary, null where `valid` doesn't hold (the length is 0 there)."""
        views = np.zeros((len(at), 2), np.uint64)
        views[:, 0] = length
        short = length <= _INLINE_BYTES
        if short.all():
            self._inline(views, slice(None), at, length)
        else:
            views[:, 1] = at.astype(np.uint64) << np.uint64(32)
            long = np.flatnonzero(~short)
            views.view(np.uint32)[long, 1] = self._u32[at[long]]
            if short.any():
                rows = np.flatnonzero(short)
                self._inline(views, rows, at[rows], length[rows])
        bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [bits, pa.py_buffer(views), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary_view(), len(at), buffers).cast(pa.binary())

    def _inline(self, views: Array, rows: Any, at: Array, length: Array) -> None:
        """Set the views of short strings: their bytes, and zeros behind them."""
        first = self._u64[at] & _LOW_BYTES[np.minimum(length, 8)]
        views[rows, 0] |= first << np.uint64(32)
        views[rows, 1] = first >> np.uint64(32)
        longer = np.flatnonzero(length > 8)
        if len(longer):
            rest = self._u32[at[longer] + 8].astype(np.uint64) & _LOW_BYTES[length[longer] - 8]
            places = longer if isinstance(rows, slice) else rows[longer]
            views[places, 1] |= rest << np.uint64(32)

    def stretch(self, at: int, end: int) -> bytes:
        """A copy of the bytes from one place up to another."""
        return self.data[at:end].tobytes()
