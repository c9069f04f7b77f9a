"""Writes Python values as AMQP: the encoding half of the codec. Every value gets its smallest encoding."""

from typing import Final
from uuid import UUID

from librt.strings import BytesWriter, write_f64_be
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.scalar_writer import (
    FULL_CONSTRUCTOR,
    HIGHEST,
    WIDE,
    ascii_bytes,
    check_range,
    is_float,
    is_integer,
    utf8_bytes,
    write_any_integer,
    write_binary,
    write_bytes,
    write_char,
    write_exact,
    write_float,
    write_float32,
    write_integer,
    write_symbol,
    write_text,
    write_u32,
)
from postroom.amqp.encoding.types import MAX_UBYTE, AmqpType, Array, Described, PairMap, ULong
from postroom.amqp.errors import EncodeError

_VARIABLE: Final[dict[int, int]] = {
    AmqpType.BINARY: c.BINARY_8,
    AmqpType.STRING: c.STRING_8,
    AmqpType.SYMBOL: c.SYMBOL_8,
}
_COMPOUND: Final[dict[int, int]] = {
    AmqpType.LIST: c.LIST_8,
    AmqpType.MAP: c.MAP_8,
    AmqpType.ARRAY: c.ARRAY_8,
}
_FIXED: Final[dict[int, int]] = {
    AmqpType.NULL: c.NULL,
    AmqpType.BOOLEAN: c.BOOLEAN,
    AmqpType.FLOAT: c.FLOAT,
    AmqpType.DOUBLE: c.DOUBLE,
    AmqpType.DECIMAL32: c.DECIMAL32,
    AmqpType.DECIMAL64: c.DECIMAL64,
    AmqpType.DECIMAL128: c.DECIMAL128,
    AmqpType.CHAR: c.CHAR,
    AmqpType.UUID: c.UUID,
}
_DECIMAL_BYTES: Final[dict[int, int]] = {
    AmqpType.DECIMAL32: 4,
    AmqpType.DECIMAL64: 8,
    AmqpType.DECIMAL128: 16,
}


# --- any value


def write_value(w: BytesWriter, value: object, depth: i64 = 0) -> None:
    """Appends any value (see :mod:`postroom.amqp.encoding.types`); EncodeError if it has no encoding."""
    if value is None:
        w.append(c.NULL)
    elif isinstance(value, str):
        write_text(w, value)
    elif isinstance(value, bool):
        w.append(c.TRUE if value else c.FALSE)
    elif isinstance(value, bytes):
        write_bytes(w, value)
    elif is_integer(value):
        write_any_integer(w, value)
    else:
        _write_rare(w, value, depth)


def _write_rare(w: BytesWriter, value: object, depth: i64) -> None:
    if is_float(value):
        write_float(w, value)
    elif isinstance(value, UUID):
        w.append(c.UUID)
        w.write(value.bytes)
    elif isinstance(value, bytearray | memoryview):
        write_binary(w, bytes(value))
    elif depth >= c.MAX_DEPTH:
        raise EncodeError(f"a value nested deeper than {c.MAX_DEPTH} levels")
    elif isinstance(value, Described):
        w.append(c.DESCRIBED)
        write_value(w, value.descriptor, depth + 1)
        write_value(w, value.value, depth + 1)
    else:
        _write_compound(w, value, depth)


# --- containers


def write_container(w: BytesWriter, code: int, count: int, content: bytes) -> None:
    """Appends a list, map or array; ``code`` is its constructor with a one-byte size."""
    if len(content) < MAX_UBYTE and count <= MAX_UBYTE:
        w.append(code)
        w.append(len(content) + 1)
        w.append(count)
    else:
        w.append(code + WIDE)
        write_u32(w, len(content) + 4)
        write_u32(w, count)
    w.write(content)


def _write_compound(w: BytesWriter, value: object, depth: i64) -> None:
    if isinstance(value, list | tuple):
        if not value:
            w.append(c.LIST_0)
            return
        write_container(w, c.LIST_8, len(value), _list_content(value, depth))
    elif isinstance(value, dict | PairMap):
        pairs = _pairs(value)
        write_container(w, c.MAP_8, 2 * len(pairs), _map_content(pairs, depth))
    elif isinstance(value, Array):
        write_container(w, c.ARRAY_8, len(value.items), _array_content(value, depth))
    else:
        raise EncodeError(f"no AMQP encoding for {type(value).__name__}")


def _list_content(items: object, depth: i64) -> bytes:
    w = BytesWriter()
    if isinstance(items, list | tuple):
        for item in items:
            write_value(w, item, depth + 1)
    return w.getvalue()


def _pairs(value: object) -> list[tuple[object, object]]:
    if isinstance(value, PairMap):
        return value.pairs
    if isinstance(value, dict):
        return list(value.items())
    raise EncodeError(f"a map wanted, not {type(value).__name__}")


def _map_content(pairs: list[tuple[object, object]], depth: i64) -> bytes:
    w = BytesWriter()
    for key, value in pairs:
        write_value(w, key, depth + 1)
        write_value(w, value, depth + 1)
    return w.getvalue()


def write_symbol_map(w: BytesWriter, value: dict[object, object]) -> None:
    """Appends a map of type ``fields`` or ``annotations``: keys that are str become symbols, ULong stays."""
    content = BytesWriter()
    for key, item in value.items():
        if isinstance(key, str):
            write_symbol(content, key)
        elif isinstance(key, ULong):
            write_value(content, key)
        else:
            raise EncodeError(f"keys here are symbols, not {type(key).__name__}")
        write_value(content, item, 1)
    write_container(w, c.MAP_8, 2 * len(value), content.getvalue())


def write_symbol_array(w: BytesWriter, symbols: list[str]) -> None:
    """Appends a "multiple" field: one symbol as itself, more as an array, none as null."""
    if not symbols:
        w.append(c.NULL)
    elif len(symbols) == 1:
        write_symbol(w, symbols[0])
    else:
        _write_compound(w, Array(AmqpType.SYMBOL, symbols), 0)


# --- arrays


def _array_content(array: Array, depth: i64) -> bytes:
    w = BytesWriter()
    for descriptor in array.descriptors:
        w.append(c.DESCRIBED)
        write_value(w, descriptor, depth + 1)
    kind: int = array.type
    if kind in HIGHEST:
        _integer_items(w, kind, array.items)
    elif kind == AmqpType.STRING or kind == AmqpType.SYMBOL or kind == AmqpType.BINARY:
        _variable_items(w, kind, array.items)
    elif kind == AmqpType.LIST or kind == AmqpType.MAP or kind == AmqpType.ARRAY:
        _compound_items(w, kind, array.items, depth + 1)
    else:
        _fixed_items(w, kind, array.items)
    return w.getvalue()


def _wrong_item(kind: int, item: object) -> EncodeError:
    return EncodeError(f"an array of {AmqpType(kind).name.lower()} can't hold a {type(item).__name__}")


def _integer_items(w: BytesWriter, kind: int, items: list[object]) -> None:
    numbers: list[int] = []
    for item in items:
        if not isinstance(item, int) or isinstance(item, bool):
            raise _wrong_item(kind, item)
        check_range(kind, item)
        numbers.append(item)
    code = _integer_item_constructor(kind, numbers)
    w.append(code)
    for number in numbers:
        write_integer(w, code, number)


def _integer_item_constructor(kind: int, numbers: list[int]) -> int:
    low = min(numbers, default=0)
    high = max(numbers, default=0)
    if kind == AmqpType.UINT and high <= MAX_UBYTE:
        return c.UINT_8
    if kind == AmqpType.ULONG and high <= MAX_UBYTE:
        return c.ULONG_8
    if kind == AmqpType.INT and low >= -128 and high <= 127:
        return c.INT_8
    if kind == AmqpType.LONG and low >= -128 and high <= 127:
        return c.LONG_8
    return FULL_CONSTRUCTOR[kind]


def _variable_items(w: BytesWriter, kind: int, items: list[object]) -> None:
    contents = [_variable_item(kind, item) for item in items]
    code = _VARIABLE[kind]
    wide = max([len(content) for content in contents], default=0) > MAX_UBYTE
    w.append(code + WIDE if wide else code)
    for content in contents:
        if wide:
            write_u32(w, len(content))
        else:
            w.append(len(content))
        w.write(content)


def _variable_item(kind: int, item: object) -> bytes:
    if kind == AmqpType.BINARY and isinstance(item, bytes):
        return item
    if kind == AmqpType.STRING and isinstance(item, str):
        return utf8_bytes(item)
    if kind == AmqpType.SYMBOL and isinstance(item, str):
        return ascii_bytes(item)
    raise _wrong_item(kind, item)


def _compound_items(w: BytesWriter, kind: int, items: list[object], depth: i64) -> None:
    if depth >= c.MAX_DEPTH:
        raise EncodeError(f"a value nested deeper than {c.MAX_DEPTH} levels")
    contents = [_compound_item(kind, item, depth) for item in items]
    counts = [_compound_count(item) for item in items]
    wide = max(counts, default=0) > MAX_UBYTE or max([len(item) for item in contents], default=0) >= MAX_UBYTE
    w.append(_COMPOUND[kind] + WIDE if wide else _COMPOUND[kind])
    for index, content in enumerate(contents):
        if wide:
            write_u32(w, len(content) + 4)
            write_u32(w, counts[index])
        else:
            w.append(len(content) + 1)
            w.append(counts[index])
        w.write(content)


def _compound_item(kind: int, item: object, depth: i64) -> bytes:
    if kind == AmqpType.LIST and isinstance(item, list | tuple):
        return _list_content(item, depth)
    if kind == AmqpType.MAP and isinstance(item, dict | PairMap):
        return _map_content(_pairs(item), depth)
    if kind == AmqpType.ARRAY and isinstance(item, Array):
        return _array_content(item, depth)
    raise _wrong_item(kind, item)


def _compound_count(item: object) -> int:
    if isinstance(item, Array):
        return len(item.items)
    if isinstance(item, list | tuple):
        return len(item)
    return 2 * len(_pairs(item))


def _fixed_items(w: BytesWriter, kind: int, items: list[object]) -> None:
    if kind == AmqpType.NULL and len(items) > c.MAX_ZERO_WIDTH_ELEMENTS:
        raise EncodeError(f"an array of more than {c.MAX_ZERO_WIDTH_ELEMENTS} nulls")
    w.append(_FIXED[kind])
    for item in items:
        _write_fixed_item(w, kind, item)


def _write_fixed_item(w: BytesWriter, kind: int, item: object) -> None:
    if kind == AmqpType.BOOLEAN and isinstance(item, bool):
        w.append(1 if item else 0)
    elif kind == AmqpType.FLOAT and isinstance(item, float):
        write_float32(w, item)
    elif kind == AmqpType.DOUBLE and isinstance(item, float):
        write_f64_be(w, item)
    elif kind == AmqpType.CHAR and isinstance(item, str):
        write_char(w, item)
    elif kind == AmqpType.UUID and isinstance(item, UUID):
        w.write(item.bytes)
    elif kind in _DECIMAL_BYTES and isinstance(item, bytes):
        write_exact(w, item, _DECIMAL_BYTES[kind])
    elif kind != AmqpType.NULL or item is not None:
        raise _wrong_item(kind, item)
