"""Sending: outcomes and their exceptions, credit, settled messages, producers without a queue."""

from __future__ import annotations

import asyncio

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.engine.receiver import ReceiverLink
from postroom.amqp.engine.states import CLOSED
from postroom.amqp.frames.outcomes import DeliveryState, Modified, Rejected, Released
from postroom.client import (
    ClientOptions,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    JMSTimeoutException,
    Message,
    MessageModifiedException,
    MessageRejectedException,
    MessageReleasedException,
    ResourceAllocationException,
    TransactionRolledBackException,
)
from postroom.client.aio import MessageProducer
from postroom.client.messages.message import decode_message
from tests.client.fake_broker import FakeBroker, asynchronous


async def producer_for(broker: FakeBroker, queue: str | None = "q", **options: object) -> MessageProducer:
    sending = ClientOptions(send_timeout_s=float(str(options.pop("send_timeout_s", 10.0))))
    connection = await broker.connect(request_timeout_s=10.0, options=sending)
    session = await connection.create_session()
    return await session.create_producer(queue, settled=bool(options.get("settled")))


@asynchronous
async def test_a_message_arrives_and_send_waits_for_its_outcome() -> None:
    async with FakeBroker() as broker:
        producer = await producer_for(broker)
        await producer.send(Message("hello", properties={"n": 1}))
        ((address, payload, settled),) = broker.received
        assert (address, settled, producer.destination) == ("q", False, "q")
        message = decode_message(payload)
        assert (message.body, message.properties, message.destination) == ("hello", {"n": 1}, "q")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Rejected(Error("amqp:not-found", "gone")), InvalidDestinationException),
        (Rejected(Error("amqp:resource-limit-exceeded", "full")), ResourceAllocationException),
        (Rejected(Error("amqp:unauthorized-access", "no")), JMSSecurityException),
        (Rejected(Error("amqp:transaction:rollback", "no")), TransactionRolledBackException),
        (Rejected(Error("amqp:precondition-failed", "no")), MessageRejectedException),
        (Rejected(), MessageRejectedException),
        (Released(), MessageReleasedException),
        (Modified(True, False), MessageModifiedException),
    ],
)
@asynchronous
async def test_each_outcome_has_its_exception(outcome: DeliveryState, expected: type[JMSException]) -> None:
    async with FakeBroker() as broker:
        broker.outcome = outcome
        producer = await producer_for(broker)
        with pytest.raises(JMSException) as raised:
            await producer.send("a")
        assert type(raised.value) is expected
        if isinstance(outcome, Rejected) and outcome.error is not None:
            assert raised.value.condition == outcome.error.condition
            assert str(outcome.error.description) in raised.value.description


@asynchronous
async def test_a_refused_producer_gives_the_reason() -> None:
    async with FakeBroker() as broker:
        broker.refused["q"] = Error("amqp:not-found", "no queue q")
        with pytest.raises(InvalidDestinationException, match="no queue q"):
            await producer_for(broker)


@asynchronous
async def test_a_producer_that_the_broker_closes_fails_its_sends() -> None:
    async with FakeBroker() as broker:
        broker.outcome = None
        producer = await producer_for(broker)
        sending = asyncio.ensure_future(producer.send("a"))
        await broker.until(lambda: len(broker.received) == 1)
        broker.attached[0].link.detach(error=Error("amqp:resource-deleted", "queue deleted"))
        broker.connections[0].flush()
        with pytest.raises(InvalidDestinationException, match="queue deleted"):
            await sending
        with pytest.raises(InvalidDestinationException, match="queue deleted"):
            await producer.send("b")


@asynchronous
async def test_a_broker_that_wants_to_acquire_in_a_transaction_is_refused() -> None:
    """Our producers' messages are in the transactions of their sessions, or in none."""
    async with FakeBroker() as broker:
        producer = await producer_for(broker)
        link = broker.attached[0].link
        assert isinstance(link, ReceiverLink)
        link.flow(5, txn_id=b"theirs")
        broker.connections[0].flush()
        await broker.until(lambda: link.remote_state == CLOSED)
        with pytest.raises(JMSException, match="acquires nothing in transactions"):
            await producer.send("a")


@asynchronous
async def test_send_waits_for_credit() -> None:
    async with FakeBroker() as broker:
        broker.credit = 0
        producer = await producer_for(broker)
        sending = [asyncio.ensure_future(producer.send(text)) for text in "abc"]
        link = broker.attached[0].link
        link.flow(2)  # type: ignore[attr-defined]
        broker.connections[0].flush()
        await broker.until(lambda: len(broker.received) == 2)
        link.flow(1)  # type: ignore[attr-defined]
        broker.connections[0].flush()
        await asyncio.gather(*sending)
        assert [decode_message(payload).body for _, payload, _ in broker.received] == ["a", "b", "c"]


@asynchronous
async def test_no_credit_in_time_is_a_timeout() -> None:
    async with FakeBroker() as broker:
        broker.credit = 0
        producer = await producer_for(broker, send_timeout_s=0.05)
        with pytest.raises(JMSTimeoutException, match="credit"):
            await producer.send("a")
        assert broker.received == []


@asynchronous
async def test_no_outcome_in_time_is_a_timeout() -> None:
    async with FakeBroker() as broker:
        broker.outcome = None
        producer = await producer_for(broker, send_timeout_s=0.05)
        with pytest.raises(JMSTimeoutException, match="send to the producer for q"):
            await producer.send("a")


@asynchronous
async def test_settled_messages_wait_for_nothing() -> None:
    async with FakeBroker() as broker:
        broker.outcome = None
        producer = await producer_for(broker, settled=True)
        assert await producer.send_all(["a", b"b"]) == 2
        await producer.close()
        assert [settled for _, _, settled in broker.received] == [True, True]


@asynchronous
async def test_send_all_sends_before_the_outcomes_come() -> None:
    async with FakeBroker() as broker:
        producer = await producer_for(broker)
        count = 3 * broker.credit
        link_flow = broker.on_message

        def renew(address: str | None, payload: bytes) -> None:
            link_flow(address, payload)
            broker.attached[0].link.flow(broker.credit)  # type: ignore[attr-defined]

        broker.on_message = renew
        assert await producer.send_all(Message(number) for number in range(count)) == count
        assert [decode_message(payload).body for _, payload, _ in broker.received] == list(range(count))


@asynchronous
async def test_send_all_raises_the_first_that_was_refused() -> None:
    async with FakeBroker() as broker:
        broker.outcome = Rejected(Error("amqp:resource-limit-exceeded", "full"))
        producer = await producer_for(broker)
        with pytest.raises(ResourceAllocationException):
            await producer.send_all(["a", "b"])


@asynchronous
async def test_a_large_message_goes_in_many_frames() -> None:
    async with FakeBroker() as broker:
        broker.max_frame_size_bytes = 1024
        producer = await producer_for(broker)
        body = bytes(range(256)) * 400
        await producer.send(body)
        assert decode_message(broker.received[0][1]).body == body


@asynchronous
async def test_a_message_above_the_brokers_limit_is_not_sent() -> None:
    async with FakeBroker() as broker:
        broker.max_message_size = 1_000
        producer = await producer_for(broker)
        with pytest.raises(ResourceAllocationException, match="1000"):
            await producer.send(bytes(1_000))
        await producer.send(b"small")
        assert len(broker.received) == 1


@asynchronous
async def test_a_producer_without_a_queue_needs_a_destination() -> None:
    async with FakeBroker() as broker:
        producer = await producer_for(broker, None)
        with pytest.raises(JMSException, match="destination"):
            await producer.send("a")
        await producer.send("a", destination="one")
        await producer.send(Message("b", destination="two"))
        assert [decode_message(payload).destination for _, payload, _ in broker.received] == ["one", "two"]
        assert broker.attached[0].attach.target is not None


@asynchronous
async def test_a_producer_for_a_queue_sends_nowhere_else() -> None:
    async with FakeBroker() as broker:
        producer = await producer_for(broker)
        with pytest.raises(JMSException, match="can't send to other"):
            await producer.send("a", destination="other")


@asynchronous
async def test_credit_goes_to_those_who_waited_longest() -> None:
    """Also when a new sender comes in the moment between the credit's arrival and the waiting one's turn."""
    async with FakeBroker() as broker:
        broker.credit = 0
        producer = await producer_for(broker)
        first = asyncio.ensure_future(producer.send("first"))
        await asyncio.sleep(0)
        broker.attached[0].link.flow(1)  # type: ignore[attr-defined]
        broker.connections[0].flush()
        late: list[asyncio.Future[None]] = []
        inner = producer._sending.on_credit

        def on_credit() -> None:
            inner()
            if not late:
                late.append(asyncio.ensure_future(producer.send("late")))

        producer._sending.on_credit = on_credit  # type: ignore[method-assign]
        await first
        broker.attached[0].link.flow(1)  # type: ignore[attr-defined]
        broker.connections[0].flush()
        await late[0]
        assert [decode_message(payload).body for _, payload, _ in broker.received] == ["first", "late"]


@asynchronous
async def test_credit_of_one_who_gave_up_goes_to_the_next() -> None:
    async with FakeBroker() as broker:
        broker.credit = 0
        producer = await producer_for(broker)
        given_up = asyncio.ensure_future(producer.send("given up"))
        patient = asyncio.ensure_future(producer.send("patient"))
        await asyncio.sleep(0)
        inner = producer._sending.on_credit

        def on_credit() -> None:
            inner()
            given_up.cancel()

        producer._sending.on_credit = on_credit  # type: ignore[method-assign]
        broker.attached[0].link.flow(1)  # type: ignore[attr-defined]
        broker.connections[0].flush()
        await patient
        assert given_up.cancelled()
        assert [decode_message(payload).body for _, payload, _ in broker.received] == ["patient"]


@asynchronous
async def test_a_session_closes_its_producers() -> None:
    async with FakeBroker() as broker:
        session = await (await broker.connect()).create_session()
        producer = await session.create_producer("q")
        await session.close()
        await session.close()
        assert producer.is_closed and session.is_closed
        with pytest.raises(IllegalStateException, match="the producer for q is closed"):
            await producer.send("late")
        with pytest.raises(IllegalStateException, match="the session is closed"):
            await session.create_producer("q")
