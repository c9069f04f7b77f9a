"""The message store's verbs."""

import pytest

from tests.manager.store_face import StoreFace
from tests.manager.world import World


@pytest.fixture
def face(world: World) -> StoreFace:
    return StoreFace(world)
