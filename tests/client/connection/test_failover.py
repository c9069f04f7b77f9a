"""Fail-over: what the caller sees when the connection breaks, beside the six cases; the connection goes
through a proxy to a real broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from postroom.client import (
    AcknowledgeMode,
    JMSTimeoutException,
    TransactionRolledBackException,
)
from postroom.client.aio import MessageConsumer, MessageProducer, QueueBrowser, Session
from postroom.client.connection.options import ClientOptions, RecoverMode
from postroom.server.configuration.config import QueueConfig
from tests.client.breakable_connection import (
    bodies,
    broken,
    context,
    discharge,
    fill,
    named,
    nth_send,
    outcomes,
    texts,
)
from tests.client.fake_broker import asynchronous
from tests.faults.proxy import CLIENT, CutPoint, FaultyProxy
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets
TRANSACTED = AcknowledgeMode.SESSION_TRANSACTED
QUEUES = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(queue=[QueueConfig(name=f"q{n}") for n in range(QUEUES)])) as running:
        yield running


_taken = iter(range(QUEUES))


@pytest.fixture
def queue(broker: BrokerThread) -> str:
    """A queue of this test's own."""
    return f"q{next(_taken)}"


def test_a_send_whose_time_is_up_is_not_sent_again(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker, nth_send(0, False), options=ClientOptions(send_timeout_s=0.2)) as line:
            connection = line.connection
            producer = await (await connection.create_session()).create_producer(queue)
            line.proxy.hold()
            with pytest.raises(JMSTimeoutException):
                await producer.send("never")
            with pytest.raises(JMSTimeoutException):
                await producer.send("offline")
            line.proxy.let()
            await line.watch.online()
            await producer.send(named("a"))
        assert await texts(broker, queue) == [("a", "ID:a")]

    act()


def test_what_is_sent_again_is_only_what_is_in_flight(broker: BrokerThread, queue: str) -> None:
    """Nothing is kept of what has its outcome."""

    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            connection = line.connection
            producer = await (await connection.create_session()).create_producer(queue)
            await producer.send_all(f"{number}" for number in range(100))
            await asyncio.sleep(0)
            assert len(producer._sending._unsettled) == 0
        assert len(await texts(broker, queue)) == 100

    act()


def test_sends_at_the_same_time_are_sent_again_in_order(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker, nth_send(5, False)) as line:
            connection = line.connection
            producer = await (await connection.create_session()).create_producer(queue)
            assert await producer.send_all(f"{number}" for number in range(20)) == 20
        found = [body for body, _ in await texts(broker, queue)]
        assert list(dict.fromkeys(found)) == [f"{number}" for number in range(20)]

    act()


@pytest.mark.parametrize("while_offline", [True, False])
def test_a_rollback_in_flight_or_offline_succeeds(
    broker: BrokerThread, queue: str, while_offline: bool
) -> None:
    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a")
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 1) == ["a"]
            if while_offline:
                await line.go_offline()
            else:
                line.proxy.cuts.append(discharge(False))
            await session.rollback()
            line.proxy.let()
            assert await bodies(consumer, 1) == ["a"]
            await session.commit()
        assert await texts(broker, queue) == []

    act()


def test_what_is_created_offline_waits_for_the_reconnect(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a")
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session()
            await line.go_offline()
            made: list[asyncio.Future[object]] = [
                asyncio.ensure_future(connection.create_session()),
                asyncio.ensure_future(connection.create_session(TRANSACTED)),
                asyncio.ensure_future(session.create_producer(queue)),
                asyncio.ensure_future(session.create_consumer(queue, prefetch=0)),
                asyncio.ensure_future(session.create_browser(queue)),
                asyncio.ensure_future(session.create_temporary_queue()),
            ]
            for _ in range(20):
                await asyncio.sleep(0)
            assert not any(each.done() for each in made)
            line.proxy.let()
            consumer = (await asyncio.gather(*made))[3]
            assert isinstance(consumer, MessageConsumer)
            assert await bodies(consumer, 1) == ["a"]

    act()


@pytest.mark.parametrize("prefetch", [0, 10])
@pytest.mark.parametrize("now", [False, True])
def test_a_receive_offline_waits_for_the_reconnect(
    broker: BrokerThread, queue: str, prefetch: int, now: bool
) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session()
            consumer = await session.create_consumer(queue, prefetch=prefetch)
            await line.go_offline()
            pull = asyncio.ensure_future(consumer.receive_no_wait() if now else consumer.receive())
            await fill(broker, queue, "a")
            assert not pull.done()
            line.proxy.let()
            message = await pull
            assert message is not None
            assert message.body == "a"

    act()


@pytest.mark.parametrize("prefetch", [0, 10])
def test_a_receive_whose_time_is_up_waits_for_no_reconnect(
    broker: BrokerThread, queue: str, prefetch: int
) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            session = await line.connection.create_session()
            consumer = await session.create_consumer(queue, prefetch=prefetch)
            await line.go_offline()
            assert await consumer.receive(timeout_s=0.01) is None
            line.proxy.let()
            await line.watch.online()
            line.proxy.cuts.append(
                CutPoint(CLIENT, "flow", flows(line.proxy, 1), False, line.proxy.connections - 1)
            )
            line.proxy.hold()
            assert await consumer.receive(timeout_s=0.01) is None
            line.proxy.let()

    act()


def flows(proxy: FaultyProxy, connection: int) -> int:
    """Those of the client on a connection until now."""
    return sum(
        (place.sender, place.frame, place.after, place.connection) == (CLIENT, "flow", True, connection)
        for place in proxy.seen
    )


def test_a_receive_under_way_goes_on_after_the_reconnect(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session()
            for prefetch in (0, 10):
                consumer = await session.create_consumer(queue, prefetch=prefetch)
                waiting = asyncio.ensure_future(consumer.receive())
                await line.break_and_recover()
                await fill(broker, queue, "a")
                message = await waiting
                assert message is not None
                assert message.body == "a"
                await consumer.close()

    act()


def test_closing_offline_succeeds_at_once(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session()
            transacted = await connection.create_session(TRANSACTED)
            opened: list[MessageProducer | MessageConsumer | QueueBrowser | Session] = [
                await session.create_producer(queue),
                await session.create_consumer(queue),
                await session.create_browser(queue),
                session,
                transacted,
            ]
            temporary = await connection.create_session()
            destination = await temporary.create_temporary_queue()
            await line.go_offline()
            await destination.delete()
            for each in opened:
                await each.close()
            await connection.close()

    act()


@pytest.mark.parametrize("recover", RecoverMode)
def test_recover_start_and_stop_offline_succeed_at_once(
    broker: BrokerThread, queue: str, recover: RecoverMode
) -> None:
    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a", "b")
        async with broken(broker) as line:
            session = await line.connection.create_session(AcknowledgeMode.CLIENT, recover=recover)
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 1) == ["a"]
            await line.go_offline()
            await session.recover()
            await line.connection.stop()
            await line.connection.start()
            line.proxy.let()
            assert await bodies(consumer, 2) == ["a", "b"]
            await session.acknowledge()
        assert await texts(broker, queue) == []

    act()


def test_a_transaction_begun_offline_is_in_doubt_only_with_work_before_the_break(
    broker: BrokerThread, queue: str
) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            producer = await session.create_producer(queue)
            await line.break_and_recover()
            await producer.send(named("a"))
            await session.commit()
            await producer.send(named("b"))
            await producer.send(named("lost"))
            await outcomes(session)
            await line.go_offline()
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
            line.proxy.let()
            await producer.send(named("c"))
            await session.commit()
        assert [body for body, _ in await texts(broker, queue)] == ["a", "c"]

    act()


def test_a_second_break_doesn_t_clear_the_doubt(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            producer = await session.create_producer(queue)
            await producer.send("a")
            await producer.send("b")
            await outcomes(session)
            await line.break_and_recover()
            await producer.send("dropped")
            await line.break_and_recover()
            with pytest.raises(TransactionRolledBackException):
                await session.commit()
        assert await texts(broker, queue) == []

    act()


def test_a_first_send_moves_over_any_number_of_breaks(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        cuts = [CutPoint(CLIENT, "transfer", 0, True, number) for number in range(3)]
        async with broken(broker, *cuts) as line:
            connection = line.connection
            session = await connection.create_session(TRANSACTED)
            producer = await session.create_producer(queue)
            await producer.send(named("a"))
            for number in range(len(cuts)):
                await line.watch.online(number + 1)
                await context(session)._begin()
            await session.commit()
        assert [body for body, _ in await texts(broker, queue)] == ["a"]

    act()
