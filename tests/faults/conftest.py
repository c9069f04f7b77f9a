"""A broker that the tests of this folder share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.broker import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(Path(tmp_path_factory.mktemp("faults")) / "data") as process:
        yield process
