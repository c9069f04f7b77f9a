"""One broker for a module's tests (each uses a queue of its own), and a Proton connection to it."""

from collections.abc import Iterator

import pytest
from proton.utils import BlockingConnection

from tests.server.harness import BrokerThread
from tests.server.peers import EnginePeer
from tests.server.transaction_peer import Controller

PROTON_TIMEOUT_S = 15


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture
def connection(broker: BrokerThread) -> Iterator[BlockingConnection]:
    opened = BlockingConnection(broker.url, timeout=PROTON_TIMEOUT_S)
    yield opened
    opened.close()


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return str(request.node.name)


@pytest.fixture
def controller(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    """A peer that works in transactions on that queue."""
    with EnginePeer(broker.port, container_id=queue) as peer:
        yield Controller(broker, peer, queue)


@pytest.fixture
def second(broker: BrokerThread, queue: str) -> Iterator[Controller]:
    """Another connection to the same queue."""
    with EnginePeer(broker.port, container_id=queue + "-2") as peer:
        yield Controller(broker, peer, queue)
