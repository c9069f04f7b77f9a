"""Run by `test_connect`, in a process of its own: everything that needs no JVM, over Spark Connect.

A server and its client are started by ``remote("local[2]")``; a process can't have that beside a session of
its own.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from postroom.spark.session import require_java
from postroom.spark.tables import DEFINITIONS
from tests.spark.session.view_ledger import check_views


def main(ledger: str, tables: str, scratch: str) -> None:
    """Ends with an error unless everything is as it should be."""
    require_java()
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark)
    events = spark.read.format("postroom").load(ledger)
    count = events.count()
    assert count == 9, count
    messages = spark.read.format("postroom.messages").option("queues", "orders").load(ledger)
    assert [row.serial for row in messages.orderBy("position").collect()]
    for name in DEFINITIONS:
        table = spark.read.format("postroom.table").option("table", name).load(tables)
        assert table.columns == DEFINITIONS[name].schema.names
        table.collect()
    check_views(spark, Path(tables))
    spark.sql(f"CREATE TABLE by_path USING postroom OPTIONS (path '{ledger}')")
    assert spark.table("by_path").count() == count
    stream = spark.readStream.format("postroom").load(ledger).writeStream.format("parquet")
    stream = stream.option("path", f"{scratch}/rows").option("checkpointLocation", f"{scratch}/checkpoint")
    stream.trigger(availableNow=True).start().awaitTermination()
    assert spark.read.parquet(f"{scratch}/rows").count() == count
    print("all is there")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
