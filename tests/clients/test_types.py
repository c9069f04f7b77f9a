"""Every AMQP type that both clients of a pair can express survives the way between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.clients.cases import CASES, IDS, PROPERTY_CASES, Case
from tests.clients.conftest import CLIENT_NAMES
from tests.clients.driver import Client
from tests.clients.value_pairs import received_as_sent

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
PAIRS = list(itertools.product(CLIENT_NAMES, CLIENT_NAMES))


def travelling(cases: list[Case], sender: str, receiver: str) -> list[Case]:
    return [case for case in cases if case.can_travel(sender, receiver)]


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_every_type_survives_as_a_body(
    sender: str, receiver: str, connected: Callable[[str], Client], queue: str
) -> None:
    cases = travelling(CASES, sender, receiver)
    connected(sender).send_accepted(queue, *({"body": case.body} for case in cases))
    messages = connected(receiver).receive(queue, len(cases))
    told = dict(zip((case.name for case in cases), (message["body"] for message in messages), strict=True))
    changed = {
        case.name: (case.body, told[case.name])
        for case in cases
        if not received_as_sent(case.body, told[case.name])
    }
    assert changed == {}


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_every_simple_type_survives_as_an_application_property(
    sender: str, receiver: str, connected: Callable[[str], Client], queue: str
) -> None:
    cases = travelling(PROPERTY_CASES, sender, receiver)
    properties = [[f"p{number}", case.typed] for number, case in enumerate(cases)]
    connected(sender).send_accepted(queue, {"properties": properties, "body": {"value": {"string": ""}}})
    (message,) = connected(receiver).receive(queue)
    assert sorted(message["properties"], key=repr) == sorted(properties, key=repr)


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_every_kind_of_correlation_id_survives(
    sender: str, receiver: str, connected: Callable[[str], Client], queue: str
) -> None:
    connected(sender).send_accepted(queue, *({"correlation_id": given} for given in IDS))
    messages = connected(receiver).receive(queue, len(IDS))
    assert [message["correlation_id"] for message in messages] == IDS


@pytest.mark.parametrize(("sender", "receiver"), [pair for pair in PAIRS if pair[0] != "qpid_jms"])
def test_every_kind_of_message_id_survives(
    sender: str, receiver: str, connected: Callable[[str], Client], queue: str
) -> None:
    """Qpid JMS chooses the ids of what it sends by itself."""
    connected(sender).send_accepted(queue, *({"message_id": given} for given in IDS))
    messages = connected(receiver).receive(queue, len(IDS))
    assert [message["message_id"] for message in messages] == IDS


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_data_bodies_survive(
    sender: str, receiver: str, connected: Callable[[str], Client], queue: str
) -> None:
    connected(sender).send_accepted(
        queue, {"body": {"data": {"hex": "00ff80"}}}, {"body": {"data": {"hex": ""}}}
    )
    messages = connected(receiver).receive(queue, 2)
    assert [message["body"]["data"]["hex"] for message in messages] == ["00ff80", ""]


SEQUENCE_CLIENTS = [name for name in CLIENT_NAMES if name != "qpid_jms"]


@pytest.mark.parametrize(("sender", "receiver"), list(itertools.product(SEQUENCE_CLIENTS, repeat=2)))
def test_sequence_bodies_survive(
    sender: str, receiver: str, connected: Callable[[str], Client], queue: str
) -> None:
    body = {"sequence": [{"int": "-1"}, {"string": "two"}, {"list": [{"ulong": "3"}]}]}
    connected(sender).send_accepted(queue, {"body": body})
    (message,) = connected(receiver).receive(queue)
    assert message["body"] == body
