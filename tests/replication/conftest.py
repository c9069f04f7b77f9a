"""One cluster of three NATS servers for all tests; each test has a stream of its own there."""

from collections.abc import Iterator
from itertools import count

import pytest
from tools.peers.nats import NatsCluster

_next = count()


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("nats")) as cluster:
        yield cluster


@pytest.fixture
def stream() -> str:
    """A name that no other test uses."""
    return f"s{next(_next)}"
