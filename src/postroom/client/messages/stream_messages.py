"""Messages of JMS that are written and read piece by piece: bytes, and streams of values.

A new one can be written; ``reset()`` (sending does it, too) makes it readable from its beginning, and
read-only. Reading before raises MessageNotReadableException, writing after it MessageNotWriteableException,
reading beyond the end MessageEOFException. ``body`` is the whole content, whatever has been read.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from postroom.client.exceptions import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
)
from postroom.client.messages import conversion
from postroom.client.messages.base_message import Message
from postroom.client.messages.conversion import JmsType

T = TypeVar("T")

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
UNSIGNED_BYTE: Final = ">B"
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

    def read_byte(self) -> int:
        """The next byte, signed."""
        return self._unpacked(_FORMATS[JmsType.BYTE])

    def read_unsigned_byte(self) -> int:
        """The next byte, 0 to 255."""
        return self._unpacked(UNSIGNED_BYTE)

    def read_short(self) -> int:
        """The next two bytes, signed."""
        return self._unpacked(_FORMATS[JmsType.SHORT])

    def read_unsigned_short(self) -> int:
        """The next two bytes, 0 to 65 535."""
        return self._unpacked(UNSIGNED_SHORT)

    def read_char(self) -> str:
        """The next two bytes as a character."""
        return chr(self._unpacked(UNSIGNED_SHORT))

    def read_int(self) -> int:
        """The next four bytes, signed."""
        return self._unpacked(_FORMATS[JmsType.INT])

    def read_long(self) -> int:
        """The next eight bytes, signed."""
        return self._unpacked(_FORMATS[JmsType.LONG])

    def read_float(self) -> float:
        """The next four bytes as a float."""
        return self._float(_FORMATS[JmsType.FLOAT])

    def read_double(self) -> float:
        """The next eight bytes as a double."""
        return self._float(_FORMATS[JmsType.DOUBLE])

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

    def _unpacked(self, form: str) -> int:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def _float(self, form: str) -> float:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return float(value)

    def _take(self, length: int) -> bytes:
        self._check_readable()
        if self._position + length > len(self._bytes):
            raise MessageEOFException(f"{length} bytes are asked for, and {self._left()} are left")
        return self.read_bytes(length)

    def _left(self) -> int:
        return len(self._bytes) - self._position

    # --- writing

    def write_boolean(self, value: bool) -> None:
        """One byte, 1 or 0."""
        self._append(b"\1" if conversion.written(value, JmsType.BOOLEAN, "a boolean") else b"\0")

    def write_byte(self, value: int) -> None:
        """One byte, −128 to 127."""
        self._write(value, JmsType.BYTE)

    def write_short(self, value: int) -> None:
        """Two bytes."""
        self._write(value, JmsType.SHORT)

    def write_char(self, value: str) -> None:
        """A character up to U+FFFF, two bytes."""
        conversion.written(value, JmsType.CHAR, "a char")
        self._append(struct.pack(UNSIGNED_SHORT, ord(value)))

    def write_int(self, value: int) -> None:
        """Four bytes."""
        self._write(value, JmsType.INT)

    def write_long(self, value: int) -> None:
        """Eight bytes."""
        self._write(value, JmsType.LONG)

    def write_float(self, value: float) -> None:
        """Four bytes."""
        self._write(value, JmsType.FLOAT)

    def write_double(self, value: float) -> None:
        """Eight bytes."""
        self._write(value, JmsType.DOUBLE)

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
        kind = conversion.type_of(value)
        if isinstance(value, bool):
            self.write_boolean(value)
        elif isinstance(value, str):
            self.write_char(value) if kind is JmsType.CHAR else self.write_utf(value)
        else:
            self._write(value, kind)

    def _write(self, value: object, kind: JmsType) -> None:
        number = conversion.written(value, kind, f"a {kind.value}")
        try:
            self._append(struct.pack(_FORMATS[kind], number))
        except OverflowError:
            raise MessageFormatException(f"{value} is outside of what a {kind.value} holds") from None

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

    def read_boolean(self) -> bool:
        """The next value as boolean."""
        return self._passed(conversion.read_boolean(self._next(), self._what()))

    def read_byte(self) -> int:
        """The next value as byte."""
        return self._whole(JmsType.BYTE)

    def read_short(self) -> int:
        """The next value as short."""
        return self._whole(JmsType.SHORT)

    def read_char(self) -> str:
        """The next value as a character."""
        return self._passed(conversion.read_char(self._next(), self._what()))

    def read_int(self) -> int:
        """The next value as int."""
        return self._whole(JmsType.INT)

    def read_long(self) -> int:
        """The next value as long."""
        return self._whole(JmsType.LONG)

    def read_float(self) -> float:
        """The next value as float."""
        return self._passed(conversion.read_float(self._next(), JmsType.FLOAT, self._what()))

    def read_double(self) -> float:
        """The next value as double."""
        return self._passed(conversion.read_float(self._next(), JmsType.DOUBLE, self._what()))

    def read_string(self) -> str | None:
        """The next value as text."""
        return self._passed(conversion.read_string(self._next(), self._what()))

    def read_bytes(self) -> bytes | None:
        """The next value, bytes, whole."""
        return self._passed(conversion.read_bytes(self._next(), self._what()))

    def _whole(self, kind: JmsType) -> int:
        return self._passed(conversion.read_integer(self._next(), kind, self._what()))

    def _next(self) -> object:
        self._check_readable()
        if self._position >= len(self._items):
            raise MessageEOFException(f"all {len(self._items)} values of the stream are read")
        return self._items[self._position]

    def _passed(self, value: T) -> T:
        self._position += 1
        return value

    def _what(self) -> str:
        return f"value {self._position}"

    # --- writing

    def write_object(self, value: object) -> None:
        """A value of any type that JMS has."""
        self._append(conversion.written_object(value, "a value"))

    def write_boolean(self, value: bool) -> None:
        """A boolean."""
        self._append_as(value, JmsType.BOOLEAN)

    def write_byte(self, value: int) -> None:
        """A byte: −128 to 127."""
        self._append_as(value, JmsType.BYTE)

    def write_short(self, value: int) -> None:
        """A short: 16 bits, signed."""
        self._append_as(value, JmsType.SHORT)

    def write_char(self, value: str) -> None:
        """A character, up to U+FFFF."""
        self._append_as(value, JmsType.CHAR)

    def write_int(self, value: int) -> None:
        """An int: 32 bits, signed."""
        self._append_as(value, JmsType.INT)

    def write_long(self, value: int) -> None:
        """A long: 64 bits, signed."""
        self._append_as(value, JmsType.LONG)

    def write_float(self, value: float) -> None:
        """A float of 32 bits."""
        self._append_as(value, JmsType.FLOAT)

    def write_double(self, value: float) -> None:
        """A float of 64 bits."""
        self._append_as(value, JmsType.DOUBLE)

    def write_string(self, value: str | None) -> None:
        """Text."""
        self._append_as(value, JmsType.STRING)

    def write_bytes(self, value: bytes | None) -> None:
        """Bytes, as one value."""
        self._append_as(value, JmsType.BYTES)

    def _append_as(self, value: object, kind: JmsType) -> None:
        self._append(conversion.written(value, kind, f"a {kind.value}"))

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
