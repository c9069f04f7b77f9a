"""Which tests are one piece of work for a process of pytest-xdist, and in what order pieces are handed out.

A file is one piece, so that what it shares is made once. Folders with a real server or a session of Spark
that lives as long as their tests are one, so that it is started once a run. What takes longest comes first,
what is quick and fine-grained last: so all processes end at about the same time.
"""

import gc
import os
from functools import cache
from pathlib import PurePosixPath
from typing import Final

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

TOGETHER: Final = {
    "Spark": tuple(
        f"tests/spark/{name}" for name in ("session", "consume", "exactly_once", "jobs", "sink", "tap")
    ),  # a session, which is slow at first
    "RabbitMQ and Artemis": ("tests/foreign",),
    "browser": ("tests/server/console",),
    "PostgreSQL": ("tests/twophase",),
    "NATS and Kafka": ("tests/replication",),
}
"""Pieces of several files, by what they share: folders."""
ORDER: Final = (
    "tests/spark/session",
    "tests/replication",
    "tests/crash/test_spark_kills.py",
    "tests/test_interpreted.py",
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
    shared = ((f"{folder}/", name) for name, folders in TOGETHER.items() for folder in folders)
    return next((name for folder, name in shared if file.startswith(folder)), file)


@cache
def place(file: str) -> int:
    """The tests of a file with a smaller one are run earlier."""
    leads = [path for path in ORDER if PurePosixPath(file).is_relative_to(path)]
    return ORDER.index(max(leads, key=len)) if leads else len(ORDER)


class Pieces(LoadScopeScheduling):
    """Hands out pieces of work as ``piece`` names them."""

    def _split_scope(self, nodeid: str) -> str:
        return piece(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """The test in which its process has crashed, which isn't played again: others would crash, too."""
        units = self.assigned_work[node].values()
        crashed = next((test for unit in units for test, is_over in unit.items() if not is_over), None)
        for unit in units:
            if crashed in unit:
                unit[crashed] = True
        super().remove_node(node)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        """A process plays a test once it has the next one, or knows that there is none."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: place(item.nodeid.partition("::")[0]))


def pytest_collection_finish() -> None:
    """All that has been collected stays: the collector of garbage needn't go through it again and again."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than there are cores: those that talk to other processes wait for them half of the time."""
    return (os.cpu_count() or 1) + (0 if config.getoption("--pure") else 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return Pieces(config, log)
