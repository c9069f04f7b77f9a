"""One cluster of three NATS servers for all tests of the folder, and one of three Kafka nodes from the first
that wants it on; each test has a stream of its own there."""

import gc
from collections.abc import Iterator
from itertools import count

import pytest
from tools.peers.kafka import KafkaCluster
from tools.peers.nats import NatsCluster

from tests.replication.opening import PATIENCE_S

_next = count()


@pytest.fixture(scope="package")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    with NatsCluster(tmp_path_factory.mktemp("nats")) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_to_others() -> Iterator[None]:
    """A socket that was left open in a cycle of objects is a warning in the file that left it."""
    yield
    gc.collect()


@pytest.fixture
def stream() -> str:
    """A name that no other test uses."""
    return f"s{next(_next)}"


@pytest.fixture
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much else the machine does, clients of Kafka aren't made anew meanwhile: what was on its way
    would be there twice, which is right, and not what these tests expect."""
    monkeypatch.setattr("postroom.replication.kafka_log.SILENCE_S", PATIENCE_S)
