"""Peers that work in branches, and the branch of a test."""

from collections.abc import Iterator

import pytest

from postroom.model.xa import Xid
from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller, new_xid


@pytest.fixture
def xid() -> Xid:
    return new_xid()


@pytest.fixture
def controller(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    with EnginePeer(broker.port, container_id=queue) as peer:
        yield Controller(broker, peer, queue, for_branches=True)


@pytest.fixture
def other(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    """Another connection, to a queue of its own."""
    with EnginePeer(broker.port, container_id=queue + "-other") as peer:
        yield Controller(broker, peer, queue + ".other", for_branches=True)
