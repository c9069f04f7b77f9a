"""A queue manager with topics."""

import pytest

from tests.manager.topic_world import TopicWorld


@pytest.fixture
def world() -> TopicWorld:
    return TopicWorld()
