"""A broker of its own for each test that kills one with SIGKILL and starts it again."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.broker import BrokerProcess
from tests.server.broker_process import Process


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data")
    process.start()
    yield process
    process.stop()


@pytest.fixture
def serve() -> Iterator[Callable[..., Process]]:
    """Starts a broker on a free port, whose ledger is the folder's ``data``."""
    started: list[Process] = []

    def start(folder: Path, *options: str) -> Process:
        started.append(Process(folder, "--listen", "127.0.0.1:0", *options))
        return started[-1]

    yield start
    for process in started:
        if process.process.poll() is None:
            process.end(signal.SIGKILL)
