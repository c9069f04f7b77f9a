"""Many AMQP values at once → the names of their types and their texts, as `values.typed` gives them."""

from base64 import b64encode
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.errors import DecodeError
from postroom.ledger.format.layout import Array
from postroom.spark.ledger_source.ids import NOT_ASCII
from postroom.spark.ledger_source.names import Names
from postroom.spark.messages.heap import Heap, Mask, Values
from postroom.spark.messages.values import FIRST_MS, LAST_MS, float_texts, typed

_KIND_OF_CODE: Final = {code: kind.name.lower() for code, kind in c.TYPE_OF_CONSTRUCTOR.items()}
_KINDS: Final = Names({code: _KIND_OF_CODE.get(code) for code in range(256)})

_SIZES: Final = {
    c.UINT_0: (0, False), c.ULONG_0: (0, False),
    c.UBYTE: (1, False), c.BYTE: (1, True), c.UINT_8: (1, False), c.ULONG_8: (1, False), c.INT_8: (1, True),
    c.LONG_8: (1, True), c.USHORT: (2, False), c.SHORT: (2, True), c.UINT: (4, False), c.INT: (4, True),
    c.ULONG: (8, False), c.LONG: (8, True),
}  # fmt: skip
"""Integers: how many bytes, and whether signed."""

_STRING, _SYMBOL, _INTEGER, _TRUTH, _NULL, _TIME, _UUID, _DOUBLE, _FLOAT, _BINARY, _OTHER = range(11)


_CLASS_OF_CODE: Final = dict.fromkeys(_SIZES, _INTEGER) | {
    c.STRING_8: _STRING, c.STRING_32: _STRING, c.SYMBOL_8: _SYMBOL, c.SYMBOL_32: _SYMBOL,
    c.TRUE: _TRUTH, c.FALSE: _TRUTH, c.BINARY_8: _BINARY, c.BINARY_32: _BINARY,
    c.NULL: _NULL, c.TIMESTAMP: _TIME, c.UUID: _UUID, c.DOUBLE: _DOUBLE, c.FLOAT: _FLOAT,
}  # fmt: skip
_CLASSES: Final = np.array([_CLASS_OF_CODE.get(code, _OTHER) for code in range(256)], np.uint8)
_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
_UUID_DASHES: Final = (8, 13, 18, 23)
_UUID_CHARS: Final = 36


def kinds_of(code: Array) -> pa.Array:
    """The names of the types of values by their constructors."""
    return _KINDS.of(code).plain()


def texts_of(heap: Heap, values: Values) -> tuple[pa.Array, Mask]:
    """The texts of values, null for null; and which of them can't be read."""
    classes = _CLASSES[values.code]
    bad = np.zeros(len(classes), np.bool_)
    if not len(classes):
        return pa.array([], pa.string()), bad
    first = classes[0]
    if (classes == first).all():
        return _of_class(int(first), heap, values, bad), bad
    pieces, order = [], np.empty(len(classes), np.int64)
    size = 0
    for one in np.flatnonzero(np.bincount(classes)).tolist():
        places = np.flatnonzero(classes == one)
        broken = np.zeros(len(places), np.bool_)
        pieces.append(_of_class(one, heap, values.where(places), broken))
        bad[places] = broken
        order[places] = np.arange(size, size + len(places))
        size += len(places)
    return pa.concat_arrays(pieces).take(pa.array(order)), bad


def _of_class(one: int, heap: Heap, values: Values, bad: Mask) -> pa.Array:
    if one in (_STRING, _SYMBOL):
        return strings_of(heap, values, None, bad, one == _SYMBOL)
    if one == _NULL:
        return pa.nulls(len(values.code), pa.string())
    if one == _TRUTH:
        return pc.if_else(pa.array(values.code == c.TRUE), "true", "false")
    if one == _INTEGER:
        return _integers(heap, values)
    if one == _TIME:
        return _times(heap, values)
    if one == _UUID:
        return _uuids(heap, values)
    if one == _DOUBLE:
        return float_texts(heap.number(values.at, 8).view(np.float64))
    if one == _FLOAT:
        return float_texts(heap.number(values.at, 4).astype(np.uint32).view(np.float32))
    if one == _BINARY:
        raw = heap.strings(values.at, values.length).to_pylist()
        return pa.array([b64encode(value).decode() for value in raw], pa.string())
    # what is rare, or has a text that only Python makes
    return pa.array([_other(heap, values, index, bad) for index in range(len(values.code))], pa.string())


def strings_of(
    heap: Heap, values: Values, valid: Mask | None, bad: Mask, is_symbol: bool = False
) -> pa.Array:
    """Strings or symbols, null where `valid` doesn't hold. Those whose bytes are none are empty and `bad`."""
    raw = heap.strings(values.at, values.length, valid)
    data = raw.buffers()[2]
    if not is_symbol or data is None or np.frombuffer(data, np.uint8).max(initial=0) < NOT_ASCII:
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    coding = "ascii" if is_symbol else "utf-8"
    decoded = [_decoded(value, coding) for value in raw.to_pylist()]
    bad |= np.array([value is False for value in decoded], np.bool_)
    return pa.array([value or "" if value is not None else None for value in decoded], pa.string())


def _decoded(value: bytes | None, coding: str) -> str | bool | None:
    """False for bytes that are no text."""
    try:
        return None if value is None else value.decode(coding)
    except UnicodeDecodeError:
        return False


def integers_of(heap: Heap, values: Values) -> Array:
    """Integers of up to 63 bits as int64: those that are no integers here are 0."""
    found = np.zeros(len(values.code), np.int64)
    for code in np.flatnonzero(np.bincount(values.code, minlength=256)).tolist():
        size, is_signed = _SIZES.get(code, (0, False))
        if size:
            places = np.flatnonzero(values.code == code)
            found[places] = heap.number(values.at[places], size, is_signed).astype(np.int64)
    return found


def _integers(heap: Heap, values: Values) -> pa.Array:
    numbers = integers_of(heap, values)
    large = (values.code == c.ULONG) & (numbers < 0)
    text = pa.array(numbers).cast(pa.string())
    if large.any():
        unsigned = pa.array(numbers[large].view(np.uint64)).cast(pa.string())
        text = pc.replace_with_mask(text, pa.array(large), unsigned)
    return text


def _times(heap: Heap, values: Values) -> pa.Array:
    times_ms = heap.number(values.at, 8, True)
    shown = (times_ms >= FIRST_MS) & (times_ms <= LAST_MS)
    stamps = pa.array(np.where(shown, times_ms, 0)).cast(pa.timestamp("ms", "UTC"))
    text = pc.replace_substring(stamps.cast(pa.string()), " ", "T")
    return text if shown.all() else pc.if_else(pa.array(shown), text, pa.array(times_ms).cast(pa.string()))


def _uuids(heap: Heap, values: Values) -> pa.Array:
    digits = _HEX[heap.data[values.at[:, None] + np.arange(16)]].view(np.uint8)
    chars = np.full((len(digits), _UUID_CHARS), ord("-"), np.uint8)
    kept = [column for column in range(_UUID_CHARS) if column not in _UUID_DASHES]
    chars[:, kept] = digits
    ends = np.arange(len(digits) + 1, dtype=np.int32) * _UUID_CHARS
    return pa.Array.from_buffers(pa.string(), len(digits), [None, pa.py_buffer(ends), pa.py_buffer(chars)])


def _other(heap: Heap, values: Values, index: int, bad: Mask) -> str | None:
    try:
        return typed(value_at(heap, values, index))[1]
    except DecodeError:
        bad[index] = True
        return None


def value_at(heap: Heap, values: Values, index: int) -> object:
    """One value, read as it stands. Raises ``DecodeError``."""
    content, code = heap.stretch(int(values.at[index]), int(values.end[index])), int(values.code[index])
    size_bytes = {c.WIDTH_1: 1, c.WIDTH_4: 4}.get(c.WIDTHS[code], 0)
    data = bytes([code]) + (len(content).to_bytes(size_bytes, "big") if size_bytes else b"") + content
    return Reader(data, 0, len(data)).value()
