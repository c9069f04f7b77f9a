"""Lets Spark find the ledger source by itself: it looks for ``DefaultSource`` in top-level modules named
``pyspark_*``."""

from postroom.spark.ledger_source.source import PostroomDataSource as DefaultSource

__all__ = ["DefaultSource"]
