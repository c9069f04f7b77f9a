"""The constructors (format codes) of the primitive types, and the bounds of the codec.

Source: OASIS AMQP 1.0 part 1 (types), section 1.6. The high nibble says how wide a value is: 4 nothing, 5 one
byte, 6 two, 7 four, 8 eight, 9 sixteen; A and B variable (a size of one or four bytes), C and D compound, E
and F array.
"""

from typing import Final

from postroom.amqp.encoding.types import AmqpType

DESCRIBED: Final = 0x00

NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT_0: Final = 0x43
ULONG_0: Final = 0x44
LIST_0: Final = 0x45

UBYTE: Final = 0x50
BYTE: Final = 0x51
UINT_8: Final = 0x52
ULONG_8: Final = 0x53
INT_8: Final = 0x54
LONG_8: Final = 0x55
BOOLEAN: Final = 0x56

USHORT: Final = 0x60
SHORT: Final = 0x61

UINT: Final = 0x70
INT: Final = 0x71
FLOAT: Final = 0x72
CHAR: Final = 0x73
DECIMAL32: Final = 0x74

ULONG: Final = 0x80
LONG: Final = 0x81
DOUBLE: Final = 0x82
TIMESTAMP: Final = 0x83
DECIMAL64: Final = 0x84

DECIMAL128: Final = 0x94
UUID: Final = 0x98

BINARY_8: Final = 0xA0
STRING_8: Final = 0xA1
SYMBOL_8: Final = 0xA3
BINARY_32: Final = 0xB0
STRING_32: Final = 0xB1
SYMBOL_32: Final = 0xB3

LIST_8: Final = 0xC0
MAP_8: Final = 0xC1
LIST_32: Final = 0xD0
MAP_32: Final = 0xD1

ARRAY_8: Final = 0xE0
ARRAY_32: Final = 0xF0

MAX_DEPTH: Final = 64
"""Levels of lists, maps, arrays and descriptors inside each other, decoding and encoding."""

MAX_ELEMENTS: Final = 1 << 20
"""Values in all the lists, maps and arrays of one decoded value together."""

MAX_PERFORMATIVE_ELEMENTS: Final = 1 << 16
"""The same in one performative."""

MAX_ZERO_WIDTH_ELEMENTS: Final = 4096
"""Array items that take no bytes (null, true, uint0, …) in one value: the only ones that no size bounds."""

MAX_NUMERIC_KEYS: Final = 1024
"""Keys that are numbers which a decoded map may have and still be a dict; other keys that are no text count
for more.

Their hashes can be made to collide, which makes a dict's time quadratic; a map with more becomes a PairMap.
"""

TYPE_OF_CONSTRUCTOR: Final = {
    NULL: AmqpType.NULL,
    TRUE: AmqpType.BOOLEAN,
    FALSE: AmqpType.BOOLEAN,
    BOOLEAN: AmqpType.BOOLEAN,
    UBYTE: AmqpType.UBYTE,
    USHORT: AmqpType.USHORT,
    UINT_0: AmqpType.UINT,
    UINT_8: AmqpType.UINT,
    UINT: AmqpType.UINT,
    ULONG_0: AmqpType.ULONG,
    ULONG_8: AmqpType.ULONG,
    ULONG: AmqpType.ULONG,
    BYTE: AmqpType.BYTE,
    SHORT: AmqpType.SHORT,
    INT_8: AmqpType.INT,
    INT: AmqpType.INT,
    LONG_8: AmqpType.LONG,
    LONG: AmqpType.LONG,
    FLOAT: AmqpType.FLOAT,
    DOUBLE: AmqpType.DOUBLE,
    DECIMAL32: AmqpType.DECIMAL32,
    DECIMAL64: AmqpType.DECIMAL64,
    DECIMAL128: AmqpType.DECIMAL128,
    CHAR: AmqpType.CHAR,
    TIMESTAMP: AmqpType.TIMESTAMP,
    UUID: AmqpType.UUID,
    BINARY_8: AmqpType.BINARY,
    BINARY_32: AmqpType.BINARY,
    STRING_8: AmqpType.STRING,
    STRING_32: AmqpType.STRING,
    SYMBOL_8: AmqpType.SYMBOL,
    SYMBOL_32: AmqpType.SYMBOL,
    LIST_0: AmqpType.LIST,
    LIST_8: AmqpType.LIST,
    LIST_32: AmqpType.LIST,
    MAP_8: AmqpType.MAP,
    MAP_32: AmqpType.MAP,
    ARRAY_8: AmqpType.ARRAY,
    ARRAY_32: AmqpType.ARRAY,
}

WIDTH_1: Final = 0xF1
WIDTH_4: Final = 0xF4
NO_WIDTH: Final = 0xFF


def _width(code: int) -> int:
    if code not in TYPE_OF_CONSTRUCTOR:
        return NO_WIDTH
    if code >= 0xA0:
        return WIDTH_4 if code & 0x10 else WIDTH_1
    return 0 if code < 0x50 else 1 << ((code >> 4) - 5)


WIDTHS: Final = bytes([_width(code) for code in range(256)])
"""For each constructor how many bytes its value takes; WIDTH_1 and WIDTH_4: a size of one or four bytes says
it; NO_WIDTH: not the constructor of a primitive type."""
