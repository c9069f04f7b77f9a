"""Fail-over: what is made again on the next connection, how the application hears of it, and when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.client import (
    AcknowledgeMode,
    ConnectionLostException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    Message,
    ResourceAllocationException,
    Topic,
    sync,
)
from postroom.client.aio import ConnectionFactory, connect
from postroom.client.connection.link import MAX_REFUSALS
from postroom.client.exceptions import ConnectionRedirectedException
from postroom.client.messages.message import encode_message
from postroom.server.configuration.config import QueueConfig
from tests.client.breakable_connection import Watch, bodies, broken, fill, received, texts
from tests.client.fake_broker import FakeBroker, asynchronous
from tests.faults.proxy import BROKER, CLIENT, CutPoint
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets
QUEUES = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(make_config(queue=[QueueConfig(name=f"q{n}") for n in range(QUEUES)])) as running:
        yield running


_taken = iter(range(QUEUES))


@pytest.fixture
def queue(broker: BrokerThread) -> str:
    """A queue of this test's own."""
    return f"q{next(_taken)}"


def failover(*brokers: FakeBroker, **options: object) -> str:
    text = "&".join(f"failover.{name}={value}" for name, value in options.items())
    return f"failover:({','.join(broker.url for broker in brokers)})?{text}"


# --- links


@asynchronous
async def test_links_are_attached_again_as_they_were() -> None:
    """Selector, prefetch, name, capabilities, settle modes: the broker sees the same attach twice."""
    async with FakeBroker() as fake:
        watch = Watch()
        factory = ConnectionFactory(failover(fake), client_id="me", listener=watch)
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            await session.create_producer("p", send_timeout_ms=5)
            await session.create_consumer("q", selector="a = 1", prefetch=17, exclusive=True)
            await session.create_durable_consumer("t", "sub", settle_second=True)
            await session.create_browser("q", selector="b = 2")
            before = {event.attach.name: event.attach for event in fake.attached}
            fake.attached.clear()
            fake.credits.clear()
            fake.connections[0].drop()
            await watch.online()
            again = {event.attach.name: event.attach for event in fake.attached}
            assert list(again) == list(before)
            for name, attach in again.items():
                assert repr(attach) == repr(before[name])
            await fake.until(lambda: len(fake.credits) >= 2)
            assert fake.credits[:2] == [17, 1000]
            assert [event.open.container_id for event in fake.opened] == ["me", "me"]


@asynchronous
async def test_what_is_created_during_the_recovery_is_attached_once() -> None:
    async with FakeBroker() as fake:
        watch = Watch()
        async with await ConnectionFactory(failover(fake), listener=watch).create_connection() as connection:
            session = await connection.create_session()
            await session.create_reply_consumer()
            fake.holds_attaches = True
            fake.attached.clear()
            fake.connections[0].drop()
            await fake.until(lambda: len(fake.held) == 1)  # the others wait for its new name
            creating = asyncio.ensure_future(session.create_producer("q"))
            await fake.until(lambda: len(fake.held) == 2)
            fake.let_attach()
            await (await creating).send("a")
            await watch.online()
            assert len(fake.attached) == 2
            assert len(fake.received) == 1


@asynchronous
async def test_a_bug_in_the_recovery_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is left waiting."""
    async with FakeBroker() as fake:
        watch = Watch()
        async with await ConnectionFactory(failover(fake), listener=watch).create_connection() as connection:
            consumer = await (await connection.create_session()).create_consumer("q")
            monkeypatch.setattr("postroom.client.connection.failover.BrokerPool.attempt", lambda pool: 1 / 0)
            fake.connections[0].drop()
            with pytest.raises(ConnectionLostException, match="division by zero"):
                await consumer.receive()
            assert len(watch.failures) == 1


@asynchronous
async def test_what_is_closed_is_not_attached_again() -> None:
    async with FakeBroker() as fake:
        watch = Watch()
        async with await ConnectionFactory(failover(fake), listener=watch).create_connection() as connection:
            session = await connection.create_session()
            closed = await connection.create_session()
            await closed.create_consumer("gone")
            await closed.close()
            await (await session.create_producer("gone, too")).close()
            await session.create_consumer("q")
            fake.attached.clear()
            fake.connections[0].drop()
            await watch.online()
            assert len(fake.attached) == 1
            assert len(connection._provider._channels) == 1


def test_a_temporary_queue_is_made_again_and_its_links_follow(broker: BrokerThread) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker) as line:
            session = await line.connection.create_session()
            temporary = await session.create_temporary_queue()
            first_name = temporary.name
            producer = await session.create_producer(temporary.destination)
            consumer = await session.create_consumer(temporary.destination)
            for number in range(3):
                await line.break_and_recover()
                assert temporary.name != first_name
                assert consumer.address == temporary.name
                await producer.send(f"{number}")
                assert await bodies(consumer, 1) == [f"{number}"]
            late = await session.create_producer(temporary.destination)
            await line.break_and_recover()
            await late.send("late")
            assert await bodies(consumer, 1) == ["late"]
            await consumer.close()
            await producer.close()
            await late.close()
            await temporary.delete()
            assert line.connection._provider._names == {}

    act()


def test_a_durable_subscription_goes_on(broker: BrokerThread) -> None:
    @asynchronous
    async def act() -> None:
        async with broken(broker, client_id="durable") as line:
            session = await line.connection.create_session()
            consumer = await session.create_durable_consumer("prices", "sub")
            line.proxy.hold()
            line.proxy.break_now()
            await line.watch.offline()
            async with await ConnectionFactory(broker.url).create_connection() as other:
                publisher = await (await other.create_session()).create_producer(Topic("prices"))
                await publisher.send("missed")
            line.proxy.let()
            assert await bodies(consumer, 1) == ["missed"]
            await consumer.close()
            await session.unsubscribe("sub")

    act()


def test_a_browser_begins_again(broker: BrokerThread, queue: str) -> None:
    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a", "b")
        async with broken(broker) as line:
            browser = await (await line.connection.create_session()).create_browser(queue)
            assert (await anext(browser)).body == "a"
            await line.break_and_recover()
            assert [message.body async for message in browser] == ["a", "b"]

    act()


def test_messages_that_the_broker_had_settled_are_kept(broker: BrokerThread, queue: str) -> None:
    """They were accepted before they were sent: nobody else has them."""

    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a", "b", "c")
        async with broken(broker) as line:
            session = await line.connection.create_session(AcknowledgeMode.NO_ACKNOWLEDGE)
            consumer = await session.create_consumer(queue)
            assert await bodies(consumer, 1) == ["a"]
            await broker_has_none(broker, queue)
            await line.break_and_recover()
            assert await bodies(consumer, 2) == ["b", "c"]

    act()


async def broker_has_none(broker: BrokerThread, queue: str) -> None:
    await asyncio.to_thread(broker.wait_until, lambda b: int(b.manager.queues[queue].statistics.current) == 0)


@pytest.mark.parametrize("after", [False, True])
def test_an_outcome_that_waits_for_its_answer_ends_with_the_break(
    broker: BrokerThread, queue: str, after: bool
) -> None:
    @asynchronous
    async def act() -> None:
        await fill(broker, queue, "a")
        async with broken(broker, CutPoint(CLIENT, "disposition", 0, after)) as line:
            session = await line.connection.create_session(AcknowledgeMode.INDIVIDUAL)
            consumer = await session.create_consumer(queue, settle_second=True)
            await consumer.accept(await received(consumer))
            await line.watch.online()
        assert [body for body, _ in await texts(broker, queue)] == ([] if after else ["a"])

    act()


def test_a_management_request_under_way_is_not_sent_again(broker: BrokerThread, queue: str) -> None:
    """Its answer goes to a queue that is gone: the caller is told at once."""

    @asynchronous
    async def act() -> None:
        for cut in (CutPoint(CLIENT, "transfer", 0, True), CutPoint(BROKER, "transfer", 0, False)):
            async with broken(broker, cut) as line:
                management = await line.connection.create_management()
                with pytest.raises(ConnectionLostException):
                    await management.read("postroom.queue", queue)
                assert (await management.read("postroom.queue", queue))["name"] == queue

    act()


@asynchronous
async def test_a_link_that_the_next_broker_refuses_ends_and_the_others_go_on() -> None:
    async with FakeBroker() as fake:
        watch = Watch()
        async with await ConnectionFactory(failover(fake), listener=watch).create_connection() as connection:
            session = await connection.create_session()
            gone = await session.create_consumer("gone")
            stays = await session.create_consumer("stays")
            waiting = asyncio.ensure_future(gone.receive())
            fake.refused["gone"] = Error("amqp:not-found", "deleted meanwhile")
            fake.connections[0].drop()
            with pytest.raises(InvalidDestinationException, match="deleted meanwhile"):
                await waiting
            await watch.online()
            assert (gone.is_closed, stays.is_closed) == (True, False)


@asynchronous
async def test_a_link_that_seems_to_be_taken_is_tried_again() -> None:
    """The broker may not have noticed yet that the old connection is gone."""
    async with FakeBroker() as fake:
        watch = Watch()
        url = failover(fake, reconnectDelay=1, useReconnectBackOff="false")
        async with await ConnectionFactory(url, listener=watch).create_connection() as connection:
            session = await connection.create_session()
            consumer = await session.create_consumer("mine")
            fake.refused["mine"] = Error("amqp:resource-locked", "another consumer has it")
            fake.connections[0].drop()
            await fake.until(lambda: len(fake.connections) >= 4)
            assert watch.restorations == 0
            del fake.refused["mine"]
            await watch.online()
            fake.refused["mine"] = Error("amqp:resource-locked", "another consumer has it")
            count = len(fake.connections)
            fake.connections[-1].drop()
            with pytest.raises(ResourceAllocationException):
                await consumer.receive()
            await watch.online(2)
            assert len(fake.connections) == count + MAX_REFUSALS


# --- connections


@asynchronous
async def test_the_application_hears_of_a_break_and_of_its_end() -> None:
    async with FakeBroker() as first, FakeBroker() as second:
        heard: list[tuple[str, str]] = []

        class Listener(Watch):
            def on_interrupted(self, broker: str) -> None:
                heard.append(("interrupted", broker))
                super().on_interrupted(broker)

            def on_restored(self, broker: str) -> None:
                heard.append(("restored", broker))
                super().on_restored(broker)

        watch = Listener()
        factory = ConnectionFactory(failover(first, second), listener=watch)
        async with await factory.create_connection() as connection:
            first.connections[0].drop()
            await watch.online()
            assert connection.broker_container_id == "fake"
        assert heard == [("interrupted", first.url), ("restored", second.url)]
        assert watch.failures == []


@asynchronous
async def test_when_the_attempts_are_used_up_the_connection_has_failed() -> None:
    watch = Watch()
    async with FakeBroker() as fake:
        url = failover(fake, maxReconnectAttempts=2, reconnectDelay=1)
        connection = await ConnectionFactory(url, listener=watch).create_connection()
        session = await connection.create_session()
        consumer = await session.create_consumer("q")
        waiting = asyncio.ensure_future(consumer.receive())
    with pytest.raises(ConnectionLostException, match="can't connect"):
        await waiting
    assert [type(failure) for failure in watch.failures] == [ConnectionLostException]
    assert session.is_closed
    with pytest.raises(ConnectionLostException):
        await connection.create_session()
    await connection.close()
    assert (watch.interruptions, watch.restorations) == (1, 0)


@asynchronous
async def test_no_attempts_at_all_make_a_break_final() -> None:
    watch = Watch()
    async with FakeBroker() as fake:
        url = failover(fake, maxReconnectAttempts=0)
        connection = await ConnectionFactory(url, listener=watch).create_connection()
        fake.connections[0].drop()
        await watch.until(lambda: bool(watch.failures))
        assert len(fake.connections) == 1
        await connection.close()


@asynchronous
async def test_at_the_start_the_first_broker_that_answers_is_taken() -> None:
    async with FakeBroker() as gone:
        dead = gone.url
    async with FakeBroker() as fake:
        url = f"failover:({dead},{fake.url})?failover.maxReconnectAttempts=1"
        async with await ConnectionFactory(url).create_connection():
            assert len(fake.opened) == 1
    with pytest.raises(ConnectionLostException):
        await ConnectionFactory(
            f"failover:({dead})?failover.startupMaxReconnectAttempts=2"
        ).create_connection()


@asynchronous
async def test_a_wrong_password_ends_the_attempts() -> None:
    """It would be wrong the next time, too."""
    async with FakeBroker() as fake:
        with pytest.raises(JMSSecurityException):
            await ConnectionFactory(
                failover(fake).replace("amqp://", "amqp://ann:wrong@")
            ).create_connection()
        watch = Watch()
        connection = await ConnectionFactory(failover(fake), listener=watch).create_connection()
        fake.users = {"ann": "right"}
        fake.connections[-1].drop()
        await watch.until(lambda: bool(watch.failures))
        assert isinstance(watch.failures[0], JMSSecurityException)
        await connection.close()


@asynchronous
async def test_a_client_id_that_is_still_in_use_is_tried_again() -> None:
    async with FakeBroker() as fake:
        watch = Watch()
        url = failover(fake, reconnectDelay=1, useReconnectBackOff="false")
        async with await ConnectionFactory(url, client_id="me", listener=watch).create_connection():
            fake.refuse_open = Error("amqp:invalid-field", "in use", {"invalid-field": "container-id"})
            fake.connections[0].drop()
            await fake.until(lambda: len(fake.connections) >= 3)
            fake.refuse_open = None
            await watch.online()


@pytest.mark.parametrize(
    "condition", ["amqp:connection:forced", "amqp:internal-error", "amqp:resource-limit-exceeded"]
)
@asynchronous
async def test_a_broker_that_closes_is_a_break(condition: str) -> None:
    async with FakeBroker() as fake:
        watch = Watch()
        async with await ConnectionFactory(failover(fake), listener=watch).create_connection() as connection:
            session = await connection.create_session()
            consumer = await session.create_consumer("q")
            waiting = asyncio.ensure_future(consumer.receive())
            fake.connections[0].engine.close(Error(condition, "shutting down"))
            fake.connections[0].flush()
            await watch.online()
            fake.put("q", encode_message(Message("after"), None))
            message = await waiting
            assert message is not None
            assert message.body == "after"


@asynchronous
async def test_a_redirect_is_followed() -> None:
    async with FakeBroker() as first, FakeBroker() as second:
        port = int(second.url.rpartition(":")[2])
        first.refuse_open = Error(
            "amqp:connection:redirect", "moved", {"network-host": "127.0.0.1", "port": port}
        )
        async with await ConnectionFactory(failover(first)).create_connection():
            assert len(second.opened) == 1
        with pytest.raises(ConnectionRedirectedException) as raised:
            await ConnectionFactory(first.url).create_connection()
        assert raised.value.info == {"network-host": "127.0.0.1", "port": port}


@asynchronous
async def test_the_brokers_of_an_open_are_tried_next() -> None:
    async with FakeBroker() as first, FakeBroker() as second:
        port = int(second.url.rpartition(":")[2])
        first.open_properties = {"failover-server-list": [{"network-host": "127.0.0.1", "port": port}]}
        watch = Watch()
        async with await ConnectionFactory(failover(first), listener=watch).create_connection():
            first.connections[0].drop()
            await watch.online()
            assert len(second.opened) == 1


@asynchronous
async def test_a_listener_that_fails_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Watch):
        def on_interrupted(self, broker: str) -> None:
            raise ValueError("oops")

    async with FakeBroker() as fake:
        watch = Bad()
        async with await ConnectionFactory(failover(fake), listener=watch).create_connection():
            fake.connections[0].drop()
            await watch.online()
    assert "oops" in caplog.text


@asynchronous
async def test_attempts_without_end_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "postroom.client")
    watch = Watch()
    async with FakeBroker() as fake:
        url = failover(fake, maxReconnectAttempts=4, warnAfterReconnectAttempts=2, reconnectDelay=1)
        connection = await ConnectionFactory(url, listener=watch).create_connection()
    await watch.until(lambda: bool(watch.failures))
    assert [record.getMessage()[:26] for record in caplog.records] == [
        "no broker after 2 attempts",
        "no broker after 4 attempts",
    ]
    await connection.close()


@asynchronous
async def test_closing_ends_the_attempts() -> None:
    watch = Watch()
    async with FakeBroker() as fake:
        connection = await ConnectionFactory(failover(fake), listener=watch).create_connection()
    await watch.offline()
    await connection.close()
    await connection.close()
    assert watch.failures == []


def test_the_blocking_face_fails_over() -> None:
    config = make_config(("q",))
    with BrokerThread(config) as second:
        with BrokerThread(config) as first:
            url = f"failover:({first.url},{second.url})"
            connection = sync.ConnectionFactory(url).create_connection()
            producer = connection.create_session().create_producer("q")
            producer.send("to the first")
        producer.send("to the second")
        message = connection.create_session().create_consumer("q").receive(timeout_s=10)
        assert message is not None
        assert message.body == "to the second"
        connection.close()


# --- the short way


@asynchronous
async def test_a_loop_goes_on_over_a_break_and_an_outcome_said_too_late_is_passed_over() -> None:
    async with FakeBroker() as fake:
        fake.put("q", *[encode_message(Message(word), None) for word in "ab"])
        watch = Watch()
        seen = []
        async with (
            connect(failover(fake), listener=watch) as connection,
            connection.consumer("q", prefetch=1) as consumer,
        ):
            async for message in consumer:
                async with message.process():
                    seen.append(message.body)
                    if len(seen) == 1:
                        fake.connections[0].drop()
                        await watch.online()
                if len(seen) == 2:
                    break
            assert seen == ["a", "b"]
            await fake.until(lambda: bool(fake.dispositions))
        assert [state for _, state, _ in fake.dispositions] == [ACCEPTED]


@asynchronous
async def test_a_loop_ends_by_the_end_of_all_attempts() -> None:
    async with FakeBroker() as fake:
        url = failover(fake, maxReconnectAttempts=1, reconnectDelay=0)
        async with connect(url) as connection, connection.consumer("q") as consumer:

            async def loop() -> list[Message]:
                return [message async for message in consumer]

            looping = asyncio.ensure_future(loop())
            fake.users = {"nobody": "else"}
            fake.connections[0].drop()
            with pytest.raises(JMSException):
                await looping
