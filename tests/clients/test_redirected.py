"""What has expired and was redirected is consumed by every client, though they look at expiry themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postroom.client import ConnectionFactory
from postroom.model.entity_types import QUEUE_TYPE
from tests.clients.broker import BrokerProcess
from tests.clients.driver import Client

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

TTL_MS = 50
CLIENTS = ("proton", "rhea", "qpid_jms", "postroom")


@pytest.mark.parametrize("name", CLIENTS)
def test_what_was_redirected_is_consumed(
    name: str, broker: BrokerProcess, connected: Callable[[str], Client]
) -> None:
    queue, late = f"short.{name}", f"late.{name}"
    url = f"amqp://{broker.host}:{broker.port}"
    with ConnectionFactory(url).create_connection() as connection:
        management = connection.create_management()
        management.create(QUEUE_TYPE, late)
        management.create(QUEUE_TYPE, queue, {"expiration_policy": "redirect", "expiry_queue": late})
    sent = {"ttl_ms": TTL_MS, "body": {"value": {"string": "late"}}}
    connected("qpid_jms").send_accepted(queue, sent)
    (message,) = connected(name).receive(late, wait=True)
    assert message["body"] == sent["body"]
    assert not {"ttl_ms", "absolute_expiry_time_ms"} & message.keys()
    if name != "qpid_jms":  # JMS has no annotations
        original = dict(message["annotations"])["x-opt-original-expiry-time"]
        assert int(original["timestamp"]) > 0
    assert connected(name).receive(late) == []
