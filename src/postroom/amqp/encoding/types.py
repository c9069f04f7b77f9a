"""How AMQP's types look in Python (part 1, section 1.6).

| AMQP | Python |
|---|---|
| null, boolean | None, bool |
| ubyte, ushort, uint, ulong | UByte, UShort, UInt, ULong (subclasses of int) |
| byte, short, int | Byte, Short, Int (subclasses of int) |
| long | int |
| float, double | Float32 (a subclass of float), float |
| decimal32, decimal64, decimal128 | Decimal32, Decimal64, Decimal128: the bytes, not interpreted |
| char | Char (a str of length 1) |
| timestamp | Timestamp (a subclass of int, milliseconds since 1970-01-01 UTC) |
| uuid | uuid.UUID |
| binary, string, symbol | bytes, str, Symbol (a subclass of str) |
| list | list |
| map | dict; PairMap when the keys can't be told apart or can't be hashed in Python |
| array | Array |
| described | Described |

The number types compare and hash as the numbers they are; their class is what the encoder goes by.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, final

from mypy_extensions import mypyc_attr

MAX_UBYTE: Final = 0xFF
MAX_USHORT: Final = 0xFFFF
MAX_UINT: Final = 0xFFFF_FFFF
MAX_ULONG: Final = 0xFFFF_FFFF_FFFF_FFFF
MIN_LONG: Final = -0x8000_0000_0000_0000
MAX_LONG: Final = 0x7FFF_FFFF_FFFF_FFFF


@mypyc_attr(native_class=False)
class UByte(int):
    """0 to 255."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UShort(int):
    """0 to 65 535."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UInt(int):
    """0 to 2³² − 1."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class ULong(int):
    """0 to 2⁶⁴ − 1."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Byte(int):
    """−128 to 127."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Short(int):
    """−32 768 to 32 767."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Int(int):
    """−2³¹ to 2³¹ − 1."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Timestamp(int):
    """Milliseconds since 1970-01-01 UTC, 64 bits, signed."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Float32(float):
    """A 32-bit float; a value that is not one is rounded when it is encoded."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Symbol(str):
    """A name of some registered vocabulary: ASCII only."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Char(str):
    """One Unicode character."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Decimal32(bytes):
    """IEEE 754-2008 decimal32, as its 4 bytes."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Decimal64(bytes):
    """IEEE 754-2008 decimal64, as its 8 bytes."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Decimal128(bytes):
    """IEEE 754-2008 decimal128, as its 16 bytes."""

    __slots__ = ()


class AmqpType(IntEnum):
    """The primitive types, as the element type of an :class:`Array`."""

    NULL = 0
    BOOLEAN = 1
    UBYTE = 2
    USHORT = 3
    UINT = 4
    ULONG = 5
    BYTE = 6
    SHORT = 7
    INT = 8
    LONG = 9
    FLOAT = 10
    DOUBLE = 11
    DECIMAL32 = 12
    DECIMAL64 = 13
    DECIMAL128 = 14
    CHAR = 15
    TIMESTAMP = 16
    UUID = 17
    BINARY = 18
    STRING = 19
    SYMBOL = 20
    LIST = 21
    MAP = 22
    ARRAY = 23


@final
class Described:
    """A value with a descriptor that says what it means (part 1, section 1.1.2)."""

    __slots__ = ("descriptor", "value")

    def __init__(self, descriptor: object, value: object) -> None:
        self.descriptor: Final = descriptor
        self.value: Final = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Described) and self.descriptor == other.descriptor and self.value == other.value
        )

    def __hash__(self) -> int:
        return hash((self.descriptor, self.value))

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


@final
class Array:
    """Values of one type behind one constructor (part 1, section 1.6.24).

    ``descriptors`` (outermost first) make it an array of described values; the items stay plain.
    """

    __slots__ = ("descriptors", "items", "type")

    def __init__(self, type: AmqpType, items: Sequence[object], descriptors: Sequence[object] = ()) -> None:
        self.type: Final = type
        self.items: Final = list(items)
        self.descriptors: Final = list(descriptors)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Array)
            and self.type == other.type
            and self.items == other.items
            and self.descriptors == other.descriptors
        )

    def __hash__(self) -> int:
        return hash((self.type, tuple(self.items), tuple(self.descriptors)))

    def __repr__(self) -> str:
        described = f", descriptors={self.descriptors!r}" if self.descriptors else ""
        return f"Array({self.type.name}, {self.items!r}{described})"


@final
class PairMap:
    """A map that a dict can't hold: keys not hashable (a list), or different but equal in Python (1,
    True).
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Sequence[tuple[object, object]]) -> None:
        self.pairs: Final = list(pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairMap) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(tuple(self.pairs))

    def __repr__(self) -> str:
        return f"PairMap({self.pairs!r})"


def is_hashable(key: object) -> bool:
    """Whether ``key`` can be a dict's key, its items included."""
    try:
        hash(key)
    except TypeError:
        return False
    return True
