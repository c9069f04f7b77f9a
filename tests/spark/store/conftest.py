"""The formats that can replace files."""

import pytest


@pytest.fixture(params=["delta", "parquet"])
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)
