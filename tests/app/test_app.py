"""What becomes of messages that handlers return from, raise from, and can't read, through a real broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel
from tools.peers.ports import free_port

from postroom.app import App, Message, Reject, Retry, Topic
from postroom.client import (
    ConnectionLostException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    aio,
)
from tests.app.conftest import WAIT_S, received, send, waiting
from tests.client.fake_broker import asynchronous
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

REASON = "x-opt-dead-letter-reason"
DESCRIPTION = "x-opt-dead-letter-description"


class Order(msgspec.Struct):
    id: int


class Invoice(BaseModel):
    id: int


def asking(test: Callable[..., Any]) -> Callable[[BrokerThread], None]:
    """A coroutine that is given the broker's URL."""

    def run(broker: BrokerThread) -> None:
        asyncio.run(asyncio.wait_for(test(broker.url), 3 * WAIT_S))

    return run


async def off_loop(function: Callable[..., Any], *arguments: Any) -> Any:
    """A call of the blocking client."""
    return await asyncio.to_thread(function, *arguments)


@asking
async def test_what_a_handler_returns_is_sent_and_its_message_accepted(url: str) -> None:
    app = App(url)

    @app.subscriber("orders", publish_to="invoices")
    async def handle(order: Order) -> Invoice:
        return Invoice(id=order.id)

    async with app:
        await app.publish("orders", Order(7), properties={"colour": "green"})
        (invoice,) = await off_loop(received, url, "invoices")
    assert (invoice.body, invoice.content_type) == ('{"id":7}', "application/json")
    assert invoice.correlation_id is not None
    assert await off_loop(waiting, url) == []


@asking
async def test_properties_and_headers_reach_the_handler(url: str) -> None:
    app = App(url)
    found = asyncio.get_running_loop().create_future()

    @app.subscriber("orders", selector="colour = 'green'")
    async def handle(order: int, message: Message) -> None:
        found.set_result((order, message.properties["colour"], message.priority))

    async with app:
        await app.publish("orders", 1)
        await app.publish("orders", Message("2", priority=9), properties={"colour": "green"})
        assert await found == (2, "green", 9)
    assert await off_loop(waiting, url) == ["1"]


@asking
async def test_a_request_gets_what_the_handler_returns(url: str) -> None:
    app = App(url)

    @app.subscriber("orders")
    async def handle(order: Order) -> Order:
        return Order(order.id + 1)

    async with app, aio.connect(url) as connection, connection.requestor("orders") as requestor:
        assert (await requestor.request('{"id": 1}', WAIT_S)).body == '{"id":2}'
    assert await off_loop(waiting, url) == []


@asking
async def test_an_exception_is_tried_again_by_policy_and_then_a_dead_letter_with_its_text(url: str) -> None:
    app = App(url)
    reasons: list[object] = []

    @app.subscriber("orders", retries=2, retry_after_s=0)
    async def handle(order: Order, message: Message) -> None:
        reasons.append(message.annotations.get("x-opt-failure-reason"))
        raise ValueError(f"attempt {len(reasons)}")

    async with app:
        await app.publish("orders", Order(1))
        (dead,) = await off_loop(received, url, "dead")
    assert reasons == [None, "ValueError: attempt 1", "ValueError: attempt 2"]
    assert dead.annotations[DESCRIPTION] == "ValueError: attempt 3"
    assert dead.annotations[REASON] == "postroom:processing-failed"


@asking
async def test_what_fails_once_waits_and_is_handled_then(url: str) -> None:
    """The wait is the broker's: it says how the message is held."""
    app = App(url)
    attempts: list[int] = []

    @app.subscriber("orders", retry_after_s=0.05, backoff=1)
    async def handle(order: int, message: Message) -> str:
        attempts.append(message.delivery_count)
        if len(attempts) == 1:
            raise ValueError
        return "done"

    async with app, aio.connect(url) as connection, connection.requestor("orders") as requestor:
        assert (await requestor.request("1", WAIT_S)).body == "done"
    assert attempts == [0, 1]


@asking
async def test_retry_comes_again_as_often_as_it_is_raised(url: str) -> None:
    app = App(url)
    reasons: list[object] = []

    @app.subscriber("orders", retries=0)
    async def handle(order: int, message: Message) -> str:
        reasons.append(message.annotations.get("x-opt-failure-reason"))
        if len(reasons) < 4:
            raise Retry(f"attempt {len(reasons)}", after_s=0)
        return "done"

    async with app, aio.connect(url) as connection, connection.requestor("orders") as requestor:
        assert (await requestor.request("1", WAIT_S)).body == "done"
    assert reasons == [None, "attempt 1", "attempt 2", "attempt 3"]


@asking
async def test_the_queue_s_limit_ends_what_is_always_wanted_again(url: str) -> None:
    app = App(url)
    attempts: list[int] = []

    @app.subscriber("orders")
    async def handle(order: int, message: Message) -> None:
        attempts.append(message.delivery_count)
        raise Retry("not yet", after_s=0)

    async with app:
        await app.publish("orders", 1)
        (dead,) = await off_loop(received, url, "dead")
    assert attempts == list(range(11))
    assert dead.annotations[DESCRIPTION] == "11 failures, limit 10; the last: not yet"


@asking
async def test_reject_makes_a_dead_letter_at_once(url: str) -> None:
    app = App(url)
    seen: list[int] = []

    @app.subscriber("orders")
    async def handle(order: int) -> None:
        seen.append(order)
        raise Reject("no such customer")

    async with app:
        await app.publish("orders", 1)
        (dead,) = await off_loop(received, url, "dead")
    assert (seen, dead.annotations[DESCRIPTION]) == ([1], "no such customer")


@asking
async def test_a_body_that_can_t_be_read_is_a_dead_letter_and_never_tried(url: str) -> None:
    app = App(url)
    seen: list[Order] = []

    @app.subscriber("orders")
    async def handle(order: Order) -> None:
        seen.append(order)

    async with app:
        await off_loop(send, url, '{"id": "x"}', b"\xff", {"id": "y"}, None)
        dead = await off_loop(received, url, "dead", 4)
    assert seen == []
    assert {letter.annotations[REASON] for letter in dead} == {"amqp:decode-error"}
    assert dead[0].annotations[DESCRIPTION] == "Expected `int`, got `str` - at `$.id`"


@asking
async def test_what_can_t_be_sent_is_a_failure_of_the_handler(url: str) -> None:
    app = App(url)

    @app.subscriber("orders", publish_to="invoices", retries=0)
    async def handle(order: int) -> object:
        return object()

    async with app:
        await app.publish("orders", 1)
        (dead,) = await off_loop(received, url, "dead")
    assert "an object of type object can't be sent as JSON" in str(dead.annotations[DESCRIPTION])


@asking
async def test_as_many_are_handled_at_a_time_as_was_said(url: str) -> None:
    app = App(url)
    three = asyncio.Barrier(3)
    most = under_way = 0
    done: list[int] = []
    all_done = asyncio.Event()

    @app.subscriber("orders", concurrency=3, prefetch=9)
    async def handle(order: int) -> None:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        async with three:
            done.append(order)
        under_way -= 1
        if len(done) == 9:
            all_done.set()

    async with app:
        await off_loop(send, url, *range(9))
        await all_done.wait()
    assert (sorted(done), most) == (list(range(9)), 3)
    assert await off_loop(waiting, url) == []


@asking
async def test_plain_functions_run_at_the_same_time_in_threads(url: str) -> None:
    app = App(url)
    two = threading.Barrier(2, timeout=WAIT_S)

    @app.subscriber("orders", concurrency=2, publish_to="invoices")
    def handle(order: int) -> int:
        two.wait()
        return order

    async with app:
        await off_loop(send, url, 1, 2)
        invoices = await off_loop(received, url, "invoices", 2)
    assert sorted(invoice.body for invoice in invoices) == ["1", "2"]


# --- the end


@asking
async def test_the_end_waits_for_handlers_and_gives_back_what_was_not_begun(url: str) -> None:
    app = App(url, grace_s=WAIT_S)
    begun, may_end = asyncio.Event(), asyncio.Event()

    @app.subscriber("orders", prefetch=10, publish_to="invoices")
    async def handle(order: int) -> int:
        begun.set()
        await may_end.wait()
        return order

    await off_loop(send, url, 1, 2, 3)
    async with app:
        await begun.wait()
        asyncio.get_running_loop().call_later(0, may_end.set)
    assert [invoice.body for invoice in await off_loop(received, url, "invoices")] == ["1"]
    left = await off_loop(received, url, "orders", 2)
    assert [(message.body, message.delivery_count) for message in left] == [(2, 0), (3, 0)]


@asking
async def test_a_handler_that_takes_too_long_is_cancelled_and_its_message_goes_back(url: str) -> None:
    app = App(url, grace_s=0)
    begun = asyncio.Event()
    ends: list[str] = []

    @app.subscriber("orders")
    async def handle(order: int) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async with app:
        await app.publish("orders", 1)
        await begun.wait()
    assert ends == ["cancelled"]
    (left,) = await off_loop(received, url, "orders")
    assert (left.body, left.delivery_count) == ("1", 0)


@asking
async def test_a_thread_that_takes_too_long_is_left_and_its_message_goes_back(url: str) -> None:
    app = App(url, grace_s=0)
    begun, may_end = threading.Event(), threading.Event()

    @app.subscriber("orders", publish_to="invoices")
    def handle(order: int) -> int:
        begun.set()
        may_end.wait(WAIT_S)
        return order

    async with app:
        await app.publish("orders", 1)
        await off_loop(begun.wait, WAIT_S)
    may_end.set()
    assert await off_loop(waiting, url) == ["1"]
    assert await off_loop(waiting, url, "invoices") == []


@asking
async def test_a_handler_that_goes_on_although_it_is_cancelled_is_left(url: str) -> None:
    """After `CANCEL_S`."""
    app = App(url, grace_s=0)
    begun, may_end = asyncio.Event(), asyncio.Event()

    @app.subscriber("orders", publish_to="invoices")
    async def handle(order: int) -> int:
        begun.set()
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()
        return order

    async with app:
        await app.publish("orders", 1)
        await begun.wait()
    may_end.set()
    assert await off_loop(waiting, url) == ["1"]
    assert await off_loop(waiting, url, "invoices") == []


@asking
async def test_an_outcome_that_the_handler_says_itself_stays(url: str) -> None:
    app = App(url)

    @app.subscriber("orders")
    async def handle(order: int, message: Message) -> None:
        await message.dead_letter("no such order", condition="shop:unknown")

    async with app:
        await app.publish("orders", 1)
        (dead,) = await off_loop(received, url, "dead")
    assert (dead.annotations[REASON], dead.annotations[DESCRIPTION]) == ("shop:unknown", "no such order")


@asking
async def test_an_app_may_be_opened_again(url: str) -> None:
    app = App(url)

    @app.subscriber("orders", publish_to="invoices")
    async def handle(order: int) -> int:
        return order

    for number in range(2):
        async with app:
            await app.publish("orders", number)
            assert (await off_loop(received, url, "invoices"))[0].body == str(number)


# --- topics


@asking
async def test_a_subscription_keeps_messages_and_is_shared_by_who_names_it(url: str) -> None:
    apps = [App(url), App(url)]
    got: list[tuple[int, int]] = []
    two = asyncio.Barrier(2)
    both_done = asyncio.Event()

    def subscribe(number: int) -> None:
        @apps[number].subscriber(Topic("prices"), subscription="billing", prefetch=0)
        async def handle(price: int) -> None:
            async with two:  # each has one: none of them could have both
                got.append((number, price))
            if len(got) == 2:
                both_done.set()

    subscribe(0)
    subscribe(1)
    async with apps[0]:
        pass
    async with App(url) as other:
        await other.publish(Topic("prices"), 1)
        await other.publish(Topic("prices"), 2)
    async with apps[0], apps[1]:
        await both_done.wait()
    assert sorted(price for _, price in got) == [1, 2]
    assert sorted(number for number, _ in got) == [0, 1]


@asking
async def test_a_topic_without_a_subscription_gives_what_is_published_meanwhile(url: str) -> None:
    app = App(url)
    got = asyncio.get_running_loop().create_future()

    @app.subscriber(Topic("prices"))
    async def handle(price: int) -> None:
        got.set_result(price)

    async with App(url) as other:
        await other.publish(Topic("prices"), 1)
        async with app:
            await other.publish(Topic("prices"), 2)
            assert await got == 2


# --- what goes wrong


def test_a_queue_that_is_not_there_is_named(strict_broker: BrokerThread) -> None:
    app = App(strict_broker.url)

    @app.subscriber("nowhere")
    async def handle(order: int) -> None: ...

    with pytest.raises(InvalidDestinationException) as raised:
        app.run()
    assert "handle has nothing to receive from" in str(raised.value)
    assert "postroom queue create nowhere" in str(raised.value)


@asking
async def test_a_queue_that_is_not_there_is_made(url: str) -> None:
    app = App(url)

    @app.subscriber("new", publish_to="invoices")
    async def handle(order: int) -> int:
        return order

    async with app:
        await app.publish("new", 1)
        assert (await off_loop(received, url, "invoices"))[0].body == "1"


@asynchronous
async def test_where_nobody_listens_opening_says_so() -> None:
    app = App(f"amqp://127.0.0.1:{free_port()}")
    with pytest.raises(ConnectionLostException):
        async with app:
            pass
    with pytest.raises(IllegalStateException, match="the app isn't open"):
        await app.publish("orders", 1)
    with pytest.raises(ValueError, match="scheme"):
        App("http://127.0.0.1")


@asking
async def test_an_open_app_takes_no_more_subscribers_and_is_not_opened_twice(url: str) -> None:
    async with App(url) as app:
        with pytest.raises(IllegalStateException, match="declare its subscribers before"):

            @app.subscriber("orders")
            async def handle(order: int) -> None: ...

        with pytest.raises(IllegalStateException, match="open already"):
            await app.__aenter__()


@asking
async def test_a_queue_that_is_deleted_ends_the_app(url: str) -> None:
    app = App(url)

    @app.subscriber("invoices")
    async def handle(order: int) -> None: ...

    with pytest.raises(JMSException):
        async with app, aio.connect(url) as connection:
            app.check()
            await (await connection.create_management()).delete("postroom.queue", "invoices")
            while True:
                app.check()
                await asyncio.sleep(0)


@asking
async def test_publishing_goes_on_after_its_queue_was_deleted_and_made_again(url: str) -> None:
    async with App(url) as app, aio.connect(url) as connection:
        await app.publish("passing", 1)
        await off_loop(received, url, "passing")
        await (await connection.create_management()).delete("postroom.queue", "passing")
        await publish_until_it_works(app, "passing", 2)
        assert [message.body for message in await off_loop(received, url, "passing")] == ["2"]


async def publish_until_it_works(app: App, queue: str, body: object) -> None:
    """A message that meets the queue's end on its way is an error; the next one finds a new queue."""
    for _ in range(2):
        try:
            await app.publish(queue, body)
        except JMSException:
            continue
        return
    raise AssertionError("neither of two messages was taken")
