"""Keeps what a JVM of Spark loads in ``build/spark.jsa``, so that those of the tests start sooner:
``python -m tools.spark_classes``.

It is an archive of HotSpot's class data sharing: a JVM with ``-XX:SharedArchiveFile`` maps the classes that
another has loaded and verified. One that has other jars or is of another version ignores it.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.window import Window

from postroom.spark.session import local_session

ARCHIVE: Final = Path("build/spark.jsa")
END_S: Final = 120


def use(scratch: Path) -> None:
    """What tests do with a session: Arrow, files, SQL, a stream; then wait until the JVM has ended."""
    spark = local_session("classes", 1, scratch, is_short=True)
    rows = spark.range(100).select("id", (sql.col("id") % 7).alias("rest"), sql.lit("x").cast("binary"))
    place = sql.row_number().over(Window.partitionBy("rest").orderBy("id"))
    rows.select("id", "rest", place.alias("place")).write.partitionBy("rest").parquet(f"{scratch}/rows")
    read = spark.read.parquet(f"{scratch}/rows").persist()
    other = read.groupBy("rest").agg(sql.max("id").alias("last"), sql.collect_list("place").alias("places"))
    read.join(other, "rest", "left").filter("last > 3").orderBy("id").toArrow()
    read.mapInArrow(lambda batches: batches, read.schema).union(read).dropDuplicates(["id"]).collect()
    read.createOrReplaceTempView("read")
    spark.sql("SELECT count(*) FROM read WHERE id IN (SELECT max(id) FROM read GROUP BY rest)").collect()
    spark.createDataFrame([(1, "a")], "id long, text string").write.json(f"{scratch}/json")
    writer = spark.readStream.schema(read.schema).parquet(f"{scratch}/rows").writeStream
    writer = writer.option("checkpointLocation", f"{scratch}/checkpoint").trigger(availableNow=True)
    writer.foreachBatch(_count).start().awaitTermination()
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.proc.stdin.close()  # the sign to end, at which the archive is written
    gateway.proc.wait(END_S)


def _count(batch: DataFrame, number: int) -> None:
    batch.count()


def main() -> int:
    """Exit code 1 where the JVM has written none."""
    ARCHIVE.parent.mkdir(exist_ok=True)
    ARCHIVE.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={ARCHIVE} -Xlog:disable"
    with tempfile.TemporaryDirectory() as scratch:
        use(Path(scratch))
    return 0 if ARCHIVE.exists() else 1


if __name__ == "__main__":
    sys.exit(main())
