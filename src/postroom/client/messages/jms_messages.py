"""Messages of JMS with a body of text, a map, or an object."""

from __future__ import annotations

from typing import Final, TypeVar

from postroom.client.exceptions import MessageFormatException
from postroom.client.messages import conversion
from postroom.client.messages.base_message import Message
from postroom.client.messages.conversion import Kind, of_kind

T = TypeVar("T")
V = TypeVar("V")

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

    def _get(self, kind: Kind[V], name: str) -> V:
        return kind.read(self._map.get(name), _what(name))

    get_boolean = of_kind(_get, conversion.BOOLEAN, "As boolean; False where there is none.")
    get_byte = of_kind(_get, conversion.BYTE, "As byte.")
    get_short = of_kind(_get, conversion.SHORT, "As short.")
    get_char = of_kind(_get, conversion.CHAR, "As a character.")
    get_int = of_kind(_get, conversion.INT, "As int.")
    get_long = of_kind(_get, conversion.LONG, "As long.")
    get_float = of_kind(_get, conversion.FLOAT, "As float.")
    get_double = of_kind(_get, conversion.DOUBLE, "As double.")
    get_string = of_kind(_get, conversion.STRING, "As text; None where there is none.")
    get_bytes = of_kind(_get, conversion.BYTES, "As bytes; None where there are none.")

    def _put_as(self, kind: Kind[V], name: str, value: V) -> None:
        self._put(name, kind.written(value, _what(name)))

    def set_object(self, name: str, value: object) -> None:
        """Set an item of any type that JMS has."""
        self._put(name, conversion.written_object(value, _what(name)))

    set_boolean = of_kind(_put_as, conversion.BOOLEAN, "Set a boolean.")
    set_byte = of_kind(_put_as, conversion.BYTE, "Set a byte: −128 to 127.")
    set_short = of_kind(_put_as, conversion.SHORT, "Set a short: 16 bits, signed.")
    set_char = of_kind(_put_as, conversion.CHAR, "Set a character, up to U+FFFF.")
    set_int = of_kind(_put_as, conversion.INT, "Set an int: 32 bits, signed.")
    set_long = of_kind(_put_as, conversion.LONG, "Set a long: 64 bits, signed.")
    set_float = of_kind(_put_as, conversion.FLOAT, "Set a float of 32 bits.")
    set_double = of_kind(_put_as, conversion.DOUBLE, "Set a float of 64 bits.")
    set_string = of_kind(_put_as, conversion.STRING, "Set text.")
    set_bytes = of_kind(_put_as, conversion.BYTES, "Set bytes.")

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
