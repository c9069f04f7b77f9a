"""The fixtures of the plugin: it isn't installed here, and so not loaded by pytest."""

from collections.abc import Iterator

import pytest
from proton.utils import BlockingConnection

from postroom.testing import Broker
from postroom.testing.plugin import postroom_broker, postroom_broker_factory

__all__ = ["postroom_broker", "postroom_broker_factory"]


@pytest.fixture
def proton(postroom_broker: Broker) -> Iterator[BlockingConnection]:
    """A connection of Qpid Proton."""
    connection = BlockingConnection(postroom_broker.url, timeout=20)
    yield connection
    connection.close()
