"""Messages of JMS that are written and read piece by piece: bytes, and streams of values.

A new one can be written; ``reset()`` (sending does it, too) makes it readable from its beginning, and
read-only. Reading before raises MessageNotReadableException, writing after it MessageNotWriteableException,
reading beyond the end MessageEOFException. ``body`` is the whole content, whatever has been read.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from postroom.amqp.encoding.types import Char
from postroom.client.exceptions import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
)
from postroom.client.messages import conversion
from postroom.client.messages.base_message import Message
from postroom.client.messages.conversion import JmsType, Kind, of_kind

V = TypeVar("V")

BYTES_LIKE: Final = (bytes, bytearray, memoryview)
MAX_UTF_BYTES: Final = 0xFFFF
"""Of text in a BytesMessage: its length has 16 bits."""
_FORMATS: Final = {
    JmsType.BYTE: ">b",
    JmsType.SHORT: ">h",
    JmsType.INT: ">i",
    JmsType.LONG: ">q",
    JmsType.FLOAT: ">f",
    JmsType.DOUBLE: ">d",
}
UNSIGNED_SHORT: Final = ">H"


class Sequential(Message):
    """What both have: a place of reading."""

    _position = 0

    def reset(self) -> None:
        """Read-only from now on; reading begins at the beginning."""
        self._body_is_read_only = True
        self._position = 0

    def before_send(self) -> None:
        """Sending leaves the message readable from its beginning."""
        self.reset()

    def _check_readable(self) -> None:
        if not self._body_is_read_only:
            raise MessageNotReadableException("the body is being written: reset() first")


class BytesMessage(Sequential):
    """A message whose body is bytes. Numbers are written as Java's DataOutput does: most significant byte
    first.
    """

    def _get_body(self) -> object:
        return bytes(self._bytes)

    def _set_body(self, value: object) -> None:
        if value is not None and not isinstance(value, BYTES_LIKE):
            raise MessageFormatException(f"the body of a BytesMessage is bytes, not {type(value).__name__}")
        self._bytes = bytearray(value or b"")
        self._position = 0

    @property
    def body_length(self) -> int:
        """Bytes of the body. Raises MessageNotReadableException while it is being written."""
        self._check_readable()
        return len(self._bytes)

    # --- reading

    def read_boolean(self) -> bool:
        """The next byte: whether it isn't 0."""
        return self._take(1) != b"\0"

    def _unpacked(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def _float(self, form: str) -> float:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return float(value)

    read_byte = of_kind(_unpacked, ">b", "The next byte, signed.")
    read_unsigned_byte = of_kind(_unpacked, ">B", "The next byte, 0 to 255.")
    read_short = of_kind(_unpacked, ">h", "The next two bytes, signed.")
    read_unsigned_short = of_kind(_unpacked, UNSIGNED_SHORT, "The next two bytes, 0 to 65 535.")

    def read_char(self) -> str:
        """The next two bytes as a character."""
        return chr(self._unpacked(UNSIGNED_SHORT))

    read_int = of_kind(_unpacked, ">i", "The next four bytes, signed.")
    read_long = of_kind(_unpacked, ">q", "The next eight bytes, signed.")
    read_float = of_kind(_float, ">f", "The next four bytes as a float.")
    read_double = of_kind(_float, ">d", "The next eight bytes as a double.")

    def read_utf(self) -> str:
        """Text with its length before it, as ``write_utf`` writes it."""
        start = self._position
        length = self._unpacked(UNSIGNED_SHORT)
        try:
            return _from_java_utf(self._take(length))
        except (UnicodeDecodeError, MessageEOFException):
            self._position = start
            raise MessageFormatException("there is no text here, written with write_utf") from None

    def read_bytes(self, length: int | None = None) -> bytes:
        """Up to ``length`` bytes (None: all that are left); none at the end."""
        self._check_readable()
        end = len(self._bytes) if length is None else min(self._position + length, len(self._bytes))
        taken = bytes(self._bytes[self._position : end])
        self._position = end
        return taken

    def _take(self, length: int) -> bytes:
        self._check_readable()
        left = len(self._bytes) - self._position
        if length > left:
            raise MessageEOFException(f"{length} bytes are asked for, and {left} are left")
        return self.read_bytes(length)

    # --- writing

    def write_boolean(self, value: bool) -> None:
        """One byte, 1 or 0."""
        self._append(b"\1" if conversion.written(value, JmsType.BOOLEAN, "a boolean") else b"\0")

    def _write(self, kind: Kind[V], value: V) -> None:
        number = kind.written(value, f"a {kind.type.value}")
        try:
            self._append(struct.pack(_FORMATS[kind.type], number))
        except OverflowError:
            raise MessageFormatException(f"{value} is outside of what a {kind.type.value} holds") from None

    write_byte = of_kind(_write, conversion.BYTE, "One byte, −128 to 127.")
    write_short = of_kind(_write, conversion.SHORT, "Two bytes.")

    def write_char(self, value: str) -> None:
        """A character up to U+FFFF, two bytes."""
        conversion.written(value, JmsType.CHAR, "a char")
        self._append(struct.pack(UNSIGNED_SHORT, ord(value)))

    write_int = of_kind(_write, conversion.INT, "Four bytes.")
    write_long = of_kind(_write, conversion.LONG, "Eight bytes.")
    write_float = of_kind(_write, conversion.FLOAT, "Four bytes.")
    write_double = of_kind(_write, conversion.DOUBLE, "Eight bytes.")

    def write_utf(self, value: str) -> None:
        """Text in Java's UTF-8 (half a character at a time, no zero byte), its length in two bytes before it.
        Raises MessageFormatException above 65 535 bytes.
        """
        content = _java_utf(value)
        if len(content) > MAX_UTF_BYTES:
            raise MessageFormatException(
                f"the text has {len(content)} bytes; write_utf writes up to {MAX_UTF_BYTES}"
            )
        self._append(struct.pack(UNSIGNED_SHORT, len(content)) + content)

    def write_bytes(self, value: bytes) -> None:
        """The bytes as they are."""
        self._append(bytes(value))

    def write_object(self, value: object) -> None:
        """A value as its type says: a boolean, a number, text as ``write_utf``, or bytes."""
        if isinstance(value, bytes | bytearray | memoryview):
            self.write_bytes(bytes(value))
            return
        if isinstance(value, bool):
            self.write_boolean(value)
        elif isinstance(value, Char):
            self.write_char(value)
        elif isinstance(value, str):
            self.write_utf(value)
        else:
            kind: Kind[object] = Kind(conversion.type_of(value), lambda value, what: value)
            self._write(kind, value)

    def _append(self, content: bytes) -> None:
        self._check_writeable()
        self._bytes += content


class StreamMessage(Sequential):
    """A message whose body is a list of values of JMS's types, written and read in order.

    A value keeps the type that it was written with; reading it as another one follows JMS's table of
    conversions (:mod:`postroom.client.messages.conversion`): MessageFormatException where the table allows
    none, ValueError for text that is no number, or nothing where a number is asked for. Then the value is
    still the next one.
    """

    def _get_body(self) -> object:
        return list(self._items)

    def _set_body(self, value: object) -> None:
        if value is not None and not isinstance(value, list | tuple):
            raise MessageFormatException(f"the body of a StreamMessage is a list, not {type(value).__name__}")
        self._items = list(value or [])
        self._position = 0

    def items(self) -> list[object]:
        """All values, in order."""
        return list(self._items)

    # --- reading

    def read_object(self) -> object:
        """The next value, as it was written."""
        value = self._next()
        self._position += 1
        return value

    def _read(self, kind: Kind[V]) -> V:
        value = kind.read(self._next(), f"value {self._position}")
        self._position += 1
        return value

    read_boolean = of_kind(_read, conversion.BOOLEAN, "The next value as boolean.")
    read_byte = of_kind(_read, conversion.BYTE, "The next value as byte.")
    read_short = of_kind(_read, conversion.SHORT, "The next value as short.")
    read_char = of_kind(_read, conversion.CHAR, "The next value as a character.")
    read_int = of_kind(_read, conversion.INT, "The next value as int.")
    read_long = of_kind(_read, conversion.LONG, "The next value as long.")
    read_float = of_kind(_read, conversion.FLOAT, "The next value as float.")
    read_double = of_kind(_read, conversion.DOUBLE, "The next value as double.")
    read_string = of_kind(_read, conversion.STRING, "The next value as text.")
    read_bytes = of_kind(_read, conversion.BYTES, "The next value, bytes, whole.")

    def _next(self) -> object:
        self._check_readable()
        if self._position >= len(self._items):
            raise MessageEOFException(f"all {len(self._items)} values of the stream are read")
        return self._items[self._position]

    # --- writing

    def write_object(self, value: object) -> None:
        """A value of any type that JMS has."""
        self._append(conversion.written_object(value, "a value"))

    def _append_as(self, kind: Kind[V], value: V) -> None:
        self._append(kind.written(value, f"a {kind.type.value}"))

    write_boolean = of_kind(_append_as, conversion.BOOLEAN, "A boolean.")
    write_byte = of_kind(_append_as, conversion.BYTE, "A byte: −128 to 127.")
    write_short = of_kind(_append_as, conversion.SHORT, "A short: 16 bits, signed.")
    write_char = of_kind(_append_as, conversion.CHAR, "A character, up to U+FFFF.")
    write_int = of_kind(_append_as, conversion.INT, "An int: 32 bits, signed.")
    write_long = of_kind(_append_as, conversion.LONG, "A long: 64 bits, signed.")
    write_float = of_kind(_append_as, conversion.FLOAT, "A float of 32 bits.")
    write_double = of_kind(_append_as, conversion.DOUBLE, "A float of 64 bits.")
    write_string = of_kind(_append_as, conversion.STRING, "Text.")
    write_bytes = of_kind(_append_as, conversion.BYTES, "Bytes, as one value.")

    def _append(self, value: object) -> None:
        self._check_writeable()
        self._items.append(value)


def _java_utf(text: str) -> bytes:
    """Java's modified UTF-8: a character beyond U+FFFF as two halves of three bytes each, U+0000 as two
    bytes.
    """
    halves = text.encode("utf-16-be", "surrogatepass")
    units = "".join(chr(unit) for (unit,) in struct.iter_unpack(">H", halves))
    return units.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _from_java_utf(content: bytes) -> str:
    units = content.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
