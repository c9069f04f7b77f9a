"""How often a broker syncs for transactions, counted from its system calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from tools.peers import Postroom

from postroom.amqp.frames.outcomes import ACCEPTED, Accepted, TransactionalState
from tests.crash import traceable
from tests.crash.kills import broker_in, source_of_this_build
from tests.crash.strace_log import SYNCS
from tests.crash.trace import Trace
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, commit

pytestmark = pytest.mark.sockets

MESSAGES = 300
IDLE_MARKERS = 1
"""A block that ends before something is traced is told of by a sync when the broker is next idle."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Postroom]:
    process = broker_in(tmp_path, source_of_this_build())
    process.prefix = [sys.executable, traceable.__file__]
    with process:
        yield process


@pytest.fixture
def controller(broker: Postroom) -> Iterator[Controller]:
    with EnginePeer(broker.port) as peer:
        yield Controller(cast(BrokerThread, None), peer, "q")


def syncs(trace: Trace) -> int:
    return sum(call.name in SYNCS for call in trace.calls())


def test_provisional_work_costs_no_sync_and_a_commit_one(
    broker: Postroom, controller: Controller, tmp_path: Path
) -> None:
    """Each send is answered before the next; then each is acknowledged in another transaction."""
    txn_id = controller.declare()
    with Trace(broker.pid, tmp_path / "sends") as sends:
        for number in range(MESSAGES):
            assert isinstance(controller.send(f"{number}", txn_id), TransactionalState)
    assert syncs(sends) <= IDLE_MARKERS
    with Trace(broker.pid, tmp_path / "commit") as committing:
        assert isinstance(commit(controller, txn_id), Accepted)
    assert 1 <= syncs(committing) <= 1 + IDLE_MARKERS
    ids = [controller.receive().delivery_id for _ in range(MESSAGES)]
    taking = controller.declare()
    with Trace(broker.pid, tmp_path / "acknowledgements") as acknowledgements:
        for delivery_id in ids:
            controller.dispose(delivery_id, TransactionalState(taking, ACCEPTED))
        controller.peer.round_trip()
    assert syncs(acknowledgements) <= IDLE_MARKERS
    with Trace(broker.pid, tmp_path / "second commit") as committing:
        assert isinstance(commit(controller, taking), Accepted)
    assert 1 <= syncs(committing) <= 1 + IDLE_MARKERS


def test_a_send_outside_costs_one_each(broker: Postroom, controller: Controller, tmp_path: Path) -> None:
    """The same count finds what it is to find."""
    with Trace(broker.pid, tmp_path / "sends") as sends:
        for number in range(20):
            controller.send(f"{number}")
    assert syncs(sends) >= 20
