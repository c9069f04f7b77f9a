"""What the application doesn't see: redelivery policy, limits of the broker, local expiry."""

from __future__ import annotations

import time

import pytest

from postroom.amqp.frames.outcomes import Accepted, DeliveryState, Modified, Rejected, Released
from postroom.amqp.message import sections
from postroom.client import (
    AcknowledgeMode,
    ClientOptions,
    ConnectionFactory,
    RedeliveryOutcome,
    RedeliveryPolicy,
    TextMessage,
    aio,
)
from postroom.client.messages.message import encode_message
from postroom.server.configuration.config import QueueConfig
from tests.client.fake_broker import FakeBroker, asynchronous
from tests.client.fake_sessions import bodies, session_of, texts
from tests.client.sessions.consumers import consumer_in, last_outcomes
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets


# --- what the application doesn't see


def counted(word: str, delivery_count: int) -> bytes:
    """A message that came before so often."""
    header = sections.Header(durable=True, delivery_count=delivery_count)
    return sections.Message(header=header, body=sections.Value(word)).encode()


@pytest.mark.parametrize(
    ("limit", "seen"), [(-1, ["0", "1", "2", "3"]), (0, ["0"]), (1, ["0", "1"]), (2, ["0", "1", "2"])]
)
@asynchronous
async def test_a_message_that_came_too_often_is_not_handed_out(limit: int, seen: list[str]) -> None:
    async with FakeBroker() as broker:
        policy = ClientOptions(redelivery=RedeliveryPolicy(max_redeliveries=limit))
        connection = await broker.connect(options=policy)
        broker.put("q", *(counted(str(count), count) for count in range(4)))
        consumer = await (await connection.create_session()).create_consumer("q")
        assert await bodies(consumer, len(seen)) == seen
        await broker.until(lambda: len(last_outcomes(broker)) == len(seen))
        assert await consumer.receive(0.01) is None
        await broker.until(lambda: len(last_outcomes(broker)) == 4)
        assert list(last_outcomes(broker).values()) == [Accepted()] * len(seen) + [Modified(True, True)] * (
            4 - len(seen)
        )


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (RedeliveryOutcome.ACCEPTED, Accepted()),
        (RedeliveryOutcome.REJECTED, Rejected()),
        (RedeliveryOutcome.RELEASED, Released()),
        (RedeliveryOutcome.MODIFIED_FAILED, Modified(True)),
        (RedeliveryOutcome.MODIFIED_FAILED_UNDELIVERABLE, Modified(True, True)),
    ],
)
@asynchronous
async def test_its_outcome_is_the_policys(outcome: RedeliveryOutcome, state: DeliveryState) -> None:
    async with FakeBroker() as broker:
        policy = ClientOptions(redelivery=RedeliveryPolicy(max_redeliveries=0, outcome=outcome))
        connection = await broker.connect(options=policy)
        broker.put("q", counted("again", 1))
        consumer = await (await connection.create_session()).create_consumer("q")
        assert await consumer.receive_no_wait() is None
        await broker.until(lambda: last_outcomes(broker) == {0: state})


@asynchronous
async def test_recovering_counts_towards_the_limit() -> None:
    async with FakeBroker() as broker:
        policy = ClientOptions(redelivery=RedeliveryPolicy(max_redeliveries=1))
        session = await (await broker.connect(options=policy)).create_session(AcknowledgeMode.CLIENT)
        broker.put("q", *texts("a"))
        consumer = await session.create_consumer("q")
        for _ in range(2):
            assert await bodies(consumer, 1) == ["a"]
            await session.recover()
        assert await consumer.receive(0.01) is None
        await broker.until(lambda: last_outcomes(broker) == {0: Modified(True, True)})


def expired(word: str) -> bytes:
    return encode_message(TextMessage(word, expiration_ms=int(time.time() * 1000) - 1))


@pytest.mark.parametrize("drops", [True, False])
@asynchronous
async def test_what_expired_on_the_way_is_not_handed_out(drops: bool) -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect(options=ClientOptions(local_message_expiry=drops))
        broker.put("q", expired("old"), *texts("new"))
        consumer = await (await connection.create_session()).create_consumer("q")
        assert await bodies(consumer, 1) == ["new" if drops else "old"]
        await broker.until(lambda: 0 in last_outcomes(broker))
        assert last_outcomes(broker)[0] == (Modified(True, True) if drops else Accepted())


@asynchronous
async def test_a_browser_sees_what_has_expired() -> None:
    async with FakeBroker() as broker:
        broker.put("q", expired("old"))
        browser = await (await session_of(broker)).create_browser("q")
        assert [message.body async for message in browser] == ["old"]


# --- with a real broker, and its limit

LIMIT = 2
POISON = make_config(
    queue=[
        QueueConfig(name="poison", redelivery_limit=LIMIT, dead_letter_queue="dead"),
        QueueConfig(name="dead"),
    ]
)


def test_neighbours_that_were_only_prefetched_are_never_charged() -> None:
    """Each round sees the first message and gives it back; the others come along, and keep their counts."""
    with BrokerThread(POISON) as broker:
        with ConnectionFactory(broker.url).create_connection() as connection:
            connection.create_session().create_producer("poison").send_all(["bad", "good", "better"])
        for attempt in range(LIMIT + 1):
            with ConnectionFactory(broker.url).create_connection() as connection:
                session = connection.create_session(AcknowledgeMode.CLIENT)
                message = session.create_consumer("poison", prefetch=10).receive(10)
                assert message is not None and (message.body, message.delivery_count) == ("bad", attempt)
        with ConnectionFactory(broker.url).create_connection() as connection:
            session = connection.create_session()
            consumer = session.create_consumer("poison")
            left = [consumer.receive(10) for _ in range(2)]
            assert [(each.body, each.delivery_count) for each in left if each] == [("good", 0), ("better", 0)]
            assert [message.body for message in session.create_browser("dead")] == ["bad"]


def test_the_clients_policy_and_the_brokers_dead_letters() -> None:
    config = make_config(
        queue=[QueueConfig(name="poison", dead_letter_queue="dead"), QueueConfig(name="dead")]
    )
    policy = RedeliveryPolicy(max_redeliveries=1, outcome=RedeliveryOutcome.REJECTED)
    with (
        BrokerThread(config) as broker,
        ConnectionFactory(
            broker.url, options=ClientOptions(redelivery=policy)
        ).create_connection() as connection,
    ):
        connection.create_session().create_producer("poison").send_all(["bad", "good"])
        for _ in range(2):
            with connection.create_session(AcknowledgeMode.CLIENT) as session:
                message = session.create_consumer("poison").receive(10)
                assert message is not None and message.body == "bad"
        session = connection.create_session()
        good = session.create_consumer("poison").receive(10)
        assert good is not None and (good.body, good.delivery_count) == ("good", 0)
        assert [message.body for message in session.create_browser("dead")] == ["bad"]


@asynchronous
async def test_what_is_dropped_does_not_prolong_a_receive() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_in(broker, AcknowledgeMode.AUTO, prefetch=0)
        broker.put("q", *(expired(f"{number}") for number in range(20)))
        assert await consumer.receive(0.05) is None
        assert await consumer.receive_no_wait() is None
        assert set(map(type, last_outcomes(broker).values())) == {Modified}


def test_a_broken_connection_charges_nothing_to_the_brokers_limit() -> None:
    """Nobody knows what the application had seen: all that had been sent is flagged, and nothing charged."""
    with BrokerThread(POISON) as broker:
        with ConnectionFactory(broker.url).create_connection() as connection:
            connection.create_session().create_producer("poison").send_all(["bad", "good"])
        for _ in range(LIMIT + 2):
            broken_while_it_has_a_message(broker.url)
        with ConnectionFactory(broker.url).create_connection() as connection:
            session = connection.create_session()
            consumer = session.create_consumer("poison")
            left = [consumer.receive(10) for _ in range(2)]
            assert [(each.body, each.delivery_count) for each in left if each] == [
                ("bad", LIMIT + 2),
                ("good", LIMIT + 2),
            ]
            assert list(session.create_browser("dead")) == []


def test_nor_to_the_clients() -> None:
    """The message of a rollback is charged, its neighbour that a broken connection brought back is not."""
    with BrokerThread(POISON) as broker:
        with ConnectionFactory(broker.url).create_connection() as connection:
            connection.create_session().create_producer("poison").send_all(["bad", "good"])
        broken_while_it_has_a_message(broker.url)
        with ConnectionFactory(broker.url).create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.CLIENT)
            message = session.create_consumer("poison").receive(10)
            assert message is not None and message.body == "bad"
        policy = ClientOptions(redelivery=RedeliveryPolicy(max_redeliveries=0))
        with ConnectionFactory(broker.url, options=policy).create_connection() as connection:
            good = connection.create_session().create_consumer("poison").receive(10)
            assert good is not None and (good.body, good.delivery_count) == ("good", 1)


@asynchronous
async def broken_while_it_has_a_message(url: str) -> None:
    connection = await aio.ConnectionFactory(url).create_connection()
    consumer = await (await connection.create_session(AcknowledgeMode.CLIENT)).create_consumer("poison")
    message = await consumer.receive(10)
    assert message is not None and message.body == "bad"
    assert connection._provider.transport is not None
    connection._provider.transport.abort()
    await connection.close()
