"""Receiving: credit, time-outs, draining, acknowledgement modes and outcomes, browsing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.encoding.types import Symbol
from postroom.amqp.frames.outcomes import Accepted, Modified, Rejected, Released
from postroom.client import (
    AcknowledgeMode,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Message,
    MessageFormatException,
    ResourceAllocationException,
)
from postroom.client.aio import MessageConsumer
from postroom.client.messages.message import encode_message
from tests.client.fake_broker import FakeBroker, asynchronous
from tests.client.fake_sessions import bodies, session_of, texts


async def consumer_of(broker: FakeBroker, *words: str, **options: Any) -> MessageConsumer:
    broker.put("q", *texts(*words))
    mode = options.pop("mode", AcknowledgeMode.INDIVIDUAL)
    return await (await session_of(broker, mode)).create_consumer("q", **options)


@asynchronous
async def test_messages_come_in_order() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, "a", "b", "c")
        assert await bodies(consumer, 3) == ["a", "b", "c"]


@asynchronous
async def test_prefetch_is_renewed_at_half() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, *map(str, range(10)), prefetch=4)
        assert await bodies(consumer, 10) == [str(number) for number in range(10)]
        await broker.until(lambda: len(broker.credits) > 2)
        assert max(broker.credits) <= 4


@asynchronous
async def test_without_prefetch_each_receive_asks_for_one() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, "a", "b", "c", prefetch=0)
        assert await bodies(consumer, 2) == ["a", "b"]
        assert len(broker.messages["q"]) == 1
        assert set(broker.credits) == {1}


@asynchronous
async def test_receive_no_wait_asks_the_broker() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, "a", prefetch=0)
        message = await consumer.receive_no_wait()
        assert message is not None and message.body == "a"
        assert await consumer.receive_no_wait() is None


@asynchronous
async def test_receive_gives_up_after_its_time() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker)
        assert await consumer.receive(0.01) is None
        broker.put("q", *texts("late"))
        assert await bodies(consumer, 1) == ["late"]


@asynchronous
async def test_several_tasks_share_a_consumer() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker)
        waiting = [asyncio.ensure_future(consumer.receive()) for _ in range(3)]
        await broker.until(lambda: bool(broker.credits))
        broker.put("q", *texts("a", "b", "c"))
        received = await asyncio.gather(*waiting)
        assert sorted(str(message.body) for message in received if message is not None) == ["a", "b", "c"]


@asynchronous
async def test_each_outcome_reaches_the_broker() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, *"abcde")
        messages = [await consumer.receive(10) for _ in range(5)]
        accepted, released, rejected, modified, bare = [
            message for message in messages if message is not None
        ]
        await consumer.accept(accepted)
        await consumer.release(released)
        await consumer.reject(rejected, "amqp:decode-error", "not a number")
        await consumer.modify(modified, undeliverable_here=True, annotations={"x-opt-why": "late"})
        await consumer.reject(bare)
        await broker.until(lambda: len(broker.dispositions) == 5)
        assert broker.dispositions == [
            ([0], Accepted(), True),
            ([1], Released(), True),
            ([2], Rejected(Error("amqp:decode-error", "not a number")), True),
            ([3], Modified(True, True, {Symbol("x-opt-why"): "late"}), True),
            ([4], Rejected(), True),
        ]


@asynchronous
async def test_neighbours_leave_in_one_disposition() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, *"abcd")
        messages = [await consumer.receive(10) for _ in range(4)]
        for message in messages:
            assert message is not None
            await consumer.accept(message)
        await broker.until(lambda: bool(broker.dispositions))
        assert broker.dispositions == [([0, 1, 2, 3], Accepted(), True)]


@asynchronous
async def test_an_outcome_is_said_once() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, "a")
        message = await consumer.receive(10)
        assert message is not None
        await consumer.accept(message)
        with pytest.raises(IllegalStateException):
            await consumer.release(message)
        with pytest.raises(IllegalStateException):
            await consumer.accept(Message("made here"))


@asynchronous
async def test_a_message_of_another_consumer_is_refused() -> None:
    """Even where both have the same delivery id, as on two sessions."""
    async with FakeBroker() as broker:
        broker.put("q", *texts("a"))
        broker.put("r", *texts("b"))
        ours = await (await session_of(broker)).create_consumer("q")
        theirs = await (await session_of(broker)).create_consumer("r")
        mine, other = await ours.receive(10), await theirs.receive(10)
        assert mine is not None and other is not None and mine.delivery_id == other.delivery_id
        with pytest.raises(IllegalStateException):
            await ours.accept(other)
        await ours.accept(mine)


@asynchronous
async def test_bytes_that_are_no_message_are_not_sent_here_again() -> None:
    async with FakeBroker() as broker:
        broker.put("q", b"no message", *texts("good"))
        consumer = await (await session_of(broker)).create_consumer("q")
        with pytest.raises(MessageFormatException):
            await consumer.receive(10)
        assert await bodies(consumer, 1) == ["good"]
        await broker.until(lambda: bool(broker.dispositions))
        assert broker.dispositions[0] == ([0], Modified(True, True), True)


@asynchronous
async def test_auto_accepts_what_receive_returns() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, "a", "b", mode=AcknowledgeMode.AUTO)
        assert await bodies(consumer, 1) == ["a"]
        await broker.until(lambda: bool(broker.dispositions))
        assert broker.dispositions == [([0], Accepted(), True)]


@asynchronous
async def test_no_acknowledge_gets_settled_messages() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker, "a", mode=AcknowledgeMode.NO_ACKNOWLEDGE)
        assert await bodies(consumer, 1) == ["a"]
        await consumer.close()
        assert broker.dispositions == []


@asynchronous
async def test_client_mode_accepts_all_that_was_received() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.CLIENT)
        broker.put("one", *texts("a", "b", "c"))
        broker.put("two", *texts("d"))
        one, two = await session.create_consumer("one"), await session.create_consumer("two")
        assert await bodies(one, 2) == ["a", "b"]
        assert await bodies(two, 1) == ["d"]
        await session.acknowledge()
        await broker.until(lambda: sum(len(places) for places, _, _ in broker.dispositions) == 3)
        assert {type(state) for _, state, _ in broker.dispositions} == {Accepted}
        await session.acknowledge()


@asynchronous
async def test_acknowledge_is_for_client_mode() -> None:
    async with FakeBroker() as broker:
        with pytest.raises(IllegalStateException, match="INDIVIDUAL"):
            await (await session_of(broker)).acknowledge()


@asynchronous
async def test_settle_second_waits_for_the_broker() -> None:
    async with FakeBroker() as broker:
        broker.answer_settled = False
        consumer = await consumer_of(broker, "a", settle_second=True)
        message = await consumer.receive(10)
        assert message is not None
        accepting = asyncio.ensure_future(consumer.accept(message))
        await broker.until(lambda: bool(broker.dispositions))
        assert broker.dispositions == [([0], Accepted(), False)] and not accepting.done()
        link = broker.attached[0].link
        link.settle(0, 0, Accepted())  # type: ignore[attr-defined]
        broker.connections[0].flush()
        await accepting


@asynchronous
async def test_close_gives_back_what_was_not_settled() -> None:
    """What the application has seen counts as a failed attempt, what it has not seen does not."""
    async with FakeBroker() as broker:
        broker.put("q", *texts("seen", "unseen", "unseen too"))
        session = await session_of(broker)
        consumer = await session.create_consumer("q")
        assert await bodies(consumer, 1) == ["seen"]
        await broker.until(lambda: not broker.messages["q"])
        await session.close()
        assert consumer.is_closed
        fields = {place: state for places, state, _ in broker.dispositions for place in places}
        assert fields == {0: Modified(delivery_failed=True), 1: Released(), 2: Released()}
        with pytest.raises(IllegalStateException):
            await consumer.receive()


@asynchronous
async def test_closing_the_connection_does_so_too() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        broker.put("q", *texts("seen", "unseen"))
        consumer = await (await connection.create_session(AcknowledgeMode.INDIVIDUAL)).create_consumer("q")
        assert await bodies(consumer, 1) == ["seen"]
        await broker.until(lambda: not broker.messages["q"])
        await connection.close()
        fields = {place: state for places, state, _ in broker.dispositions for place in places}
        assert fields == {0: Modified(delivery_failed=True), 1: Released()}


@asynchronous
async def test_a_message_for_one_who_gave_up_goes_to_the_next() -> None:
    async with FakeBroker() as broker:
        consumer = await consumer_of(broker)
        given_up, patient = (asyncio.ensure_future(consumer.receive()) for _ in range(2))
        await broker.until(lambda: bool(broker.credits))
        inner = consumer._deliveries.receiving._wake_one

        def wake_one() -> None:
            inner()
            given_up.cancel()

        consumer._deliveries.receiving._wake_one = wake_one  # type: ignore[method-assign]
        broker.put("q", *texts("a"))
        message = await patient
        assert message is not None and message.body == "a" and given_up.cancelled()


@asynchronous
async def test_closing_a_session_closes_its_consumers() -> None:
    async with FakeBroker() as broker:
        async with await session_of(broker) as session:
            consumer = await session.create_consumer("q")
        assert consumer.is_closed


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("amqp:not-found", InvalidDestinationException),
        ("amqp:resource-locked", ResourceAllocationException),
        ("amqp:not-allowed", JMSException),
    ],
)
@asynchronous
async def test_a_refused_consumer_gives_the_reason(condition: str, expected: type[JMSException]) -> None:
    async with FakeBroker() as broker:
        broker.refused["q"] = Error(condition, "because")
        with pytest.raises(expected, match="because"):
            await consumer_of(broker)


@pytest.mark.parametrize("prefetch", [-1, 32_768])
@asynchronous
async def test_prefetch_has_bounds(prefetch: int) -> None:
    async with FakeBroker() as broker:
        with pytest.raises(JMSException, match="prefetch"):
            await consumer_of(broker, prefetch=prefetch)


@asynchronous
async def test_exclusive_and_selector_are_asked_for() -> None:
    async with FakeBroker() as broker:
        await consumer_of(broker, exclusive=True, selector="colour = 'green'")
        attach = broker.attached[0].attach
        assert attach.properties == {"exclusive": True}
        assert attach.source is not None and attach.source.filter is not None
        (selector,) = attach.source.filter.values()
        assert getattr(selector, "value", None) == "colour = 'green'"


@asynchronous
async def test_a_message_in_many_frames_arrives_whole() -> None:
    async with FakeBroker() as broker:
        body = bytes(range(256)) * 2_000
        broker.put("q", encode_message(Message(body), None))
        consumer = await (
            await (await broker.connect(max_frame_size_bytes=512)).create_session()
        ).create_consumer("q")
        assert await bodies(consumer, 1) == [body]


@asynchronous
async def test_a_browser_sees_all_and_ends() -> None:
    async with FakeBroker() as broker:
        broker.put("q", *texts("a", "b", "c"))
        browser = await (await session_of(broker)).create_browser("q")
        assert [message.body async for message in browser] == ["a", "b", "c"]
        await browser.close()
        source = broker.attached[0].attach.source
        assert source is not None and source.distribution_mode == "copy"


@asynchronous
async def test_a_reply_consumer_has_an_address_of_its_own() -> None:
    async with FakeBroker() as broker:
        consumer = await (await session_of(broker)).create_reply_consumer()
        assert consumer.address == "made-for-you"
