"""A broker of its own for each test that kills one with SIGKILL and starts it again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.broker import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "data")
    process.start()
    yield process
    process.stop()
