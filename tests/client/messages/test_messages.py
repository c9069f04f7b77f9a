"""The messages of JMS: their states, their bodies, properties, headers and ids, and what they are on the
wire.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Byte, Char, Float32, Int, Short, Symbol
from postroom.amqp.message import sections
from postroom.client import (
    BodyKind,
    BytesMessage,
    MapMessage,
    Message,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from postroom.client.messages.message import decode_message, encode_message
from tests.client.messages.travel import travelled

BODIES = [
    (TextMessage("Grüße"), 5),
    (TextMessage(None), 5),
    (BytesMessage(b"\0\xff"), 3),
    (BytesMessage(), 3),
    (MapMessage({"a": Int(1), "b": None, "c": b"x", "d": Char("é")}), 2),
    (MapMessage(), 2),
    (StreamMessage([Byte(1), "two", 3.0, None, b"x"]), 4),
    (StreamMessage(), 4),
    (ObjectMessage([1, {"a": "b"}]), 1),
    (ObjectMessage(), 1),
    (Message(), 0),
]


@pytest.mark.parametrize(("message", "number"), BODIES, ids=lambda value: type(value).__name__)
def test_each_type_says_what_it_is_and_comes_back(message: Message, number: int) -> None:
    received = travelled(message)
    assert type(received) is type(message)
    assert received.body == message.body
    assert received.annotations["x-opt-jms-msg-type"] == number


def plain(body: object, content_type: str | None = None, **annotations: Any) -> Message:
    """A message of a sender that knows nothing of JMS."""
    assert body is None or isinstance(body, sections.Data | sections.Sequence | sections.Value)
    return decode_message(
        sections.Message(
            body=body,
            properties=sections.Properties(content_type=content_type),
            message_annotations={
                Symbol(name.replace("_", "-")): value for name, value in annotations.items()
            },
        ).encode()
    )


DATA = sections.Data([b"gr\xc3\xbc\xc3\x9fe"])


@pytest.mark.parametrize(
    ("body", "content_type", "kind", "value"),
    [
        (sections.Value("a"), None, TextMessage, "a"),
        (sections.Value(None), None, TextMessage, None),
        (sections.Value(b"a"), None, BytesMessage, b"a"),
        (sections.Value({"a": 1}), None, ObjectMessage, {"a": 1}),
        (sections.Value([1]), None, ObjectMessage, [1]),
        (sections.Value(7), None, ObjectMessage, 7),
        (sections.Sequence([[1], [2]]), None, ObjectMessage, [1, 2]),
        (DATA, None, BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "application/octet-stream", BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "image/png", BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "text/plain", TextMessage, "grüße"),
        (DATA, "application/json", TextMessage, "grüße"),
        (DATA, "image/svg+xml; charset=latin-1", TextMessage, "grÃ¼Ã\x9fe"),
        (DATA, 'text/plain;charset="us-ascii"', BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "text/plain;charset=klingon", BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "text/plain;charset=undefined", BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "text/plain;charset=a\0b", BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "text/plain;charset=", BytesMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (DATA, "application/x-java-serialized-object", ObjectMessage, b"gr\xc3\xbc\xc3\x9fe"),
        (None, None, BytesMessage, b""),
        (None, "text/plain", TextMessage, None),
        (None, "image/png", Message, None),
        (None, "application/x-java-serialized-object", ObjectMessage, None),
    ],
)
def test_content_type_and_section_decide_where_the_sender_knows_no_jms(
    body: object, content_type: str | None, kind: type[Message], value: object
) -> None:
    message = plain(body, content_type)
    assert type(message) is kind
    assert message.body == value


@pytest.mark.parametrize(
    ("number", "body", "kind"),
    [
        (2, sections.Value([1]), ObjectMessage),
        (2, sections.Value({1: 2}), ObjectMessage),
        (3, sections.Value("a"), TextMessage),
        (4, sections.Value({"a": 1}), ObjectMessage),
        (4, sections.Value([1]), StreamMessage),
        (5, sections.Value(7), ObjectMessage),
        (5, sections.Data([b"a"]), TextMessage),
        (5, sections.Data([b"\xff"]), BytesMessage),
        (99, sections.Value("a"), TextMessage),
        ("5", sections.Value(7), ObjectMessage),
    ],
)
def test_a_type_that_the_body_does_not_fit_does_not_count(
    number: object, body: object, kind: type[Message]
) -> None:
    record = Byte(number) if isinstance(number, int) else number
    assert type(plain(body, x_opt_jms_msg_type=record)) is kind


def test_objects_of_java_are_refused_and_why() -> None:
    message = plain(sections.Data([b"\xac\xed"]), "application/x-java-serialized-object")
    assert isinstance(message, ObjectMessage)
    for attempt in (message.get_object, lambda: message.get_body(bytes)):
        with pytest.raises(MessageFormatException, match="JMS_AMQP_TYPED_ENCODING"):
            attempt()
    assert message.body == b"\xac\xed"


def test_python_objects_are_not_pickled() -> None:
    with pytest.raises(MessageFormatException):
        encode_message(ObjectMessage(object()), "q")


# --- read-only and write-only


def test_a_received_message_is_read_only_until_it_is_cleared() -> None:
    message = travelled(TextMessage("a", properties={"b": 1}))
    assert isinstance(message, TextMessage) and message.is_body_read_only
    with pytest.raises(MessageNotWriteableException, match="clear_body"):
        message.text = "c"
    with pytest.raises(MessageNotWriteableException, match="clear_properties"):
        message.set_int_property("b", 2)
    with pytest.raises(MessageNotWriteableException, match="clear_properties"):
        message.properties["b"] = 2
    with pytest.raises(MessageNotWriteableException, match="clear_properties"):
        message.properties.update(b=2)
    with pytest.raises(MessageNotWriteableException, match="clear_properties"):
        message.set_string_property("JMSXGroupID", "g")
    message.priority = 7
    message.clear_body()
    assert message.text is None
    message.text = "c"
    message.clear_properties()
    message.set_int_property("b", 2)
    assert (message.text, message.properties) == ("c", {"b": 2})


def test_a_received_map_is_read_only() -> None:
    message = travelled(MapMessage({"a": 1}))
    assert isinstance(message, MapMessage)
    with pytest.raises(MessageNotWriteableException):
        message.set_int("a", 2)
    assert isinstance(message.body, dict)
    message.body["a"] = 2
    assert message.get_long("a") == 1


@pytest.mark.parametrize("message", [BytesMessage(), StreamMessage()])
def test_what_is_written_is_readable_after_reset_only(message: BytesMessage | StreamMessage) -> None:
    message.write_int(7)
    with pytest.raises(MessageNotReadableException, match="reset"):
        message.read_int()
    message.reset()
    assert message.read_int() == 7
    with pytest.raises(MessageNotWriteableException):
        message.write_int(8)
    with pytest.raises(MessageEOFException):
        message.read_int()
    message.reset()
    assert message.read_int() == 7
    message.clear_body()
    with pytest.raises(MessageNotReadableException):
        message.read_int()


@pytest.mark.parametrize("message", [BytesMessage(b"\1"), StreamMessage([Byte(1)])])
def test_sending_makes_a_message_readable(message: BytesMessage | StreamMessage) -> None:
    encode_message(message, "q")
    assert message.read_byte() == 1


# --- bytes


def test_bytes_are_written_as_java_writes_them() -> None:
    message = BytesMessage()
    message.write_boolean(True)
    message.write_byte(-1)
    message.write_short(-2)
    message.write_char("é")
    message.write_int(-3)
    message.write_long(-4)
    message.write_float(1.5)
    message.write_double(2.5)
    message.write_utf("aé\0🚀")
    message.write_bytes(b"end")
    assert isinstance(message.body, bytes)
    assert message.body.hex() == (
        "01" "ff" "fffe" "00e9" "fffffffd" "fffffffffffffffc" "3fc00000" "4004000000000000"
        "000b" "61" "c3a9" "c080" "eda0bdedba80" "656e64"
    )  # fmt: skip
    message.reset()
    assert message.body_length == len(message.body)
    assert (message.read_boolean(), message.read_unsigned_byte()) == (True, 255)
    assert (message.read_unsigned_short(), message.read_char()) == (65_534, "é")
    assert (message.read_int(), message.read_long()) == (-3, -4)
    assert (message.read_float(), message.read_double()) == (1.5, 2.5)
    assert message.read_utf() == "aé\0🚀"
    assert (message.read_bytes(2), message.read_bytes(), message.read_bytes()) == (b"en", b"d", b"")


@given(st.lists(st.booleans() | st.floats(allow_nan=False) | st.text(max_size=20) | st.binary(max_size=20)))
def test_objects_are_written_as_their_types_say(values: list[Any]) -> None:
    message = BytesMessage()
    for value in values:
        message.write_object(value)
    message.reset()
    for value in values:
        if isinstance(value, bool):
            assert message.read_boolean() is value
        elif isinstance(value, float):
            assert message.read_double() == value
        elif isinstance(value, str):
            assert message.read_utf() == value
        else:
            assert message.read_bytes(len(value)) == value


def test_bytes_that_are_refused() -> None:
    message = BytesMessage()
    with pytest.raises(MessageFormatException):
        message.write_byte(128)
    with pytest.raises(MessageFormatException):
        message.write_char("🚀")
    with pytest.raises(MessageFormatException):
        message.write_utf("a" * 65_536)
    with pytest.raises(MessageFormatException):
        message.write_float(1e300)
    for value in ([1], None):
        with pytest.raises(MessageFormatException):
            message.write_object(value)
    with pytest.raises(MessageNotReadableException):
        assert message.body_length


def test_a_read_that_fails_leaves_its_place() -> None:
    message = BytesMessage(b"\0\x05ab")
    message.reset()
    with pytest.raises(MessageFormatException):
        message.read_utf()
    with pytest.raises(MessageEOFException, match="8 bytes are asked for, and 4 are left"):
        message.read_long()
    assert message.read_bytes() == b"\0\x05ab"


# --- stream and map


def test_a_stream_keeps_the_types_of_its_values() -> None:
    message = StreamMessage()
    message.write_boolean(True)
    message.write_byte(1)
    message.write_short(2)
    message.write_char("c")
    message.write_int(3)
    message.write_long(4)
    message.write_float(1.5)
    message.write_double(2.5)
    message.write_string("s")
    message.write_bytes(b"b")
    message.write_object(None)
    received = travelled(message)
    assert isinstance(received, StreamMessage)
    assert [type(value) for value in received.items()] == [
        bool, Byte, Short, Char, Int, int, Float32, float, str, bytes, type(None)
    ]  # fmt: skip
    assert received.read_string() == "true"
    with pytest.raises(MessageFormatException):
        received.read_boolean()
    assert [received.read_long(), received.read_int(), received.read_char()] == [1, 2, "c"]
    assert [received.read_object() for _ in range(4)] == [3, 4, 1.5, 2.5]
    with pytest.raises(ValueError, match="no int"):
        received.read_int()
    assert (received.read_string(), received.read_bytes(), received.read_object()) == ("s", b"b", None)
    with pytest.raises(MessageEOFException):
        received.read_object()


def test_a_map_keeps_the_types_of_its_items() -> None:
    message = MapMessage()
    message.set_boolean("boolean", True)
    message.set_byte("byte", 1)
    message.set_short("short", 2)
    message.set_char("char", "c")
    message.set_int("int", 3)
    message.set_long("long", 4)
    message.set_float("float", 1.5)
    message.set_double("double", 2.5)
    message.set_string("string", "s")
    message.set_bytes("bytes", b"b")
    received = travelled(message)
    assert isinstance(received, MapMessage)
    assert received.names() == message.names()
    assert [type(received.get_object(name)) for name in received.names()] == [
        bool, Byte, Short, Char, Int, int, Float32, float, str, bytes
    ]  # fmt: skip
    assert received.item_exists("int") and not received.item_exists("other")


@pytest.mark.parametrize("name", ["", None, 7])
def test_bad_names_of_items_are_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="name of an item"):
        MapMessage().set_int(name, 1)
    with pytest.raises(ValueError, match="name of an item"):
        MapMessage({name: 1})


@pytest.mark.parametrize(
    ("kind", "body"), [(TextMessage, b"a"), (BytesMessage, "a"), (MapMessage, [1]), (StreamMessage, "a")]
)
def test_a_body_of_another_type_is_refused(kind: type[Message], body: object) -> None:
    with pytest.raises(MessageFormatException, match="the body of a"):
        kind(body)


def test_the_body_is_given_as_the_type_asked_for() -> None:
    assert TextMessage("a").get_body(str) == "a"
    assert BytesMessage(b"a").get_body(bytes) == b"a"
    assert MapMessage({"a": 1}).get_body(dict) == {"a": 1}
    assert ObjectMessage(7).get_body(int) == 7
    assert TextMessage(None).get_body(int) is None
    assert not TextMessage("a").is_body_assignable_to(bytes)
    with pytest.raises(MessageFormatException, match="the body of a TextMessage is no bytes"):
        TextMessage("a").get_body(bytes)


def test_a_plain_message_says_nothing_of_jms() -> None:
    received = travelled(Message({"a": 1}))
    assert received.annotations == {}
    assert (type(received), received.body_kind) == (ObjectMessage, BodyKind.VALUE)


def test_half_a_character_passes_as_in_java() -> None:
    message = BytesMessage()
    message.write_utf("\ud83d")
    message.reset()
    assert message.read_utf() == "\ud83d"
    with pytest.raises(MessageFormatException, match="surrogate"):
        encode_message(TextMessage("\ud83d"), "q")


JMS_VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 7), (1 << 7) - 1).map(Byte)
    | st.integers(-(1 << 15), (1 << 15) - 1).map(Short)
    | st.integers(-(1 << 31), (1 << 31) - 1).map(Int)
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, width=32).map(Float32)
    | st.floats(allow_nan=False)
    | st.characters(max_codepoint=0xD7FF).map(Char)
    | st.text()
    | st.binary()
)


@given(st.lists(JMS_VALUES))
def test_every_value_keeps_its_type_in_a_stream(values: list[object]) -> None:
    message = StreamMessage()
    for value in values:
        message.write_object(value)
    received = travelled(message)
    assert isinstance(received, StreamMessage)
    read = [received.read_object() for _ in values]
    assert [(type(value), value) for value in read] == [(type(value), value) for value in values]


@given(st.dictionaries(st.text(min_size=1), JMS_VALUES))
def test_every_value_keeps_its_type_in_a_map(items: dict[str, object]) -> None:
    message = MapMessage()
    for name, value in items.items():
        message.set_object(name, value)
    received = travelled(message)
    assert isinstance(received, MapMessage)
    assert {name: (type(value), value) for name, value in items.items()} == {
        name: (type(received.get_object(name)), received.get_object(name)) for name in received.names()
    }


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_refused_and_nothing_else(payload: bytes) -> None:
    try:
        message = decode_message(payload)
    except MessageFormatException:
        return
    assert message.is_body_read_only
