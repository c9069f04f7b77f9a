"""Send, receive, browse, settle: with each client, against a real broker."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.driver import Client, ClientError
from tests.clients.pattern import pattern
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]


def test_messages_come_out_in_the_order_they_went_in(client: Client, queue: str) -> None:
    words = [f"message {number}" for number in range(20)]
    client.send_accepted(queue, *map(text, words))
    assert texts(client.receive(queue, 20)) == words
    assert client.receive(queue) == []


def test_header_and_properties_arrive(client: Client, queue: str) -> None:
    sent: dict[str, Any] = {
        "durable": True, "priority": 7, "subject": "greeting", "reply_to": "answers", "group_id": "g",
        "group_sequence": 3, "reply_to_group_id": "h", "correlation_id": {"string": "c-1"},
        "properties": [["colour", {"string": "green"}], ["weight", {"int": "12"}]],
        "body": {"value": {"string": "hello"}},
    }  # fmt: skip
    client.send_accepted(queue, sent)
    (message,) = client.receive(queue)
    assert {name: message.get(name) for name in sent} == sent
    assert message.get("delivery_count", 0) == 0


def test_a_non_persistent_message_says_so(client: Client, queue: str) -> None:
    client.send_accepted(queue, {**text("light"), "durable": False})
    assert client.receive(queue)[0].get("durable", False) is False


def test_settled_messages_arrive_without_an_outcome(client: Client, queue: str) -> None:
    assert client.send(queue, text("a"), text("b"), settled=True) == [
        {"state": "settled"},
        {"state": "settled"},
    ]
    assert texts(client.receive(queue, 2)) == ["a", "b"]


def test_presettled_delivery_needs_no_outcome(client: Client, queue: str) -> None:
    client.send_accepted(queue, text("a"))
    assert texts(client.receive(queue, presettled=True)) == ["a"]
    assert client.receive(queue) == []


def test_browsing_takes_nothing(client: Client, queue: str) -> None:
    client.send_accepted(queue, text("a"), text("b"))
    assert texts(client.browse(queue)) == ["a", "b"]
    assert texts(client.browse(queue)) == ["a", "b"]
    assert texts(client.receive(queue, 2)) == ["a", "b"]
    assert client.browse(queue) == []


def test_a_released_message_returns_to_its_place_uncounted(client: Client, queue: str) -> None:
    client.send_accepted(queue, text("a"), text("b"))
    assert texts(client.receive(queue, outcome="release")) == ["a"]
    again = client.receive(queue, 2)
    assert texts(again) == ["a", "b"]
    assert again[0].get("delivery_count", 0) == 0


def test_a_failed_message_returns_to_its_place_counted(client: Client, queue: str) -> None:
    client.send_accepted(queue, text("a"), text("b"))
    assert texts(client.receive(queue, outcome={"modify": {"failed": True}})) == ["a"]
    again = client.receive(queue, 2)
    assert texts(again) == ["a", "b"]
    assert [message.get("delivery_count", 0) for message in again] == [1, 0]


def test_undeliverable_here_keeps_a_message_from_that_link_only(client: Client, queue: str) -> None:
    client.send_accepted(queue, text("a"))
    undeliverable = {"modify": {"failed": True, "undeliverable_here": True}}
    # Two are asked for: the link could have the same message a second time.
    assert texts(client.receive(queue, 2, outcome=undeliverable)) == ["a"]
    assert texts(client.receive(queue)) == ["a"]


def test_a_rejected_message_is_gone_from_the_queue(client: Client, queue: str) -> None:
    client.send_accepted(queue, text("bad"), text("good"))
    assert texts(client.receive(queue, outcome="reject")) == ["bad"]
    assert texts(client.receive(queue, 2)) == ["good"]


def test_unsettled_messages_of_a_closed_link_come_back(client: Client, queue: str) -> None:
    client.send_accepted(queue, text("a"))
    assert texts(client.receive(queue, outcome="none")) == ["a"]
    assert texts(client.receive(queue)) == ["a"]


def test_higher_priorities_first(client: Client, queue: str) -> None:
    client.send_accepted(
        queue, *({**text(f"p{priority}"), "priority": priority} for priority in (0, 9, 4, 7))
    )
    assert texts(client.receive(queue, 4)) == ["p9", "p7", "p4", "p0"]


@pytest.mark.parametrize("name", ["proton", "rhea", "postroom"])
def test_settle_mode_second_waits_for_the_broker(
    name: str, connected: Callable[[str], Client], queue: str
) -> None:
    """Qpid JMS has no receiver settle mode second."""
    client = connected(name)
    client.send_accepted(queue, text("a"), text("b"))
    assert texts(client.receive(queue, 2, second=True)) == ["a", "b"]
    assert client.receive(queue) == []


@pytest.mark.parametrize("name", ["proton", "rhea", "postroom"])
def test_rejection_carries_an_error(name: str, connected: Callable[[str], Client], queue: str) -> None:
    client = connected(name)
    client.send_accepted(queue, text("bad"))
    outcome = {"reject": {"condition": "amqp:decode-error", "description": "not a number"}}
    assert texts(client.receive(queue, outcome=outcome)) == ["bad"]
    assert client.receive(queue) == []


def test_a_reserved_address_is_refused(client: Client) -> None:
    """And the client goes on working."""
    with pytest.raises(ClientError):
        client.send("$nothing-here", text("a"))
    with pytest.raises(ClientError):
        client.receive("$nothing-here")


SIZES = [300 * 1024, 10 * 1024 * 1024]


@pytest.mark.parametrize("size", SIZES)
def test_large_messages_arrive_whole(client: Client, queue: str, size: int) -> None:
    client.send_accepted(queue, {"durable": True, "body": {"data": {"size": size, "seed": 5}}}, text("after"))
    large, small = client.receive(queue, 2)
    expected = hashlib.sha256(pattern(size, 5)).hexdigest()
    assert large["body"]["data"] == {"size": size, "sha256": expected}
    assert texts([small]) == ["after"]


def test_many_messages_in_many_frames(client: Client, queue: str) -> None:
    """More than the window of a session and the credit of a link take at once."""
    sizes = [70_000 + 1_000 * number for number in range(60)]
    client.send_accepted(queue, *({"body": {"data": {"size": size, "seed": size % 200}}} for size in sizes))
    received = client.receive(queue, len(sizes))
    expected = [hashlib.sha256(pattern(size, size % 200)).hexdigest() for size in sizes]
    assert [message["body"]["data"]["sha256"] for message in received] == expected
