"""Transacted sessions of Qpid JMS: many links, rollback and its order, counts, size, time-outs, cut wires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.broker import USUAL, BrokerProcess
from tests.clients.driver import jms_findings
from tests.originals import ORIGINALS_TOML

pytestmark = [pytest.mark.sockets, pytest.mark.peer]

CONFIGURATION = f"""
{ORIGINALS_TOML}
{USUAL}
[transactions]
timeout_ms = 6000
"""
"""Transactions time out sooner than the client of this test goes on with one; what is rolled back comes again
at once."""

EXPECTED = {
    "before the commit": "",
    "after the rollback": "",
    "after the commit": "a! b!",
    "left behind": "",
    "order after a rollback": "a(2 again) b(2 again) c(2 again) d(1)",
    "JMSXDeliveryCount": "a(1) a(2 again) a(3 again)",
    "committed at last": "",
    "closed session": "a(2 again)",
    "closed connection": "",
    "recover": "IllegalStateException",
    "many messages": "all in order",
    "large messages": "012345678",
    "refused send": "InvalidDestinationException",
    "after a refused send": "after",
    "commit after the time-out": "TransactionRolledBackException",
    "redelivered": "a(2 again)",
    "the next commit": "committed",
    "after the time-out": "",
    "commit of a cut connection": "JMSException",
    "what a cut connection had": "a(2 again)",
    "commit after fail-over": "TransactionRolledBackException",
    "redelivered after fail-over": "a",
    "the next commit after fail-over": "committed",
    "left after fail-over": "b",
}
"""In brackets: which delivery it was, and whether it was marked as redelivered."""


@pytest.fixture
def broker_in_haste(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", CONFIGURATION) as process:
        yield process


def test_qpid_jms_finds_transacted_sessions_as_it_expects_them(broker_in_haste: BrokerProcess) -> None:
    found = jms_findings("Transactions", f"{broker_in_haste.host}:{broker_in_haste.port}")
    assert found == EXPECTED
