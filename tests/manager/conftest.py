"""A queue manager in memory for each test; rooms and modules that need another have their own."""

import pytest

from tests.manager.restarts import HOW
from tests.manager.world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=HOW)
def how(request: pytest.FixtureRequest) -> str:
    """Where recovery finds what it needs."""
    return str(request.param)
