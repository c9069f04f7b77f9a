"""What selectors see of a stored message."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Byte, Float32, Int, Symbol, UByte, UInt, ULong
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Message, Properties
from postroom.model.selector import parse
from postroom.model.selector.expressions import kind_of


def fields_of(message: Message, **options: object) -> MessageFields:
    payload = message.encode()
    head = scan_head(payload)
    return MessageFields(head.priority, head.durable, 2, payload[head.bare_offset :], dict(options) or None)


MESSAGE = Message(
    message_annotations={Symbol("x-opt-lane"): "left"},
    properties=Properties(
        message_id="ID:1",
        user_id=b"ann",
        subject="car",
        reply_to="answers",
        correlation_id="c1",
        content_type="text/plain",
        creation_time=1_700_000_000_123,
        group_id="g",
        group_sequence=0xFFFF_FFFF,
    ),
    application_properties={
        "color": "blue",
        "weight": 2501,
        "small": Byte(-3),
        "ratio": Float32(0.5),
        "count": UInt(7),
        "fresh": True,
        "raw": b"x",
    },
    body=Data([b"body"]),
)


@pytest.mark.parametrize(
    "text",
    [
        "JMSMessageID = 'ID:1' AND JMSCorrelationID = 'c1' AND JMSType = 'car'",
        "JMSTimestamp = 1700000000123 AND JMSPriority = 4 AND JMSDeliveryMode = 'NON_PERSISTENT'",
        "JMSXGroupID = 'g' AND JMSXGroupSeq = -1 AND JMSXUserID = 'ann' AND JMSXDeliveryCount = 3",
        "color = 'blue' AND weight > 2500 AND small = -3 AND ratio = 0.5 AND count = 7 AND fresh",
        "raw IS NOT NULL AND NOT (raw = 'x') AND missing IS NULL",
        "amqp.reply_to = 'answers' AND amqp.subject = 'car' AND amqp.content_type = 'text/plain'",
        "\"amqp.message_id\" = 'ID:1' AND amqp.delivery_count = 2 AND NOT amqp.durable AND amqp.to IS NULL",
        "\"amqp.annotation.x-opt-lane\" = 'left' AND amqp.user_id = 'ann'",
        "amqp.group_sequence = 4294967295",
    ],
)
def test_every_name(text: str) -> None:
    assert parse(text).matches(fields_of(MESSAGE))


def test_outcomes_change_annotations() -> None:
    changed = fields_of(MESSAGE, **{"x-opt-lane": "right"})
    assert parse("\"amqp.annotation.x-opt-lane\" = 'right'").matches(changed)


@pytest.mark.parametrize(
    ("message_id", "seen"),
    [
        ("ID:abc", "ID:abc"),
        ("abc", "ID:AMQP_NO_PREFIX:abc"),
        ("ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x"),
        (5, "ID:AMQP_ULONG:5"),
        (b"\x0a\xff", "ID:AMQP_BINARY:0AFF"),
        (UUID(int=1), f"ID:AMQP_UUID:{UUID(int=1)}"),
    ],
)
def test_message_ids_are_those_that_qpid_jms_shows(message_id: object, seen: str) -> None:
    message = Message(properties=Properties(message_id=message_id), body=Data([b""]))  # type: ignore[arg-type]
    assert fields_of(message).value("JMSMessageID") == seen


def test_a_message_without_sections_has_no_fields() -> None:
    fields = fields_of(Message(body=Data([b""])))
    assert all(fields.value(name) is None for name in ("JMSType", "JMSXGroupID", "color", "amqp.subject"))


def test_sections_that_cannot_be_decoded_have_no_fields() -> None:
    payload = MESSAGE.encode()
    for cut in range(len(payload)):
        MessageFields(4, True, 0, payload[:cut], None).value("color")
    assert MessageFields(4, True, 0, b"\xff" * 20, None).value("color") is None


GROUPS = [
    Properties(),
    Properties(group_id="g"),
    Properties(group_id="g", group_sequence=0),
    Properties(group_id="g", group_sequence=200, reply_to_group_id="h"),
    Properties(group_id="", group_sequence=0x7FFF_FFFF),
    Properties(group_id="Grüße", group_sequence=0xFFFF_FFFF),
    Properties(message_id=ULong(7), correlation_id=ULong(1 << 40), group_id="g", group_sequence=70_000),
    Properties(message_id=UUID(int=3), user_id=b"\xff", content_type=Symbol("text/plain"), group_id="g"),
    Properties(message_id="x" * 300, group_id="g" * 300, group_sequence=1),
    Properties(subject="Grüße", absolute_expiry_time=5, creation_time=6, group_id="g"),
]


def known_group(sections: bytes) -> tuple[bytes, int]:
    """As the selectors' names have it, each property decoded."""
    fields = MessageFields(4, False, 0, sections, None)
    return fields.group_id().encode(), int(fields.group_sequence())


@pytest.mark.parametrize("properties", GROUPS)
def test_the_group_alone_is_that_of_the_properties(properties: Properties) -> None:
    sections = Message(
        message_annotations={Symbol("x-opt-lane"): "left"}, properties=properties, body=Data([b"body"])
    ).encode()
    expected = (properties.group_id or "").encode(), properties.group_sequence or 0
    group = MessageFields(4, False, 0, sections, None).group()
    assert group == known_group(sections)
    assert group == (expected[0], expected[1] - (1 << 32 if expected[1] >> 31 else 0))


@pytest.mark.parametrize("properties", GROUPS)
def test_of_damaged_properties_the_group_alone_is_as_of_all(properties: Properties) -> None:
    sections = Message(properties=properties).encode()
    for at in range(len(sections)):
        for byte in (0, 0x40, 0x43, 0x52, 0x70, 0xA1, 0xB1, 0xC0, 0xFF):
            damaged = sections[:at] + bytes([byte]) + sections[at + 1 :]
            assert MessageFields(4, False, 0, damaged, None).group() == known_group(damaged)
        short = sections[:at]
        assert MessageFields(4, False, 0, short, None).group() == known_group(short)


def test_a_message_without_properties_is_in_no_group() -> None:
    sections = Message(body=Data([b"body"])).encode()
    assert MessageFields(4, False, 0, sections, None).group() == (b"", 0)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1).map(Int),
    st.integers(0, 255).map(UByte),
    st.integers(0, (1 << 32) - 1).map(UInt),
    st.integers(0, (1 << 64) - 1).map(ULong),
    st.floats(allow_nan=False),
    st.text(max_size=300),
    st.binary(max_size=20),
    st.uuids(),
)
NAMES = st.sampled_from(["a", "b", "color", "größe", "JMSX", ""])


@given(st.dictionaries(NAMES, VALUES, max_size=12), NAMES, st.data())
def test_a_property_read_by_itself_is_what_all_together_have(
    properties: dict[str, object], name: str, data: st.DataObject
) -> None:
    """Also where bytes of the sections are others than they should be."""
    sections = bytearray(Message(application_properties=properties, body=Data([b""])).encode())
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(sections) - 1))
        sections[at] = data.draw(st.integers(0, 255))
    alone, together = (MessageFields(4, True, 0, bytes(sections), None) for _ in "ab")
    expected = together.application().get(name)
    found = alone.property_value(name, name.encode())
    assert found == expected or (expected is not None and expected != expected)
    assert kind_of(found) == kind_of(expected)
