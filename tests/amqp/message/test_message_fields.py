"""What selectors see of a stored message."""

from uuid import UUID

import pytest

from postroom.amqp.encoding.types import Byte, Float32, Symbol, UInt
from postroom.amqp.message.message_fields import MessageFields
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Message, Properties
from postroom.model.selector import parse


def fields_of(message: Message, **said: object) -> MessageFields:
    payload = message.encode()
    head = scan_head(payload)
    return MessageFields(head.priority, head.durable, 2, payload[head.bare_offset :], dict(said) or None)


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
