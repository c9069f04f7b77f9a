"""Requests to the management node and what their answers become."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from postroom.client import (
    InvalidDestinationException,
    JMSTimeoutException,
    ManagementException,
    Message,
    ResourceAllocationException,
)
from postroom.client.aio import ManagementClient
from postroom.client.messages.message import decode_message, encode_message
from tests.client.fake_broker import FakeBroker, asynchronous


class Node:
    """Answers requests by a script; keeps what was asked."""

    def __init__(self, broker: FakeBroker, *answers: tuple[int, object, dict[str, object]]) -> None:
        self.broker = broker
        self.requests: list[Message] = []
        self.answers = list(answers)
        broker.on_message = self.answer

    def answer(self, address: str | None, payload: bytes) -> None:
        request = decode_message(payload)
        self.requests.append(request)
        assert address == "$management"
        assert request.reply_to == self.broker.attached[-1].attach.target.address, "where answers are awaited"
        if self.answers:
            status, body, properties = self.answers.pop(0)
            fields = {"statusCode": status, "statusDescription": "said", **properties}
            reply = Message(body, properties=fields, correlation_id=request.message_id)
            asyncio.get_running_loop().call_soon(self.broker.put, "$management", encode_message(reply, None))


async def client_of(broker: FakeBroker, **options: Any) -> ManagementClient:
    return await (await broker.connect(**options)).create_management()


@asynchronous
async def test_each_verb_says_what_it_wants() -> None:
    async with FakeBroker() as broker:
        node = Node(broker, *[(200, {"name": "q"}, {})] * 4)
        management = await client_of(broker)
        assert await management.create("postroom.queue", "q", {"max_messages": 5}) == {"name": "q"}
        await management.read("postroom.queue", "q")
        await management.update("postroom.queue", "q", {"max_messages": 6})
        await management.delete("postroom.queue", "q", {"if-empty": True})
        named = {"type": "postroom.queue", "name": "q"}
        assert [request.properties for request in node.requests] == [
            {"operation": "CREATE", **named},
            {"operation": "READ", **named},
            {"operation": "UPDATE", **named},
            {"operation": "DELETE", "if-empty": True, **named},
        ]
        assert [request.body for request in node.requests] == [
            {"max_messages": 5},
            None,
            {"max_messages": 6},
            None,
        ]
        await management.close()


@asynchronous
async def test_one_that_is_closed_gives_its_session_back() -> None:
    async with FakeBroker() as broker:
        connection = await broker.connect()
        for _ in range(broker.max_sessions + 1):
            await (await connection.create_management()).close()


@asynchronous
async def test_a_query_gives_rows_by_name() -> None:
    async with FakeBroker() as broker:
        Node(broker, (200, {"attributeNames": ["name", "depth"], "results": [["a", 1], ["b", 2]]}, {}))
        rows = await (await client_of(broker)).query("postroom.queue")
        assert rows == [{"name": "a", "depth": 1}, {"name": "b", "depth": 2}]


@asynchronous
async def test_a_long_query_comes_in_pages() -> None:
    async with FakeBroker() as broker:
        pages = [
            [[number] for number in range(start, start + size)] for start, size in ((0, 1_000), (1_000, 3))
        ]
        node = Node(broker, *((200, {"attributeNames": ["n"], "results": page}, {}) for page in pages))
        rows = await (await client_of(broker)).query("postroom.queue", ["n"])
        assert [row["n"] for row in rows] == list(range(1_003))
        assert [request.properties["offset"] for request in node.requests] == [0, 1_000]


@pytest.mark.parametrize(
    ("status", "condition", "expected"),
    [
        (404, "amqp:not-found", InvalidDestinationException),
        (429, "amqp:resource-limit-exceeded", ResourceAllocationException),
        (409, "amqp:precondition-failed", ManagementException),
        (500, None, ManagementException),
    ],
)
@asynchronous
async def test_a_refusal_is_an_exception(
    status: int, condition: str | None, expected: type[Exception]
) -> None:
    async with FakeBroker() as broker:
        Node(broker, (status, None, {"errorCondition": condition} if condition else {}))
        with pytest.raises(expected, match=r"READ postroom\.queue q: said") as raised:
            await (await client_of(broker)).read("postroom.queue", "q")
        assert getattr(raised.value, "status_code", status) == status


@asynchronous
async def test_what_a_refusal_says_for_programs_comes_along() -> None:
    async with FakeBroker() as broker:
        Node(broker, (409, {"confirmed": 7}, {"errorCondition": "postroom:checkpoint-replaced"}))
        with pytest.raises(ManagementException) as raised:
            await (await client_of(broker)).request("PLAN")
        assert raised.value.info == {"confirmed": 7}


@asynchronous
async def test_no_answer_is_a_timeout_and_a_late_one_is_passed_over() -> None:
    async with FakeBroker() as broker:
        node = Node(broker)
        management = await client_of(broker, request_timeout_s=0.1)
        with pytest.raises(JMSTimeoutException):
            await management.read("postroom.queue", "q")
        late = Message(
            {"late": True}, properties={"statusCode": 200}, correlation_id=node.requests[0].message_id
        )
        broker.put("$management", encode_message(late, None))
        node.answers = [(200, {"late": False}, {})]
        assert await management.read("postroom.queue", "q") == {"late": False}


@pytest.mark.parametrize("body", [None, {"results": []}, {"attributeNames": ["a"], "results": "none"}])
@asynchronous
async def test_an_answer_to_a_query_without_rows_is_refused(body: object) -> None:
    async with FakeBroker() as broker:
        Node(broker, (200, body, {}))
        with pytest.raises(ManagementException, match="attributeNames"):
            await (await client_of(broker)).query("postroom.queue")


@asynchronous
async def test_an_answer_without_a_status_is_refused() -> None:
    async with FakeBroker() as broker:
        Node(broker, (200, None, {"statusCode": "fine"}))
        with pytest.raises(ManagementException, match="statusCode"):
            await (await client_of(broker)).read("postroom.queue", "q")
