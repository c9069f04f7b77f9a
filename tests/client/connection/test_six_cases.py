"""The six cases of a break, each exactly: a proxy cuts the connection to a real broker at the step that the
case is about.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postroom.client import (
    AcknowledgeMode,
    TransactionRolledBackException,
)
from postroom.server.configuration.config import QueueConfig
from tests.client.breakable_connection import (
    bodies,
    broken,
    discharge,
    fill,
    named,
    next_disposition,
    nth_send,
    outcomes,
    received,
    texts,
)
from tests.client.fake_broker import asynchronous
from tests.faults.proxy import BROKER, CutPoint
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets
TRANSACTED = AcknowledgeMode.SESSION_TRANSACTED
QUEUES = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    queues = [QueueConfig(name=f"q{number}") for number in range(QUEUES)]
    watched = QueueConfig(name="watched", duplicate_window=100)
    with BrokerThread(make_config(queue=[*queues, watched])) as running:
        yield running


_taken = iter(range(QUEUES))


@pytest.fixture
def queue(broker: BrokerThread) -> str:
    """A queue of this test's own."""
    return f"q{next(_taken)}"


@pytest.mark.parametrize(("after", "copies"), [(False, 1), (True, 2)])
def test_case_1_non_transacted_producer_with_an_unacknowledged_delivery(
    broker: BrokerThread, queue: str, after: bool, copies: int
) -> None:
    """The message is sent again after reconnect; no user action is required."""

    @asynchronous
    async def act() -> None:
        async with broken(broker, nth_send(1, after)) as line:
            connection = line.connection
            producer = await (await connection.create_session()).create_producer(queue)
            for text in "abc":
                await producer.send(named(text))
            assert line.proxy.cuts == []
        a, b, c = (("a", "ID:a"), ("b", "ID:b"), ("c", "ID:c"))
        assert await texts(broker, queue) == [a, *[b] * copies, c]

    act()


def test_a_duplicate_window_of_the_queue_removes_what_came_twice(broker: BrokerThread) -> None:
    @asynchronous
    async def act() -> None:
        cuts = nth_send(1, True), CutPoint(BROKER, "disposition", 0, False, 1)
        async with broken(broker, *cuts) as line:
            producer = await (await line.connection.create_session()).create_producer("watched")
            for text in "abc":
                await producer.send(named(text))
            assert line.proxy.cuts == []
        assert [body for body, _ in await texts(broker, "watched")] == ["a", "b", "c"]

    act()


@pytest.mark.parametrize("after", [False, True])
def test_case_2_transacted_producer_with_the_first_send_in_flight(
    broker: BrokerThread, queue: str, after: bool
) -> None:
    """The first send of a new transaction is sent again, and sending continues as normal."""

    @asynchronous
    async def act() -> None:
        async with broken(broker, nth_send(0, after)) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            producer = await session.create_producer(queue)
            await producer.send(named("a"))
            await line.watch.offline()
            await producer.send(named("b"))
            await session.commit()
            await producer.send(named("c"))
            await session.commit()
        assert [body for body, _ in await texts(broker, queue)] == ["a", "b", "c"]

    act()


@pytest.mark.parametrize("after", [False, True])
def test_case_2_transacted_producer_with_a_later_send_in_flight(
    broker: BrokerThread, queue: str, after: bool
) -> None:
    """The transaction is failed: everything until the commit seems to succeed, the commit raises, and the
    user resends.
    """

    @asynchronous
    async def act() -> None:
        async with broken(broker, nth_send(1, after)) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            producer = await session.create_producer(queue)
            await producer.send(named("a"))
            await producer.send(named("b"))
            await line.watch.offline()
            await producer.send(named("c"))
            with pytest.raises(TransactionRolledBackException, match="in doubt"):
                await session.commit()
            for text in "abc":
                await producer.send(named(text))
            await session.commit()
        assert [body for body, _ in await texts(broker, queue)] == ["a", "b", "c"]

    act()


@pytest.mark.parametrize(("cut", "may_be_done"), [
    (discharge(False), False),
    (discharge(True), True),
    (CutPoint(BROKER, "disposition", 3, False), True),
])  # fmt: skip
def test_case_3_transacted_producer_with_a_pending_commit(
    broker: BrokerThread, queue: str, cut: CutPoint, may_be_done: bool
) -> None:
    """The commit raises, even where the broker has done it."""

    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            producer = await session.create_producer(queue)
            await producer.send(named("a"))
            await producer.send(named("b"))
            await outcomes(session)
            line.proxy.cuts.append(next_disposition(line.proxy) if cut.sender == BROKER else cut)
            with pytest.raises(TransactionRolledBackException, match="during the commit"):
                await session.commit()
            await producer.send(named("c"))
            await session.commit()
        done = ["a", "b"] if may_be_done else []
        assert [body for body, _ in await texts(broker, queue)] == [*done, "c"]

    act()


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
def test_case_4_non_transacted_consumer_with_an_unacknowledged_delivery(
    broker: BrokerThread, queue: str, mode: AcknowledgeMode
) -> None:
    """Acknowledging what came before the break is no error and has no effect: the message comes again, with
    the same id.
    """

    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a", "b", "c")
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session(mode)
            consumer = await session.create_consumer(queue)
            first, second = await received(consumer), await received(consumer)
            await line.break_and_recover()
            await line.connection.create_session()  # its answer comes after the messages that come again
            if mode is AcknowledgeMode.CLIENT:
                await session.acknowledge()
            else:
                await consumer.accept(first)
                await consumer.reject(second)
            await line.connection.create_session()  # its answer comes after what was said of them
            await line.break_and_recover()
            again = [await received(consumer) for _ in range(3)]
            assert [each.body for each in again] == ["a", "b", "c"]
            assert [each.message_id for each in again[:2]] == [first.message_id, second.message_id]
            if mode is AcknowledgeMode.CLIENT:
                await session.acknowledge()
            else:
                for each in again:
                    await consumer.accept(each)
        assert await texts(broker, queue) == []

    act()


def test_case_5_transacted_consumer_with_an_uncommitted_transaction(broker: BrokerThread, queue: str) -> None:
    """Pending acknowledgements are dropped, the commit raises, and the messages come again."""

    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a", "b", "c", "d")
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 2) == ["a", "b"]
            await line.break_and_recover()
            assert await bodies(consumer, 3) == ["a", "b", "c"]
            with pytest.raises(TransactionRolledBackException, match="in doubt"):
                await session.commit()
            assert await bodies(consumer, 4) == ["a", "b", "c", "d"]
            await session.commit()
        assert await texts(broker, queue) == []

    act()


@pytest.mark.parametrize(("after", "again"), [(False, ["a", "b", "c"]), (True, ["c"])])
def test_case_6_transacted_consumer_with_a_pending_commit(
    broker: BrokerThread, queue: str, after: bool, again: list[str]
) -> None:
    """The commit raises; where the broker had done it, the messages don't come again."""

    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a", "b", "c")
        async with broken(broker, discharge(after)) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 2) == ["a", "b"]
            with pytest.raises(TransactionRolledBackException, match="during the commit"):
                await session.commit()
            assert await bodies(consumer, len(again)) == again
            await session.commit()
        assert await texts(broker, queue) == []

    act()
