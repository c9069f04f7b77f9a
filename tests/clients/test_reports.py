"""Reports with every client: asked for as IBM's JMS classes do, by properties of the message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.conftest import CLIENT_NAMES
from tests.clients.driver import Client
from tests.clients.texts import text

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

CONFIG = """
container_id = "LONDON"
listen = [{{ address = "{address}" }}]

[auto_create]
consumers = true
"""


@pytest.fixture(scope="module")
def queue_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("reports") / "data", CONFIG) as process:
        yield process


@pytest.fixture(params=CLIENT_NAMES)
def client(
    request: pytest.FixtureRequest, queue_manager: BrokerProcess, new_client: Callable[[str], Client]
) -> Client:
    started = new_client(request.param)
    started("connect", **queue_manager.address)
    return started


def asking(**options: int) -> dict[str, Any]:
    """A message that asks for reports."""
    properties = [[f"JMS_IBM_Report_{name}", {"int": str(value)}] for name, value in options.items()]
    return {**text("order 7"), "reply_to": "answers", "properties": properties}


def kind_and_feedback(message: dict[str, Any]) -> tuple[str, str]:
    """Kind and feedback of a report."""
    fields = dict(message["properties"])
    return fields["JMS_IBM_MsgType"]["int"], fields["JMS_IBM_Feedback"]["int"]


def test_arrival_and_delivery_are_confirmed(client: Client) -> None:
    queue = f"orders-{client.name}"
    client.receive(queue)
    client.receive("answers")
    client.send_accepted(queue, asking(COA=0x100, COD=0x3800))
    [arrival] = client.receive("answers")
    assert kind_and_feedback(arrival) == ("4", "259")
    [order] = client.receive(queue)
    [delivery] = client.receive("answers")
    assert kind_and_feedback(delivery) == ("4", "260")
    assert delivery["body"] == order["body"]


def test_options_that_can_not_be_are_refused(client: Client) -> None:
    queue = f"orders-{client.name}"
    client.receive(queue)
    [outcome] = client.send(queue, asking(COA=0x200))
    assert (outcome["state"], outcome["condition"]) == ("rejected", "amqp:invalid-field")
    assert "MQRC_REPORT_OPTIONS_ERROR (2061)" in outcome["description"]
