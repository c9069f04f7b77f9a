"""The short way of the client: connect, consumer, producer, loops, ``with``, transactions; against a broker,
in both faces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from postroom.client import (
    AcknowledgeMode,
    ConnectionFactory,
    ConnectionLostException,
    DeliveryMode,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Message,
    Queue,
    TextMessage,
    Topic,
    aio,
    connect,
)
from postroom.testing import Broker
from tests.client.fake_broker import asynchronous
from tests.originals import ORIGINALS_TREE

pytestmark = pytest.mark.sockets


ORDERS = {"name": "orders", "redelivery_limit": 1, "dead_letter_queue": "dead"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    queues = [ORDERS, {"name": "answers"}, {"name": "dead"}]
    with Broker(config={**ORIGINALS_TREE, "queue": queues}) as running:
        yield running


def send(broker: Broker, *bodies: str, queue: str = "orders") -> None:
    with connect(broker.url) as connection, connection.producer(queue) as producer:
        producer.send_all(bodies)


def waiting(broker: Broker, queue: str = "orders") -> list[object]:
    with connect(broker.url) as connection, connection.browser(queue) as browser:
        return [message.body for message in browser]


# --- connections


@asynchronous
async def test_a_connection_is_awaited_or_entered() -> None:
    async def check(url: str) -> None:
        connection = await aio.connect(url, client_id="one")
        assert connection.client_id == "one"
        await connection.close()
        async with aio.connect(url) as another:
            assert not another.is_closed
        assert another.is_closed

    with Broker() as broker:
        await check(broker.url)


def test_connect_without_asyncio(broker: Broker) -> None:
    with connect(broker.url, client_id="two") as connection:
        assert connection.client_id == "two"
    assert connection.is_closed


# --- loops


@asynchronous
async def test_a_loop_takes_message_after_message_and_ends_with_close() -> None:
    with Broker(config={"queue": [ORDERS]}) as broker:
        send(broker, "a", "b", "c")
        async with aio.connect(broker.url) as connection, connection.consumer("orders") as orders:
            seen = []
            async for message in orders:
                async with message.process():
                    seen.append(message.body)
                    if len(seen) == 3:
                        await orders.close()
            assert seen == ["a", "b", "c"]
        assert waiting(broker) == []


@asynchronous
async def test_another_task_ends_a_loop_that_waits() -> None:
    with Broker(config={"queue": [ORDERS]}) as broker:
        for ends_connection in (False, True):
            connection = await aio.connect(broker.url)
            orders = await connection.consumer("orders")

            async def loop(orders: aio.MessageConsumer = orders) -> list[Message]:
                return [message async for message in orders]

            looping = asyncio.ensure_future(loop())
            await asyncio.sleep(0)
            await (connection.close() if ends_connection else orders.close())
            assert await looping == []
            await connection.close()


def test_another_thread_ends_a_loop_that_waits(broker: Broker) -> None:
    for ends_connection in (False, True):
        with connect(broker.url) as connection, connection.consumer("orders") as orders:
            seen: list[Message] = []
            thread = threading.Thread(target=seen.extend, args=[orders])
            thread.start()
            (connection if ends_connection else orders).close()
            thread.join()
            assert seen == []
            assert list(orders) == []


def test_a_stop_ends_a_loop_with_the_message_in_hand(broker: Broker) -> None:
    send(broker, "a", "b")
    with connect(broker.url) as connection, connection.consumer("orders") as orders:
        for message in orders:
            with message.process():
                orders.stop()
        orders.stop()
        with pytest.raises(IllegalStateException):
            orders.receive()
        assert waiting(broker) == ["b"]
    orders.stop()


def test_what_is_in_hand_can_be_finished_after_close(broker: Broker) -> None:
    send(broker, "a", "b")
    with connect(broker.url) as connection, connection.consumer("orders") as orders:
        for message in orders:
            with message.process():
                orders.close()
        with pytest.raises(IllegalStateException):
            message.release()
    assert waiting(broker) == ["b"]


def test_what_is_left_without_an_outcome_goes_back_as_a_failed_attempt(broker: Broker) -> None:
    send(broker, "a", "b")
    with connect(broker.url) as connection:
        with connection.consumer("orders") as orders:
            next(orders)
        with connection.consumer("orders") as orders:
            assert [(next(orders).delivery_count) for _ in range(2)] == [1, 0]


def test_a_loop_ends_by_what_has_ended_its_link(broker: Broker) -> None:
    with connect(broker.url) as connection, connection.consumer("orders") as orders:
        with connection.create_management() as management:
            management.delete("postroom.queue", "orders")
        with pytest.raises(InvalidDestinationException):
            list(orders)
        orders.close()
        with pytest.raises(InvalidDestinationException):
            orders.receive()


def test_a_loop_ends_by_the_loss_of_the_connection() -> None:
    with Broker(config={"queue": [ORDERS]}) as broker:
        connection = connect(broker.url)
        orders = connection.consumer("orders")
    with pytest.raises(ConnectionLostException):
        list(orders)
    connection.close()


# --- sessions of their own


def test_what_is_opened_has_a_session_that_closes_with_it(broker: Broker) -> None:
    with connect(broker.url) as connection:
        for _ in range(3):
            with connection.producer("orders") as producer, connection.consumer("answers"):
                producer.send("one")
            with connection.browser("orders"), connection.requestor("orders"):
                pass
        assert all(session.is_closed for session in connection._inner._sessions)
        assert not connection._inner._provider._channels


def test_what_is_refused_leaves_no_session(broker: Broker) -> None:
    with connect(broker.url) as connection:
        for _ in range(2):
            with pytest.raises(JMSException):
                connection.consumer("orders", "this is no selector")
        assert not connection._inner._provider._channels


def test_selectors_and_subscriptions(broker: Broker) -> None:
    news = Topic("news")
    with connect(broker.url, client_id="me") as connection:
        connection.consumer(news, subscription="kept", durable=True).close()
        with connection.consumer(news, "JMSPriority > 5", prefetch=1) as urgent:
            with connection.producer(news) as producer:
                producer.send("low")
                producer.send("high", None, 9)
            assert next(urgent).body == "high"
        with connection.consumer(news, subscription="kept", durable=True) as kept:
            assert [next(kept).body for _ in range(2)] == ["high", "low"]
        with (
            connection.consumer(news, subscription="both", shared=True) as one,
            connection.consumer(news, subscription="both", shared=True) as two,
        ):
            assert one.address == two.address
        connection.unsubscribe("kept")
        with pytest.raises(InvalidDestinationException):
            connection.unsubscribe("kept")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"durable": True}, "has a name"),
        ({"shared": True}, "has a name"),
        ({"subscription": "s"}, "needs durable=True"),
        ({"subscription": "s", "shared": True, "no_local": True}, "no_local"),
        ({"subscription": "s", "shared": True, "exclusive": True}, "exclusive"),
        ({"subscription": "s", "durable": True, "create": True}, "is for queues"),
    ],
)
def test_arguments_that_do_not_go_together(broker: Broker, arguments: dict[str, object], why: str) -> None:
    with connect(broker.url) as connection:
        with pytest.raises(JMSException, match=why):
            connection.consumer(Topic("news"), **arguments)  # type: ignore[arg-type]
        with pytest.raises(JMSException, match="to a Topic"):
            connection.consumer(Queue("orders"), subscription="s", durable=True)


def test_a_consumer_makes_its_queue_if_it_is_asked_to() -> None:
    with Broker() as running, connect(running.url) as connection:
        with pytest.raises(InvalidDestinationException, match="no queue 'fresh'"):
            connection.consumer("fresh")
        with connection.consumer("fresh", create=True) as fresh:
            with connection.producer("fresh") as producer:
                producer.send("first")
            assert next(fresh).body == "first"


# --- transactions


def test_a_transaction_commits_at_the_end_and_rolls_back_with_an_exception(broker: Broker) -> None:
    send(broker, "a")
    with connect(broker.url) as connection:
        with pytest.raises(ZeroDivisionError), connection.transaction() as session:
            order = session.consumer("orders").receive(5)
            session.producer("answers").send("never")
            raise ZeroDivisionError
        assert (waiting(broker), waiting(broker, "answers")) == (["a"], [])
        with connection.transaction() as session:
            order = session.create_consumer("orders").receive(5)
            assert order is not None and order.delivery_count == 1
            session.create_producer("answers").send(f"done: {order.body}")
        assert session.is_closed
    assert (waiting(broker), waiting(broker, "answers")) == ([], ["done: a"])


def test_consumers_and_producers_may_be_closed_before_the_commit(broker: Broker) -> None:
    send(broker, "a", "b")
    with connect(broker.url) as connection:
        with connection.transaction() as session:
            with session.consumer("orders") as orders, session.producer("answers") as answers:
                for order in orders:
                    answers.send(f"done: {order.body}")
                    break
            with session.consumer("orders") as orders:
                assert next(orders).body == "b"
        assert (waiting(broker), waiting(broker, "answers")) == ([], ["done: a"])


@asynchronous
async def test_a_transaction_of_asyncio() -> None:
    with Broker(config={"queue": [ORDERS, {"name": "answers"}]}) as broker:
        async with aio.connect(broker.url) as connection:
            async with connection.transaction() as session, session.producer("answers") as answers:
                await answers.send("one")
            with pytest.raises(ZeroDivisionError):
                async with connection.transaction() as session:
                    await (await session.producer("answers")).send("two")
                    raise ZeroDivisionError
        assert waiting(broker, "answers") == ["one"]


# --- with


def test_everything_that_closes_can_be_entered(broker: Broker) -> None:
    with connect(broker.url) as connection, connection.create_session() as session:
        with session.create_producer("orders") as producer, session.create_consumer("orders") as consumer:
            pass
        with session.create_browser("orders") as browser, session.create_requestor("orders") as requestor:
            pass
        with session.create_temporary_queue() as temporary:
            assert temporary.name
        with (
            connection.create_management() as management,
            connection.create_message_store("orders") as store,
            store.create_listener() as listener,
        ):
            assert listener.receive(0) is None
    assert producer.is_closed and consumer.is_closed and browser.is_closed and requestor.is_closed
    assert temporary.is_deleted
    with pytest.raises(IllegalStateException):
        management.read("postroom.queue", "orders")


@asynchronous
async def test_requests_the_short_way() -> None:
    with Broker(config={"queue": [ORDERS]}) as broker:
        async with (
            aio.connect(broker.url) as connection,
            connection.requestor("orders") as requestor,
            connection.consumer("orders") as orders,
            connection.producer() as answers,
        ):

            async def serve() -> None:
                async for request in orders:
                    async with request.process():
                        reply = TextMessage("pong", correlation_id=request.message_id)
                        await answers.send(reply, destination=request.reply_to)

            serving = asyncio.ensure_future(serve())
            reply = await requestor.request("ping", timeout_s=10)
            assert reply.body == "pong"
            await orders.close()
            await serving


# --- arguments in JMS's order


def test_arguments_go_by_position_as_in_jms(broker: Broker) -> None:
    news = Topic("news")
    with connect(broker.url, client_id="me") as connection, connection.create_session() as session:
        session.create_consumer("orders", "JMSPriority > 5", True).close()
        session.create_durable_consumer(news, "mine", "JMSPriority > 5", True).close()
        session.create_shared_consumer(news, "ours", "JMSPriority > 5").close()
        session.create_shared_durable_consumer(news, "all", "JMSPriority > 5").close()
        session.create_producer("orders").send("a", DeliveryMode.NON_PERSISTENT, 7, 60_000)
        (message,) = session.create_browser("orders", "JMSPriority = 7")
        assert message.delivery_mode is DeliveryMode.NON_PERSISTENT
        assert message.expiration_ms is not None
        assert not list(session.create_browser("orders", "JMSPriority = 6"))
    with ConnectionFactory(broker.url, client_id="me").create_context(AcknowledgeMode.CLIENT) as context:
        context.create_consumer("orders", "JMSPriority > 5", False).close()
        context.create_durable_consumer(news, "mine", "JMSPriority > 5", True).close()
        context.create_shared_consumer(news, "ours", "JMSPriority > 5").close()
        context.create_shared_durable_consumer(news, "all", "JMSPriority > 5").close()
        assert not list(context.create_browser("orders", "JMSPriority = 6"))
