"""ACT over the wire: what a job asks for about many messages, and what is wrong with a request."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from postroom.client import ConnectionFactory, JMSException, ManagementClient, ManagementException
from postroom.manager.administration.message_jobs import MAX_ACTIONS
from postroom.model.entity_types import MESSAGE_TYPE, QUEUE_TYPE
from tests.server.harness import BrokerThread

pytestmark = pytest.mark.sockets

Body = dict[str, Any]


@pytest.fixture
def management(broker: BrokerThread, queue: str) -> Iterator[ManagementClient]:
    """With ten messages on the queue."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        client = connection.create_management()
        client.create(QUEUE_TYPE, queue)
        producer = connection.create_session().create_producer(queue)
        for number in range(10):
            producer.send(f"{number}")
        yield client


def serials(management: ManagementClient, queue: str) -> list[int]:
    """Of what is on the queue, in order."""
    opened = management.request("OPEN-CURSOR", kind=MESSAGE_TYPE, name=queue, body={}).attributes()
    page = {"cursor": opened["cursor"], "offset": 0, "count": 1000}
    read = management.request("READ-CURSOR", kind=MESSAGE_TYPE, name=queue, body=page).attributes()
    return [row["serial"] for row in read["messages"]]  # type: ignore[attr-defined]


def ledger_id(broker: BrokerThread) -> str:
    return str(UUID(broker.call(lambda b: b.ledger_id)))


def group(chosen: list[int], action: str, **more: Any) -> Body:
    """An action on messages that stand where they arrived, never delivered."""
    return {
        "action": action,
        "serials": chosen,
        "positions": chosen,
        "delivery_counts": [0] * len(chosen),
        **more,
    }


def act(management: ManagementClient, queue: str, body: Body) -> Body:
    return management.request("ACT", kind=MESSAGE_TYPE, name=queue, body=body).attributes()


def test_a_request_with_several_actions(
    broker: BrokerThread, management: ManagementClient, queue: str
) -> None:
    other = queue + "-other"
    management.create(QUEUE_TYPE, other)
    there = serials(management, queue)
    actions = [
        group(there[:3], "discard", reason="job 1: tidy"),
        group(there[3:5], "forward", to=other, ordinals=[0, 0]),
        group([*there[5:6], 1 << 40], "leave"),
        group(there[6:7], "replay"),
    ]
    record = act(management, queue, {"ledger_id": ledger_id(broker), "actions": actions})
    assert record["answers"] == ["done"] * 6 + ["gone", "refused"]
    assert [record[name] for name in ("done", "changed", "gone", "refused")] == [6, 0, 1, 1]
    (refusal,) = record["refusals"]
    assert refusal["numbers"] == [7] and "where to" in refusal["why"]
    assert serials(management, queue) == there[5:]
    assert len(serials(management, other)) == 2


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"actions": {}}, "actions is"),
        ({"actions": ["discard"]}, "actions\\[0\\] is 'discard', must be a map"),
        ({"actions": [group([1], "eat")]}, "no action 'eat'"),
        ({"actions": [{"action": 5}]}, "action is 5, must be a string"),
        ({"actions": [group([1], "leave", reason=5)]}, "reason is 5, must be a string"),
        ({"actions": [group([1], "forward")]}, "needs `to`"),
        ({"actions": [group([1], "forward", to=7)]}, "to is 7"),
        ({"actions": [{"action": "discard", "serials": [1]}]}, "positions must be a list"),
        ({"actions": [group([1], "discard", positions=[-1])]}, "positions must be a list"),
        ({"actions": [group([1], "discard", serials=["1"])]}, "serials must be a list"),
        ({"actions": [group([1, 2], "discard", positions=[1])]}, "has 2 serials and 1 positions"),
        ({"actions": [group([1, 1], "discard")]}, "same message"),
        ({"actions": [group(list(range(MAX_ACTIONS + 1)), "discard")]}, f"acts on {MAX_ACTIONS}"),
        ({"ledger_id": "another"}, "of ledger 'another', and this broker's is"),
        ({"ledger_id": 5}, "ledger_id is 5"),
    ],
)
def test_a_request_that_is_wrong_does_nothing(
    broker: BrokerThread, management: ManagementClient, queue: str, wrong: Body, text: str
) -> None:
    there = serials(management, queue)
    good = {"ledger_id": ledger_id(broker), "actions": [group(there, "discard")]}
    with pytest.raises((ManagementException, JMSException), match=text):
        act(management, queue, good | wrong)
    assert serials(management, queue) == there


def test_a_queue_that_there_is_not(broker: BrokerThread, management: ManagementClient) -> None:
    with pytest.raises(JMSException, match="nowhere"):
        act(management, "nowhere", {"ledger_id": ledger_id(broker), "actions": []})
