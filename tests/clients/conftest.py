"""Fixtures: one broker, and one long-lived driver of each client, for all tests of this folder."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.broker import BrokerProcess
from tests.clients.driver import COMMANDS, Client, make_ready

CLIENT_NAMES = list(COMMANDS)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that lives as long as the tests; tests that kill a broker start their own."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as process:
        yield process


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test, which may kill it."""
    with BrokerProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture(scope="session")
def connected(broker: BrokerProcess) -> Iterator[Callable[[str], Client]]:
    """Gives the driver of a client by name, connected; started on first use, and again after an error."""
    clients: dict[str, Client] = {}

    def get(name: str) -> Client:
        if name in clients and clients[name].is_suspect:
            with clients.pop(name):
                pass
        if name not in clients:
            make_ready(name)
            clients[name] = Client(name)
            clients[name]("connect", **broker.address)
        return clients[name]

    yield get
    for client in clients.values():
        with client:
            if not client.is_suspect:
                client("close")


@pytest.fixture(params=CLIENT_NAMES)
def client(request: pytest.FixtureRequest, connected: Callable[[str], Client]) -> Client:
    """Each client in turn."""
    return connected(request.param)


@pytest.fixture
def new_client() -> Iterator[Callable[[str], Client]]:
    """Starts a driver for one test alone, not connected."""
    clients: list[Client] = []

    def start(name: str) -> Client:
        make_ready(name)
        clients.append(Client(name))
        return clients[-1]

    yield start
    for client in clients:
        with client:
            pass


_queue_numbers = itertools.count(1)


@pytest.fixture
def queue() -> str:
    """A queue name of its own."""
    return f"clients.q{next(_queue_numbers)}"
