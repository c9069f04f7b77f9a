"""RabbitMQ and Artemis as real processes, one of each for all tests; each test has its own address there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tools.peers import Artemis, RabbitMQ
from tools.peers.rabbitmq import QueueArguments

from tests.foreign.scene import Partner

QUEUES = [f"q{number}" for number in range(48)]
SMALL, SILENT = "small", "silent"
"""A queue of RabbitMQ that takes one message and rejects the next."""
SMALL_ARGUMENTS: QueueArguments = {
    "x-queue-type": "classic",
    "x-max-length": 1,
    "x-overflow": "reject-publish",
}
PAGES = ("orders", "answers")
"""Queues of the how-to page."""
_next = count()


@pytest.fixture(scope="package")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    queues: dict[str, QueueArguments] = {name: {"x-queue-type": "classic"} for name in QUEUES}
    queues |= {SMALL: SMALL_ARGUMENTS, **{name: {} for name in (SILENT, "credentials", *PAGES)}}
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), queues=queues) as broker:
        yield broker


@pytest.fixture(scope="package")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    folder = tmp_path_factory.mktemp("artemis")
    with Artemis(folder, journal="NIO", java_memory="512M", queues=(*QUEUES, "twins")) as broker:
        yield broker


@pytest.fixture(params=["rabbitmq", "artemis"])
def partner(request: pytest.FixtureRequest) -> Partner:
    """An address that no other test uses, at either broker."""
    return Partner(request.getfixturevalue(request.param), QUEUES[next(_next)])
