"""One Spark session for all tests of the room."""

from tests.spark.conftest import spark

__all__ = ["spark"]
