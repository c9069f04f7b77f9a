"""Reads AMQP values from bytes: the decoding half of the codec.

A :class:`Reader` is a position in some bytes and the end that must not be passed; containers narrow the end
while their contents are read, so that nothing inside can reach outside. All that is wrong raises DecodeError
with the place.
"""

from typing import Final, final
from uuid import UUID

from librt.strings import read_f32_be, read_f64_be, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    PairMap,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    is_hashable,
)
from postroom.amqp.errors import DecodeError

_LOW_32: Final = 0xFFFF_FFFF
_LOW_16: Final = 0xFFFF
_MAX_ULONG: Final = 0xFFFF_FFFF_FFFF_FFFF
_MAX_CODE_POINT: Final = 0x10FFFF
_KEY_WEIGHT: Final = 16
"""For how many numbers a key counts that is neither number nor text: comparing it takes that much longer."""


def _is_number(key: object) -> bool:
    return isinstance(key, int | float)


@final
class Reader:
    """A position in ``data`` from ``start`` up to, not including, ``end``."""

    __slots__ = ("context", "data", "depth", "elements_left", "end", "pos", "zero_width_left")

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        self.data: bytes = data
        self.pos: i64 = start
        self.end: i64 = end
        self.context: str = "value"
        self.depth: i64 = 0
        self.elements_left: i64 = c.MAX_ELEMENTS
        self.zero_width_left: i64 = c.MAX_ZERO_WIDTH_ELEMENTS

    # --- errors

    def fail(self, what: str) -> DecodeError:
        """The error to raise for something wrong at or just before the position."""
        return DecodeError(f"{self.context}: {what} at byte {self.pos}")

    def unexpected(self, code: i64, wanted: str) -> DecodeError:
        """The error to raise when the constructor just passed is not of the type that belongs here."""
        return self.fail(f"{wanted} expected, found constructor 0x{int(code):02x}")

    # --- bounds

    def need(self, size_bytes: i64) -> None:
        """Raises DecodeError unless so many bytes are left."""
        if self.end - self.pos < size_bytes:
            raise self.fail(f"{size_bytes} bytes wanted, {self.end - self.pos} left")

    def take_byte(self) -> i64:
        """The next byte: a constructor, a one-byte size or count."""
        pos = self.pos
        if pos >= self.end:
            raise self.fail("a byte wanted, none left")
        self.pos = pos + 1
        return self.data[pos]

    def take_u32(self) -> i64:
        """The next four bytes: a size or count."""
        self.need(4)
        value = i64(read_i32_be(self.data, self.pos)) & _LOW_32
        self.pos += 4
        return value

    def take_i64(self) -> i64:
        """The next eight bytes, signed."""
        self.need(8)
        value = read_i64_be(self.data, self.pos)
        self.pos += 8
        return value

    def take_bytes(self, size_bytes: i64) -> bytes:
        """A copy of the next bytes."""
        self.need(size_bytes)
        start = self.pos
        self.pos = start + size_bytes
        return self.data[start : start + size_bytes]

    def take_size(self, code: i64) -> i64:
        """The size of a variable-width value, compound or array: one byte where bit 4 of the constructor is
        0, else four.
        """
        return self.take_u32() if code & 0x10 else self.take_byte()

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > c.MAX_DEPTH:
            raise self.fail(f"nested deeper than {c.MAX_DEPTH} levels")

    def _spend(self, count: i64) -> None:
        self.elements_left -= count
        if self.elements_left < 0:
            raise self.fail("too many elements in one value")

    # --- any value

    def value(self) -> object:
        """The next value, whatever its type."""
        return self.value_of(self.take_byte())

    def value_of(self, code: i64) -> object:
        """The value whose constructor ``code`` was just passed (or is that of its array)."""
        width = code >> 4
        if width == 0xA or width == 0xB:
            return self._variable(code)
        if width == 0x5:
            return self._one_byte(code)
        if width == 0x4:
            return self._empty(code)
        if width == 0x7:
            return self._four_bytes(code)
        if width == 0x8:
            return self._eight_bytes(code)
        if width == 0xC or width == 0xD:
            return self._compound(code)
        return self._rare(code)

    def _rare(self, code: i64) -> object:
        width = code >> 4
        if code == c.DESCRIBED:
            return self._described()
        if width == 0x6:
            return self._two_bytes(code)
        if width == 0x9:
            return self._sixteen_bytes(code)
        if code == c.ARRAY_8 or code == c.ARRAY_32:
            return self._array(code)
        raise self.unexpected(code, "an AMQP value")

    def _described(self) -> Described:
        self._enter()
        descriptor = self.value()
        value = self.value()
        self.depth -= 1
        return Described(descriptor, value)

    # --- fixed width

    def _empty(self, code: i64) -> object:
        if code == c.NULL:
            return None
        if code == c.TRUE:
            return True
        if code == c.FALSE:
            return False
        if code == c.UINT_0:
            return UInt(0)
        if code == c.ULONG_0:
            return ULong(0)
        if code == c.LIST_0:
            return []
        raise self.unexpected(code, "an AMQP value")

    def _one_byte(self, code: i64) -> object:
        value = self.take_byte()
        if code == c.UINT_8:
            return UInt(value)
        if code == c.ULONG_8:
            return ULong(value)
        if code == c.UBYTE:
            return UByte(value)
        if code == c.BOOLEAN:
            return self._boolean(value)
        signed: int = value - 256 if value > 127 else value
        if code == c.LONG_8:
            return signed
        if code == c.INT_8:
            return Int(signed)
        if code == c.BYTE:
            return Byte(signed)
        raise self.unexpected(code, "an AMQP value")

    def _boolean(self, value: i64) -> bool:
        if value > 1:
            raise self.fail(f"a boolean is 0 or 1, not {value}")
        return value == 1

    def _two_bytes(self, code: i64) -> object:
        self.need(2)
        value = i64(read_i16_be(self.data, self.pos))
        self.pos += 2
        if code == c.USHORT:
            return UShort(value & _LOW_16)
        if code == c.SHORT:
            return Short(value)
        raise self.unexpected(code, "an AMQP value")

    def _four_bytes(self, code: i64) -> object:
        self.need(4)
        start = self.pos
        self.pos = start + 4
        if code == c.FLOAT:
            return Float32(read_f32_be(self.data, start))
        if code == c.DECIMAL32:
            return Decimal32(self.data[start : start + 4])
        value = i64(read_i32_be(self.data, start))
        if code == c.UINT:
            return UInt(value & _LOW_32)
        if code == c.INT:
            return Int(value)
        if code == c.CHAR:
            return self._char(value & _LOW_32)
        raise self.unexpected(code, "an AMQP value")

    def _char(self, value: i64) -> Char:
        if value > _MAX_CODE_POINT or 0xD800 <= value <= 0xDFFF:
            raise self.fail(f"0x{int(value):x} is not a Unicode character")
        return Char(chr(value))

    def _eight_bytes(self, code: i64) -> object:
        self.need(8)
        start = self.pos
        self.pos = start + 8
        if code == c.DOUBLE:
            return read_f64_be(self.data, start)
        if code == c.DECIMAL64:
            return Decimal64(self.data[start : start + 8])
        value: int = read_i64_be(self.data, start)
        if code == c.LONG:
            return value
        if code == c.ULONG:
            return ULong(value & _MAX_ULONG)
        if code == c.TIMESTAMP:
            return Timestamp(value)
        raise self.unexpected(code, "an AMQP value")

    def _sixteen_bytes(self, code: i64) -> object:
        data = self.take_bytes(16)
        if code == c.UUID:
            return UUID(bytes=data)
        if code == c.DECIMAL128:
            return Decimal128(data)
        raise self.unexpected(code, "an AMQP value")

    # --- variable width

    def _variable(self, code: i64) -> object:
        size = self.take_size(code)
        if code == c.STRING_8 or code == c.STRING_32:
            return self.text(size)
        if code == c.SYMBOL_8 or code == c.SYMBOL_32:
            return Symbol(self.ascii(size))
        if code == c.BINARY_8 or code == c.BINARY_32:
            return self.take_bytes(size)
        raise self.unexpected(code, "an AMQP value")

    def text(self, size_bytes: i64) -> str:
        """So many bytes of UTF-8 as a string."""
        data = self.take_bytes(size_bytes)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"a string is not UTF-8 ({error.reason})") from None

    def ascii(self, size_bytes: i64) -> str:
        """So many bytes of ASCII, a symbol's, as a string."""
        data = self.take_bytes(size_bytes)
        try:
            return data.decode("ascii")
        except UnicodeDecodeError:
            raise self.fail("a symbol is not ASCII") from None

    # --- compound

    def open_compound(self, code: i64) -> i64:
        """Passes size and count of a list or map, makes its end the reader's end, returns the count.

        The caller keeps the end from before and gives it to :meth:`close_compound`.
        """
        size = self.take_size(code)
        self.need(size)
        end = self.pos + size
        count = self.take_u32() if code & 0x10 else self.take_byte()
        if end < self.pos:
            raise self.fail("a size too small for the count it includes")
        if count > end - self.pos:
            raise self.fail(f"{count} elements can't fit into {end - self.pos} bytes")
        self._spend(count)
        self.end = end
        return count

    def close_compound(self, outer_end: i64) -> None:
        """Ends what :meth:`open_compound` began: everything in it must have been read."""
        if self.pos != self.end:
            raise self.fail(f"{self.end - self.pos} bytes left over in a list, map or array")
        self.end = outer_end

    def _compound(self, code: i64) -> object:
        if code & 0xF > 1:
            raise self.unexpected(code, "an AMQP value")
        self._enter()
        outer_end = self.end
        count = self.open_compound(code)
        result: object = self._items(count) if code & 0xF == 0 else self.pairs(count)
        self.close_compound(outer_end)
        self.depth -= 1
        return result

    def _items(self, count: i64) -> list[object]:
        items: list[object] = []
        for _ in range(count):
            items.append(self.value())
        return items

    def pairs(self, count: i64) -> object:
        """The ``count`` values of an opened map: a dict, or a PairMap where a dict would lose or can't take
        a key.
        """
        if count & 1:
            raise self.fail(f"a map of {count} values: the last key has no value")
        result: dict[object, object] = {}
        pairs: list[tuple[object, object]] = []
        numeric_keys = 0
        fits = True
        for _ in range(count >> 1):
            key = self.value()
            value = self.value()
            pairs.append((key, value))
            if not isinstance(key, str | bytes):
                numeric_keys += 1 if _is_number(key) else _KEY_WEIGHT
            fits = fits and numeric_keys <= c.MAX_NUMERIC_KEYS and self._fits(result, key)
            if fits:
                result[key] = value
        return result if fits else PairMap(pairs)

    def _fits(self, result: dict[object, object], key: object) -> bool:
        """Whether ``result`` can take ``key``; False when it has an equal one of another type."""
        if not is_hashable(key):
            return False
        if key not in result:
            return True
        for other in result:
            if other == key and type(other) is type(key):
                raise self.fail("a map has the same key twice")
        return False

    def text_map(self) -> dict[str, object] | None:
        """The next value, if it is a map of which all keys are strings; None for any other: then the reader
        is of no use any more. As `value` for what is wrong.
        """
        code = self.take_byte()
        if code != c.MAP_8 and code != c.MAP_32:
            return None
        self._enter()
        outer_end = self.end
        count = self.open_compound(code)
        if count & 1:
            raise self.fail(f"a map of {count} values: the last key has no value")
        found: dict[str, object] = {}
        for _ in range(count >> 1):
            key_code = self.take_byte()
            if key_code != c.STRING_8 and key_code != c.STRING_32:
                return None
            key = self.text(self.take_size(key_code))
            value = self.value()
            if key in found:
                raise self.fail("a map has the same key twice")
            found[key] = value
        self.close_compound(outer_end)
        self.depth -= 1
        return found

    # --- arrays

    def _array(self, code: i64) -> Array:
        self._enter()
        outer_end = self.end
        size = self.take_size(code)
        self.need(size)
        end = self.pos + size
        count = self.take_u32() if code & 0x10 else self.take_byte()
        if end < self.pos:
            raise self.fail("a size too small for the count it includes")
        self.end = end
        descriptors: list[object] = []
        item_code = self.take_byte()
        while item_code == c.DESCRIBED:
            if len(descriptors) >= c.MAX_DEPTH:
                raise self.fail(f"more than {c.MAX_DEPTH} descriptors")
            descriptors.append(self.value())
            item_code = self.take_byte()
        item_type = c.TYPE_OF_CONSTRUCTOR.get(item_code)
        if item_type is None:
            raise self.unexpected(item_code, "an array's element type")
        self._check_array_count(count, item_code)
        items: list[object] = []
        for _ in range(count):
            items.append(self.value_of(item_code))
        self.close_compound(outer_end)
        self.depth -= 1
        return Array(item_type, items, descriptors)

    def _check_array_count(self, count: i64, item_code: i64) -> None:
        if item_code >> 4 == 0x4:
            self.zero_width_left -= count
            if self.zero_width_left < 0:
                raise self.fail(f"more than {c.MAX_ZERO_WIDTH_ELEMENTS} array items without width")
        elif count > self.end - self.pos:
            raise self.fail(f"{count} elements can't fit into {self.end - self.pos} bytes")
        self._spend(count)

    # --- passing over

    def skip(self) -> None:
        """Passes over one value, checking that it ends where it says, not what is in it."""
        depth = self.depth
        code = self.take_byte()
        while code == c.DESCRIBED:
            self._enter()
            self.skip()  # the descriptor, which may be any value
            code = self.take_byte()
        self._skip_of(code)
        self.depth = depth

    def _skip_of(self, code: i64) -> None:
        width: i64 = c.WIDTHS[code]
        if width >= c.WIDTH_1:
            if width == c.NO_WIDTH:
                raise self.unexpected(code, "an AMQP value")
            width = self.take_byte() if width == c.WIDTH_1 else self.take_u32()
        self.need(width)
        self.pos += width
