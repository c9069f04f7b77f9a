"""JMS's table of conversions: as what a property, an item of a map or of a stream may be read.

A value keeps the type that it was written with. The table (Jakarta Messaging 3.1, sections 3.5.4 and 3.11.3)
says what else it can be read as; anything else is a :class:`MessageFormatException`. Text that is no number
where one is asked for, and nothing (None) where a number or a character is, is a ValueError, as Java's
NumberFormatException and NullPointerException are.

In Python: ``bool``; ``Byte``, ``Short``, ``Int`` of :mod:`postroom.amqp.encoding.types`; ``int`` is a long;
``Float32``; ``float`` is a double; ``Char``; ``str``; ``bytes``. AMQP's unsigned numbers count as the next
larger signed type.
"""

from __future__ import annotations

import functools
import inspect
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from postroom.amqp.encoding.types import (
    MAX_LONG,
    MIN_LONG,
    Byte,
    Char,
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
from postroom.client.exceptions import MessageFormatException

K = TypeVar("K")
M = TypeVar("M")
P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

MAX_CHAR: Final = 0xFFFF
"""A character of Java has 16 bits."""


class JmsType(Enum):
    """The types of JMS's table."""

    BOOLEAN = "boolean"
    BYTE = "byte"
    SHORT = "short"
    CHAR = "char"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "String"
    BYTES = "byte[]"


_NUMBERS: Final = (JmsType.BYTE, JmsType.SHORT, JmsType.INT, JmsType.LONG)

READABLE_AS: Final[dict[JmsType, frozenset[JmsType]]] = {
    JmsType.BOOLEAN: frozenset({JmsType.BOOLEAN, JmsType.STRING}),
    JmsType.BYTE: frozenset({*_NUMBERS, JmsType.STRING}),
    JmsType.SHORT: frozenset({*_NUMBERS[1:], JmsType.STRING}),
    JmsType.CHAR: frozenset({JmsType.CHAR, JmsType.STRING}),
    JmsType.INT: frozenset({*_NUMBERS[2:], JmsType.STRING}),
    JmsType.LONG: frozenset({JmsType.LONG, JmsType.STRING}),
    JmsType.FLOAT: frozenset({JmsType.FLOAT, JmsType.DOUBLE, JmsType.STRING}),
    JmsType.DOUBLE: frozenset({JmsType.DOUBLE, JmsType.STRING}),
    JmsType.STRING: frozenset(set(JmsType) - {JmsType.CHAR, JmsType.BYTES}),
    JmsType.BYTES: frozenset({JmsType.BYTES}),
}
"""Written as → may be read as."""

# Subclasses before their bases: bool before int, Char before str.
_TYPE_OF: Final[list[tuple[type, JmsType]]] = [
    (bool, JmsType.BOOLEAN),
    (Byte, JmsType.BYTE),
    (Short, JmsType.SHORT),
    (UByte, JmsType.SHORT),
    (Int, JmsType.INT),
    (UShort, JmsType.INT),
    (UInt, JmsType.LONG),
    (ULong, JmsType.LONG),
    (Timestamp, JmsType.LONG),
    (int, JmsType.LONG),
    (Float32, JmsType.FLOAT),
    (float, JmsType.DOUBLE),
    (Char, JmsType.CHAR),
    (Symbol, JmsType.STRING),
    (str, JmsType.STRING),
    (bytes, JmsType.BYTES),
]

RANGES: Final[dict[JmsType, tuple[int, int]]] = {
    JmsType.BYTE: (-(1 << 7), (1 << 7) - 1),
    JmsType.SHORT: (-(1 << 15), (1 << 15) - 1),
    JmsType.INT: (-(1 << 31), (1 << 31) - 1),
    JmsType.LONG: (MIN_LONG, MAX_LONG),
}


def type_of(value: object) -> JmsType:
    """The JMS type of a value; MessageFormatException for one that JMS has no type for."""
    for kind, jms in _TYPE_OF:
        if isinstance(value, kind):
            return jms
    raise MessageFormatException(f"{type(value).__name__} is no type of JMS")


def checked(value: object, wanted: JmsType, what: str) -> object:
    """``value``, which may be read as ``wanted``; ``what`` names it in errors. None stays None."""
    if value is None:
        return None
    kind = type_of(value)
    if wanted not in READABLE_AS[kind]:
        raise MessageFormatException(f"{what} is a {kind.value}, which can't be read as {wanted.value}")
    return value


def read_boolean(value: object, what: str) -> bool:
    """As boolean: of text "true", whatever its case; nothing is false."""
    value = checked(value, JmsType.BOOLEAN, what)
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def read_integer(wanted: JmsType, value: object, what: str) -> int:
    """As one of the four whole numbers."""
    value = checked(value, wanted, what)
    if isinstance(value, int):
        return int(value)
    return _read_text(wanted, value, what, lambda text: in_range(int(text), wanted, what))


def read_float(wanted: JmsType, value: object, what: str) -> float:
    """As float or double."""
    value = checked(value, wanted, what)
    if isinstance(value, float):
        return float(value)
    return _read_text(wanted, value, what, float)


def _read_text(wanted: JmsType, value: object, what: str, read: Callable[[str], R]) -> R:
    """A number that stands in text."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is not there, and so no {wanted.value}")
    try:
        return read(_java_number(value))
    except (ValueError, MessageFormatException):
        raise ValueError(f"{what} is {value!r}, which is no {wanted.value}") from None


def _java_number(text: str) -> str:
    """``text`` unless Python alone takes it for a number."""
    if "_" in text or text != text.strip() or not text.isascii():
        raise ValueError(text)
    return text


def read_char(value: object, what: str) -> str:
    """As one character."""
    value = checked(value, JmsType.CHAR, what)
    if not isinstance(value, str):
        raise ValueError(f"{what} is not there, and so no char")
    return str(value)


def read_string(value: object, what: str) -> str | None:
    """As text, written as Java writes it: ``true``, ``1.5``."""
    value = checked(value, JmsType.STRING, what)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_text(value)
    return None if value is None else str(value)


def read_bytes(value: object, what: str) -> bytes | None:
    """As bytes."""
    value = checked(value, JmsType.BYTES, what)
    assert value is None or isinstance(value, bytes)
    return value


def java_text(value: float) -> str:
    """The shortest text that is ``value`` again, in Java's words for what is no number."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return _short_float_text(value) if isinstance(value, Float32) else repr(float(value))


def _short_float_text(value: float) -> str:
    for digits in range(1, 10):
        text = f"{float(value):.{digits}g}"
        if struct.pack(">f", float(text)) == struct.pack(">f", value):
            break
    return repr(float(text))


def in_range(value: int, kind: JmsType, what: str) -> int:
    """``value``, which ``kind`` can hold; MessageFormatException otherwise."""
    low, high = RANGES[kind]
    if not low <= value <= high:
        raise MessageFormatException(f"{what}: {value} is outside {low} to {high}, what a {kind.value} holds")
    return value


Writer = Callable[[object, str], object]


def _writer(kinds: tuple[type, ...], rule: str, make: Callable[[Any, str], object]) -> Writer:
    """Makes the value for the wire of one that is of ``kinds``; ``rule`` says so in errors."""

    def write(value: object, what: str) -> object:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise MessageFormatException(f"{what}: {rule}, not {type(value).__name__}")
        return make(value, what)

    return write


def _whole(kind: JmsType, make: Callable[[int], object]) -> Writer:
    return _writer((int,), f"a {kind.value} is an int", lambda value, what: make(in_range(value, kind, what)))


def _write_char(value: object, what: str) -> object:
    if not isinstance(value, str) or len(value) != 1 or ord(value) > MAX_CHAR:
        raise MessageFormatException(f"{what}: a char is a str of one character up to U+FFFF, not {value!r}")
    return Char(value)


_FRACTION: Final = ((int, float), "a float is a number")
_BYTES: Final = ((bytes, bytearray, memoryview, type(None)), "bytes are needed")
_WRITERS: Final[dict[JmsType, Writer]] = {
    JmsType.BOOLEAN: _writer((bool,), "a boolean is True or False", lambda value, what: value),
    JmsType.BYTE: _whole(JmsType.BYTE, Byte),
    JmsType.SHORT: _whole(JmsType.SHORT, Short),
    JmsType.INT: _whole(JmsType.INT, Int),
    JmsType.LONG: _whole(JmsType.LONG, int),
    JmsType.FLOAT: _writer(*_FRACTION, lambda value, what: Float32(float(value))),
    JmsType.DOUBLE: _writer(*_FRACTION, lambda value, what: float(value)),
    JmsType.CHAR: _write_char,
    JmsType.STRING: _writer((str, type(None)), "a string is a str or None", lambda value, what: value),
    JmsType.BYTES: _writer(*_BYTES, lambda value, what: None if value is None else bytes(value)),
}


def written(value: object, kind: JmsType, what: str) -> object:
    """``value`` as it is kept for the wire when it is written as ``kind``; MessageFormatException where it is
    none.
    """
    return _WRITERS[kind](value, what)


def written_object(value: object, what: str, bytes_allowed: bool = True) -> object:
    """``value`` as the type it has; MessageFormatException for one that JMS has no type for."""
    if value is None:
        return None
    if isinstance(value, bytearray | memoryview):
        value = bytes(value)
    kind = type_of(value)
    if kind is JmsType.BYTES and not bytes_allowed:
        raise MessageFormatException(f"{what}: a property is no bytes")
    if kind in RANGES and isinstance(value, int):
        in_range(value, kind, what)
    return value


@dataclass(frozen=True)
class Kind(Generic[V]):
    """A type of JMS, and how a value is read as it; ``V``: what that is in Python."""

    type: JmsType
    read: Callable[[object, str], V]
    """Takes the value, and its name for errors."""

    def written(self, value: V, what: str) -> object:
        """As :func:`written`."""
        return written(value, self.type, what)


BOOLEAN: Final = Kind(JmsType.BOOLEAN, read_boolean)
BYTE, SHORT, INT, LONG = (Kind(each, functools.partial(read_integer, each)) for each in _NUMBERS)
FLOAT: Final = Kind(JmsType.FLOAT, functools.partial(read_float, JmsType.FLOAT))
DOUBLE: Final = Kind(JmsType.DOUBLE, functools.partial(read_float, JmsType.DOUBLE))
CHAR: Final = Kind(JmsType.CHAR, read_char)
STRING: Final = Kind(JmsType.STRING, read_string)
BYTES: Final = Kind(JmsType.BYTES, read_bytes)


def of_kind(method: Callable[Concatenate[M, K, P], R], kind: K, doc: str) -> Callable[Concatenate[M, P], R]:
    """One of JMS's typed accessors: ``method``, whose first argument is ``kind``."""

    def accessor(message: M, /, *arguments: P.args, **named: P.kwargs) -> R:
        return method(message, kind, *arguments, **named)

    whole = inspect.signature(method)
    value = inspect.signature(kind.read).return_annotation if isinstance(kind, Kind) else None
    annotations = {"V": value}  # what the type variable is for this kind
    owner, _, *others = whole.parameters.values()
    parameters = [
        each.replace(annotation=annotations.get(each.annotation, each.annotation)) for each in others
    ]
    returns = annotations.get(whole.return_annotation, whole.return_annotation)
    accessor.__doc__ = doc
    accessor.__signature__ = inspect.Signature([owner, *parameters], return_annotation=returns)  # type: ignore[attr-defined]
    return accessor
