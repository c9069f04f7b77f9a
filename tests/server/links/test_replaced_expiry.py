"""Messages that live longer than their properties say: dead letters, redirected ones, those of destinations
that say how long messages live. Whoever gets them sees when they expire now, not when they would have."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from postroom.amqp.encoding.types import Symbol, Timestamp
from postroom.amqp.message.rewrite import with_expiry
from postroom.amqp.message.sections import Message as AmqpMessage
from postroom.amqp.message.sections import Properties, Value, decode_message
from postroom.cli import main
from postroom.client import AcknowledgeMode, ConnectionFactory, Message, Topic
from postroom.model import numbers as n
from postroom.server.configuration.config import QueueConfig, QueueManagerConfig, TopicConfig
from postroom.spark.messages.decode import decode
from postroom.spark.messages.schema import MESSAGES_SCHEMA
from postroom.spark.places.uris import place_of
from tests.server.client_messages import depth, send, taken
from tests.server.harness import BrokerThread, make_config
from tests.spark.messages.stored_messages import events

pytestmark = pytest.mark.sockets

ORIGINAL = "x-opt-original-expiry-time"
LONG_MS = 3_600_000
PAST_MS = 1_500_000_000_000


def config():
    queues = [
        QueueConfig(name="short", expiration_policy="redirect", expiry_queue="late"),
        QueueConfig(name="late"),
        QueueConfig(name="failing", dead_letter_queue="dead", redelivery_limit=0),
        QueueConfig(name="dead"),
        QueueConfig(name="brief", dead_letter_queue="minute"),
        QueueConfig(name="minute", ttl_override_ms=LONG_MS),
        QueueConfig(name="ever", ttl_override_ms=0),
        QueueConfig(name="deaf", respect_ttl=False),
        QueueConfig(name="plain"),
        QueueConfig(name="THERE", usage="transmission"),
    ]
    topics = [TopicConfig(name="news", ttl_override_ms=0)]
    return make_config(
        queue=queues,
        topic=topics,
        container_id="HERE",
        queue_manager=QueueManagerConfig(dead_letter_queue="dead"),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(folder: Path) -> Iterator[BrokerThread]:
    with BrokerThread(config(), folder=folder) as running:
        yield running


def lasting(body: str) -> Message:
    """Persistent; its time is over in an hour."""
    return Message(body, ttl_ms=LONG_MS, durable=True)


def bygone(body: str) -> Message:
    """Its producer says that its time was over long ago."""
    return Message(body, expiration_ms=PAST_MS, durable=True)


def redirect(broker: BrokerThread, *messages: Message) -> None:
    send(broker, "short", *messages)
    broker.wait_until(lambda broker: broker.manager.queues["late"].statistics.depth == len(messages))


def reject(broker: BrokerThread, queue: str) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(queue)
        message = consumer.receive(5)
        assert message is not None
        consumer.reject(message)


def shell(broker: BrokerThread, *arguments: str) -> str:
    result = CliRunner().invoke(main, [*arguments, "--url", broker.url])
    assert result.exit_code == 0, result.output
    return result.stdout


def assert_is_ageless(message: Message, original_ms: int | None = None) -> None:
    """Neither header nor properties say when it expires; the annotation says when it would have."""
    assert (message.expiration_ms, message.ttl_ms) == (None, None)
    found = message.annotations[ORIGINAL]
    assert isinstance(found, Timestamp)
    assert found == original_ms if original_ms is not None else found > PAST_MS


@pytest.mark.parametrize("durable", [True, False])
def test_a_redirected_message_is_consumed(broker: BrokerThread, durable: bool) -> None:
    redirect(broker, Message("a", ttl_ms=1, durable=durable, properties={"n": 5}))
    message = taken(broker, "late")
    assert (message.body, dict(message.properties), message.delivery_count) == ("a", {"n": 5}, 0)
    assert_is_ageless(message)
    assert depth(broker, "late") == 0


def test_a_redirected_message_is_consumed_after_a_restart(folder: Path) -> None:
    with BrokerThread(config(), folder=folder) as broker:
        redirect(broker, *(Message(str(n), ttl_ms=1, durable=True) for n in range(3)))
    with BrokerThread(config(), folder=folder) as broker:
        assert_is_ageless(taken(broker, "late"))
    with BrokerThread(config(), folder=folder) as broker:
        assert_is_ageless(taken(broker, "late"))
        shell(broker, "get", "late")
        assert depth(broker, "late") == 0


def test_the_command_line_takes_it(broker: BrokerThread) -> None:
    redirect(broker, Message("a", ttl_ms=1), Message("b", ttl_ms=1))
    (seen,) = [
        json.loads(line) for line in shell(broker, "browse", "late", "--count", "1", "--json").splitlines()
    ]
    assert ORIGINAL in seen["annotations"] and not seen.get("expiration_ms")
    assert shell(broker, "get", "late", "--count", "2") == "a\nb\n"
    assert depth(broker, "late") == 0


def test_the_message_store_and_the_administrator_see_the_same(broker: BrokerThread) -> None:
    redirect(broker, Message("a", ttl_ms=1, message_id="m"))
    shown = json.loads(shell(broker, "message", "show", "late", "--id", "m", "--json"))
    assert ORIGINAL in shown["annotations"] and not shown.get("expiration_ms")
    with ConnectionFactory(broker.url).create_connection() as connection:
        store = connection.create_message_store("late")
        (row,) = store.browse()
        assert row.message is not None
        assert_is_ageless(row.message)
        got = store.get()
        assert got.message is not None
        assert_is_ageless(got.message)
    assert depth(broker, "late") == 0


def test_selectors_see_it(broker: BrokerThread) -> None:
    redirect(broker, Message("a", ttl_ms=1))
    message = taken(broker, "late", '"amqp.absolute_expiry_time" IS NULL')
    assert_is_ageless(message)


def test_a_dead_letter_says_when_it_would_have_expired(broker: BrokerThread) -> None:
    before_ms = int(time.time() * 1000)
    send(broker, "failing", lasting("a"))
    reject(broker, "failing")
    message = taken(broker, "dead")
    assert_is_ageless(message)
    header = message.annotations["x-opt-dead-letter"]
    assert isinstance(header, dict)
    assert isinstance(header["expiry"], Timestamp) and header["expiry"] >= before_ms + LONG_MS
    assert header["expiry"] <= time.time() * 1000 + LONG_MS


def test_a_dead_letter_and_its_header_after_a_restart(folder: Path) -> None:
    with BrokerThread(config(), folder=folder) as broker:
        send(broker, "failing", lasting("a"))
        reject(broker, "failing")
    with BrokerThread(config(), folder=folder) as broker:
        message = taken(broker, "dead")
        assert_is_ageless(message)
        header = message.annotations["x-opt-dead-letter"]
        assert isinstance(header, dict) and isinstance(header["expiry"], Timestamp)


def test_a_dead_letter_without_expiry_says_nothing_of_it(broker: BrokerThread) -> None:
    send(broker, "failing", Message("a"))
    reject(broker, "failing")
    message = taken(broker, "dead")
    header = message.annotations["x-opt-dead-letter"]
    assert isinstance(header, dict) and "expiry" not in header
    assert ORIGINAL not in message.annotations


def test_where_dead_letters_expire_they_say_when(broker: BrokerThread) -> None:
    send(broker, "brief", Message("a", ttl_ms=60_000))
    reject(broker, "brief")
    message = taken(broker, "minute")
    assert message.expiration_ms is not None
    assert message.expiration_ms > int(message.annotations[ORIGINAL]) + 60_000


@pytest.mark.parametrize("queue", ["ever", "deaf"])
def test_a_queue_that_says_how_long_messages_live(broker: BrokerThread, queue: str) -> None:
    send(broker, queue, bygone("a"))
    assert_is_ageless(taken(broker, queue), PAST_MS)
    assert depth(broker, queue) == 0


def test_a_later_expiry_of_the_queue_stands_in_the_properties(broker: BrokerThread) -> None:
    send(broker, "minute", bygone("a"))
    message = taken(broker, "minute")
    assert message.expiration_ms is not None and message.expiration_ms > time.time() * 1000
    assert message.annotations[ORIGINAL] == PAST_MS


def test_a_topic_that_says_how_long_messages_live(broker: BrokerThread) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        consumer = session.create_consumer(Topic("news"))
        send(broker, Topic("news"), bygone("a"))
        message = consumer.receive(5)
        assert message is not None
        assert_is_ageless(message, PAST_MS)


def test_what_keeps_its_expiry_is_given_out_as_it_was_sent(broker: BrokerThread) -> None:
    send(broker, "plain", Message("a", ttl_ms=LONG_MS), Message("b"))
    message = taken(broker, "plain")
    assert message.expiration_ms is not None and ORIGINAL not in message.annotations
    assert ORIGINAL not in taken(broker, "plain").annotations


def test_moving_it_changes_nothing(broker: BrokerThread) -> None:
    redirect(broker, Message("a", ttl_ms=1), Message("b", ttl_ms=1))
    shell(broker, "message", "move", "late", "plain", "--all")
    assert_is_ageless(taken(broker, "plain"))
    shell(broker, "message", "move", "plain", "there@THERE", "--all")
    (sections,) = broker.call(
        lambda broker: [
            entry.body for band in broker.manager.queues["THERE"].bands for entry in band.waiting()
        ]
    )
    assert sections is not None
    sent = decode_message(sections)
    assert sent.properties is not None and sent.properties.absolute_expiry_time is None
    assert sent.message_annotations is not None and Symbol(ORIGINAL) in sent.message_annotations


def test_readers_of_the_ledger_see_it(folder: Path) -> None:
    with BrokerThread(config(), folder=folder) as broker:
        redirect(broker, Message("a", ttl_ms=1, durable=True))
        (serial,) = broker.call(
            lambda broker: [
                int(entry.serial) for band in broker.manager.queues["late"].bands for entry in band.waiting()
            ]
        )
    messages = place_of(str(folder)).messages(None, np.array([serial], np.uint64), True, 1 << 20)
    (row,) = decode(messages, events(1), MESSAGES_SCHEMA).to_pylist()
    assert (row["text"], row["ttl_ms"], row["absolute_expiry_time"], row["_corrupt"]) == ("a", *[None] * 3)
    (original,) = [value for name, value in row["message_annotations"] if name == ORIGINAL]
    assert original["type"] == "timestamp"


def test_the_ledger_marks_them(broker: BrokerThread) -> None:
    send(broker, "ever", bygone("a"), Message("b", ttl_ms=LONG_MS), Message("c"))
    flags = broker.call(
        lambda broker: [
            int(entry.flags & n.FLAG_EXPIRY_REPLACED)
            for band in broker.manager.queues["ever"].bands
            for entry in band.waiting()
        ]
    )
    assert flags == [n.FLAG_EXPIRY_REPLACED, n.FLAG_EXPIRY_REPLACED, 0]


@pytest.mark.parametrize(
    ("sent_ms", "expires_ms", "found_ms"),
    [
        (5, 0, None),
        (5, 9, 9),
        (9, 5, 9),
        (5, 5, 5),
        (0, 9, 0),
        (None, 9, None),
        (-5, 9, 9),
        (2**63 - 1, 0, None),
    ],
)
def test_only_a_later_expiry_takes_the_place(
    sent_ms: int | None, expires_ms: int, found_ms: int | None
) -> None:
    properties = Properties(message_id="m", absolute_expiry_time=sent_ms, creation_time=3, group_id="g")
    sent = AmqpMessage(properties=properties, application_properties={"n": 1}, body=Value("x"))
    found = decode_message(with_expiry(sent.encode(), expires_ms * 1000))
    assert found.properties is not None
    record = (found.properties.message_id, found.properties.creation_time, found.properties.group_id)
    assert (*record, found.application_properties, found.body) == ("m", 3, "g", {"n": 1}, Value("x"))
    assert found.properties.absolute_expiry_time == found_ms
    annotations = found.message_annotations or {}
    assert annotations.get(Symbol(ORIGINAL)) == (sent_ms if found_ms != sent_ms else None)
