"""Lets Spark find the source and sink of messages by itself: it looks for ``DefaultSource`` in top-level
modules named ``pyspark_*``, and one module registers one class."""

from postroom.spark.messages.source import MessagesDataSource as DefaultSource

__all__ = ["DefaultSource"]
