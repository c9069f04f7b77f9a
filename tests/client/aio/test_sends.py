"""What a producer says of its messages, sends that nobody waits for, completions, presettled links."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.frames.outcomes import ACCEPTED, DeliveryState, Modified, Rejected, Released
from postroom.client import (
    AcknowledgeMode,
    ClientOptions,
    Connection,
    ConnectionFactory,
    ConnectionLostException,
    DeliveryMode,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
    Message,
    MessageFormatException,
    MessageModifiedException,
    MessageRejectedException,
    MessageReleasedException,
    PresettlePolicy,
    ResourceAllocationException,
    TextMessage,
    Topic,
    TransactionRolledBackException,
)
from postroom.client.aio import MessageProducer
from postroom.client.messages.message import decode_message
from tests.client.fake_broker import FakeBroker, asynchronous
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

NO = Rejected(Error("amqp:internal-error", "no"))
NON_PERSISTENT = DeliveryMode.NON_PERSISTENT


async def producer_in(broker: FakeBroker, **options: Any) -> MessageProducer:
    connection = await broker.connect(options=ClientOptions(**options))
    return await (await connection.create_session()).create_producer("q")


def sent(broker: FakeBroker) -> list[Message]:
    return [decode_message(payload) for _, payload, _ in broker.received]


# --- what is said of a message


@asynchronous
async def test_a_producers_properties_count_for_its_messages() -> None:
    async with FakeBroker() as broker:
        producer = await producer_in(broker, force_sync_send=True)
        producer.delivery_mode = NON_PERSISTENT
        producer.priority = 7
        producer.ttl_ms = 60_000
        producer.delivery_delay_ms = 1_000
        await producer.send("a")
        (message,) = sent(broker)
        assert (message.durable, message.priority, message.ttl_ms) == (False, 7, 60_000)
        assert message.timestamp_ms is not None and message.expiration_ms == message.timestamp_ms + 60_000
        assert message.delivery_time_ms == message.timestamp_ms + 1_000
        assert (producer.delivery_mode, producer.priority) == (NON_PERSISTENT, 7)
        assert (producer.ttl_ms, producer.delivery_delay_ms) == (60_000, 1_000)


@asynchronous
async def test_the_call_counts_before_the_message_before_the_producer() -> None:
    async with FakeBroker() as broker:
        producer = await producer_in(broker, force_sync_send=True)
        producer.priority, producer.ttl_ms = 7, 5_000
        await producer.send(TextMessage("a", priority=5, ttl_ms=6_000))
        await producer.send(
            TextMessage("b", priority=5),
            priority=0,
            ttl_ms=0,
            delivery_mode=NON_PERSISTENT,
            delivery_delay_ms=9,
        )
        first, second = sent(broker)
        assert (first.priority, first.ttl_ms, first.durable) == (5, 6_000, True)
        assert (second.priority, second.ttl_ms, second.durable) == (0, None, False)
        assert second.delivery_time_ms is not None


@asynchronous
async def test_a_sent_message_says_what_was_sent() -> None:
    async with FakeBroker() as broker:
        producer = await producer_in(broker)
        message = TextMessage("a")
        await producer.send(message, priority=7, ttl_ms=1_000)
        (arrived,) = sent(broker)
        assert message.message_id is not None and message.message_id == arrived.message_id
        assert (message.destination, message.priority) == ("q", 7)
        assert message.expiration_ms == arrived.expiration_ms is not None


@asynchronous
async def test_ids_and_timestamps_can_be_left_out() -> None:
    async with FakeBroker() as broker:
        producer = await producer_in(broker)
        producer.disable_message_id = producer.disable_message_timestamp = True
        assert producer.disable_message_id and producer.disable_message_timestamp
        await producer.send("a")
        (message,) = sent(broker)
        assert (message.message_id, message.timestamp_ms) == (None, None)


@pytest.mark.parametrize(
    ("name", "value"), [("priority", 10), ("priority", -1), ("ttl_ms", -1), ("delivery_delay_ms", -1)]
)
@asynchronous
async def test_values_that_no_message_has_are_refused(name: str, value: int) -> None:
    async with FakeBroker() as broker:
        producer = await producer_in(broker)
        with pytest.raises(MessageFormatException):
            setattr(producer, name, value)
        with pytest.raises(MessageFormatException):
            await producer.send("a", **{name: value})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="3"):
            producer.delivery_mode = 3  # type: ignore[assignment]
        assert broker.received == []


# --- who waits


@pytest.mark.parametrize(
    ("options", "mode", "waits"),
    [
        ({}, DeliveryMode.PERSISTENT, True),
        ({}, NON_PERSISTENT, False),
        ({"force_sync_send": True}, NON_PERSISTENT, True),
        ({"force_async_send": True}, DeliveryMode.PERSISTENT, False),
        ({"force_async_send": True, "force_sync_send": True}, NON_PERSISTENT, True),
    ],
)
@asynchronous
async def test_which_sends_wait_for_their_outcome(
    options: dict[str, bool], mode: DeliveryMode, waits: bool
) -> None:
    async with FakeBroker() as broker:
        broker.outcome = NO
        producer = await producer_in(broker, **options)
        if waits:
            with pytest.raises(MessageRejectedException):
                await producer.send("a", delivery_mode=mode)
        else:
            await producer.send("a", delivery_mode=mode)
        await producer.close()
        assert len(broker.received) == 1


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Rejected(Error("amqp:not-found")), InvalidDestinationException),
        (Rejected(Error("amqp:unauthorized-access")), JMSSecurityException),
        (Rejected(Error("amqp:resource-limit-exceeded")), ResourceAllocationException),
        (Rejected(Error("amqp:transaction:rollback")), TransactionRolledBackException),
        (Rejected(Error("amqp:internal-error")), MessageRejectedException),
        (Rejected(), MessageRejectedException),
        (Released(), MessageReleasedException),
        (Modified(True), MessageModifiedException),
        (Modified(True, True), MessageModifiedException),
    ],
)
@asynchronous
async def test_outcomes_are_exceptions_by_their_names(
    outcome: DeliveryState, kind: type[JMSException]
) -> None:
    async with FakeBroker() as broker:
        broker.outcome = outcome
        with pytest.raises(kind):
            await (await producer_in(broker)).send("a")


# --- completion


class Completion:
    """Records the outcomes of sends, in the order of their callbacks."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[object, str]] = []
        self.changed = asyncio.Event()

    def done(self, message: Message) -> None:
        self.outcomes.append((message.body, "done"))
        self.changed.set()

    async def failed(self, message: Message, failure: JMSException) -> None:
        self.outcomes.append((message.body, type(failure).__name__))
        self.changed.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.outcomes) < count:
                self.changed.clear()
                await self.changed.wait()


def held_back(broker: FakeBroker) -> Any:
    """The link of a producer whose outcomes the test says itself."""
    broker.outcome = None
    return broker.attached[0].link


@asynchronous
async def test_completions_are_told_in_the_order_of_sending() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        producer = await producer_in(broker)
        link = held_back(broker)
        for word in "abc":
            await producer.send(word, on_completion=completion.done, on_exception=completion.failed)
        await broker.until(lambda: len(broker.received) == 3)
        link.settle(2, 2, ACCEPTED)
        link.settle(1, 1, NO)
        broker.connections[0].flush()
        assert completion.outcomes == []
        link.settle(0, 0, ACCEPTED)
        broker.connections[0].flush()
        await completion.until(3)
        assert completion.outcomes == [("a", "done"), ("b", "MessageRejectedException"), ("c", "done")]


@asynchronous
async def test_close_waits_for_completions() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        producer = await producer_in(broker)
        link = held_back(broker)
        await producer.send("a", on_completion=completion.done)
        await broker.until(lambda: len(broker.received) == 1)
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        link.settle(0, 0, ACCEPTED)
        broker.connections[0].flush()
        await closing
        assert completion.outcomes == [("a", "done")]


@asynchronous
async def test_closing_in_a_completion_is_refused() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        session = await connection.create_session()
        producer = await session.create_producer("q")
        failures: list[str] = []

        async def done(message: Message) -> None:
            for attempt in (producer.close, session.close, connection.close):
                with pytest.raises(IllegalStateException) as raised:
                    await attempt()
                failures.append(str(raised.value))

        await producer.send("a", on_completion=done)
        await producer.close()
        assert len(failures) == 3


@asynchronous
async def test_a_break_is_told_to_completions() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        producer = await producer_in(broker)
        held_back(broker)
        await producer.send("a", on_exception=completion.failed)
        await broker.until(lambda: len(broker.received) == 1)
        broker.connections[0].drop()
        await completion.until(1)
        assert completion.outcomes == [("a", ConnectionLostException.__name__)]


@asynchronous
async def test_no_outcome_in_time_is_told_to_completions() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        producer = await producer_in(broker, send_timeout_s=0.02)
        held_back(broker)
        await producer.send("a", on_exception=completion.failed)
        await completion.until(1)
        assert completion.outcomes == [("a", JMSTimeoutException.__name__)]


@asynchronous
async def test_what_fails_before_it_is_sent_is_raised() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        producer = await producer_in(broker)
        with pytest.raises(MessageFormatException):
            await producer.send(Message(object()), on_exception=completion.failed)
        assert completion.outcomes == []


@asynchronous
async def test_a_completion_that_raises_does_not_hold_up_the_next() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        producer = await producer_in(broker)

        def fail(message: Message) -> None:
            raise RuntimeError("no")

        await producer.send("a", on_completion=fail)
        await producer.send("b", on_completion=completion.done)
        await completion.until(1)


@asynchronous
async def test_a_completion_may_send() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        producer = await producer_in(broker)

        async def done(message: Message) -> None:
            await producer.send("next", on_completion=completion.done)

        await producer.send("first", on_completion=done)
        await completion.until(1)
        assert [message.body for message in sent(broker)] == ["first", "next"]


@asynchronous
async def test_a_settled_message_is_complete_as_it_is_sent() -> None:
    async with FakeBroker() as broker:
        completion = Completion()
        connection = await broker.connect()
        producer = await (await connection.create_session()).create_producer("q", settled=True)
        await producer.send("a", on_completion=completion.done)
        await completion.until(1)


# --- presettled


@pytest.mark.parametrize(
    ("policy", "settled"),
    [
        (PresettlePolicy(), (False, False, False)),
        (PresettlePolicy(all=True), (True, True, True)),
        (PresettlePolicy(producers=True), (True, True, True)),
        (PresettlePolicy(queue_producers=True), (True, False, False)),
        (PresettlePolicy(topic_producers=True), (False, True, False)),
        (PresettlePolicy(transacted_producers=True), (False, False, False)),
        (PresettlePolicy(consumers=True), (False, False, False)),
    ],
)
@asynchronous
async def test_which_producers_send_settled(
    policy: PresettlePolicy, settled: tuple[bool, bool, bool]
) -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect(options=ClientOptions(presettle=policy))
        session = await connection.create_session()
        for destination in ("q", Topic("t"), None):
            await session.create_producer(destination)
        assert tuple(event.attach.snd_settle_mode == 1 for event in broker.attached) == settled


@pytest.mark.parametrize(
    ("policy", "settled"),
    [
        (PresettlePolicy(), (False, False)),
        (PresettlePolicy(all=True), (True, True)),
        (PresettlePolicy(consumers=True), (True, True)),
        (PresettlePolicy(queue_consumers=True), (True, False)),
        (PresettlePolicy(topic_consumers=True), (False, True)),
        (PresettlePolicy(producers=True), (False, False)),
    ],
)
@asynchronous
async def test_which_consumers_get_settled_messages(
    policy: PresettlePolicy, settled: tuple[bool, bool]
) -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect(options=ClientOptions(presettle=policy))
        session = await connection.create_session(AcknowledgeMode.CLIENT)
        for destination in ("q", Topic("t")):
            await session.create_consumer(destination)
        assert tuple(event.attach.snd_settle_mode == 1 for event in broker.attached) == settled


def test_in_a_transaction_nothing_is_received_settled() -> None:
    assert not PresettlePolicy(all=True).consumer(False, transacted=True)
    assert PresettlePolicy(transacted_producers=True).producer(False, transacted=True)


# --- the blocking face


@pytest.fixture
def connection() -> Iterator[Connection]:
    with BrokerThread() as broker, ConnectionFactory(broker.url).create_connection() as opened:
        yield opened


def test_completions_of_the_blocking_face(connection: Connection) -> None:
    """They are called in a thread of their own, and may send by themselves."""
    session = connection.create_session()
    producer = session.create_producer("q")
    completed: list[object] = []
    threads: set[str] = set()

    def done(message: Message) -> None:
        threads.add(threading.current_thread().name)
        if message.body == "first":
            producer.send("second", on_completion=done)
        completed.append(message.body)

    producer.send("first", on_completion=done)
    producer.close()
    assert completed == ["first", "second"]
    assert all(name.startswith("postroom-listener") for name in threads)
    assert [message.body for message in session.create_browser("q")] == ["first", "second"]


def test_the_exception_listener_of_the_blocking_face(connection: Connection) -> None:
    heard: list[JMSException] = []
    notified = threading.Event()

    def listen(failure: JMSException) -> None:
        heard.append(failure)
        notified.set()

    connection.set_exception_listener(listen)
    session = connection.create_session()
    producer = session.create_producer(None)
    producer.send(TextMessage("a", durable=False), destination=Topic("bad.#.name"))
    assert notified.wait(10)
    assert isinstance(heard[0], JMSException)
