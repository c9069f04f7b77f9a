"""One Spark session for all tests of the room."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from postroom.spark.session import local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = local_session("postroom tests", 2, tmp_path_factory.mktemp("spark"), is_short=True)
    yield session
    session.stop()


def events_of(spark: SparkSession, folder: Path, **options: int) -> DataFrame:
    """The events table of a ledger's folder."""
    reader = spark.read.format("postroom").option("path", str(folder))
    return reader.options(**{name: str(value) for name, value in options.items()}).load()
