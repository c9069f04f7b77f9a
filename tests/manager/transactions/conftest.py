"""A session of XA with the queue manager."""

import pytest

from tests.manager.world import World
from tests.manager.xa_world import Xa


@pytest.fixture
def xa(world: World) -> Xa:
    return Xa(world)
