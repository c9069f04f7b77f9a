"""Addresses of brokers, and messages to bytes and back."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from postroom.amqp.encoding import types
from postroom.amqp.encoding.codec import encode
from postroom.client import BodyKind, Message, MessageFormatException, ObjectMessage
from postroom.client.connection.url import BrokerUrl
from postroom.client.messages.message import decode_message, encode_message


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://example.org", BrokerUrl(host="example.org")),
        ("example.org:5673", BrokerUrl(host="example.org", port=5673)),
        ("amqp://[::1]:5673/", BrokerUrl(host="::1", port=5673)),
        ("amqp://ann:s%40fe@host", BrokerUrl(host="host", user="ann", password="s@fe")),
        ("amqps://host", BrokerUrl(host="host", port=5671, tls=True)),
        ("amqp://ann@host", BrokerUrl(host="host", user="ann", password="")),
    ],
)
def test_a_url_is_read(url: str, expected: BrokerUrl) -> None:
    assert BrokerUrl.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("http://host", "scheme 'http'"),
        ("amqp://", "no host"),
        ("amqp://host:port", "port"),
        ("amqp://host:70000", "port"),
        ("amqp://host/queue", "no path"),
    ],
)
def test_a_bad_url_says_which_part_is_wrong(url: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        BrokerUrl.parse(url)


def test_the_password_is_in_no_text() -> None:
    assert "secret" not in str(BrokerUrl.parse("amqp://ann:secret@host"))
    with pytest.raises(ValueError, match="scheme") as raised:
        BrokerUrl.parse("http://ann:secret@host")
    assert "secret" not in str(raised.value)


FULL = ObjectMessage(
    {"a": types.Int(1), "b": [None, True]},
    properties={"colour": "green", "weight": types.Int(3)},
    durable=True,
    priority=9,
    ttl_ms=5_000,
    message_id=uuid.UUID(int=7),
    correlation_id=7,
    destination="orders",
    reply_to="answers",
    subject="greeting",
    user_id=b"ann",
    content_type="text/plain",
    content_encoding="gzip",
    expiration_ms=1_700_000_000_000,
    timestamp_ms=1_600_000_000_000,
    group_id="g",
    group_sequence=3,
    reply_to_group_id="h",
    annotations={
        "x-opt-a": "b",
        "x-opt-jms-msg-type": types.Byte(1),
        "x-opt-jms-dest": types.Byte(0),
        "x-opt-jms-reply-to": types.Byte(0),
    },
    delivery_annotations={"x-opt-c": "d"},
    footer={"x-opt-e": "f"},
    body_kind=BodyKind.VALUE,
)


def test_every_field_survives() -> None:
    assert decode_message(encode_message(FULL, None)) == FULL


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\x00\xff", BodyKind.DATA),
        ("text", BodyKind.VALUE),
        (None, BodyKind.VALUE),
        ([1, "two"], BodyKind.VALUE),
        (b"as a value", BodyKind.VALUE),
        ([types.UInt(1), ["two"]], BodyKind.SEQUENCE),
    ],
)
def test_every_kind_of_body_survives(body: object, kind: BodyKind) -> None:
    decoded = decode_message(encode_message(Message(body, body_kind=kind), None))
    assert (decoded.body, decoded.body_kind) == (body, kind)


def test_bytes_are_data_and_all_else_a_value_where_nothing_is_said() -> None:
    assert decode_message(encode_message(Message(bytearray(b"x")), None)).body_kind is BodyKind.DATA
    assert decode_message(encode_message(Message(1.5), None)).body_kind is BodyKind.VALUE


def test_several_data_sections_are_one_run_of_bytes() -> None:
    sections = [types.Described(types.ULong(0x75), part) for part in (b"ab", b"", b"cd")]
    assert decode_message(b"".join(encode(section) for section in sections)).body == b"abcd"


def test_what_is_missing_is_made() -> None:
    first = decode_message(encode_message(Message("a", ttl_ms=1_000), "orders"))
    second = decode_message(encode_message(Message("a"), "orders"))
    assert isinstance(first.message_id, str) and first.message_id.startswith("ID:")
    assert first.message_id != second.message_id
    assert first.destination == "orders"
    assert first.timestamp_ms is not None and first.expiration_ms == first.timestamp_ms + 1_000
    assert second.expiration_ms is None


@pytest.mark.parametrize(
    "message",
    [
        Message(object()),
        Message(2**70),
        Message("a", priority=300),
        Message("a", properties={"list": []}),
        Message("a", ttl_ms=-1),
        Message("text", body_kind=BodyKind.DATA),
        Message("text", body_kind=BodyKind.SEQUENCE),
        Message("a", content_type="übel"),
    ],
)
def test_what_amqp_can_not_say_is_refused(message: Message) -> None:
    with pytest.raises(MessageFormatException):
        encode_message(message, None)


@pytest.mark.parametrize(
    "payload", [b"\x00", b"plain", encode("no section"), encode_message(FULL, None)[:-3]]
)
def test_bytes_that_are_no_message_are_refused(payload: bytes) -> None:
    with pytest.raises(MessageFormatException):
        decode_message(payload)


def test_time_to_deliver_is_an_absolute_annotation() -> None:
    sent = decode_message(encode_message(Message("a", delivery_delay_ms=5_000), "orders"))
    assert sent.timestamp_ms is not None and sent.delivery_time_ms == sent.timestamp_ms + 5_000
    assert decode_message(encode_message(Message("a", delivery_delay_ms=0), None)).delivery_time_ms is None


@pytest.mark.parametrize("name", ["ttl_ms", "delivery_delay_ms"])
def test_negative_times_are_refused(name: str) -> None:
    message = Message("a")
    setattr(message, name, -1)
    with pytest.raises(MessageFormatException, match=f"{name} of a message is -1"):
        encode_message(message, None)


def test_redelivered_is_a_count_above_zero() -> None:
    assert not FULL.redelivered
    assert replace(FULL, delivery_count=1).redelivered
