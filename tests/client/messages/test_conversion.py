"""JMS's table of conversions, for properties, maps and streams."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding import types
from postroom.amqp.encoding.types import Byte, Char, Float32, Int, Short
from postroom.client import MapMessage, Message, MessageFormatException, StreamMessage
from postroom.client.messages.conversion import RANGES, JmsType, written

VALUES: dict[str, object] = {
    "boolean": True,
    "byte": Byte(7),
    "short": Short(7),
    "char": Char("7"),
    "int": Int(7),
    "long": 7,
    "float": Float32(1.5),
    "double": 1.5,
    "String": "7",
    "byte[]": b"7",
}
KINDS = list(VALUES)
READABLE = """
boolean: boolean String
byte: byte short int long String
short: short int long String
char: char String
int: int long String
long: long String
float: float double String
double: double String
String: boolean byte short int long float double String
byte[]: byte[]
"""
TABLE = {line.split(": ")[0]: line.split(": ")[1].split() for line in READABLE.strip().splitlines()}
EXPECTED: dict[str, object] = {
    "boolean": True, "byte": 7, "short": 7, "char": "7", "int": 7, "long": 7, "float": 1.5, "double": 1.5,
    "byte[]": b"7",
}  # fmt: skip
TEXTS = {"boolean": "true", "float": "1.5", "double": "1.5"}
OF_TEXT: dict[str, object] = {"boolean": False, "float": 7.0, "double": 7.0}

Reader = Callable[[object, str], object]


def read_item(value: object, kind: str) -> object:
    message = MapMessage({"a": value})
    name = {"byte[]": "bytes", "String": "string"}.get(kind, kind)
    return getattr(message, f"get_{name}")("a")


def read_next(value: object, kind: str) -> object:
    message = StreamMessage([value])
    message.reset()
    name = {"byte[]": "bytes", "String": "string"}.get(kind, kind)
    return getattr(message, f"read_{name}")()


def read_property(value: object, kind: str) -> object:
    message = Message(properties={"a": value})
    return getattr(message, f"get_{kind.lower()}_property")("a")


def expected(kind: str, wanted: str) -> object:
    if wanted == "String":
        return TEXTS.get(kind, "7")
    return OF_TEXT.get(wanted, 7) if kind == "String" else EXPECTED[wanted]


def check(read: Reader, kind: str, wanted: str) -> None:
    if wanted in TABLE[kind]:
        assert read(VALUES[kind], wanted) == expected(kind, wanted)
    else:
        with pytest.raises(MessageFormatException, match="can't be read as"):
            read(VALUES[kind], wanted)


@pytest.mark.parametrize("wanted", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_cell_of_the_table_for_items_of_a_map(kind: str, wanted: str) -> None:
    check(read_item, kind, wanted)


@pytest.mark.parametrize("wanted", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_cell_of_the_table_for_values_of_a_stream(kind: str, wanted: str) -> None:
    check(read_next, kind, wanted)


OF_PROPERTIES = [kind for kind in KINDS if kind not in ("char", "byte[]")]


@pytest.mark.parametrize("wanted", OF_PROPERTIES)
@pytest.mark.parametrize("kind", OF_PROPERTIES)
def test_each_cell_of_the_table_for_properties(kind: str, wanted: str) -> None:
    check(read_property, kind, wanted)


@pytest.mark.parametrize("text", ["seven", "", " 7", "1_0", "٧", "128", "7.0"])
def test_text_that_is_no_byte_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="which is no byte"):
        read_item(text, "byte")


@pytest.mark.parametrize("text", ["one", "1_0.5", ""])
def test_text_that_is_no_number_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="which is no double"):
        read_item(text, "double")


def test_nothing_is_false_and_no_text_and_no_number() -> None:
    message = Message()
    assert message.get_boolean_property("a") is False
    assert message.get_string_property("a") is None
    assert MapMessage().get_bytes("a") is None
    for kind in ("byte", "short", "int", "long", "float", "double"):
        with pytest.raises(ValueError, match="is not there"):
            getattr(message, f"get_{kind}_property")("a")
    with pytest.raises(ValueError, match="is not there"):
        MapMessage().get_char("a")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Float32(0.1), "0.1"),
        (0.1, "0.1"),
        (False, "false"),
    ],
)
def test_text_is_written_as_java_does(value: object, text: str) -> None:
    assert read_item(value, "String") == text


@pytest.mark.parametrize(
    ("value", "wanted", "read"),
    [(types.UByte(255), "short", 255), (types.UShort(65_535), "int", 65_535), (types.UInt(1), "long", 1)],
)
def test_unsigned_numbers_are_the_next_larger_signed_ones(value: object, wanted: str, read: int) -> None:
    assert read_item(value, wanted) == read


@given(st.sampled_from(sorted(RANGES, key=str)), st.integers(-(1 << 65), 1 << 65))
def test_numbers_outside_of_their_type_are_refused(kind: JmsType, value: int) -> None:
    low, high = RANGES[kind]
    if low <= value <= high:
        assert written(value, kind, "a number") == value
    else:
        with pytest.raises(MessageFormatException, match="outside"):
            written(value, kind, "a number")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (JmsType.INT, True),
        (JmsType.INT, "1"),
        (JmsType.DOUBLE, "1"),
        (JmsType.BOOLEAN, 1),
        (JmsType.CHAR, "ab"),
        (JmsType.CHAR, "🚀"),
        (JmsType.STRING, 1),
        (JmsType.BYTES, "a"),
    ],
)
def test_values_of_another_type_are_refused(kind: JmsType, value: object) -> None:
    with pytest.raises(MessageFormatException):
        written(value, kind, "a value")


@pytest.mark.parametrize("value", [object(), {"a": 1}, [1], 1 << 63, types.Described("a", 1)])
def test_objects_of_no_type_of_jms_are_refused(value: object) -> None:
    with pytest.raises(MessageFormatException):
        MapMessage().set_object("a", value)
    with pytest.raises(MessageFormatException):
        StreamMessage().write_object(value)
    with pytest.raises(MessageFormatException):
        Message().set_object_property("a", value)
