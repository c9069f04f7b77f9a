"""Pieces of a heap as Arrow arrays: message, correlation and group ids, and other texts."""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from postroom.ledger.format.layout import Array
from postroom.model.codes import IdType

INLINE_BYTES: Final = 12
"""Strings up to this length live inside an Arrow string view; longer ones are a reference into a buffer."""

NOT_ASCII: Final = 0x80
"""Bytes from this on are part of a longer UTF-8 sequence, or of none."""

MOST_BYTES: Final = (1 << 31) - 1
"""That the values of one Arrow string array can have together."""


def heap_strings(heap: npt.NDArray[np.uint8], at: Array, length: Array, kind: pa.DataType) -> pa.Array:
    """Pieces of a heap as a binary or string array, all at once: as they lie, if each begins where the one
    before it ends, else as views first, which Arrow then copies."""
    starts = at.astype(np.int64)
    ends = starts + length
    if len(at) and (starts[1:] == ends[:-1]).all() and ends[-1] <= min(len(heap), MOST_BYTES):
        offsets = np.zeros(len(at) + 1, np.int32)
        np.subtract(ends, starts[0], out=offsets[1:], casting="unsafe")
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(heap[starts[0] : ends[-1]])]
        return pa.Array.from_buffers(pa.binary(), len(at), buffers).cast(kind)
    views = np.zeros((len(at), 16), np.uint8)
    views[:, :4].view("<i4")[:, 0] = length
    views[:, 12:16].view("<u4")[:, 0] = at
    short = np.flatnonzero(length <= INLINE_BYTES)
    if len(short):
        views[short, 4:] = _inline(heap, at[short], length[short])
    buffers = [None, pa.py_buffer(views), pa.py_buffer(heap)]
    return pa.Array.from_buffers(pa.binary_view(), len(at), buffers).cast(kind)


def _inline(heap: npt.NDArray[np.uint8], at: Array, length: Array) -> Array:
    if not len(heap):
        return np.zeros((len(at), INLINE_BYTES), np.uint8)
    column = np.arange(INLINE_BYTES)
    index = np.minimum(at.astype(np.int64)[:, None] + column, len(heap) - 1)
    return np.where(column < length[:, None], heap[index], 0)


def id_text(heap: npt.NDArray[np.uint8], at: Array, length: Array, kind: Array) -> pa.Array:
    """Message or correlation ids as text: strings as they are, UUIDs canonical, numbers decimal, binary as
    hex.

    Null where there is none. Bytes that should be UTF-8 and are not show the replacement character.
    """
    if (kind == IdType.STRING).all():
        return utf8(heap_strings(heap, at, length, pa.binary()))
    text = pa.nulls(len(kind), pa.string())
    if not kind.any():
        return text
    for one in np.unique(kind):
        if one == IdType.NONE:
            continue
        mask = kind == one
        raw = heap_strings(heap, at[mask], length[mask], pa.binary())
        text = pc.replace_with_mask(text, pa.array(mask), _ID_TEXT.get(int(one), _HEX)(raw))
    return text


def utf8(raw: pa.Array) -> pa.Array:
    """Binary values read as UTF-8."""
    values = raw.buffers()[2]
    if values is None or np.frombuffer(values, np.uint8).max(initial=0) < NOT_ASCII:  # no need to look closer
        return raw.view(pa.string())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:  # rare: someone sent bytes that are no UTF-8; only then value by value
        return pa.array([value.decode("utf-8", "replace") for value in raw.to_pylist()], pa.string())


def _each(text: Callable[[bytes], str]) -> Callable[[pa.Array], pa.Array]:
    """The text of each value."""
    return lambda raw: pa.array([text(value) for value in raw.to_pylist()], pa.string())


def _dashed(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


_HEX: Final = _each(bytes.hex)
_ID_TEXT: Final[dict[int, Callable[[pa.Array], pa.Array]]] = {
    IdType.STRING: utf8,
    IdType.UUID: _each(_dashed),
    IdType.ULONG: _each(lambda value: str(int.from_bytes(value, "big"))),
}
