"""A Spark job that writes."""

import pytest

from tests.manager.sink_world import Job
from tests.manager.world import World


@pytest.fixture
def job(world: World) -> Job:
    return Job(world)
