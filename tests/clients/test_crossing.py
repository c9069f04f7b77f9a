"""A sender of one client and a receiver of another; crashes of clients; the broker's restart under each
client.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.conftest import CLIENT_NAMES
from tests.clients.driver import Client, ClientError
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]


@pytest.mark.parametrize("name", CLIENT_NAMES)
def test_a_killed_client_leaves_its_messages_to_others(
    name: str,
    broker: BrokerProcess,
    connected: Callable[[str], Client],
    new_client: Callable[[str], Client],
    queue: str,
) -> None:
    """What it accepted is gone; what it held comes back, flagged as redelivered."""
    other = connected("proton")
    other.send_accepted(queue, text("done"), text("held"))
    crashing = new_client(name)
    crashing("connect", **broker.address)
    assert texts(crashing.receive(queue)) == ["done"]
    assert texts(crashing.receive(queue, outcome="none", keep=True)) == ["held"]
    assert other.receive(queue) == []
    crashing.kill()
    (message,) = other.receive(queue, wait=True)
    assert (texts([message]), message["delivery_count"]) == (["held"], 1)
    assert other.receive(queue) == []


@pytest.mark.parametrize("name", ["proton", "rhea", "qpid_jms"])
def test_a_client_goes_on_after_the_broker_was_killed_and_restarted(
    name: str, own_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    """On the same connection object: the client reconnects by itself."""
    client = new_client(name)
    client("connect", **own_broker.address, reconnect=True)
    client.send_accepted("q", text("before"), {**text("light"), "durable": False})
    own_broker.restart_after_kill()
    client.send_accepted("q", text("after"))
    assert texts(client.receive("q", 3)) == ["before", "after"]


def test_our_client_says_that_the_broker_was_lost_and_connects_anew(
    own_broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    """It doesn't reconnect by itself."""
    client = new_client("postroom")
    client("connect", **own_broker.address)
    client.send_accepted("q", text("before"), {**text("light"), "durable": False})
    own_broker.restart_after_kill()
    with pytest.raises(ClientError) as raised:
        client.send("q", text("lost"))
    assert raised.value.kind == "ConnectionLostException"
    client("connect", **own_broker.address)
    client.send_accepted("q", text("after"))
    assert texts(client.receive("q", 3)) == ["before", "after"]


@pytest.mark.parametrize("name", ["qpid_jms", "postroom"])
def test_two_connections_with_one_container_id_clash(
    name: str, broker: BrokerProcess, new_client: Callable[[str], Client]
) -> None:
    """Where the client asks for that (capability sole-connection-for-container), as JMS wants it."""
    first, second = new_client(name), new_client(name)
    first("connect", **broker.address, container=f"clash-{name}")
    with pytest.raises(ClientError) as raised:
        second("connect", **broker.address, container=f"clash-{name}")
    assert raised.value.condition == "amqp:invalid-field" or "InvalidClientID" in raised.value.kind
