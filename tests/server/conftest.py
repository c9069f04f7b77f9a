"""One broker for a module's tests (each uses a queue of its own), and a Proton connection to it."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton.utils import BlockingConnection

from postroom.manager.manager import QueueManager
from postroom.server.assembly import manager_options
from postroom.server.configuration.config import Config
from postroom.server.connection.broker import Broker
from tests.authority import Authority, Issued
from tests.certificates import Certificate, sign
from tests.server.broker_process import Process
from tests.server.harness import BrokerThread
from tests.server.management_peer import Manager
from tests.server.memory_ledger import MemoryLedger
from tests.server.neighbour import Neighbour
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


@pytest.fixture
def start(tmp_path: Path) -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for each in started:
        each.end(signal.SIGKILL)


@pytest.fixture
def peer(broker: BrokerThread, queue: str) -> Iterator[EnginePeer]:
    with EnginePeer(broker.port, container_id=queue) as opened:
        yield opened.open()


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return sign(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Issued:
    """The certificate of a listener."""
    return authority.server()


@pytest.fixture
def manager(connection: BlockingConnection) -> Manager:
    return Manager(connection)


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Neighbour]:
    ledger = MemoryLedger()
    config = Config()
    manager = QueueManager(manager_options(config), ledger.builder)
    names = (f"n{number}" for number in range(10_000_000))
    yield Neighbour(Broker(config, ledger, manager, lambda: next(names)))
    ledger.close()
