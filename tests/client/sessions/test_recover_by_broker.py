"""recover() where the broker is to bring messages back: redelivery delay and limit, order, who gets them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.client import (
    AcknowledgeMode,
    ClientOptions,
    ConnectionFactory,
    IllegalStateException,
    Message,
    MessageConsumer,
    RecoverMode,
)
from postroom.testing import Broker

pytestmark = pytest.mark.sockets

LONG_MS = 3_600_000
BY_BROKER = ClientOptions(recover=RecoverMode.BROKER)
CLIENT = AcknowledgeMode.CLIENT


QUEUES = [
    {"name": "q"},
    {"name": "slow", "redelivery_delay_ms": LONG_MS},
    {"name": "strict", "redelivery_limit": 1, "dead_letter_queue": "dead"},
    {"name": "dead"},
]


@pytest.fixture
def broker() -> Iterator[Broker]:
    at_once = {"redelivery_delay_ms": -1}
    with Broker(config={"queue": QUEUES, "queue_defaults": at_once}) as running:
        yield running


def send(broker: Broker, queue: str, bodies: str) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        connection.create_session().create_producer(queue).send_all(
            [Message(body, durable=True) for body in bodies]
        )


def received(consumer: MessageConsumer, count: int) -> list[tuple[object, int]]:
    """Body and delivery count of so many."""
    messages = [consumer.receive(10) for _ in range(count)]
    return [(message.body, message.delivery_count) for message in messages if message is not None]


def test_what_was_received_comes_again_in_order_before_what_was_prefetched(broker: Broker) -> None:
    send(broker, "q", "abcde")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumer = session.create_consumer("q")
        assert received(consumer, 3) == [("a", 0), ("b", 0), ("c", 0)]
        session.recover()
        assert received(consumer, 5) == [("a", 1), ("b", 1), ("c", 1), ("d", 0), ("e", 0)]
        session.acknowledge()
    broker.queue("q").wait_for(current=0, pending=0)


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_with_little_prefetch(broker: Broker, prefetch: int) -> None:
    send(broker, "q", "abcd")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumer = session.create_consumer("q", prefetch=prefetch)
        for count in range(3):
            assert received(consumer, 2) == [("a", count), ("b", count)]
            session.recover()
        assert received(consumer, 4) == [("a", 3), ("b", 3), ("c", 0), ("d", 0)]


def test_two_consumers_of_a_session_both_give_back(broker: Broker) -> None:
    send(broker, "q", "a")
    send(broker, "dead", "b")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumers = [session.create_consumer(queue) for queue in ("q", "dead")]
        assert [received(consumer, 1) for consumer in consumers] == [[("a", 0)], [("b", 0)]]
        session.recover()
        assert [received(consumer, 1) for consumer in consumers] == [[("a", 1)], [("b", 1)]]


def test_the_redelivery_delay_holds_it_and_survives_a_crash(broker: Broker) -> None:
    send(broker, "slow", "ab")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumer = session.create_consumer("slow", prefetch=1)
        assert received(consumer, 1) == [("a", 0)]
        session.recover()
        assert received(consumer, 1) == [("b", 0)]
        assert consumer.receive_no_wait() is None
        session.acknowledge()
    broker.queue("slow").wait_for(consumed=1)
    broker.crash()
    (message,) = broker.queue("slow").messages
    assert (message.states, message.delivery_count, message.failure_count) == (("delayed",), 1, 1)
    broker.advance(minutes=59)
    assert broker.queue("slow").statistics["messages_redelivery_delay"] == 1
    broker.advance(minutes=1)
    with ConnectionFactory(broker.url).create_connection() as connection:
        assert received(connection.create_session().create_consumer("slow"), 1) == [("a", 1)]


def test_a_delay_of_the_consumer_holds_it(broker: Broker) -> None:
    send(broker, "q", "a")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumer = session.create_consumer("q", redelivery_delay_ms=LONG_MS)
        assert received(consumer, 1) == [("a", 0)]
        session.recover()
        assert consumer.receive_no_wait() is None
        assert broker.queue("q").pending == 1
        broker.advance(hours=1)
        assert received(consumer, 1) == [("a", 1)]


def test_over_the_limit_it_is_a_dead_letter(broker: Broker) -> None:
    send(broker, "strict", "ab")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumer = session.create_consumer("strict")
        for count in range(2):
            assert received(consumer, 1) == [("a", count)]
            session.recover()
        assert received(consumer, 1) == [("b", 0)]
    assert broker.queue("dead").depth == 1
    shown = CliRunner().invoke(main, ["browse", "dead", "--url", broker.url, "--json"])
    (letter,) = [json.loads(line) for line in shown.stdout.splitlines()]
    assert letter["annotations"]["x-opt-dead-letter-reason"] == "postroom:redelivery-limit-exceeded"


def test_what_was_acknowledged_stays_acknowledged(broker: Broker) -> None:
    send(broker, "q", "abc")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer("q")
        _, second, _ = [consumer.receive(10) for _ in range(3)]
        assert second is not None
        second.acknowledge()
        session.recover()
        assert received(consumer, 2) == [("a", 1), ("c", 1)]


def test_in_a_listener(broker: Broker) -> None:
    send(broker, "q", "ab")
    seen: list[tuple[object, int]] = []
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumer = session.create_consumer("q")

        def listen(message: Message) -> None:
            seen.append((message.body, message.delivery_count))
            if len(seen) == 1:
                session.recover()
            else:
                message.acknowledge()

        consumer.set_message_listener(listen)
        broker.queue("q").wait_for(current=0, pending=0)
    assert seen == [("a", 0), ("a", 1), ("b", 0)]


def test_nothing_received_nothing_said(broker: Broker) -> None:
    send(broker, "q", "a")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT)
        consumer = session.create_consumer("q")
        session.recover()
        assert received(consumer, 1) == [("a", 0)]
        consumer.close()
        session.recover()
    broker.queue("q").wait_for(current=1, pending=0)


@pytest.mark.parametrize("how", ["url", "session", "session's text", "context"])
def test_where_it_is_said(broker: Broker, how: str) -> None:
    send(broker, "slow", "a")
    url = f"{broker.url}?jms.recover=broker" if how == "url" else broker.url
    factory = ConnectionFactory(url)
    if how == "context":
        with factory.create_context(CLIENT, recover=RecoverMode.BROKER) as context:
            consumer = context.create_consumer("slow")
            assert received(consumer, 1) == [("a", 0)]
            context.recover()
            assert consumer.receive_no_wait() is None
        return
    said = {"url": None, "session": RecoverMode.BROKER, "session's text": "broker"}[how]
    with factory.create_connection() as connection:
        session = connection.create_session(CLIENT, recover=said)  # type: ignore[arg-type]
        consumer = session.create_consumer("slow")
        assert received(consumer, 1) == [("a", 0)]
        session.recover()
        assert consumer.receive_no_wait() is None


def test_a_session_may_differ_from_its_connection(broker: Broker) -> None:
    send(broker, "slow", "a")
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        session = connection.create_session(CLIENT, recover=RecoverMode.LOCAL)
        consumer = session.create_consumer("slow")
        assert received(consumer, 1) == [("a", 0)]
        session.recover()
        assert received(consumer, 1) == [("a", 1)]
        session.acknowledge()


def test_what_is_none_is_refused(broker: Broker) -> None:
    with pytest.raises(ValueError, match=r"jms.recover.*'remote'.*local or broker"):
        ConnectionFactory(f"{broker.url}?jms.recover=remote")
    with pytest.raises(ValueError, match="recover is 'x'"):
        ClientOptions(recover="x")  # type: ignore[arg-type]
    with ConnectionFactory(broker.url, options=BY_BROKER).create_connection() as connection:
        with pytest.raises(ValueError, match="recover is 'x'"):
            connection.create_session(recover="x")  # type: ignore[arg-type]
        with pytest.raises(IllegalStateException, match="rolled back"):
            connection.create_session(AcknowledgeMode.SESSION_TRANSACTED).recover()
