"""What each client sends, as rows of messages tell it: nothing that reads it was written by who wrote it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from postroom.amqp.message.sections import Sequence, Value, decode_message
from postroom.client import BodyKind, ConnectionFactory, Message
from postroom.client.messages.message import encode_message
from postroom.spark.messages.decode import decode
from postroom.spark.messages.schema import MESSAGES_SCHEMA
from tests.clients.broker import BrokerProcess
from tests.clients.cases import CASES, IDS, PROPERTY_CASES
from tests.clients.driver import Client
from tests.clients.jms_messages import SENT
from tests.clients.message_rows import rows_in, sent_by
from tests.clients.value_pairs import received_as_sent
from tests.spark.messages.stored_messages import events, stored

pytestmark = [pytest.mark.sockets, pytest.mark.peer]


def expected(case: dict[str, Any]) -> tuple[str, str]:
    """The type and text of a simple value as the drivers are told it."""
    ((kind, given),) = case.items()
    if kind == "boolean":
        return kind, "true" if given else "false"
    if kind in ("float", "double"):
        return kind, FLOATS[given]
    if kind in ("binary", "decimal32", "decimal64", "decimal128"):
        return kind, b64encode(bytes.fromhex(given)).decode()
    if kind == "timestamp":
        return kind, TIMES.get(given, given)
    return kind, chr(int(given)) if kind == "char" else given


FLOATS = {"bfc00000": "-1.5", "7f800000": "Infinity", "3fb999999999999a": "0.1", "8000000000000000": "-0"}
TIMES = {"1700000000123": "2023-11-14T22:13:20.123Z", "-1": "1969-12-31T23:59:59.999Z"}


def test_every_simple_type_is_told_as_an_application_property(
    client: Client, broker: BrokerProcess, queue: str
) -> None:
    cases = sent_by(client, PROPERTY_CASES)
    properties = [[f"p{number}", case.typed] for number, case in enumerate(cases)]
    client.send_accepted(
        queue, {"durable": True, "properties": properties, "body": {"value": {"string": "ä"}}}
    )
    (row,) = rows_in(broker, queue, 1)
    fields = {key: (entry["type"], entry["value"]) for key, entry in row["application_properties"]}
    assert fields == {name: expected(case) for name, case in properties}
    assert (row["body_type"], row["text"], row["jms_type"]) == ("string", "ä", "text")


def test_every_type_is_told_as_a_body(
    client: Client, connected: Callable[[str], Client], broker: BrokerProcess, queue: str
) -> None:
    """What stands in `body` is sent on as it is, and comes out as what was sent."""
    cases = [case for case in sent_by(client, CASES) if "proton" not in case.not_seen_by]
    client.send_accepted(queue, *({"durable": True, "body": case.body} for case in cases))
    rows = rows_in(broker, queue, len(cases))
    connected("proton").receive(queue, len(cases))
    factory = ConnectionFactory(broker.url)
    with factory.create_connection() as connection, connection.create_session() as session:
        producer = session.create_producer(queue)
        for row in rows:
            producer.send(again(row))
    record = connected("proton").receive(queue, len(cases))
    for case, message in zip(cases, record, strict=True):
        assert received_as_sent(case.body, message["body"]), case.name


def again(row: dict[str, Any]) -> Message:
    """The body of a row as a message."""
    assert row["body_type"] in ("string", "value", "sequence")
    if row["body_type"] == "string":
        return Message(row["text"])
    json.loads(row["text"])
    body = decode_message(row["body"]).body
    assert isinstance(body, Value | Sequence)
    if isinstance(body, Value):
        return Message(body.value, body_kind=BodyKind.VALUE)
    return Message(body.lists[0], body_kind=BodyKind.SEQUENCE)


@pytest.mark.parametrize("given", IDS, ids=lambda given: next(iter(given)))
def test_every_kind_of_id_is_told(
    given: dict[str, Any], client: Client, broker: BrokerProcess, queue: str
) -> None:
    client.send_accepted(queue, {"durable": True, "correlation_id": given, "body": {"data": {"hex": "00ff"}}})
    (row,) = rows_in(broker, queue, 1)
    assert (row["correlation_id_type"], row["correlation_id"]) == expected(given)
    assert (row["body_type"], row["body"], row["jms_type"]) == ("data", b"\x00\xff", "bytes")


PROPERTIES = {
    "subject": "about",
    "reply_to": "answers",
    "group_id": "g",
    "group_sequence": 7,
    "priority": 7,
    "durable": True,
}


def test_header_and_properties_are_told(client: Client, broker: BrokerProcess, queue: str) -> None:
    client.send_accepted(queue, {**PROPERTIES, "ttl_ms": 60_000, "body": {"value": {"string": ""}}})
    (row,) = rows_in(broker, queue, 1)
    assert {name: row[name] for name in PROPERTIES} == PROPERTIES
    assert 50_000 < row["ttl_ms"] <= 60_000  # what an absolute expiry leaves of it


KINDS = [
    (name, message, record.split()[0]) for name, message, record in SENT if "Message" in record.split()[0]
]


@pytest.mark.parametrize(("name", "message", "text"), KINDS, ids=[name for name, *_ in KINDS])
def test_the_jms_type_is_what_qpid_jms_says_of_the_message(name: str, message: Message, text: str) -> None:
    """What it says is checked with Qpid JMS itself where these messages are sent to it."""
    schema = pa.schema([MESSAGES_SCHEMA.field("jms_type")])
    (row,) = decode(stored([encode_message(message)]), events(1), schema).to_pylist()
    assert row["jms_type"] == (text.removesuffix("Message").lower() or "message")
