"""Which tests are one piece of work for a process of pytest-xdist, and in what order pieces are handed out.

A file is one piece, so that what it shares is made once. A folder whose real servers live as long as
its tests is one, so that they are started once a run. What takes longest comes first, what is quick and
fine-grained last: so all processes end at about the same time.
"""

import os
from pathlib import PurePosixPath
from typing import Final

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

TOGETHER: Final = (
    "tests/foreign",  # RabbitMQ and Artemis
    "tests/server/console",  # a browser
    "tests/twophase",  # PostgreSQL
    "tests/replication",  # NATS, and for some modules Kafka
)
ORDER: Final = (
    "tests/test_interpreted.py",
    "tests/crash/test_spark_kills.py",
    "tests/replication",
    "tests/spark/session",
    "tests/spark",
    "tests/foreign",
    "tests/twophase",
    "tests/crash",
    "tests/clients",
    "tests/server/console",
    "tests",
    "tests/simulation",
    "tests/manager",
    "tests/channel",
    "tests/ledger",
    "tests/amqp",
    "tests/model",
)
"""Where a test stands is said by the longest of these that leads to it."""


def piece(nodeid: str) -> str:
    """The name of the piece of work that a test belongs to."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if PurePosixPath(file).is_relative_to(folder)), file)


def place(nodeid: str) -> int:
    """A test with a smaller one is run earlier."""
    file = PurePosixPath(nodeid.partition("::")[0])
    leads = [path for path in ORDER if file.is_relative_to(path)]
    return ORDER.index(max(leads, key=len)) if leads else len(ORDER)


class Pieces(LoadScopeScheduling):
    """Hands out pieces of work as ``piece`` names them."""

    def _split_scope(self, nodeid: str) -> str:
        return piece(nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: those that talk to other processes wait for them half of the time."""
    return (os.cpu_count() or 1) + (0 if config.getoption("--pure") else 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return Pieces(config, log)
