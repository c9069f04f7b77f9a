"""Acknowledgement, recovery, times, headers and selectors as Qpid JMS uses them, whole."""

from __future__ import annotations

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.driver import jms_findings

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

EXPECTED = {
    "recover": "b(2 again) c(1)",
    "rollback": "a(2 again) b(2 again)",
    "committed": "",
    "closed unacknowledged": "a(2 again)",
    "listener that throws": "a(1) a(1)",  # Qpid JMS gives it back as released, which counts for nothing
    "priority first": "timed(1) 9",
    "expiration": "as sent",
    "delivery mode": "non-persistent",
    "no expiration": "for ever(1) 0",
    "delivery delay": "early(1) late(1)",
    "born": "not before its time",
    "delivery time": "as sent",
    "completions": "all",
    "JMSMessageID": "chosen",
    "JMSCorrelationID": "chosen",
    "JMSType": "chosen",
    "JMSDeliveryMode": "chosen",
    "JMSPriority": "chosen",
    "JMSTimestamp": "chosen",
    "JMSXGroupID": "chosen",
    "browser with selector": "a c",
    "nothing taken": "a b c",
    "group": "g2",
}
"""In brackets: which delivery it was, and whether it was marked as redelivered."""


def test_qpid_jms_finds_sessions_as_it_expects_them(own_broker: BrokerProcess) -> None:
    assert jms_findings("Sessions", f"{own_broker.host}:{own_broker.port}") == EXPECTED
