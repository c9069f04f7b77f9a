"""One Spark session for all tests of the package; those that use none don't load Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from postroom.spark.session import local_session

    session = local_session("postroom tests", 2, tmp_path_factory.mktemp("spark"), is_short=True)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URI of an object store's bucket."""
    from tests.spark.object_store import object_store

    with object_store() as uri:
        yield uri
