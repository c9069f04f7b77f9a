"""Transacted sessions (mode 0) against a real broker: commit, rollback, order, refusals, time-outs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from postroom.client import (
    AcknowledgeMode,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Message,
    TransactionRolledBackException,
    sync,
)
from postroom.client.aio import Connection, ConnectionFactory, MessageConsumer, Session
from postroom.server.configuration.config import QueueConfig
from tests.client.fake_broker import asynchronous
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets
TRANSACTED = AcknowledgeMode.SESSION_TRANSACTED


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    queues = [QueueConfig(name=f"q{number}") for number in range(20)]
    bounded = [QueueConfig(name=name, max_messages=2) for name in ("small", "narrow")]
    with BrokerThread(make_config(queue=[*queues, *bounded, QueueConfig(name="other")])) as running:
        yield running


@pytest.fixture
def queue(request: pytest.FixtureRequest, broker: BrokerThread) -> str:
    """A queue of this test's own."""
    taken: list[str] = broker.__dict__.setdefault("taken", [])
    taken.append(request.node.name)
    return f"q{len(taken) - 1}"


@asynccontextmanager
async def transacted(broker: BrokerThread) -> AsyncIterator[tuple[Connection, Session]]:
    async with await ConnectionFactory(broker.url).create_connection() as connection:
        yield connection, await connection.create_session(TRANSACTED)


def depth(broker: BrokerThread, queue: str) -> int:
    return broker.call(lambda b: int(b.manager.queues[queue].statistics.current))


async def bodies(consumer: MessageConsumer, count: int) -> list[object]:
    found = [await consumer.receive(timeout_s=10) for _ in range(count)]
    return [None if each is None else each.body for each in found]


@asynchronous
async def fill(broker: BrokerThread, queue: str, *texts: str) -> None:
    async with await ConnectionFactory(broker.url).create_connection() as connection:
        await (await (await connection.create_session()).create_producer(queue)).send_all(texts)


def test_nothing_is_there_before_the_commit_and_all_of_it_after(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            producer = await session.create_producer(queue)
            for text in ("a", "b", "c"):
                await producer.send(text)
            await (await session.create_producer("other")).send("d")
            assert (depth(broker, queue), depth(broker, "other")) == (0, 0)
            await session.commit()
            assert (depth(broker, queue), depth(broker, "other")) == (3, 1)
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 3) == ["a", "b", "c"]
            await session.commit()
            assert depth(broker, queue) == 0
            assert await consumer.receive_no_wait() is None

    act()


def test_many_links_are_one_unit(broker: BrokerThread, queue: str) -> None:
    """What is received and what is sent, on any link of the session, is done or undone together."""
    fill(broker, queue, "1", "2")

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (connection, session):
            first = await session.create_consumer(queue, prefetch=0)
            second = await session.create_consumer(queue, prefetch=0)
            replies = await connection.create_session()
            temporary = await replies.create_temporary_queue()
            producer = await session.create_producer(temporary.destination)
            await producer.send(Message((await bodies(first, 1))[0]))
            await producer.send(Message((await bodies(second, 1))[0]))
            seen = await replies.create_consumer(temporary.destination)
            assert await seen.receive_no_wait() is None
            await session.rollback()
            assert await seen.receive_no_wait() is None
            again = [await first.receive(timeout_s=10), await second.receive(timeout_s=10)]
            assert {message.body for message in again if message} == {"1", "2"}
            assert all(message.redelivered for message in again if message)
            await producer.send("sum")
            await session.commit()
            assert await bodies(seen, 1) == ["sum"]
            assert depth(broker, queue) == 0

    act()


@pytest.mark.parametrize("prefetch", [0, 1, 4, 1000])
def test_what_is_rolled_back_comes_again_in_order_and_before_the_prefetched(
    broker: BrokerThread, queue: str, prefetch: int
) -> None:
    fill(broker, queue, *"abcdefgh")

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            consumer = await session.create_consumer(queue, prefetch=prefetch)
            assert await bodies(consumer, 3) == ["a", "b", "c"]
            await session.rollback()
            found = [await consumer.receive(timeout_s=10) for _ in range(8)]
            assert [message.body for message in found if message] == list("abcdefgh")
            assert [message.delivery_count for message in found if message] == [1, 1, 1, 0, 0, 0, 0, 0]
            await session.commit()
            assert depth(broker, queue) == 0

    act()


def test_closing_rolls_back(broker: BrokerThread, queue: str) -> None:
    fill(broker, queue, "a", "b", "c")

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 2) == ["a", "b"]
            await (await session.create_producer(queue)).send("never")
            await session.close()
            await session.close()
            with pytest.raises(IllegalStateException):
                await session.commit()
        async with transacted(broker) as (_, session):
            consumer = await session.create_consumer(queue)
            found = [await consumer.receive(timeout_s=10) for _ in range(3)]
            counts = [(message.body, message.delivery_count) for message in found if message]
            assert counts == [("a", 1), ("b", 1), ("c", 0)]
            assert await consumer.receive_no_wait() is None
            await session.commit()

    act()


@pytest.mark.parametrize("commits", [True, False])
def test_a_consumer_may_close_before_the_transaction_ends(
    broker: BrokerThread, queue: str, commits: bool
) -> None:
    fill(broker, queue, "a")

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 1) == ["a"]
            await consumer.close()
            await (session.commit() if commits else session.rollback())
            assert depth(broker, queue) == (0 if commits else 1)

    act()


def test_a_refused_send_rolls_the_transaction_back(broker: BrokerThread, queue: str) -> None:
    """A transaction is whole: it isn't committed without a message that it was given."""

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            await (await session.create_producer(queue)).send("whole")
            small = await session.create_producer("small", send_timeout_ms=0)
            for number in range(3):
                await small.send(f"{number}")
            with pytest.raises(TransactionRolledBackException, match="refused"):
                await session.commit()
            assert (depth(broker, queue), depth(broker, "small")) == (0, 0)
            await small.send("fits")
            await session.commit()
            assert depth(broker, "small") == 1

    act()


@pytest.mark.parametrize("fits", [True, False])
def test_a_producer_may_close_before_the_transaction_ends(broker: BrokerThread, fits: bool) -> None:
    """What the broker says of its sends isn't lost with it."""

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            producer = await session.create_producer("narrow", send_timeout_ms=0)
            for number in range(2 if fits else 3):
                await producer.send(f"{number}")
            await producer.close()
            if fits:
                await session.commit()
            else:
                with pytest.raises(TransactionRolledBackException, match="refused"):
                    await session.commit()
            consumer = await session.create_consumer("narrow")
            assert await bodies(consumer, 2 if fits else 0) == ["0", "1"][: 2 if fits else 0]
            await session.commit()

    act()


def test_a_link_that_ends_under_a_send_rolls_the_transaction_back(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            producer = await session.create_producer(queue)
            await producer.send("a")
            await producer.send("b")
            producer._sending.lose(InvalidDestinationException("the queue is gone"))
            with pytest.raises(TransactionRolledBackException, match="the queue is gone"):
                await session.commit()
            assert depth(broker, queue) == 0

    act()


def test_settled_sends_are_in_the_transaction(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            producer = await session.create_producer(queue, settled=True)
            await producer.send("undone")
            await session.rollback()
            await producer.send("done")
            await session.commit()
            assert depth(broker, queue) == 1

    act()


def test_a_transaction_that_the_broker_has_ended_is_told_at_the_commit(
    broker: BrokerThread, queue: str
) -> None:
    fill(broker, queue, "a", "b")

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 1) == ["a"]
            assert session._transaction is not None
            txn_id = session._transaction._txn_id
            assert txn_id is not None
            await session._transaction._discharge(txn_id, True)
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
            assert await bodies(consumer, 2) == ["a", "b"]
            await session.commit()
            assert depth(broker, queue) == 0

    act()


def test_a_control_link_that_the_broker_ends_is_made_again(broker: BrokerThread, queue: str) -> None:
    """What it had declared is rolled back, which the commit tells; the next transaction works."""

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            producer = await session.create_producer(queue)
            await producer.send("lost")
            await producer.send("lost")
            assert session._transaction is not None
            with pytest.raises(JMSException, match="larger than any request"):
                outcome = await session._transaction._coordinator.send(bytes(100_000), False, 5)
                assert outcome is not None
                await outcome
            await producer.send("dropped")
            with pytest.raises(TransactionRolledBackException, match="in doubt"):
                await session.commit()
            assert depth(broker, queue) == 0
            await producer.send("done")
            await session.commit()
            assert depth(broker, queue) == 1

    act()


def test_without_work_commit_and_rollback_do_nothing(broker: BrokerThread) -> None:
    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            await session.commit()
            await session.rollback()
            assert session.is_transacted
            assert session._transaction is not None
            assert session._transaction._txn_id is None

    act()


def test_individual_outcomes_are_an_illegal_state(broker: BrokerThread, queue: str) -> None:
    fill(broker, queue, "a")

    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (connection, session):
            consumer = await session.create_consumer(queue)
            message = await consumer.receive(timeout_s=10)
            assert message is not None
            for verb in (consumer.accept, consumer.release, consumer.reject, consumer.modify):
                with pytest.raises(IllegalStateException, match="transacted"):
                    await verb(message)
            with pytest.raises(IllegalStateException):
                await session.acknowledge()
            plain = await connection.create_session()
            assert not plain.is_transacted
            for end in (plain.commit, plain.rollback):
                with pytest.raises(IllegalStateException, match="SESSION_TRANSACTED"):
                    await end()

    act()


def test_sessions_have_transactions_of_their_own(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (connection, first):
            second = await connection.create_session(TRANSACTED)
            await (await first.create_producer(queue)).send("first")
            await (await second.create_producer(queue)).send("second")
            await second.commit()
            await first.rollback()
            assert await bodies(await second.create_consumer(queue), 1) == ["second"]
            await second.commit()

    act()


def test_producers_of_one_session_may_send_at_the_same_time(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with transacted(broker) as (_, session):
            producers = [await session.create_producer(queue) for _ in range(5)]
            await asyncio.gather(*(each.send(f"{n}") for n, each in enumerate(producers)))
            await session.commit()
            assert depth(broker, queue) == 5

    act()


def test_the_blocking_face(broker: BrokerThread, queue: str) -> None:
    with sync.ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session(TRANSACTED)
        session.create_producer(queue).send("a")
        session.rollback()
        session.create_producer(queue).send("b")
        session.commit()
        consumer = session.create_consumer(queue)
        message = consumer.receive(timeout_s=10)
        assert message is not None
        assert message.body == "b"
        session.commit()
        assert consumer.receive_no_wait() is None
