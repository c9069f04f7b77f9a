"""Writes composite types: the base class of them all, and the collector of their fields (part 1, section
1.4).
"""

from collections.abc import Mapping
from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from postroom.amqp.encoding import constructors as c
from postroom.amqp.encoding.scalar_writer import (
    write_binary,
    write_string,
    write_symbol,
    write_u16,
    write_u32,
)
from postroom.amqp.encoding.types import MAX_UBYTE, MAX_UINT, MAX_USHORT, Timestamp, ULong
from postroom.amqp.encoding.writer import write_container, write_symbol_array, write_symbol_map, write_value
from postroom.amqp.errors import EncodeError


class Composite:
    """A described list with named fields, that can write itself: the base of all composite types."""

    def write(self, w: BytesWriter) -> None:
        """Appends the encoding: 0x00, the descriptor, the list of the fields."""
        raise NotImplementedError(type(self).__name__)


@final
class FieldWriter:
    """Collects the fields of one composite; trailing nulls are left out."""

    __slots__ = ("content", "count", "kept_bytes", "kept_count")

    def __init__(self) -> None:
        self.content = BytesWriter()
        self.count: i64 = 0
        self.kept_count: i64 = 0
        self.kept_bytes: i64 = 0

    def null(self) -> None:
        """An absent field."""
        self.content.append(c.NULL)
        self.count += 1

    def _keep(self) -> None:
        self.count += 1
        self.kept_count = self.count
        self.kept_bytes = len(self.content)

    def boolean(self, value: bool | None, default: bool | None = None) -> None:
        """A boolean; None and the default are left out."""
        if value is None or value is default:
            return self.null()
        self.content.append(c.TRUE if value else c.FALSE)
        return self._keep()

    def uint(self, value: int | None, default: int | None = None) -> None:
        """A uint; None and the default are left out."""
        if value is None or value == default:
            return self.null()
        number = in_range(value, MAX_UINT, "uint")
        if number == 0:
            self.content.append(c.UINT_0)
        elif number <= MAX_UBYTE:
            self.content.append(c.UINT_8)
            self.content.append(number)
        else:
            self.content.append(c.UINT)
            write_u32(self.content, number)
        return self._keep()

    def ulong(self, value: int | None) -> None:
        """A ulong; None is left out."""
        if value is None:
            return self.null()
        write_value(self.content, ULong(value))
        return self._keep()

    def ushort(self, value: int | None, default: int | None = None) -> None:
        """A ushort; None and the default are left out."""
        if value is None or value == default:
            return self.null()
        number = in_range(value, MAX_USHORT, "ushort")
        self.content.append(c.USHORT)
        write_u16(self.content, number)
        return self._keep()

    def ubyte(self, value: int | None, default: int | None = None) -> None:
        """A ubyte; None and the default are left out."""
        if value is None or value == default:
            return self.null()
        number = in_range(value, MAX_UBYTE, "ubyte")
        self.content.append(c.UBYTE)
        self.content.append(number)
        return self._keep()

    def string(self, value: str | None) -> None:
        """A string; None is left out."""
        if value is None:
            return self.null()
        write_string(self.content, value)
        return self._keep()

    def symbol(self, value: str | None, default: str | None = None) -> None:
        """A symbol; None and the default are left out."""
        if value is None or value == default:
            return self.null()
        write_symbol(self.content, value)
        return self._keep()

    def binary(self, value: bytes | None) -> None:
        """A binary; None is left out."""
        if value is None:
            return self.null()
        write_binary(self.content, value)
        return self._keep()

    def timestamp(self, value: int | None) -> None:
        """A timestamp in milliseconds; None is left out."""
        if value is None:
            return self.null()
        write_value(self.content, Timestamp(value))
        return self._keep()

    def symbols(self, value: list[str]) -> None:
        """A "multiple" field of symbols; an empty list is left out."""
        if not value:
            return self.null()
        write_symbol_array(self.content, value)
        return self._keep()

    def symbol_map(self, value: dict[object, object] | None) -> None:
        """A map with symbols as keys; None is left out."""
        if value is None:
            return self.null()
        write_symbol_map(self.content, value)
        return self._keep()

    def value(self, value: object) -> None:
        """A field of any type; None is left out."""
        if value is None:
            return self.null()
        write_value(self.content, value)
        return self._keep()

    def composite(self, value: Composite | None) -> None:
        """A field that is a composite itself; None is left out."""
        if value is None:
            return self.null()
        value.write(self.content)
        return self._keep()

    def unsettled_map(self, value: Mapping[bytes, Composite | None] | None) -> None:
        """A map from delivery-tags to delivery states; None is left out."""
        if value is None:
            return self.null()
        content = BytesWriter()
        for tag, state in value.items():
            write_binary(content, tag)
            if state is None:
                content.append(c.NULL)
            else:
                state.write(content)
        write_container(self.content, c.MAP_8, 2 * len(value), content.getvalue())
        return self._keep()

    def finish(self, w: BytesWriter, descriptor: int) -> None:
        """Appends the composite: 0x00, its descriptor (below 256) and the list of the fields."""
        w.append(c.DESCRIBED)
        w.append(c.ULONG_8)
        w.append(descriptor)
        if self.kept_count == 0:
            w.append(c.LIST_0)
            return
        self.content.truncate(self.kept_bytes)
        write_container(w, c.LIST_8, self.kept_count, self.content.getvalue())


def in_range(value: int, highest: int, what: str) -> i64:
    """``value`` as a native integer; EncodeError unless it is from 0 to ``highest``."""
    if value < 0 or value > highest:
        raise EncodeError(f"{value} is out of the range of {what}")
    return value
