"""Topics, subscriptions and temporary destinations as Qpid JMS uses them, whole."""

from __future__ import annotations

import subprocess

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.driver import COMMANDS, make_ready

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
    make_ready("qpid_jms")
    command = [*COMMANDS["qpid_jms"][:-1], "postroom.driver.Topics", f"{own_broker.host}:{own_broker.port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert dict(line.split(": ", 1) for line in done.stdout.splitlines()) == EXPECTED
