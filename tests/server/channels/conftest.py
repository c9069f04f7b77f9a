"""A channel from A to B in virtual time."""

import pytest

from tests.server.channels.channel_pair import make
from tests.server.channels.stations import Stations


@pytest.fixture
def world() -> Stations:
    return make()
