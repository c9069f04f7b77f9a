"""Acknowledgement modes, recover, the ends of consumers and sessions, redelivery policy and local expiry."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from postroom.amqp.frames.outcomes import Accepted, Modified, Rejected, Released
from postroom.client import (
    AcknowledgeMode,
    ConnectionFactory,
    IllegalStateException,
    JMSException,
    Message,
    MessageFormatException,
    TextMessage,
)
from postroom.client.aio import MessageConsumer, Session
from tests.client.fake_broker import FakeBroker, asynchronous
from tests.client.fake_sessions import bodies, session_of, texts
from tests.client.sessions.consumers import consumer_in, last_outcomes
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


async def received(consumer: MessageConsumer, count: int = 1) -> list[Message]:
    found = [await consumer.receive(10) for _ in range(count)]
    return [message for message in found if message is not None]


# --- modes


@pytest.mark.parametrize("number", [-1, 4, 99, 102, 256, 258, "AUTO", None])
@asynchronous
async def test_any_other_number_is_no_session_mode(number: Any) -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        with pytest.raises(JMSException, match="invalid session mode"):
            await connection.create_session(number)


@pytest.mark.parametrize("number", [1, 2, 3, 100, 101, 257])
@asynchronous
async def test_modes_go_by_number(number: Any) -> None:
    async with FakeBroker() as broker:
        session = await (await broker.connect()).create_session(number)
        assert session.acknowledge_mode == number
        assert not session.is_transacted


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
@asynchronous
async def test_accepted_as_receive_returns_and_acknowledge_does_nothing(mode: AcknowledgeMode) -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_in(broker, mode, "a", "b")
        (message,) = await received(consumer)
        await message.acknowledge()
        await broker.until(lambda: bool(broker.dispositions))
        assert last_outcomes(broker) == {0: Accepted()}


@asynchronous
async def test_client_acknowledge_covers_the_session() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.CLIENT)
        broker.put("one", *texts("a", "b", "c"))
        broker.put("two", *texts("d"))
        one, two = await session.create_consumer("one"), await session.create_consumer("two")
        first, _ = await received(one, 2)
        await received(two)
        await first.acknowledge()
        await broker.until(lambda: len(last_outcomes(broker)) == 3)
        assert set(map(type, last_outcomes(broker).values())) == {Accepted}
        await first.acknowledge()


@asynchronous
async def test_acknowledge_need_not_be_awaited() -> None:
    async with FakeBroker() as broker:
        (message,) = await received(await consumer_in(broker, AcknowledgeMode.CLIENT, "a"))
        message.acknowledge()
        await broker.until(lambda: last_outcomes(broker) == {0: Accepted()})


@asynchronous
async def test_individual_acknowledge_covers_that_message_only() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.INDIVIDUAL)
        broker.put("q", *texts(*"abc"))
        _, message, _ = await received(await session.create_consumer("q"), 3)
        await message.acknowledge()
        await message.acknowledge()
        await session.close()
        assert last_outcomes(broker) == {0: Modified(True), 1: Accepted(), 2: Modified(True)}


@pytest.mark.parametrize("mode", [AcknowledgeMode.NO_ACKNOWLEDGE, AcknowledgeMode.PRE_ACKNOWLEDGE])
@asynchronous
async def test_no_acknowledge_is_settled_before_it_comes(mode: AcknowledgeMode) -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, mode)
        broker.put("q", *texts("a", "b"))
        consumer = await session.create_consumer("q")
        (message,) = await received(consumer)
        await message.acknowledge()
        await session.recover()
        assert await bodies(consumer, 1) == ["b"]
        await session.close()
        assert broker.dispositions == []
        assert broker.attached[0].attach.snd_settle_mode == 1


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
@asynchronous
async def test_acknowledge_after_the_session_is_closed(mode: AcknowledgeMode) -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, mode)
        broker.put("q", *texts("a"))
        (message,) = await received(await session.create_consumer("q"))
        await session.close()
        with pytest.raises(IllegalStateException, match="session is closed"):
            message.acknowledge()


@asynchronous
async def test_acknowledge_with_settle_second_waits_for_the_broker() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_in(broker, AcknowledgeMode.CLIENT, "a", settle_second=True)
        (message,) = await received(consumer)
        await message.acknowledge()
        assert broker.dispositions == [([0], Accepted(), False)]


@asynchronous
async def test_a_message_made_here_can_be_acknowledged_for_nothing() -> None:
    await TextMessage("a").acknowledge()


# --- recover


async def recovered(broker: FakeBroker, mode: AcknowledgeMode) -> tuple[Session, MessageConsumer]:
    session = await session_of(broker, mode)
    broker.put("q", *texts(*"abcd"))
    consumer = await session.create_consumer("q")
    assert [message.redelivered for message in await received(consumer, 3)] == [False] * 3
    await session.recover()
    return session, consumer


@asynchronous
async def test_recover_brings_back_in_order_and_ahead_of_what_was_prefetched() -> None:
    async with FakeBroker() as broker:
        session, consumer = await recovered(broker, AcknowledgeMode.CLIENT)
        again = await received(consumer, 4)
        assert [(message.body, message.delivery_count) for message in again] == [
            ("a", 1), ("b", 1), ("c", 1), ("d", 0)
        ]  # fmt: skip
        await session.recover()
        assert [message.delivery_count for message in await received(consumer, 4)] == [2, 2, 2, 1]
        assert broker.dispositions == []
        await session.acknowledge()
        await broker.until(lambda: len(last_outcomes(broker)) == 4)


@asynchronous
async def test_recover_leaves_what_was_acknowledged() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.INDIVIDUAL)
        broker.put("q", *texts(*"abc"))
        consumer = await session.create_consumer("q")
        _, second, _ = await received(consumer, 3)
        await second.acknowledge()
        await session.recover()
        assert await bodies(consumer, 2) == ["a", "c"]


@asynchronous
async def test_an_old_copy_of_a_recovered_message_decides_nothing() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.INDIVIDUAL)
        broker.put("q", *texts("a"))
        consumer = await session.create_consumer("q")
        (old,) = await received(consumer)
        await session.recover()
        (new,) = await received(consumer)
        await old.acknowledge()
        with pytest.raises(IllegalStateException, match="outcome already"):
            await consumer.reject(old)
        await consumer.reject(new)
        await broker.until(lambda: last_outcomes(broker) == {0: Rejected()})


@asynchronous
async def test_recover_in_auto_mode_has_nothing_to_bring_back() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.AUTO)
        broker.put("q", *texts("a", "b"))
        consumer = await session.create_consumer("q")
        await received(consumer)
        await session.recover()
        assert await bodies(consumer, 1) == ["b"]


# --- the end of a consumer


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
@asynchronous
async def test_a_consumer_stays_until_its_messages_are_acknowledged(mode: AcknowledgeMode) -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_in(broker, mode, "a", "b")
        (message,) = await received(consumer)
        await broker.until(lambda: not broker.messages["q"])
        await consumer.close()
        assert consumer.is_closed
        with pytest.raises(IllegalStateException, match="closed"):
            await consumer.receive()
        await broker.until(lambda: 1 in last_outcomes(broker))
        (peer,) = broker.connections
        assert last_outcomes(broker) == {1: Released()} and len(peer.senders) == 1
        await message.acknowledge()
        await broker.until(lambda: not peer.senders)
        assert last_outcomes(broker) == {0: Accepted(), 1: Released()}


@asynchronous
async def test_what_still_comes_for_a_closed_consumer_is_released() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_in(broker, AcknowledgeMode.CLIENT, "a", prefetch=10)
        (message,) = await received(consumer)
        (link,) = broker.connections[0].senders
        closing = consumer.close()
        link.send(texts("late")[0], b"late", False, context=7)
        broker.connections[0].flush()
        await closing
        await broker.until(lambda: last_outcomes(broker).get(7) == Released())
        await message.acknowledge()


@asynchronous
async def test_the_session_ends_a_consumer_that_stays() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.CLIENT)
        broker.put("q", *texts("a"))
        consumer = await session.create_consumer("q")
        await received(consumer)
        await consumer.close()
        await session.close()
        assert last_outcomes(broker) == {0: Modified(True)}
        assert broker.connections[0].senders == []


@asynchronous
async def test_what_a_closed_consumer_had_goes_back_when_the_session_recovers() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.CLIENT)
        broker.put("q", *texts("a"))
        consumer = await session.create_consumer("q")
        await received(consumer)
        await consumer.close()
        await session.recover()
        await broker.until(lambda: last_outcomes(broker) == {0: Modified(True)})
        await broker.until(lambda: not broker.connections[0].senders)


def test_acknowledging_in_the_blocking_face() -> None:
    with BrokerThread() as broker, ConnectionFactory(broker.url).create_connection() as connection:
        connection.create_session().create_producer("q").send_all(["a", "b", "c"])
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer("q")
        messages = [consumer.receive(10) for _ in range(3)]
        assert messages[1] is not None
        messages[1].acknowledge()
        session.recover()
        again = [consumer.receive(10) for _ in range(2)]
        assert [(each.body, each.delivery_count) for each in again if each] == [("a", 1), ("c", 1)]
        session.close()
        with pytest.raises(IllegalStateException):
            messages[1].acknowledge()


@asynchronous
async def test_closing_the_session_waits_for_a_consumer_that_is_ending() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.CLIENT)
        broker.put("q", *texts("a"))
        consumer = await session.create_consumer("q")
        (message,) = await received(consumer)
        await consumer.close()
        message.acknowledge()
        await session.close()
        assert last_outcomes(broker) == {0: Accepted()}
        assert broker.connections[0].senders == []
        await consumer.close()


@asynchronous
async def test_one_who_waits_is_told_when_the_consumer_is_closed() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_in(broker, AcknowledgeMode.CLIENT, "a", prefetch=1)
        await received(consumer)
        waiting = asyncio.ensure_future(consumer.receive())
        await broker.until(lambda: len(broker.credits) > 1)
        await consumer.close()
        with pytest.raises(IllegalStateException, match="closed"):
            await waiting


@asynchronous
async def test_a_body_of_another_type_leaves_the_message_where_it_was() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_in(broker, AcknowledgeMode.AUTO, "a", prefetch=0)
        with pytest.raises(MessageFormatException, match="no bytes"):
            await consumer.receive_body(bytes, 10)
        assert broker.dispositions == []
        assert await consumer.receive_body(str, 10) == "a"
        assert await consumer.receive_body(str, 0.01) is None
        await broker.until(lambda: last_outcomes(broker) == {0: Accepted()})
