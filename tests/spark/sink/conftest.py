"""A name for an app."""

import pytest


@pytest.fixture
def app(request: pytest.FixtureRequest) -> str:
    """A name for an app and its queue."""
    return str(request.node.name).replace("[", "-").replace("]", "")
