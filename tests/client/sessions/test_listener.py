"""Message listeners, start and stop, the exception listener: one call at a time, and what may be done in
it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.frames.outcomes import Accepted, Modified, Rejected, Released
from postroom.client import (
    AcknowledgeMode,
    ClientOptions,
    Connection,
    ConnectionFactory,
    ConnectionLostException,
    DeliveryMode,
    IllegalStateException,
    JMSException,
    Message,
    MessageRejectedException,
    RedeliveryOutcome,
    RedeliveryPolicy,
)
from postroom.client.aio import Session
from tests.client.fake_broker import FakeBroker, asynchronous
from tests.client.fake_sessions import bodies, session_of, texts
from tests.client.sessions.consumers import last_outcomes
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets


class Listener:
    """Notes what it is given; ``then`` is done in the call."""

    def __init__(self, then: Any = None) -> None:
        self.seen: list[object] = []
        self.counts: list[int] = []
        self.failures: list[Exception] = []
        self.then = then
        self.changed = asyncio.Event()

    async def __call__(self, message: Message) -> None:
        self.seen.append(message.body)
        self.counts.append(message.delivery_count)
        self.changed.set()
        if self.then is not None:
            try:
                await self.then(message)
            except JMSException as failure:
                self.failures.append(failure)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.seen) < count:
                self.changed.clear()
                await self.changed.wait()


async def listening(
    broker: FakeBroker,
    listener: Any,
    *words: str,
    mode: AcknowledgeMode = AcknowledgeMode.AUTO,
    **options: Any,
) -> Session:
    session = await session_of(broker, mode)
    consumer = await session.create_consumer("q", **options)
    await consumer.set_message_listener(listener)
    broker.put("q", *texts(*words))
    return session


@pytest.mark.parametrize("prefetch", [0, 1, 10])
@asynchronous
async def test_a_listener_gets_the_messages_in_order(prefetch: int) -> None:
    async with FakeBroker() as broker:
        listener = Listener()
        await listening(broker, listener, *"abc", prefetch=prefetch)
        await listener.until(3)
        assert listener.seen == ["a", "b", "c"]
        await broker.until(lambda: last_outcomes(broker) == dict.fromkeys(range(3), Accepted()))


@asynchronous
async def test_a_plain_function_listens_too() -> None:
    async with FakeBroker() as broker:
        seen: list[object] = []
        await listening(broker, lambda message: seen.append(message.body), "a")
        await broker.until(lambda: last_outcomes(broker) == {0: Accepted()})
        assert seen == ["a"]


@asynchronous
async def test_accepted_when_the_listener_has_returned() -> None:
    async with FakeBroker() as broker:
        may_return = asyncio.Event()

        async def then(message: Message) -> None:
            await may_return.wait()

        listener = Listener(then)
        await listening(broker, listener, "a", "b")
        await listener.until(1)
        assert listener.seen == ["a"] and broker.dispositions == []
        may_return.set()
        await broker.until(lambda: len(last_outcomes(broker)) == 2)


def fail(message: Message) -> None:
    raise RuntimeError("no")


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
@asynchronous
async def test_a_listener_that_raises_has_failed(mode: AcknowledgeMode) -> None:
    async with FakeBroker() as broker:
        await listening(broker, fail, "a", "b", mode=mode)
        await broker.until(lambda: last_outcomes(broker) == {0: Modified(True), 1: Modified(True)})


@asynchronous
async def test_a_listener_that_raises_releases_where_that_is_asked_for() -> None:
    """As with Qpid JMS."""
    policy = RedeliveryPolicy(listener_failure=RedeliveryOutcome.RELEASED)
    async with FakeBroker() as broker:
        session = await (await broker.connect(options=ClientOptions(redelivery=policy))).create_session()
        broker.put("q", *texts("a"))
        await (await session.create_consumer("q")).set_message_listener(fail)
        await broker.until(lambda: last_outcomes(broker) == {0: Released()})


@asynchronous
async def test_a_listener_that_raises_in_client_mode_changes_nothing() -> None:
    async with FakeBroker() as broker:
        given = asyncio.Event()

        def fail(message: Message) -> None:
            given.set()
            raise RuntimeError("no")

        session = await listening(broker, fail, "a", mode=AcknowledgeMode.CLIENT)
        await given.wait()
        await session.close()
        assert last_outcomes(broker) == {0: Modified(True)}


@asynchronous
async def test_one_call_at_a_time_in_a_session() -> None:
    async with FakeBroker() as broker:
        inside = 0
        most = 0
        seen: list[object] = []

        async def listen(message: Message) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            seen.append(message.body)

        session = await session_of(broker, AcknowledgeMode.AUTO)
        for queue in ("one", "two"):
            broker.put(queue, *texts(*"abcde"))
            await (await session.create_consumer(queue)).set_message_listener(listen)
        await broker.until(lambda: len(last_outcomes(broker)) == 10)
        assert len(seen) == 10 and most == 1


@asynchronous
async def test_receive_is_refused_while_a_listener_listens() -> None:
    async with FakeBroker() as broker:
        consumer = await (await session_of(broker)).create_consumer("q")
        await consumer.set_message_listener(Listener())
        for attempt in (consumer.receive, consumer.receive_no_wait):
            with pytest.raises(IllegalStateException, match="listener"):
                await attempt()
        with pytest.raises(IllegalStateException, match="listener"):
            await consumer.receive_body(str)
        await consumer.set_message_listener(None)
        broker.put("q", *texts("a"))
        assert await bodies(consumer, 1) == ["a"]
        await consumer.close()
        with pytest.raises(IllegalStateException, match="closed"):
            await consumer.set_message_listener(Listener())


@asynchronous
async def test_bytes_that_are_no_message_do_not_end_a_listener() -> None:
    async with FakeBroker() as broker:
        broker.put("q", b"no message")
        listener = Listener()
        await listening(broker, listener, "good")
        await listener.until(1)
        await broker.until(lambda: last_outcomes(broker) == {0: Modified(True, True), 1: Accepted()})


@asynchronous
async def test_recover_in_a_listener_brings_the_message_again() -> None:
    async with FakeBroker() as broker:
        listener = Listener()
        session = await listening(broker, listener)

        async def then(message: Message) -> None:
            if not message.redelivered:
                await session.recover()

        listener.then = then
        broker.put("q", *texts("a", "b"))
        await listener.until(4)
        assert (listener.seen, listener.counts) == (["a", "a", "b", "b"], [0, 1, 0, 1])
        await broker.until(lambda: last_outcomes(broker) == {0: Accepted(), 1: Accepted()})


@asynchronous
async def test_a_consumer_may_be_closed_in_its_listener() -> None:
    async with FakeBroker() as broker:
        session = await session_of(broker, AcknowledgeMode.AUTO)
        consumer = await session.create_consumer("q", prefetch=10)
        listener = Listener(lambda message: consumer.close())
        broker.put("q", *texts("a", "b"))
        await consumer.set_message_listener(listener)
        await broker.until(lambda: not broker.connections[0].senders)
        assert listener.seen == ["a"] and listener.failures == []
        assert last_outcomes(broker) == {0: Accepted(), 1: Released()}


@asynchronous
async def test_session_and_connection_are_not_closed_in_a_listener_of_their_own() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        session = await connection.create_session()
        listener = Listener()
        for count, attempt in enumerate((session.close, connection.close, connection.stop), 1):

            async def then(message: Message, attempt: Any = attempt) -> None:
                await attempt()

            listener.then = then
            consumer = await session.create_consumer("q")
            await consumer.set_message_listener(listener)
            broker.put("q", *texts("a"))
            await listener.until(count)
            await consumer.close()
        assert [str(failure) for failure in listener.failures] == [
            "close of a session can't be done in a listener of its own",
            "close of a connection can't be done in a listener of its own",
            "stop of a connection can't be done in a listener of its own",
        ]


@asynchronous
async def test_closing_waits_for_the_call_under_way() -> None:
    async with FakeBroker() as broker:
        may_return = asyncio.Event()

        async def then(message: Message) -> None:
            await may_return.wait()

        listener = Listener(then)
        session = await listening(broker, listener, "a", "b")
        await listener.until(1)
        closing = asyncio.ensure_future(session.close())
        await asyncio.sleep(0)
        assert not closing.done()
        may_return.set()
        await closing
        assert listener.seen == ["a"]
        assert last_outcomes(broker) == {0: Accepted(), 1: Released()}


# --- start and stop


@asynchronous
async def test_a_stopped_connection_hands_out_nothing() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        session = await connection.create_session()
        consumer, listened = await session.create_consumer("q"), await session.create_consumer("r")
        listener = Listener()
        await listened.set_message_listener(listener)
        await connection.stop()
        broker.put("q", *texts("a"))
        broker.put("r", *texts("b"))
        await broker.until(lambda: not broker.messages["q"] and not broker.messages["r"])
        assert await consumer.receive_no_wait() is None
        assert await consumer.receive(0.01) is None
        waiting = asyncio.ensure_future(consumer.receive())
        await session.create_producer("q")
        assert listener.seen == [] and not waiting.done()
        await connection.start()
        message = await waiting
        assert message is not None and message.body == "a"
        await listener.until(1)


@asynchronous
async def test_a_receive_that_waits_already_gets_nothing_after_stop() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        consumer = await (await connection.create_session()).create_consumer("q")
        waiting = asyncio.ensure_future(consumer.receive())
        await broker.until(lambda: bool(broker.credits))
        await connection.stop()
        broker.put("q", *texts("a"))
        await (await connection.create_session()).create_producer("q")
        assert not waiting.done()
        await connection.start()
        message = await waiting
        assert message is not None and message.body == "a"


@asynchronous
async def test_start_and_stop_of_a_closed_connection() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        await connection.close()
        assert connection.is_closed
        for attempt in (connection.start, connection.stop):
            with pytest.raises(IllegalStateException, match="closed"):
                await attempt()


# --- exception listener


@asynchronous
async def test_the_exception_listener_hears_of_the_end() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        heard: asyncio.Future[JMSException] = asyncio.get_running_loop().create_future()
        await connection.set_exception_listener(heard.set_result)
        broker.connections[0].drop()
        assert isinstance(await asyncio.wait_for(heard, 10), ConnectionLostException)


@asynchronous
async def test_the_exception_listener_hears_of_sends_that_nobody_waits_for() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        heard: asyncio.Future[JMSException] = asyncio.get_running_loop().create_future()
        await connection.set_exception_listener(heard.set_result)
        broker.outcome = Rejected(Error("amqp:internal-error", "no"))
        producer = await (await connection.create_session()).create_producer("q")
        await producer.send("a", delivery_mode=DeliveryMode.NON_PERSISTENT)
        assert isinstance(await asyncio.wait_for(heard, 10), MessageRejectedException)


@asynchronous
async def test_closing_is_not_told_to_the_exception_listener() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        heard: list[JMSException] = []
        await connection.set_exception_listener(heard.append)
        await connection.close()
        assert heard == []


@asynchronous
async def test_an_exception_listener_that_raises_is_only_logged() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        called = asyncio.Event()

        def fail(failure: JMSException) -> None:
            called.set()
            raise RuntimeError("no")

        await connection.set_exception_listener(fail)
        broker.connections[0].drop()
        await asyncio.wait_for(called.wait(), 10)


# --- the blocking face


@pytest.fixture
def connection() -> Iterator[Connection]:
    with BrokerThread() as broker, ConnectionFactory(broker.url).create_connection() as opened:
        yield opened


def test_a_listener_of_the_blocking_face_may_call_everything(connection: Connection) -> None:
    """It runs in a thread of its own: it sends, acknowledges and receives while the connection is served."""
    session = connection.create_session(AcknowledgeMode.CLIENT)
    answers = session.create_producer("answers")
    threads: set[str] = set()

    def listen(message: Message) -> None:
        threads.add(threading.current_thread().name)
        answers.send(f"answer to {message.body}")
        message.acknowledge()

    session.create_consumer("questions").set_message_listener(listen)
    asking = connection.create_session()
    asking.create_producer("questions").send_all(["one", "two"])
    consumer = asking.create_consumer("answers")
    received = [consumer.receive(10) for _ in range(2)]
    assert [message.body for message in received if message] == ["answer to one", "answer to two"]
    session.close()
    assert all(name.startswith("postroom-listener") for name in threads)
    assert list(asking.create_browser("questions")) == []


def test_a_blocking_listener_that_raises_is_given_the_message_again_and_the_attempt_counts(
    connection: Connection,
) -> None:
    attempts: list[int] = []
    done = threading.Event()

    def listen(message: Message) -> None:
        attempts.append(message.delivery_count)
        if len(attempts) < 3:
            raise RuntimeError("not yet")
        done.set()

    session = connection.create_session()
    session.create_producer("q").send("a")
    session.create_consumer("q").set_message_listener(listen)
    assert done.wait(10)
    assert attempts == [0, 1, 2]


def test_a_blocking_listener_can_not_close_its_session(connection: Connection) -> None:
    session = connection.create_session()
    errors: list[Exception] = []
    done = threading.Event()

    def listen(message: Message) -> None:
        for attempt in (session.close, connection.close, connection.stop):
            try:
                attempt()
            except IllegalStateException as failure:
                errors.append(failure)
        done.set()

    session.create_producer("q").send("a")
    session.create_consumer("q").set_message_listener(listen)
    assert done.wait(10)
    assert len(errors) == 3


def test_stop_waits_for_a_blocking_listener(connection: Connection) -> None:
    session = connection.create_session()
    entered, may_return = threading.Event(), threading.Event()
    seen: list[object] = []

    def listen(message: Message) -> None:
        entered.set()
        assert may_return.wait(10)
        seen.append(message.body)

    session.create_producer("q").send_all(["a", "b"])
    session.create_consumer("q").set_message_listener(listen)
    assert entered.wait(10)
    stopping = threading.Thread(target=connection.stop)
    stopping.start()
    may_return.set()
    stopping.join(10)
    assert seen == ["a"]
    connection.start()
    session.close()


@asynchronous
async def test_a_session_may_be_closed_by_several_at_a_time() -> None:
    async with FakeBroker() as broker:
        may_return = asyncio.Event()

        async def then(message: Message) -> None:
            await may_return.wait()

        listener = Listener(then)
        session = await listening(broker, listener, "a", "b")
        await listener.until(1)
        closing = [asyncio.ensure_future(session.close()) for _ in range(3)]
        await asyncio.sleep(0)
        may_return.set()
        await asyncio.gather(*closing)
        await broker.until(lambda: last_outcomes(broker) == {0: Accepted(), 1: Released()})
        assert session.is_closed
