"""One broker for a module's tests (each uses a queue of its own), and a shell with its URL."""

from collections.abc import Iterator

import pytest

from tests.cli.shell import Shell
from tests.server.harness import BrokerThread


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.fixture
def shell(broker: BrokerThread) -> Shell:
    return Shell(broker.url)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)
