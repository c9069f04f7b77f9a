"""Lets Spark find the source of the tables by itself: it looks for ``DefaultSource`` in top-level modules
named ``pyspark_*``, and one module registers one class."""

from postroom.spark.store.source import TableDataSource as DefaultSource

__all__ = ["DefaultSource"]
