"""The short form, requests and replies, what a connection tells of itself; over a real broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from postroom import __version__
from postroom.client import (
    AcknowledgeMode,
    BytesMessage,
    ConnectionFactory,
    ConnectionMetaData,
    DeliveryMode,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSContext,
    JMSException,
    JMSTimeoutException,
    MapMessage,
    Message,
    MessageFormatException,
    ObjectMessage,
    Queue,
    TextMessage,
    Topic,
    aio,
)
from postroom.testing import Broker
from tests.client.fake_broker import asynchronous
from tests.originals import ORIGINALS_TREE

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(config=ORIGINALS_TREE, clock="running") as running:
        yield running


@pytest.fixture
def context(broker: Broker) -> Iterator[JMSContext]:
    with ConnectionFactory(broker.url).create_context() as opened:
        yield opened


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return f"context.{request.node.name}"


# --- JMSContext


def test_a_chain_sends_a_message(context: JMSContext, queue: str) -> None:
    consumer = context.create_consumer(queue)
    producer = context.create_producer()
    assert (
        producer.set_priority(7).set_time_to_live(60_000).set_delivery_mode(DeliveryMode.PERSISTENT)
        is producer
    )
    chained = (
        producer.set_jms_type("greeting")
        .set_jms_correlation_id("ID:AMQP_ULONG:7")
        .set_jms_reply_to(Topic("answers"))
        .set_property("colour", "green")
        .send(queue, "hello")
    )
    assert chained is producer
    message = consumer.receive(10)
    assert isinstance(message, TextMessage)
    assert (message.text, message.priority, message.subject) == ("hello", 7, "greeting")
    assert (message.correlation_id, message.reply_to) == (7, Topic("answers"))
    assert message.get_string_property("colour") == "green"
    assert message.ttl_ms is not None and message.durable
    producer.clear_properties().set_delivery_mode(DeliveryMode.NON_PERSISTENT).send(queue, "again")
    again = consumer.receive(10)
    assert again is not None and (again.properties, again.durable) == ({}, False)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("text", TextMessage),
        (b"bytes", BytesMessage),
        ({"a": 1}, MapMessage),
        (None, Message),
        (ObjectMessage([1]), ObjectMessage),
    ],
)
def test_a_body_is_sent_as_what_it_is(
    context: JMSContext, queue: str, body: Any, kind: type[Message]
) -> None:
    context.create_producer().send(queue, body)
    message = context.create_consumer(queue).receive(10)
    assert type(message) is kind


def test_what_is_no_body_is_refused(context: JMSContext, queue: str) -> None:
    with pytest.raises(MessageFormatException, match="is no message"):
        context.create_producer().send(queue, 7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name of a property"):
        context.create_producer().set_property("a b", 1)
    with pytest.raises(MessageFormatException):
        context.create_producer().set_property("a", [1])


def test_bodies_are_received_as_asked_for(context: JMSContext, queue: str) -> None:
    producer, consumer = context.create_producer(), context.create_consumer(queue)
    for body in ("text", b"bytes", {"a": 1}):
        producer.send(queue, body)
    with pytest.raises(MessageFormatException):
        consumer.receive_body(bytes, 10)
    assert consumer.receive_body(str, 10) == "text"
    assert consumer.receive_body(bytes, 10) == b"bytes"
    assert consumer.receive_body(dict, 10) == {"a": 1}
    assert consumer.receive_body(str, 0) is None


def test_contexts_of_one_connection_close_it_with_the_last(broker: Broker) -> None:
    before = threading.active_count()
    first = ConnectionFactory(broker.url).create_context()
    second = first.create_context(AcknowledgeMode.CLIENT)
    assert (first.session_mode, second.session_mode) == (AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT)
    assert not second.is_transacted
    assert first.client_id == second.client_id
    first.close()
    assert not second.is_connection_closed
    second.create_producer().send("context.last", "a")
    assert second.create_consumer("context.last").receive_body(str, 10) == "a"
    second.acknowledge()
    second.close()
    second.close()
    assert threading.active_count() <= before + 1
    with pytest.raises(IllegalStateException):
        second.create_context()


def test_a_mode_that_is_none_leaves_no_connection(broker: Broker) -> None:
    before = threading.active_count()
    with pytest.raises(JMSException, match="invalid session mode"):
        ConnectionFactory(broker.url).create_context(99)  # type: ignore[arg-type]
    assert threading.active_count() == before


def test_acknowledge_and_recover(broker: Broker, queue: str) -> None:
    with ConnectionFactory(broker.url).create_context(AcknowledgeMode.CLIENT) as context:
        context.create_producer().send(queue, "a")
        consumer = context.create_consumer(queue)
        assert consumer.receive_body(str, 10) == "a"
        context.recover()
        message = consumer.receive(10)
        assert message is not None and message.delivery_count == 1
        context.acknowledge()
        assert list(context.create_browser(queue)) == []


def test_acknowledge_in_another_mode_does_nothing(context: JMSContext) -> None:
    context.acknowledge()


def test_subscriptions_and_temporary_destinations(broker: Broker) -> None:
    topic = Topic("context.prices")
    with ConnectionFactory(broker.url, client_id="context-client").create_context() as context:
        durable = context.create_durable_consumer(topic, "ledger", selector="price > 100")
        shared = context.create_shared_consumer(topic, "workers")
        kept = context.create_shared_durable_consumer(topic, "archive")
        for price in (90, 110):
            context.create_producer().set_property("price", price).send(topic, f"at {price}")
        assert durable.receive_body(str, 10) == "at 110"
        assert [shared.receive_body(str, 10) for _ in range(2)] == ["at 90", "at 110"]
        assert kept.receive_body(str, 10) == "at 90"
        durable.close()
        kept.close()
        context.unsubscribe("ledger")
        context.unsubscribe("archive")
        with pytest.raises(InvalidDestinationException):
            context.unsubscribe("ledger")
        for temporary in (context.create_temporary_queue(), context.create_temporary_topic()):
            consumer = context.create_consumer(temporary.destination)
            context.create_producer().send(temporary.destination, "a")
            message = consumer.receive(10)
            assert message is not None and message.destination == temporary.destination


def test_a_browser_with_a_selector(context: JMSContext, queue: str) -> None:
    for number in range(4):
        context.create_producer().set_property("n", number).send(queue, f"{number}")
    assert [message.body for message in context.create_browser(queue, selector="n > 1")] == ["2", "3"]
    with pytest.raises(InvalidSelectorException):
        context.create_browser(queue, selector="n >")
    with pytest.raises(InvalidSelectorException):
        context.create_consumer(queue, selector="n >")


def test_stop_and_start(context: JMSContext, queue: str) -> None:
    consumer = context.create_consumer(queue)
    context.stop()
    context.create_producer().send(queue, "a")
    assert consumer.receive(0.01) is None
    context.start()
    assert consumer.receive_body(str, 10) == "a"


def test_a_listener_and_the_exception_listener(context: JMSContext, queue: str) -> None:
    seen: list[object] = []
    done = threading.Event()

    def listen(message: Message) -> None:
        seen.append(message.body)
        done.set()

    context.set_exception_listener(lambda failure: None)
    context.create_consumer(queue).set_message_listener(listen)
    context.create_producer().set_async(lambda message: seen.append("sent")).send(queue, "a")
    assert done.wait(10)


@asynchronous
async def asyncio_contexts(url: str) -> None:
    async with await aio.ConnectionFactory(url).create_context() as context:
        await context.create_producer().set_priority(7).send("context.aio", "a")
        consumer = await context.create_consumer("context.aio")
        assert await consumer.receive_body(str, 10) == "a"


def test_the_short_form_in_asyncio(broker: Broker) -> None:
    asyncio_contexts(broker.url)


# --- metadata


def test_what_a_connection_tells_of_itself(context: JMSContext) -> None:
    about = context.metadata
    assert isinstance(about, ConnectionMetaData)
    assert (about.jms_version, about.provider_name, about.provider_version) == (
        "3.1",
        "Postroom",
        __version__,
    )
    assert "JMSXGroupID" in about.jmsx_property_names
    assert about.broker_product


def test_a_client_id_is_one_connections(broker: Broker) -> None:
    with ConnectionFactory(broker.url, client_id="alone").create_context() as context:
        assert context.client_id == "alone"
        with pytest.raises(InvalidClientIDException):
            ConnectionFactory(broker.url, client_id="alone").create_connection()


# --- requests and replies


def serve(url: str, destination: Any, replies: int, answer_to: Any) -> threading.Thread:
    """A thread that answers requests."""
    ready = threading.Event()

    def run() -> None:
        with ConnectionFactory(url).create_context() as context:
            consumer = context.create_consumer(destination)
            ready.set()
            for _ in range(replies):
                request = consumer.receive(10)
                assert request is not None and request.reply_to is not None
                answer_to(context, request)

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    return thread


def answer(context: JMSContext, request: Message) -> None:
    assert request.reply_to is not None
    reply = TextMessage(
        f"answer to {request.body}", correlation_id=request.correlation_id or request.message_id
    )
    context.create_producer().send(request.reply_to, reply)


@pytest.mark.parametrize("kind", [Queue, Topic])
def test_requests_and_their_replies(broker: Broker, kind: Any, queue: str) -> None:
    destination = kind(queue)
    serving = serve(broker.url, destination, 2, answer)
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        requestor = session.create_requestor(destination)
        assert requestor.request("one").body == "answer to one"
        assert requestor.request(TextMessage("two", correlation_id="mine"), 10).body == "answer to two"
        requestor.close()
        assert requestor.is_closed
        with pytest.raises(IllegalStateException):
            requestor.request("three")
    serving.join(10)


def test_a_reply_to_a_request_that_was_given_up_is_passed_over(broker: Broker, queue: str) -> None:
    def late(context: JMSContext, request: Message) -> None:
        held.append(request)
        if len(held) == 2:
            for each in held:
                answer(context, each)

    held: list[Message] = []
    serving = serve(broker.url, queue, 2, late)
    with ConnectionFactory(broker.url).create_connection() as connection:
        requestor = connection.create_session().create_requestor(queue)
        with pytest.raises(JMSTimeoutException, match="no reply"):
            requestor.request("one", 0.05)
        assert requestor.request("two", 10).body == "answer to two"
    serving.join(10)


def test_a_context_keeps_links_for_the_destinations_of_late(
    context: JMSContext,
) -> None:
    """One more destination than there are links: the one unused for longest is closed, and made again."""
    from postroom.client.aio.context import MAX_PRODUCERS

    names = [f"context.many.{number}" for number in range(MAX_PRODUCERS + 1)]
    for name in (*names, names[0]):
        context.create_producer().send(name, "a")
    assert [len(list(context.create_browser(name))) for name in names] == [2, *[1] * MAX_PRODUCERS]
