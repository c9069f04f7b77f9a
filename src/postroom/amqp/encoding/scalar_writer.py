"""Writes the values that hold no others: numbers, text, bytes. Each gets its smallest encoding."""

from math import inf
from typing import Final

from librt.strings import BytesWriter, write_f32_be, write_f64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.types import (
    MAX_LONG,
    MAX_UBYTE,
    MAX_UINT,
    MAX_ULONG,
    MAX_USHORT,
    MIN_LONG,
    AmqpType,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Float32,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from postroom.amqp.errors import EncodeError

WIDE: Final = 0x10
"""Added to the constructor of a variable, compound or array with a size of one byte, makes that with four."""

_MAX_FLOAT32: Final = 3.4028234663852886e38

_LOWEST: Final[dict[int, int]] = {
    AmqpType.BYTE: -0x80,
    AmqpType.SHORT: -0x8000,
    AmqpType.INT: -0x8000_0000,
    AmqpType.LONG: MIN_LONG,
    AmqpType.TIMESTAMP: MIN_LONG,
}
HIGHEST: Final[dict[int, int]] = {
    AmqpType.UBYTE: MAX_UBYTE,
    AmqpType.USHORT: MAX_USHORT,
    AmqpType.UINT: MAX_UINT,
    AmqpType.ULONG: MAX_ULONG,
    AmqpType.BYTE: 0x7F,
    AmqpType.SHORT: 0x7FFF,
    AmqpType.INT: 0x7FFF_FFFF,
    AmqpType.LONG: MAX_LONG,
    AmqpType.TIMESTAMP: MAX_LONG,
}
FULL_CONSTRUCTOR: Final[dict[int, int]] = {
    AmqpType.UBYTE: c.UBYTE,
    AmqpType.USHORT: c.USHORT,
    AmqpType.UINT: c.UINT,
    AmqpType.ULONG: c.ULONG,
    AmqpType.BYTE: c.BYTE,
    AmqpType.SHORT: c.SHORT,
    AmqpType.INT: c.INT,
    AmqpType.LONG: c.LONG,
    AmqpType.TIMESTAMP: c.TIMESTAMP,
}

# --- unsigned numbers of the wire


def write_u16(w: BytesWriter, value: i64) -> None:
    """Two bytes; ``value`` from 0 to 65 535."""
    signed: int = value - 0x1_0000 if value > 0x7FFF else value
    write_i16_be(w, signed)


def write_u32(w: BytesWriter, value: i64) -> None:
    """Four bytes; ``value`` from 0 to 2³² − 1."""
    signed: int = value - 0x1_0000_0000 if value > 0x7FFF_FFFF else value
    write_i32_be(w, signed)


# --- text and bytes


def write_text(w: BytesWriter, value: str) -> None:
    if isinstance(value, Symbol):
        write_symbol(w, value)
    elif isinstance(value, Char):
        w.append(c.CHAR)
        write_char(w, value)
    else:
        write_string(w, value)


def write_string(w: BytesWriter, value: str) -> None:
    """Appends a string, whatever subclass of str ``value`` is."""
    _write_sized(w, c.STRING_8, utf8_bytes(value))


def write_symbol(w: BytesWriter, value: str) -> None:
    """Appends a symbol; EncodeError if it is not ASCII."""
    _write_sized(w, c.SYMBOL_8, ascii_bytes(value))


def write_binary(w: BytesWriter, value: bytes) -> None:
    """Appends a binary."""
    _write_sized(w, c.BINARY_8, value)


def _write_sized(w: BytesWriter, code: int, content: bytes) -> None:
    size = len(content)
    if size <= MAX_UBYTE:
        w.append(code)
        w.append(size)
    else:
        w.append(code + WIDE)
        write_u32(w, size)
    w.write(content)


def utf8_bytes(value: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        raise EncodeError("a string holds a lone surrogate, which UTF-8 can't encode") from None


def ascii_bytes(value: str) -> bytes:
    try:
        return value.encode("ascii")
    except UnicodeEncodeError:
        raise EncodeError(f"a symbol is ASCII only: {value[:80]!r}") from None


def write_char(w: BytesWriter, value: str) -> None:
    if len(value) != 1 or 0xD800 <= ord(value) <= 0xDFFF:
        raise EncodeError(f"a char is one Unicode character: {value[:80]!r}")
    write_u32(w, ord(value))


def write_bytes(w: BytesWriter, value: bytes) -> None:
    if isinstance(value, Decimal32):
        _write_decimal(w, c.DECIMAL32, value, 4)
    elif isinstance(value, Decimal64):
        _write_decimal(w, c.DECIMAL64, value, 8)
    elif isinstance(value, Decimal128):
        _write_decimal(w, c.DECIMAL128, value, 16)
    else:
        write_binary(w, value)


def _write_decimal(w: BytesWriter, code: int, value: bytes, width_bytes: int) -> None:
    w.append(code)
    write_exact(w, value, width_bytes)


def write_exact(w: BytesWriter, value: bytes, width_bytes: int) -> None:
    if len(value) != width_bytes:
        raise EncodeError(f"a decimal of {8 * width_bytes} bits is {width_bytes} bytes, not {len(value)}")
    w.write(value)


# --- numbers
#
# A value that isinstance has narrowed to int or float is unboxed when compiled and loses its class, which the
# type is read from: so the narrowing happens last, in functions of its own.


def is_integer(value: object) -> bool:
    return isinstance(value, int)


def is_float(value: object) -> bool:
    return isinstance(value, float)


def write_any_integer(w: BytesWriter, value: object) -> None:
    kind = _integer_type(value)
    if isinstance(value, int):
        code = _smallest_integer(kind, value)
        w.append(code)
        write_integer(w, code, value)


def _integer_type(value: object) -> int:
    kind = type(value)
    if kind is int:
        return AmqpType.LONG
    if isinstance(value, UInt):
        return AmqpType.UINT
    if isinstance(value, ULong):
        return AmqpType.ULONG
    if isinstance(value, Timestamp):
        return AmqpType.TIMESTAMP
    if isinstance(value, UByte):
        return AmqpType.UBYTE
    if isinstance(value, UShort):
        return AmqpType.USHORT
    return _signed_type(value)


def _signed_type(value: object) -> int:
    if isinstance(value, Byte):
        return AmqpType.BYTE
    if isinstance(value, Short):
        return AmqpType.SHORT
    if isinstance(value, Int):
        return AmqpType.INT
    return AmqpType.LONG


def check_range(kind: int, value: int) -> None:
    """Raises EncodeError unless ``value`` is in the range of the integer type ``kind``."""
    if value > HIGHEST[kind] or value < _LOWEST.get(kind, 0):
        hint = "; make it a ULong" if kind == AmqpType.LONG and value > 0 else ""
        raise EncodeError(f"{value} is out of the range of {AmqpType(kind).name.lower()}{hint}")


def _smallest_integer(kind: int, value: int) -> int:
    """The smallest constructor for one integer (not for an array's item)."""
    check_range(kind, value)
    if kind == AmqpType.LONG:
        return c.LONG_8 if -128 <= value <= 127 else c.LONG
    if kind == AmqpType.UINT:
        return c.UINT_0 if value == 0 else c.UINT_8 if value <= MAX_UBYTE else c.UINT
    if kind == AmqpType.ULONG:
        return c.ULONG_0 if value == 0 else c.ULONG_8 if value <= MAX_UBYTE else c.ULONG
    if kind == AmqpType.INT:
        return c.INT_8 if -128 <= value <= 127 else c.INT
    return FULL_CONSTRUCTOR[kind]


def write_integer(w: BytesWriter, code: int, value: int) -> None:
    width = c.WIDTHS[code]
    if width == 1:
        w.append(value & MAX_UBYTE)
    elif width == 4:
        write_u32(w, value & MAX_UINT)
    elif width == 8:
        write_i64_be(w, value - (1 << 64) if value > MAX_LONG else value)
    elif width == 2:
        write_u16(w, value & MAX_USHORT)


def write_float(w: BytesWriter, value: object) -> None:
    if isinstance(value, Float32):
        w.append(c.FLOAT)
        write_float32(w, value)
    elif isinstance(value, float):
        w.append(c.DOUBLE)
        write_f64_be(w, value)


def write_float32(w: BytesWriter, value: float) -> None:
    if abs(value) > _MAX_FLOAT32 and abs(value) != inf:
        raise EncodeError(f"{value} is out of the range of a 32-bit float")
    write_f32_be(w, value)
