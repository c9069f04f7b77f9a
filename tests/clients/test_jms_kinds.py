"""Every type of message of JMS, with every type of value, between Qpid JMS and our client, both ways."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from postroom.client import (
    BytesMessage,
    ConnectionFactory,
    MapMessage,
    Message,
    MessageFormatException,
    ObjectMessage,
    StreamMessage,
    TemporaryQueue,
    TemporaryTopic,
    TextMessage,
    Topic,
)
from tests.clients.broker import BrokerProcess
from tests.clients.driver import jms_findings
from tests.clients.jms_messages import ITEMS, NAMES, PROPERTIES, SENT, VALUES

pytestmark = [pytest.mark.sockets, pytest.mark.peer]


RECEIVED = 15
"""Messages that the program sends."""


@pytest.fixture(scope="module")
def exchanged(broker: BrokerProcess) -> Iterator[tuple[dict[str, str], list[Message]]]:
    """What the Java program says of our messages, and its own."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer("kinds.to.java")
        for name, message, _ in SENT:
            message.subject = name
            producer.send(message)
        producer.send(Message(subject="end"))
        findings = jms_findings("Kinds", f"{broker.host}:{broker.port}")
        consumer = session.create_consumer("kinds.to.python")
        received = [consumer.receive(10) for _ in range(RECEIVED)]
        yield findings, [message for message in received if message is not None]


Exchanged = tuple[dict[str, str], list[Message]]


@pytest.mark.parametrize(("name", "expected"), [(name, expected) for name, _, expected in SENT])
def test_qpid_jms_reads_what_we_send(exchanged: Exchanged, name: str, expected: str) -> None:
    assert exchanged[0][name] == expected


def test_we_read_plain_and_text_messages_of_qpid_jms(exchanged: Exchanged) -> None:
    plain, text, no_text = exchanged[1][:3]
    assert type(plain) is Message and plain.body is None
    assert isinstance(text, TextMessage) and text.text == "Grüße 🚀"
    assert isinstance(no_text, TextMessage) and no_text.text is None


def test_we_read_bytes_of_qpid_jms(exchanged: Exchanged) -> None:
    message = exchanged[1][3]
    assert isinstance(message, BytesMessage)
    assert (message.read_boolean(), message.read_byte(), message.read_short()) == (True, -1, -2)
    assert (message.read_char(), message.read_int(), message.read_long()) == ("é", -3, -4)
    assert (message.read_float(), message.read_double(), message.read_utf()) == (1.5, 2.5, "aé\0🚀")
    assert message.read_bytes() == b"\0\xff"


def test_we_read_maps_and_streams_of_qpid_jms(exchanged: Exchanged) -> None:
    mapped, stream = exchanged[1][4:6]
    assert isinstance(mapped, MapMessage) and isinstance(stream, StreamMessage)
    assert mapped.body == ITEMS
    assert {name: type(mapped.get_object(name)) for name in NAMES} == {
        name: type(value) for name, value in ITEMS.items()
    }
    assert stream.items() == VALUES
    assert [type(value) for value in stream.items()] == [type(value) for value in VALUES]


def test_we_read_objects_of_qpid_jms_by_their_amqp_types_only(exchanged: Exchanged) -> None:
    typed, serialised, nothing = exchanged[1][6:9]
    assert isinstance(typed, ObjectMessage) and isinstance(serialised, ObjectMessage)
    assert typed.get_object() == {"numbers": [1, 2]}
    with pytest.raises(MessageFormatException, match="serialised by Java"):
        serialised.get_object()
    assert isinstance(nothing, ObjectMessage)


def test_we_read_properties_of_qpid_jms(exchanged: Exchanged) -> None:
    message = exchanged[1][9]
    assert dict(message.properties) == PROPERTIES
    assert {name: type(value) for name, value in message.properties.items()} == {
        name: type(value) for name, value in PROPERTIES.items()
    }


def test_we_read_headers_of_qpid_jms(exchanged: Exchanged) -> None:
    message = exchanged[1][10]
    assert message.correlation_id == uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    assert (message.subject, message.group_id, message.group_sequence) == ("greeting", "g", 3)
    assert message.destination == "kinds.to.python"
    assert message.jms_message_id is not None and message.jms_message_id.startswith("ID:")


def test_we_read_what_destinations_of_qpid_jms_are(exchanged: Exchanged) -> None:
    queue, topic, temporary_queue, temporary_topic = (message.reply_to for message in exchanged[1][11:])
    assert (queue, topic) == ("replies", Topic("replies"))
    assert isinstance(temporary_queue, TemporaryQueue)
    assert isinstance(temporary_topic, TemporaryTopic)
