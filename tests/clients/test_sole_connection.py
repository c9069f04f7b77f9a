"""One connection for each container, as Qpid JMS wants it for its client ids, beside Qpid Proton."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from proton import ConnectionException, symbol, uint
from proton.reactor import Container
from proton.utils import BlockingConnection

from tests.clients.broker import BrokerProcess
from tests.clients.driver import Client, ClientError
from tests.clients.texts import text, texts

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
SOLE = "sole-connection-for-container"
CLOSE_EXISTING = 1


def proton(broker: BrokerProcess, container: str, policy: int | None = None) -> BlockingConnection:
    """A connection of Qpid Proton; with ``policy`` it wants to be the only one of its container."""
    wishes: dict[str, object] = {}
    if policy is not None:
        wishes["desired_capabilities"] = symbol(SOLE)
        wishes["properties"] = {symbol("sole-connection-enforcement-policy"): uint(policy)}
    own = Container()
    own.container_id = container
    return BlockingConnection(broker.url, timeout=15, container=own, **wishes)


def test_a_jms_client_id_is_refused_where_another_client_has_it(
    broker: BrokerProcess, new_client: Callable[[str], Client], queue: str
) -> None:
    """Also where that one hasn't asked to be alone."""
    first = proton(broker, queue)
    with pytest.raises(ClientError) as raised:
        new_client("qpid_jms")("connect", **broker.address, container=queue)
    assert "InvalidClientID" in raised.value.kind
    first.create_sender(queue)
    first.close()


@pytest.mark.parametrize("policy", [None, CLOSE_EXISTING])
def test_nobody_takes_the_place_of_a_jms_client(
    policy: int | None, broker: BrokerProcess, new_client: Callable[[str], Client], queue: str
) -> None:
    """It was promised that others are refused: those that don't ask, and those that would have it closed."""
    jms = new_client("qpid_jms")
    jms("connect", **broker.address, container=queue)
    with pytest.raises(ConnectionException, match="amqp:invalid-field"):
        proton(broker, queue, policy)
    jms.send_accepted(queue, text("still here"))


def test_a_jms_client_takes_the_place_of_one_that_gives_way(
    broker: BrokerProcess, new_client: Callable[[str], Client], queue: str
) -> None:
    first = proton(broker, queue, CLOSE_EXISTING)
    held = first.create_receiver(queue)
    jms = new_client("qpid_jms")
    sender = new_client("rhea")
    sender("connect", **broker.address)
    sender.send_accepted(queue, text("held"))
    assert held.receive(timeout=15).body == "held"
    jms("connect", **broker.address, container=queue)
    (message,) = jms.receive(queue, wait=True)
    assert (texts([message]), message["delivery_count"]) == (["held"], 1)
    with pytest.raises(ConnectionException, match="amqp:resource-locked"):
        first.create_sender(queue)


def test_the_later_of_two_proton_connections_takes_the_place(broker: BrokerProcess, queue: str) -> None:
    first = proton(broker, queue)
    second = proton(broker, queue, CLOSE_EXISTING)
    with pytest.raises(ConnectionException, match="amqp:resource-locked"):
        first.create_sender(queue)
    assert second.conn.remote_properties["sole-connection-detection-policy"] == 0
    assert second.conn.remote_properties["sole-connection-enforcement-policy"] == CLOSE_EXISTING
    second.create_sender(queue)
    second.close()
