"""Topics, subscriptions and temporary destinations as Qpid JMS uses them, whole."""

from __future__ import annotations

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.driver import jms_findings

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

EXPECTED = {
    "subscribers": "ab ab",
    "no local": "b",
    "durable": "kept",
    "another selector": "chosen",
    "unsubscribe": "done",
    "unsubscribe again": "InvalidDestinationException",
    "shared": "2 of 2",
    "global": "12",
    "in use": "JMSException",
    "unsubscribe global": "done",
    "reply": "answer",
    "foreign consumer": "JMSException",
    "deleted": "InvalidDestinationException",
    "temporary topic": "heard",
    "pattern": "jms.made",
    "transacted": "committed",
    "queue as topic": "InvalidDestinationException",
    "publish to a pattern": "JMSException",
}


def test_qpid_jms_finds_topics_as_it_expects_them(own_broker: BrokerProcess) -> None:
    assert jms_findings("Topics", f"{own_broker.host}:{own_broker.port}") == EXPECTED
