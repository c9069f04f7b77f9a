"""The two ends of a channel."""

import pytest

from tests.manager.channel_world import Receiver, Sender


@pytest.fixture
def sender() -> Sender:
    return Sender()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()
