"""What is found out about a handler as it is decorated, and when it is tried again."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from postroom.app import App, Message, Retry, RetryPolicy, Topic
from postroom.app.handlers import Handler


class Service:
    async def method(self, order: str) -> str:
        return f"method {order}"

    def __call__(self, order: str, message: Message) -> str:
        return f"call {order} {message.subject}"


async def both(order: str, message: Message) -> str:
    return f"both {order} {message.subject}"


def plain(order: str, *, unused: int = 1) -> str:
    return f"plain {order} {unused}"


async def only_message(message: Message) -> object:
    return message.body


def with_more(first: int, order: str) -> str:
    return f"{first} {order}"


GOOD: list[tuple[Callable[..., Any], object]] = [
    (Service().method, "method a"),
    (Service(), "call a s"),
    (both, "both a s"),
    (plain, "plain a 1"),
    (only_message, "a"),
]


@pytest.mark.parametrize(("function", "expected"), GOOD)
def test_a_handler_gets_the_body_and_the_message_if_it_asks_for_it(
    function: Callable[..., Any], expected: object
) -> None:
    handler = Handler(function)
    assert asyncio.run(handler.call(handler.arguments(Message("a", subject="s")))) == expected


def test_arguments_may_be_bound_by_partial() -> None:
    handler = Handler(partial(plain, unused=2))
    assert asyncio.run(handler.call(handler.arguments(Message("a")))) == "plain a 2"


def nothing() -> None: ...


def three(a: str, b: Message, c: str) -> None: ...


def keyword(*, order: str) -> None: ...


def unannotated(order) -> None: ...  # type: ignore[no-untyped-def]


def second_unannotated(order: str, message) -> None: ...  # type: ignore[no-untyped-def]


def second_other(order: str, message: str) -> None: ...


def unknown_name(order: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unknown_type(order: Service) -> None: ...


BAD: list[tuple[Callable[..., Any], str]] = [
    (nothing, r"nothing\(\) -> 'None' can't take messages: a handler is async def handle"),
    (three, "can't take messages"),
    (keyword, "can't take messages"),
    (unannotated, "the parameter order of unannotated has no annotation"),
    (second_unannotated, "the parameter message of second_unannotated has no annotation"),
    (second_other, "the second parameter of second_other, message, is the message itself"),
    (unknown_name, "an annotation of unknown_name can't be evaluated: name 'Nowhere' is not defined"),
    (unknown_type, "the parameter order of unknown_type: nothing knows how to make a Service of a body"),
]


@pytest.mark.parametrize(("function", "text"), BAD)
def test_what_can_t_take_messages_is_refused_as_it_is_decorated(
    function: Callable[..., Any], text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        App().subscriber("orders")(function)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"concurrency": 0}, "concurrency is 0; it is 1 to 1000"),
        ({"retries": -1}, "retries is -1; it is 0"),
        ({"backoff": 0.5}, "backoff is 0.5; it is 1"),
        ({"retry_after_s": -1}, "retry_after_s is -1"),
        ({"subscription": "billing"}, "subscription='billing' is to a topic"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        App().subscriber("orders", **arguments)
    with pytest.raises(ValueError, match="grace_s is -1"):
        App(grace_s=-1)
    with pytest.raises(ValueError, match="after_s is -1"):
        Retry(after_s=-1)


def test_a_decorated_function_is_the_function_still() -> None:
    app = App()
    assert app.subscriber("orders")(plain) is plain
    assert app.subscriber(Topic("prices"), subscription="billing")(both) is both


def test_a_plain_function_runs_in_a_thread_with_the_context_of_its_caller() -> None:
    place = contextvars.ContextVar("place", default="nowhere")

    def handle(order: str) -> tuple[str, bool]:
        return place.get(), threading.current_thread() is threading.main_thread()

    async def call() -> object:
        place.set("here")
        return await Handler(handle).call(("a",))

    assert asyncio.run(call()) == ("here", False)


@pytest.mark.parametrize("error", [ValueError("no"), StopIteration("no")])
def test_what_a_plain_function_raises_comes_out(error: Exception) -> None:
    def handle(order: str) -> None:
        raise error

    with pytest.raises((ValueError, RuntimeError), match="no"):
        asyncio.run(Handler(handle).call(("a",)))


def test_waiting_times_grow_up_to_a_bound() -> None:
    policy = RetryPolicy(retries=3, retry_after_s=1.0, backoff=3.0, max_retry_after_s=8.0)
    assert [policy.delay_s(failures) for failures in (0, 1, 2, 3, 10_000)] == [1.0, 3.0, 8.0, 8.0, 8.0]
    assert [policy.gives_up(failures) for failures in range(5)] == [False, False, False, True, True]
