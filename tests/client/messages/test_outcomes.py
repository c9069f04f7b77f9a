"""What an application says of a message, and ``message.process()``, to what the broker makes of it."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from proton import Delivery, symbol
from proton.utils import BlockingConnection, LinkDetached

from postroom.client import (
    AcknowledgeMode,
    BytesMessage,
    Connection,
    IllegalStateException,
    MapMessage,
    Message,
    MessageConsumer,
    MessageFormatException,
    TextMessage,
    Topic,
    aio,
    connect,
)
from postroom.model import numbers as n
from postroom.server.configuration.config import QueueConfig
from tests.client.fake_broker import asynchronous
from tests.server.harness import BrokerThread, make_config

pytestmark = pytest.mark.sockets

REASON = "x-opt-dead-letter-reason"
DESCRIPTION = "x-opt-dead-letter-description"
ORIGIN = "x-opt-dead-letter-queue"
HOUR_S = 3_600
HOUR_MS = HOUR_S * 1_000


def config():
    queues = [
        QueueConfig(name="orders"),
        QueueConfig(name="strict", redelivery_limit=1, dead_letter_queue="dead"),
        QueueConfig(name="dead"),
        QueueConfig(name="slow", redelivery_delay_ms=HOUR_MS),
    ]
    return make_config(queue=queues)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(config(), folder=tmp_path / "data") as running:
        yield running


@pytest.fixture
def connection(broker: BrokerThread) -> Iterator[Connection]:
    with connect(broker.url) as opened:
        yield opened


@pytest.fixture
def orders(connection: Connection) -> Iterator[MessageConsumer]:
    """A consumer of a queue that never gives up, with two messages."""
    with connection.producer("orders") as producer:
        producer.send_all(["a", "b"])
    with connection.consumer("orders", prefetch=0) as consumer:
        yield consumer


@pytest.fixture
def strict(connection: Connection) -> Iterator[MessageConsumer]:
    """A consumer of a queue that gives a message up that has failed twice, with one message."""
    with connection.producer("strict") as producer:
        producer.send("a")
    with connection.consumer("strict") as consumer:
        yield consumer


def seen(consumer: MessageConsumer) -> tuple[object, int]:
    """Body and failed attempts of the next message, which is done with that."""
    message = next(consumer)
    message.acknowledge()
    return message.body, message.delivery_count


def dead(connection: Connection) -> list[Message]:
    with connection.browser("dead") as browser:
        return list(browser)


# --- the outcomes


def test_retry_counts_and_release_does_not(orders: MessageConsumer) -> None:
    next(orders).release()
    next(orders).retry()
    assert [seen(orders), seen(orders)] == [("a", 1), ("b", 0)]


def test_the_reason_of_a_retry_is_told_to_the_next_attempt(orders: MessageConsumer) -> None:
    next(orders).retry(reason="the printer is out of paper")
    message = next(orders)
    assert message.annotations["x-opt-failure-reason"] == "the printer is out of paper"


def test_a_dead_letter_has_its_reason(connection: Connection, strict: MessageConsumer) -> None:
    next(strict).dead_letter("no such city", condition="shop:unknown-city")
    [letter] = dead(connection)
    annotation = [letter.annotations[name] for name in (REASON, DESCRIPTION, ORIGIN)]
    assert annotation == ["shop:unknown-city", "no such city", "strict"]


def test_a_dead_letter_over_the_limit_has_the_reason_of_the_last_attempt(
    connection: Connection, strict: MessageConsumer
) -> None:
    for reason in ("first", "second"):
        next(strict).retry(reason=reason)
    [letter] = dead(connection)
    assert letter.annotations[REASON] == "postroom:redelivery-limit-exceeded"
    assert letter.annotations[DESCRIPTION] == "2 failures, limit 1; the last: second"


def test_an_outcome_is_said_once(orders: MessageConsumer) -> None:
    message = next(orders)
    message.retry()
    for settle in (message.retry, message.release, lambda: message.dead_letter("no")):
        with pytest.raises(IllegalStateException, match="outcome already"):
            settle()
    message.acknowledge()
    with pytest.raises(IllegalStateException, match="outcome already"), message.process():
        pass


def test_an_outcome_needs_a_mode_in_which_it_is_the_applications(
    connection: Connection, broker: BrokerThread
) -> None:
    for mode, why in (
        (AcknowledgeMode.AUTO, "in mode AUTO a message has its outcome as it is received: take connection"),
        (AcknowledgeMode.NO_ACKNOWLEDGE, "in mode NO_ACKNOWLEDGE"),
        (AcknowledgeMode.SESSION_TRANSACTED, "commit and rollback"),
    ):
        with connection.create_session(mode) as session:
            session.create_producer("orders").send("a")
            if session.is_transacted:
                session.commit()
            message = session.create_consumer("orders").receive(5)
            assert message is not None
            for settle in (message.retry, message.release, message.process().__enter__):
                with pytest.raises(IllegalStateException, match=why):
                    settle()
    for message in (Message("made here"), next(connection.browser("orders"))):
        with pytest.raises(IllegalStateException, match="a consumer has received"):
            message.retry()


def test_in_mode_client_an_outcome_is_that_of_one_message(connection: Connection) -> None:
    with connection.create_session(AcknowledgeMode.CLIENT) as session:
        session.create_producer("orders").send_all(["a", "b"])
        consumer = session.create_consumer("orders")
        first, second = consumer.receive(5), consumer.receive(5)
        assert first is not None and second is not None
        with second.process():
            pass
        first.release()
        assert seen(consumer) == ("a", 0)


def test_a_listener_may_say_the_outcome_in_mode_auto(connection: Connection) -> None:
    with connection.create_session() as session:
        session.create_producer("strict").send("a")
        session.create_consumer("strict").set_message_listener(lambda message: message.dead_letter("no"))
        with connection.consumer("dead") as letters:
            assert next(letters).annotations[DESCRIPTION] == "no"


@pytest.mark.parametrize("after_s", [-1, -0.001, float("nan")])
def test_a_time_that_is_none_is_refused(orders: MessageConsumer, after_s: float) -> None:
    message = next(orders)
    with pytest.raises(ValueError, match="after_s"):
        message.retry(after_s=after_s)
    with pytest.raises(ValueError, match="after_s"):
        message.process(retry_after_s=after_s)
    message.acknowledge()


def test_a_message_that_is_sent_on_keeps_its_outcome(connection: Connection) -> None:
    """Its completion listener may settle it."""
    with (
        connection.producer("orders") as producer,
        connection.consumer("orders") as orders,
        connection.producer("strict") as onward,
    ):
        producer.send("a")
        onward.send(next(orders), on_completion=lambda message: message.retry())
        assert seen(orders) == ("a", 1)


def test_an_outcome_that_no_frame_can_carry_is_refused_and_can_be_said_anew(orders: MessageConsumer) -> None:
    message = next(orders)
    for settle in (
        lambda: message.dead_letter("no", condition="ü"),
        lambda: orders.reject(message, "a:b", "\udc80"),
        lambda: orders.modify(message, annotations={"x-opt-file": "\udc80"}),
        lambda: orders.modify(message, annotations={"x-opt-file": object()}),
    ):
        with pytest.raises(MessageFormatException, match="the outcome can't be encoded"):
            settle()
    message.retry()
    assert seen(orders) == ("a", 1)


def test_the_text_of_an_exception_is_made_fit_to_send(orders: MessageConsumer) -> None:
    """The name of a file that is no UTF-8, as the operating system gives it."""
    with pytest.raises(FileNotFoundError), next(orders).process():
        raise FileNotFoundError("\udcff" * 2_000)
    annotation = next(orders).annotations["x-opt-failure-reason"]
    assert annotation == ("FileNotFoundError: " + "?" * 2_000)[:1_000]


def test_a_copy_of_a_message_has_no_outcome(orders: MessageConsumer) -> None:
    message = next(orders)
    copy = pickle.loads(pickle.dumps(message))
    assert copy.body == message.body
    with pytest.raises(IllegalStateException, match="a consumer has received"):
        copy.release()
    message.acknowledge()


# --- the delay of one attempt


def test_a_retry_after_a_time_is_delayed_and_stays_so_over_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with BrokerThread(config(), folder=folder) as broker, connect(broker.url) as connection:
        with connection.producer("orders") as producer:
            producer.send_all(["a", "b"])
        with connection.consumer("orders", prefetch=0) as orders:
            next(orders).retry(after_s=HOUR_S, reason="later")
            assert seen(orders) == ("b", 0)
            assert orders.receive_no_wait() is None
        with connection.create_management() as management:
            answer = management.read("postroom.queue", "orders")
        assert (answer["messages_redelivery_delay"], answer["messages_current"]) == (1, 0)
    with BrokerThread(config(), folder=folder) as broker:
        (entry,) = broker.call(lambda broker: broker.manager.queues["orders"].delayed.behind(0, 10))
        assert (entry.causes, entry.delivery_count, entry.failure_count) == (n.REDELIVERY_DELAY, 1, 1)
        waits_s = broker.call(lambda broker: (entry.due_us - broker.manager.core.now_us) // 1_000_000)
        assert HOUR_S - 600 < waits_s <= HOUR_S


def test_it_counts_instead_of_the_delay_of_the_queue(connection: Connection) -> None:
    with connection.producer("slow") as producer, connection.consumer("slow") as slow:
        producer.send("a")
        next(slow).retry(after_s=0)
        assert seen(slow) == ("a", 1)
        producer.send("b")
        next(slow).retry()
        assert slow.receive_no_wait() is None


def test_it_is_no_annotation_of_the_message(orders: MessageConsumer) -> None:
    next(orders).retry(after_s=0)
    assert "x-opt-redelivery-delay" not in next(orders).annotations


def test_process_says_it_for_an_attempt_that_fails(connection: Connection) -> None:
    with connection.producer("slow") as producer, connection.consumer("slow") as slow:
        producer.send("a")
        with pytest.raises(ZeroDivisionError), next(slow).process(retry_after_s=0):
            raise ZeroDivisionError
        assert seen(slow) == ("a", 1)


def test_it_waits_its_time(orders: MessageConsumer) -> None:
    """Shorter than the client waits for it."""
    next(orders).retry(after_s=0.05)
    assert [seen(orders), seen(orders)] == [("b", 0), ("a", 1)]


@pytest.mark.parametrize("delay", [-1, "soon", 1.5, True, None, 1 << 60])
def test_a_delay_that_is_none_ends_the_link(broker: BrokerThread, delay: object) -> None:
    """Another client's: what it holds goes back."""
    with connect(broker.url) as connection, connection.producer("orders") as producer:
        producer.send("a")
    proton = BlockingConnection(broker.url)
    receiver = proton.create_receiver("orders", credit=1)
    receiver.receive()
    delivery = receiver.fetcher.unsettled.popleft()
    delivery.local.failed = True
    delivery.local.annotations = {symbol("x-opt-redelivery-delay"): delay}
    delivery.update(Delivery.MODIFIED)
    with pytest.raises(LinkDetached, match=r"amqp:invalid-field.*x-opt-redelivery-delay"):
        proton.wait(lambda: False)
    proton.close()
    with connect(broker.url) as connection, connection.consumer("orders") as orders:
        assert next(orders).body == "a"


# --- process


def test_process_accepts_at_the_end(orders: MessageConsumer) -> None:
    with next(orders).process() as message:
        assert message.body == "a"
    assert seen(orders) == ("b", 0)


def test_an_exception_is_a_failed_attempt_and_goes_on(orders: MessageConsumer) -> None:
    with pytest.raises(ZeroDivisionError), next(orders).process():
        raise ZeroDivisionError("by none")
    message = next(orders)
    assert (message.body, message.delivery_count) == ("a", 1)
    assert message.annotations["x-opt-failure-reason"] == "ZeroDivisionError: by none"


def test_suppress_logs_it_and_goes_on_to_the_next(
    orders: MessageConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    done = []
    for message in orders:
        with message.process(suppress=True):
            if not message.redelivered:
                raise ZeroDivisionError("at first")
            done.append(message.body)
        if len(done) == 2:
            break
    assert done == ["a", "b"]
    causes = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert "at first" in causes  # its text has another form in a process where PySpark has logged


def test_what_stops_the_program_is_no_attempt(orders: MessageConsumer) -> None:
    for stops in (KeyboardInterrupt, SystemExit):
        with pytest.raises(stops), next(orders).process(suppress=True):
            raise stops
    assert seen(orders) == ("a", 0)


def test_an_outcome_said_within_stays(connection: Connection, strict: MessageConsumer) -> None:
    with next(strict).process() as message:
        message.retry()
    with pytest.raises(ZeroDivisionError), next(strict).process() as message:
        message.dead_letter("no")
        raise ZeroDivisionError
    assert [letter.annotations[DESCRIPTION] for letter in dead(connection)] == ["no"]


def test_a_failing_message_becomes_a_dead_letter_of_a_plain_worker(
    connection: Connection, strict: MessageConsumer
) -> None:
    for message in strict:
        with message.process(suppress=True):
            if message.delivery_count == 1:
                strict.close()
            raise ValueError(f"attempt {message.delivery_count}")
    [letter] = dead(connection)
    assert letter.annotations[DESCRIPTION] == "2 failures, limit 1; the last: ValueError: attempt 1"


@asynchronous
async def test_the_outcomes_of_asyncio_may_be_awaited_and_need_not_be() -> None:
    with BrokerThread(config()) as broker:
        async with (
            aio.connect(broker.url) as connection,
            connection.producer("strict") as producer,
            connection.consumer("strict", prefetch=1) as consumer,
            connection.consumer("dead") as letters,
        ):
            await producer.send("a")
            message = await anext(consumer)
            message.retry(reason="one")
            message = await anext(consumer)
            await message.release()
            message = await anext(consumer)
            assert message.delivery_count == 1
            with message.process():  # without async, too
                await message.dead_letter("two")
            async with (await anext(letters)).process() as letter:
                assert letter.annotations[DESCRIPTION] == "two"


@asynchronous
async def test_a_cancelled_task_releases_its_message() -> None:
    with BrokerThread(config()) as broker:
        async with (
            aio.connect(broker.url) as connection,
            connection.producer("orders") as producer,
            connection.consumer("orders", settle_second=True) as consumer,
        ):
            await producer.send("a")
            working = asyncio.Event()

            async def work() -> None:
                async for message in consumer:
                    async with message.process(suppress=True):
                        working.set()
                        await asyncio.Event().wait()

            task = asyncio.ensure_future(work())
            await working.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            message = await anext(consumer)
            assert (message.body, message.delivery_count) == ("a", 0)


def test_done_work_whose_outcome_cannot_be_said_is_an_error(tmp_path: Path) -> None:
    with BrokerThread(config(), folder=tmp_path / "data") as broker:
        connection = connect(broker.url)
        with connection.producer("orders") as producer:
            producer.send_all(["a", "b"])
        orders = connection.consumer("orders")
        done, failed = next(orders), next(orders)
    broker_is_gone = connection._inner._provider
    connection._portal.call(gone(broker_is_gone))
    with pytest.raises(Exception, match="connection"), done.process():
        pass
    with pytest.raises(ZeroDivisionError), failed.process():
        raise ZeroDivisionError
    connection.close()


async def gone(provider: object) -> None:
    while provider.failure is None:  # type: ignore[attr-defined]
        await asyncio.sleep(0)


# --- bodies that are none


def test_bodies_become_messages_or_are_refused_with_what_to_do(connection: Connection) -> None:
    with connection.producer("orders") as producer, connection.consumer("orders") as orders:
        for given, kind, body in (
            ("a", TextMessage, "a"),
            (b"a", BytesMessage, b"a"),
            (bytearray(b"a"), BytesMessage, b"a"),
            (
                {"n": 1, "t": "x", "b": b"y", "none": None},
                MapMessage,
                {"n": 1, "t": "x", "b": b"y", "none": None},
            ),
        ):
            producer.send(given)
            with next(orders).process() as message:
                assert (type(message), message.body) == (kind, body)
        for wrong, why in (
            (None, r"an empty one is Message\(\)"),
            ([1], "serialise it yourself"),
            (7, "serialise it yourself"),
            ({"a": {"b": 1}}, "json.dumps"),
            ({1: 2}, "json.dumps"),
            ({"a": 1 << 70}, "json.dumps"),
            (Topic("t"), "destination goes by name"),
        ):
            for send in (producer.send, lambda each: producer.send_all([each])):
                with pytest.raises(MessageFormatException, match=why):
                    send(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout_s", [-1, float("nan")])
def test_a_negative_time_to_wait_is_refused(connection: Connection, timeout_s: float) -> None:
    with connection.consumer("orders") as orders, connection.requestor("orders") as requestor:
        for wait in (orders.receive, lambda given: orders.receive_body(str, given)):
            with pytest.raises(ValueError, match="timeout_s"):
                wait(timeout_s)
        with pytest.raises(ValueError, match="timeout_s"):
            requestor.request("ping", timeout_s)
    with connection.create_message_store("orders") as store, connection.create_session() as session:
        waits: dict[str, Callable[[], object]] = {
            "timeout_s": lambda: store.wait(timeout_s=timeout_s),
            "lease_s": lambda: store.browse_and_lock(lease_s=timeout_s),
            "send_timeout_ms": lambda: session.create_producer("orders", send_timeout_ms=-1),
            "redelivery_delay_ms": lambda: session.create_consumer("orders", redelivery_delay_ms=-1),
        }
        for name, call in waits.items():
            with pytest.raises(ValueError, match=name):
                call()
