"""Messages of JMS with a body of text, a map, or an object."""

from __future__ import annotations

from typing import Final, TypeVar

from postroom.client.exceptions import MessageFormatException
from postroom.client.messages import conversion
from postroom.client.messages.base_message import Message
from postroom.client.messages.conversion import JmsType

T = TypeVar("T")

JAVA_OBJECT: Final = "application/x-java-serialized-object"
"""Content type of an object that Java has serialised."""


class TextMessage(Message):
    """A message whose body is a str, or nothing."""

    @property
    def text(self) -> str | None:
        """The body."""
        assert self._body is None or isinstance(self._body, str)
        return self._body

    @text.setter
    def text(self, text: str | None) -> None:
        self.body = text

    def _set_body(self, value: object) -> None:
        if value is not None and not isinstance(value, str):
            raise MessageFormatException(
                f"the body of a TextMessage is a str or None, not {type(value).__name__}"
            )
        self._body = value


class ObjectMessage(Message):
    """A message whose body is one AMQP value, as Qpid JMS sends an object with ``JMS_AMQP_TYPED_ENCODING``.

    Objects that Java has serialised are not read, and no Python object is pickled: to read such bytes is to
    run what their sender chose. Their bytes are the ``body`` still.
    """

    def get_object(self) -> object:
        """The body. Raises MessageFormatException for an object that Java has serialised."""
        if self.content_type == JAVA_OBJECT:
            raise MessageFormatException(
                "the object is serialised by Java and isn't read, since that would run its sender's code;"
                " let the sender set JMS_AMQP_TYPED_ENCODING, or send text, bytes or a map"
            )
        return self.body

    def set_object(self, value: object) -> None:
        """Set the body: a value that AMQP has a type for; else sending it raises MessageFormatException."""
        self.body = value

    def get_body(self, kind: type[T]) -> T | None:
        """The object, which is a ``kind``; MessageFormatException otherwise, and as :meth:`get_object`."""
        self.get_object()
        return super().get_body(kind)


class MapMessage(Message):
    """A message whose body is a map of names to values of JMS's types: a dict, and typed accessors.

    A value keeps the type that it was set with; reading it as another one follows JMS's table of conversions
    (:mod:`postroom.client.messages.conversion`). Setters raise MessageNotWriteableException for a received
    message, ValueError for an empty name, MessageFormatException for a value outside of its type. Getters
    raise MessageFormatException where the table allows no conversion, and ValueError for text that is no
    number, or nothing where a number is asked for.
    """

    def _get_body(self) -> object:
        return dict(self._map) if self._body_is_read_only else self._map

    def _set_body(self, value: object) -> None:
        self._map: dict[str, object] = {}
        if value is None:
            return
        if not isinstance(value, dict):
            raise MessageFormatException(f"the body of a MapMessage is a dict, not {type(value).__name__}")
        for name, item in value.items():
            check_name(name)
            self._map[name] = item

    def names(self) -> list[str]:
        """All names in the map."""
        return list(self._map)

    def item_exists(self, name: str) -> bool:
        """Whether the map has an item of that name."""
        return name in self._map

    def get_object(self, name: str) -> object:
        """The item as it was set; None where there is none."""
        return self._map.get(name)

    def get_boolean(self, name: str) -> bool:
        """As boolean; False where there is none."""
        return conversion.read_boolean(self._map.get(name), _what(name))

    def get_byte(self, name: str) -> int:
        """As byte."""
        return self._whole(name, JmsType.BYTE)

    def get_short(self, name: str) -> int:
        """As short."""
        return self._whole(name, JmsType.SHORT)

    def get_char(self, name: str) -> str:
        """As a character."""
        return conversion.read_char(self._map.get(name), _what(name))

    def get_int(self, name: str) -> int:
        """As int."""
        return self._whole(name, JmsType.INT)

    def get_long(self, name: str) -> int:
        """As long."""
        return self._whole(name, JmsType.LONG)

    def get_float(self, name: str) -> float:
        """As float."""
        return conversion.read_float(self._map.get(name), JmsType.FLOAT, _what(name))

    def get_double(self, name: str) -> float:
        """As double."""
        return conversion.read_float(self._map.get(name), JmsType.DOUBLE, _what(name))

    def get_string(self, name: str) -> str | None:
        """As text; None where there is none."""
        return conversion.read_string(self._map.get(name), _what(name))

    def get_bytes(self, name: str) -> bytes | None:
        """As bytes; None where there are none."""
        return conversion.read_bytes(self._map.get(name), _what(name))

    def set_object(self, name: str, value: object) -> None:
        """Set an item of any type that JMS has."""
        self._put(name, conversion.written_object(value, _what(name)))

    def set_boolean(self, name: str, value: bool) -> None:
        """Set a boolean."""
        self._put_as(name, value, JmsType.BOOLEAN)

    def set_byte(self, name: str, value: int) -> None:
        """Set a byte: −128 to 127."""
        self._put_as(name, value, JmsType.BYTE)

    def set_short(self, name: str, value: int) -> None:
        """Set a short: 16 bits, signed."""
        self._put_as(name, value, JmsType.SHORT)

    def set_char(self, name: str, value: str) -> None:
        """Set a character, up to U+FFFF."""
        self._put_as(name, value, JmsType.CHAR)

    def set_int(self, name: str, value: int) -> None:
        """Set an int: 32 bits, signed."""
        self._put_as(name, value, JmsType.INT)

    def set_long(self, name: str, value: int) -> None:
        """Set a long: 64 bits, signed."""
        self._put_as(name, value, JmsType.LONG)

    def set_float(self, name: str, value: float) -> None:
        """Set a float of 32 bits."""
        self._put_as(name, value, JmsType.FLOAT)

    def set_double(self, name: str, value: float) -> None:
        """Set a float of 64 bits."""
        self._put_as(name, value, JmsType.DOUBLE)

    def set_string(self, name: str, value: str | None) -> None:
        """Set text."""
        self._put_as(name, value, JmsType.STRING)

    def set_bytes(self, name: str, value: bytes | None) -> None:
        """Set bytes."""
        self._put_as(name, value, JmsType.BYTES)

    def _whole(self, name: str, kind: JmsType) -> int:
        return conversion.read_integer(self._map.get(name), kind, _what(name))

    def _put_as(self, name: str, value: object, kind: JmsType) -> None:
        self._put(name, conversion.written(value, kind, _what(name)))

    def _put(self, name: str, value: object) -> None:
        self._check_writeable()
        check_name(name)
        self._map[name] = value


def check_name(name: object) -> None:
    """Raises ValueError for what is no name of an item."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of an item of a MapMessage is a str that isn't empty, not {name!r}")


def _what(name: str) -> str:
    return f"item {name!r}"
