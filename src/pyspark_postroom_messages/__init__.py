"""Lets Spark find the source and sink of messages by itself: it looks for ``DefaultSource`` in top-level
modules named ``pyspark_*``, and one module registers one class.

`confirm` and `append_once` are for foreachBatch: see `postroom.spark.consume.foreach_batch`.
"""

from postroom.spark.consume.foreach_batch import Appended, append_once, confirm
from postroom.spark.message_source import MessagesDataSource as DefaultSource

__all__ = ["Appended", "DefaultSource", "append_once", "confirm"]
