"""The sync face: it is what the generator writes, and it works beside threads."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from postroom.amqp.encoding.composite import Error
from postroom.client import (
    AcknowledgeMode,
    ConnectionFactory,
    IllegalStateException,
    InvalidDestinationException,
    Message,
    MessageFormatException,
    aio,
    sync,
)
from postroom.client.sync.portal import Portal
from tests.client.fake_broker import FakeBroker
from tests.client.fake_sessions import texts

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """A fake broker in a thread of its own."""
    loop = asyncio.new_event_loop()
    fake = FakeBroker()
    started = threading.Event()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(fake.__aenter__())
        loop.call_soon(started.set)
        loop.run_forever()
        loop.run_until_complete(fake.__aexit__())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    yield fake
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def test_the_sync_face_is_what_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "async_to_sync.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(set(aio.__all__) - {"AcknowledgeMode", "Opening"}))
def test_both_faces_have_the_same_methods(name: str) -> None:
    def public(kind: type) -> dict[str, object]:
        found = inspect.getmembers(
            kind, lambda member: inspect.isfunction(member) or isinstance(member, property)
        )
        return {key: member for key, member in found if not key.startswith("_")}

    asynchronous, plain = public(getattr(aio, name)), public(getattr(sync, name))
    assert asynchronous.keys() == plain.keys()
    for key, member in plain.items():
        assert not inspect.iscoroutinefunction(member)
        if inspect.isfunction(member):
            twin = asynchronous[key]
            assert inspect.isfunction(twin)
            assert inspect.signature(member).parameters.keys() == inspect.signature(twin).parameters.keys()


def test_send_browse_receive_and_settle(broker: FakeBroker) -> None:
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer("q").send(Message("hello"))
        broker.messages["q"] = deque(texts("a", "b"))
        assert [message.body for message in session.create_browser("q")] == ["a", "b"]
    assert len(broker.received) == 1


def test_errors_cross_over(broker: FakeBroker) -> None:
    broker.refused["q"] = Error("amqp:not-found", "no queue q")
    with (
        ConnectionFactory(broker.url).create_connection() as connection,
        connection.create_session() as session,
        pytest.raises(InvalidDestinationException, match="no queue q"),
    ):
        session.create_consumer("q")


def test_closing_ends_the_thread_and_what_comes_after_is_refused(broker: FakeBroker) -> None:
    before = threading.active_count()
    connection = ConnectionFactory(broker.url).create_connection()
    assert threading.active_count() == before + 1
    session = connection.create_session()
    connection.close()
    assert threading.active_count() == before
    with pytest.raises(IllegalStateException):
        session.create_producer("q")
    session.close()
    connection.close()


@pytest.fixture
def without_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """A context in which nothing may be called in the connection's thread."""

    def refuse(portal: Portal, coroutine: Coroutine[object, object, object]) -> None:
        coroutine.close()
        raise AssertionError("the thread was changed")

    @contextmanager
    def context() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(Portal, "call", refuse)
            yield

    return context


def wait_for_messages(consumer: sync.MessageConsumer, count: int) -> None:
    """Until so many have been sent ahead."""
    buffer = consumer._inner._deliveries.receiving._buffer

    async def come() -> None:
        while len(buffer) < count:
            await asyncio.sleep(0)

    consumer._portal.call(come())


def outcomes(broker: FakeBroker) -> list[tuple[int, str]]:
    """Of each delivery, in the order in which they came."""
    return [
        (delivery_id, type(state).__name__)
        for delivery_ids, state, _ in broker.dispositions
        for delivery_id in delivery_ids
    ]


def test_what_is_here_is_received_without_a_change_of_threads(
    broker: FakeBroker, without_calls: Callable[[], AbstractContextManager[None]]
) -> None:
    """In mode AUTO and over the loop; what nobody has seen goes back as the consumer is closed."""
    broker.messages["q"] = deque(texts(*"abcd"))
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        consumer = session.create_consumer("q", prefetch=10)
        wait_for_messages(consumer, 4)
        with without_calls():
            assert [message.body for message in (consumer.receive(), consumer.receive(5))] == ["a", "b"]
            assert next(consumer).body == "c"
            with pytest.raises(ValueError, match="timeout_s"):
                consumer.receive(-1)
        consumer.close()
        assert outcomes(broker) == [*((number, "Accepted") for number in range(3)), (3, "Released")]


def test_outcomes_are_told_without_a_change_of_threads(
    broker: FakeBroker, without_calls: Callable[[], AbstractContextManager[None]]
) -> None:
    """In their order, and before the consumer's end."""
    broker.messages["q"] = deque(texts(*"abcd"))
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.consumer("q", prefetch=10)
        wait_for_messages(consumer, 4)
        with without_calls():
            first, second, third, fourth = (next(consumer) for _ in range(4))
            first.acknowledge()
            first.acknowledge()  # has its outcome: nothing is told twice
            second.release()
            third.retry()
            fourth.dead_letter("no good")
            with pytest.raises(IllegalStateException, match="has its outcome already"):
                second.release()
        consumer.close()
        assert outcomes(broker) == [(0, "Accepted"), (1, "Released"), (2, "Modified"), (3, "Rejected")]


def test_what_came_before_a_stop_is_not_received_in_it(broker: FakeBroker) -> None:
    broker.messages["q"] = deque(texts("a"))
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer("q", prefetch=10)
        wait_for_messages(consumer, 1)
        connection.stop()
        assert consumer.receive(0) is None
        connection.start()
        message = consumer.receive(10)
        assert message is not None and message.body == "a"


def test_what_is_no_message_goes_back_and_is_an_error_of_receive(broker: FakeBroker) -> None:
    """A loop logs it, and goes on with the next one."""
    nonsense = b"\x00\x53\x77\xff"
    broker.messages["q"] = deque([nonsense, nonsense, *texts("a")])
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer("q", prefetch=10)
        wait_for_messages(consumer, 3)
        with pytest.raises(MessageFormatException):
            consumer.receive()
        assert next(consumer).body == "a"
        consumer.close()
        assert [kind for _, kind in outcomes(broker)] == ["Modified", "Modified", "Accepted"]


def test_many_threads_receive_each_message_once(broker: FakeBroker) -> None:
    """From one consumer, more than is sent ahead at once."""
    count, threads = 3_000, 4
    broker.messages["q"] = deque(texts(*map(str, range(count))))
    with ConnectionFactory(broker.url).create_connection() as connection:
        consumer = connection.create_session().create_consumer("q", prefetch=50)

        def take(_: int) -> list[object]:
            found = []
            while (message := consumer.receive(0.5)) is not None:
                found.append(message.body)
            return found

        with ThreadPoolExecutor(threads) as pool:
            taken = [body for some in pool.map(take, range(threads)) for body in some]
        assert sorted(map(int, map(str, taken))) == list(range(count))
        consumer.close()
        assert sorted(outcomes(broker)) == [(number, "Accepted") for number in range(count)]
