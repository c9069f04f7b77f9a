"""Headers of messages: properties, ids, destinations, and what a producer sets."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.amqp.encoding.types import Byte, Float32, Int, Short
from postroom.client import (
    DeliveryMode,
    JMSException,
    Message,
    MessageFormatException,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    TextMessage,
    Topic,
)
from postroom.client.messages.message import decode_message, encode_message
from postroom.client.messages.message_ids import id_of_jms, jms_correlation_id, jms_message_id
from postroom.client.messages.send_headers import SendOptions
from tests.client.messages.travel import travelled

# --- properties


def test_properties_keep_their_types() -> None:
    message = TextMessage("a")
    message.set_boolean_property("boolean", True)
    message.set_byte_property("byte", 1)
    message.set_short_property("short", 2)
    message.set_int_property("int", 3)
    message.set_long_property("long", 4)
    message.set_float_property("float", 1.5)
    message.set_double_property("double", 2.5)
    message.set_string_property("string", "s")
    message.set_object_property("object", Int(5))
    received = travelled(message)
    assert [type(value) for value in received.properties.values()] == [
        bool, Byte, Short, Int, int, Float32, float, str, Int
    ]  # fmt: skip
    assert received.property_exists("int") and not received.property_exists("other")
    assert received.property_names() == ["JMSXDeliveryCount", *message.properties]


@pytest.mark.parametrize("name", ["", "1a", "a b", "a-b", "NULL", "between", "Not"])
def test_bad_names_of_properties_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of a property"):
        Message().set_int_property(name, 1)


@pytest.mark.parametrize("name", ["a", "_a", "$a", "JMS_a", "größe1"])
def test_good_names_of_properties(name: str) -> None:
    message = Message()
    message.set_int_property(name, 1)
    assert message.get_int_property(name) == 1


def test_properties_that_live_elsewhere() -> None:
    message = TextMessage("a")
    message.set_string_property("JMSXGroupID", "g")
    message.set_int_property("JMSXGroupSeq", 3)
    message.set_string_property("JMSXUserID", "ann")
    assert (message.group_id, message.group_sequence, message.user_id) == ("g", 3, b"ann")
    received = replace(travelled(message), delivery_count=1)
    assert received.property_names() == ["JMSXGroupID", "JMSXGroupSeq", "JMSXUserID", "JMSXDeliveryCount"]
    assert received.get_int_property("JMSXDeliveryCount") == 2
    assert received.get_string_property("JMSXGroupSeq") == "3"
    with pytest.raises(MessageFormatException, match="can't be set"):
        message.set_int_property("JMSXDeliveryCount", 2)
    message.clear_properties()
    assert message.property_names() == ["JMSXDeliveryCount"]


# --- ids and destinations


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ID:7", "ID:7"),
        ("order-7", "ID:AMQP_NO_PREFIX:order-7"),
        (uuid.UUID(int=7), "ID:AMQP_UUID:00000000-0000-0000-0000-000000000007"),
        (7, "ID:AMQP_ULONG:7"),
        (b"\0\xff", "ID:AMQP_BINARY:00FF"),
        ("ID:AMQP_ULONG:7", "ID:AMQP_STRING:ID:AMQP_ULONG:7"),
        (None, None),
    ],
)
def test_ids_of_every_type_are_text_to_jms(value: Any, text: str | None) -> None:
    assert jms_message_id(value) == text
    assert id_of_jms(text) == value
    assert TextMessage("a", message_id=value).jms_message_id == text


def test_a_correlation_id_of_the_application_stays_as_it_is() -> None:
    assert jms_correlation_id("order-7") == "order-7"
    message = TextMessage("a")
    message.jms_correlation_id = "ID:AMQP_ULONG:7"
    assert message.correlation_id == 7
    assert message.jms_correlation_id == "ID:AMQP_ULONG:7"


@given(st.text() | st.integers(0, (1 << 64) - 1) | st.uuids() | st.binary())
def test_every_id_comes_back(value: Any) -> None:
    assert id_of_jms(jms_message_id(value)) == value
    assert id_of_jms(jms_correlation_id(value)) == value


@pytest.mark.parametrize(
    "text", ["ID:AMQP_UUID:7", "ID:AMQP_ULONG:x", f"ID:AMQP_ULONG:{1 << 64}", "ID:AMQP_BINARY:0"]
)
def test_ids_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(JMSException, match="is no id"):
        TextMessage("a").jms_correlation_id = text


@pytest.mark.parametrize(
    ("where", "number", "read"),
    [
        ("q", 0, "q"),
        (Queue("q"), 0, "q"),
        (Topic("t"), 1, Topic("t")),
        (TemporaryQueue("q"), 2, TemporaryQueue("q")),
        (TemporaryTopic("t"), 3, TemporaryTopic("t")),
    ],
)
def test_destinations_say_what_they_are(where: Any, number: int, read: Any) -> None:
    message = decode_message(encode_message(TextMessage("a", reply_to=where), where))
    assert message.annotations["x-opt-jms-dest"] == number
    assert message.annotations["x-opt-jms-reply-to"] == number
    assert (message.destination, message.reply_to) == (read, read)


def test_a_destination_that_says_nothing_is_as_the_one_it_came_from() -> None:
    payload = encode_message(Message("a", reply_to="r"), "t")
    message = decode_message(payload, source=Topic("t"))
    assert (message.destination, message.reply_to) == (Topic("t"), Topic("r"))


# --- what a producer sets


def test_a_producer_sets_id_time_and_expiration_anew_each_time() -> None:
    message = TextMessage("a", ttl_ms=1_000)
    encode_message(message, "q")
    first = message.message_id
    assert message.timestamp_ms is not None and message.expiration_ms == message.timestamp_ms + 1_000
    assert isinstance(first, str) and first.startswith("ID:")
    encode_message(message, "q", SendOptions(ttl_ms=0))
    assert message.message_id != first
    assert message.destination == "q"
    assert travelled(replace(message, ttl_ms=0, expiration_ms=None)).expiration_ms is None


def test_what_the_application_chose_stays() -> None:
    message = TextMessage("a", message_id="mine", timestamp_ms=1, expiration_ms=2)
    encode_message(message, "q", defaults=SendOptions(ttl_ms=5, disable_message_id=True))
    assert (message.message_id, message.timestamp_ms, message.expiration_ms) == ("mine", 1, 2)


def test_a_received_message_sent_on_gets_an_id_of_its_own() -> None:
    received = travelled(TextMessage("a", priority=7, durable=False))
    first = received.message_id
    encode_message(received, "other")
    assert received.message_id != first
    assert (received.destination, received.priority, received.durable) == ("other", 7, False)


@pytest.mark.parametrize(
    ("message", "options", "defaults", "expected"),
    [
        (TextMessage("a"), {}, {}, (2, 4)),
        (TextMessage("a"), {}, {"delivery_mode": DeliveryMode.NON_PERSISTENT, "priority": 0}, (1, 0)),
        (TextMessage("a", durable=False, priority=9), {}, {"priority": 0}, (1, 9)),
        (TextMessage("a", durable=False, priority=9), {"priority": 3}, {"priority": 0}, (1, 3)),
        (
            TextMessage("a", durable=False),
            {"delivery_mode": DeliveryMode.PERSISTENT},
            {"delivery_mode": DeliveryMode.NON_PERSISTENT},
            (2, 4),
        ),
    ],
)
def test_call_before_message_before_producer(
    message: Message, options: dict[str, Any], defaults: dict[str, Any], expected: tuple[int, int]
) -> None:
    encode_message(message, "q", SendOptions(**options), SendOptions(**defaults))
    assert (message.delivery_mode, message.priority) == expected


def test_the_next_producer_sets_what_the_one_before_set() -> None:
    message = TextMessage("a")
    encode_message(message, "q", defaults=SendOptions(priority=7, delivery_delay_ms=1_000))
    assert message.priority == 7 and message.delivery_time_ms is not None
    encode_message(message, "q")
    assert message.priority == 4 and message.delivery_time_ms is None


def test_times_of_the_producer() -> None:
    message = TextMessage("a")
    received = decode_message(
        encode_message(message, "q", defaults=SendOptions(ttl_ms=5_000, delivery_delay_ms=1_000))
    )
    assert received.ttl_ms == 5_000 and received.timestamp_ms is not None
    assert received.delivery_time_ms == received.timestamp_ms + 1_000
    own = TextMessage("a", ttl_ms=0, delivery_delay_ms=0)
    encode_message(own, "q", defaults=SendOptions(ttl_ms=5_000, delivery_delay_ms=1_000))
    assert own.expiration_ms is None and own.delivery_time_ms is None


def test_id_and_timestamp_can_be_left_out() -> None:
    message = TextMessage("a")
    defaults = SendOptions(disable_message_id=True, disable_message_timestamp=True)
    received = decode_message(encode_message(message, "q", defaults=defaults))
    assert received.message_id is None and received.timestamp_ms is None


@pytest.mark.parametrize(
    "options", [{"priority": 10}, {"priority": -1}, {"ttl_ms": -1}, {"delivery_delay_ms": -1}]
)
def test_bad_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(MessageFormatException):
        SendOptions(**options).check()  # type: ignore[arg-type]


def test_a_time_to_live_that_no_header_holds_is_an_expiration() -> None:
    """A header holds 49 days."""
    received = travelled(TextMessage("a", ttl_ms=1 << 40))
    assert received.ttl_ms is None
    assert received.timestamp_ms is not None and received.expiration_ms == received.timestamp_ms + (1 << 40)


@pytest.mark.parametrize("where", [7, b"q", object()])
def test_what_is_no_destination_is_refused(where: Any) -> None:
    with pytest.raises(MessageFormatException, match="a destination is"):
        encode_message(TextMessage("a", reply_to=where), "q")


def test_a_property_without_a_name_is_refused() -> None:
    names: dict[Any, object] = {7: "seven"}
    with pytest.raises(MessageFormatException, match="the name of a property"):
        encode_message(TextMessage("a", properties=names), "q")
