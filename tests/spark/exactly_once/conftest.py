"""A broker beside which queries are played."""

from collections.abc import Iterator

import pytest

from tests.spark.played_queries import Station, station


@pytest.fixture
def one() -> Iterator[Station]:
    with station() as running:
        yield running
