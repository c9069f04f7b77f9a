"""Reads the fields of composite types: lists whose members have names, types and defaults (part 1, section
1.4).

A method without a default is for a mandatory field; ``…_or`` takes the specification's default;
``optional_…`` gives None for an absent one. Writing them: :mod:`postroom.amqp.encoding.field_writer`.
"""

from typing import final

from mypy_extensions import i64, mypyc_attr

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.descriptors import CODE_OF_SYMBOL
from postroom.amqp.encoding.reader import Reader
from postroom.amqp.encoding.types import Array, Symbol, ULong
from postroom.amqp.errors import DecodeError

ABSENT: i64 = -1
"""What :meth:`Fields.descriptor` gives for an absent field."""


def read_descriptor(r: Reader) -> i64:
    """Passes 0x00 and a descriptor, gives its code; the symbolic form gives the code of its numeric twin."""
    if r.take_byte() != c.DESCRIBED:
        raise r.fail("a described value expected")
    code = r.take_byte()
    if code == c.ULONG_8:
        return r.take_byte()
    return _long_descriptor(r, code)


def _long_descriptor(r: Reader, code: i64) -> i64:
    if code == c.ULONG:
        value = r.take_i64()
        if value >= 0:
            return value
    elif code == c.SYMBOL_8 or code == c.SYMBOL_32:
        found = CODE_OF_SYMBOL.get(r.ascii(r.take_size(code)))
        if found is not None:
            return found
    raise r.fail("an unknown descriptor")


@mypyc_attr(free_list_len=1)
@final
class Fields:
    """Reads the fields of one composite in their order; made right after its descriptor."""

    __slots__ = ("left", "name", "outer_context", "outer_end", "reader")

    def __init__(self, reader: Reader, name: str) -> None:
        self.reader = reader
        self.name = name
        self.outer_context = reader.context
        self.outer_end = reader.end
        reader.context = name
        code = reader.take_byte()
        self.left: i64
        if code == c.LIST_8 or code == c.LIST_32:
            self.left = reader.open_compound(code)
        elif code == c.LIST_0:
            self.left = 0
            reader.end = reader.pos
        else:
            raise reader.unexpected(code, "a list of fields")

    def close(self) -> None:
        """Ends the list; what it has beyond the known fields must be null."""
        r = self.reader
        while self.left > 0:
            if not self.absent():
                raise r.fail("more fields than the type has")
        r.close_compound(self.outer_end)
        r.context = self.outer_context

    def absent(self) -> bool:
        """Whether the next field is left out or null; a null is passed."""
        if self.left <= 0:
            return True
        self.left -= 1
        r = self.reader
        pos = r.pos
        if pos >= r.end:
            raise r.fail("fewer fields than the count says")
        if r.data[pos] == c.NULL:
            r.pos = pos + 1
            return True
        return False

    def skip(self, count: int) -> None:
        """Passes over so many fields without looking at them."""
        for _ in range(count):
            if not self.absent():
                self.reader.skip()

    def missing(self, field: str) -> DecodeError:
        """The error for a mandatory field that is absent."""
        return self.reader.fail(f"the mandatory field {field} is absent")

    def wrong(self, code: i64, field: str, wanted: str) -> DecodeError:
        """The error for a field of another type."""
        return self.reader.unexpected(code, f"{field}: {wanted}")

    # --- boolean

    def _boolean(self, field: str) -> bool:
        r = self.reader
        code = r.take_byte()
        if code == c.TRUE:
            return True
        if code == c.FALSE:
            return False
        if code == c.BOOLEAN:
            value = r.take_byte()
            if value <= 1:
                return value == 1
        raise self.wrong(code, field, "boolean")

    def boolean(self, field: str) -> bool:
        """A mandatory boolean."""
        if self.absent():
            raise self.missing(field)
        return self._boolean(field)

    def boolean_or(self, field: str, default: bool) -> bool:
        """A boolean with a default."""
        return default if self.absent() else self._boolean(field)

    def optional_boolean(self, field: str) -> bool | None:
        """A boolean without a default."""
        return None if self.absent() else self._boolean(field)

    # --- unsigned integers

    def _uint(self, field: str) -> i64:
        r = self.reader
        code = r.take_byte()
        if code == c.UINT_8:
            return r.take_byte()
        if code == c.UINT_0:
            return 0
        if code == c.UINT:
            return r.take_u32()
        raise self.wrong(code, field, "uint")

    def uint(self, field: str) -> i64:
        """A mandatory uint."""
        if self.absent():
            raise self.missing(field)
        return self._uint(field)

    def uint_or(self, field: str, default: i64) -> i64:
        """A uint with a default."""
        return default if self.absent() else self._uint(field)

    def optional_uint(self, field: str) -> int | None:
        """A uint without a default."""
        return None if self.absent() else self._uint(field)

    def _ulong(self, field: str) -> int:
        r = self.reader
        code = r.take_byte()
        if code == c.ULONG_8:
            return r.take_byte()
        if code == c.ULONG_0:
            return 0
        if code != c.ULONG:
            raise self.wrong(code, field, "ulong")
        value: int = r.take_i64()
        return value if value >= 0 else value + (1 << 64)

    def ulong(self, field: str) -> int:
        """A mandatory ulong."""
        if self.absent():
            raise self.missing(field)
        return self._ulong(field)

    def optional_ulong(self, field: str) -> int | None:
        """A ulong without a default."""
        return None if self.absent() else self._ulong(field)

    def _ushort(self, field: str) -> i64:
        r = self.reader
        code = r.take_byte()
        if code != c.USHORT:
            raise self.wrong(code, field, "ushort")
        return r.take_byte() << 8 | r.take_byte()

    def ushort_or(self, field: str, default: i64) -> i64:
        """A ushort with a default."""
        return default if self.absent() else self._ushort(field)

    def optional_ushort(self, field: str) -> int | None:
        """A ushort without a default."""
        return None if self.absent() else self._ushort(field)

    def _ubyte(self, field: str, highest: i64) -> i64:
        r = self.reader
        code = r.take_byte()
        if code != c.UBYTE:
            raise self.wrong(code, field, "ubyte")
        value = r.take_byte()
        if value > highest:
            raise r.fail(f"{field} is {value}, at most {highest} is defined")
        return value

    def ubyte(self, field: str, highest: i64) -> i64:
        """A mandatory ubyte up to ``highest``."""
        if self.absent():
            raise self.missing(field)
        return self._ubyte(field, highest)

    def ubyte_or(self, field: str, highest: i64, default: i64) -> i64:
        """A ubyte up to ``highest`` with a default."""
        return default if self.absent() else self._ubyte(field, highest)

    def optional_ubyte(self, field: str, highest: i64) -> int | None:
        """A ubyte up to ``highest`` without a default."""
        return None if self.absent() else self._ubyte(field, highest)

    # --- variable width

    def _string(self, field: str) -> str:
        r = self.reader
        code = r.take_byte()
        if code != c.STRING_8 and code != c.STRING_32:
            raise self.wrong(code, field, "string")
        return r.text(r.take_size(code))

    def string(self, field: str) -> str:
        """A mandatory string."""
        if self.absent():
            raise self.missing(field)
        return self._string(field)

    def optional_string(self, field: str) -> str | None:
        """A string without a default."""
        return None if self.absent() else self._string(field)

    def _symbol(self, field: str) -> str:
        r = self.reader
        code = r.take_byte()
        if code != c.SYMBOL_8 and code != c.SYMBOL_32:
            raise self.wrong(code, field, "symbol")
        return r.ascii(r.take_size(code))

    def symbol(self, field: str) -> str:
        """A mandatory symbol."""
        if self.absent():
            raise self.missing(field)
        return self._symbol(field)

    def optional_symbol(self, field: str) -> str | None:
        """A symbol without a default."""
        return None if self.absent() else self._symbol(field)

    def _binary(self, field: str) -> bytes:
        r = self.reader
        code = r.take_byte()
        if code == c.BINARY_8:
            return r.take_bytes(r.take_byte())
        if code == c.BINARY_32:
            return r.take_bytes(r.take_u32())
        raise self.wrong(code, field, "binary")

    def binary(self, field: str) -> bytes:
        """A mandatory binary."""
        if self.absent():
            raise self.missing(field)
        return self._binary(field)

    def optional_binary(self, field: str) -> bytes | None:
        """A binary without a default."""
        return None if self.absent() else self._binary(field)

    def optional_timestamp(self, field: str) -> int | None:
        """A timestamp in milliseconds without a default."""
        if self.absent():
            return None
        r = self.reader
        code = r.take_byte()
        if code != c.TIMESTAMP:
            raise self.wrong(code, field, "timestamp")
        return r.take_i64()

    # --- containers and others

    def symbols(self, field: str) -> list[str]:
        """A "multiple" field of symbols: null, one symbol or an array of them."""
        if self.absent():
            return []
        value = self.reader.value()
        if isinstance(value, Symbol):
            return [value]
        result: list[str] = []
        if isinstance(value, Array) and not value.descriptors:
            for item in value.items:
                if isinstance(item, Symbol):
                    result.append(item)
            if len(result) == len(value.items):
                return result
        raise self.reader.fail(f"{field}: one symbol or an array of symbols expected")

    def symbol_map(self, field: str) -> dict[object, object] | None:
        """A map of type ``fields`` or ``annotations``: its keys are symbols (or ulongs, which are
        reserved).
        """
        return None if self.absent() else read_symbol_map(self.reader, field)

    def value(self, field: str) -> object:
        """A field of any type; None when absent."""
        return None if self.absent() else self.reader.value()

    def descriptor(self, field: str) -> i64:
        """The descriptor of the described value that is the next field, or ABSENT; its value is left to
        read.
        """
        return ABSENT if self.absent() else read_descriptor(self.reader)


def read_symbol_map(r: Reader, what: str) -> dict[object, object]:
    """Reads a map whose keys are symbols or ulongs; those that are strings are let pass, as some clients send
    them.

    Types ``fields`` (part 2, section 2.8.12) and ``annotations`` (part 3, section 3.2.10).
    """
    value = r.value()
    if not isinstance(value, dict):
        raise r.fail(f"{what}: a map with symbols as keys expected")
    for key in value:
        if not isinstance(key, str | ULong) or (isinstance(key, str) and not key.isascii()):
            raise r.fail(f"{what}: a key that is not a symbol")
    return value
