"""What is where, and why messages were not delivered: two views over the pipeline's tables."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

TABLES = os.environ.get("TABLES", "./tables")


def _table(name: str) -> DataFrame:
    session = SparkSession.active()
    return session.read.format("postroom.table").option("path", TABLES).option("table", name).load()


@dp.materialized_view
def queues_now() -> DataFrame:
    """Messages that each queue holds, by state."""
    held = _table("entries").where("state <> 'deleted'")
    return held.groupBy("ledger_id", "queue", "state").agg(F.count("*").alias("entries"))


@dp.materialized_view
def undelivered_by_reason() -> DataFrame:
    """What did not reach a consumer, by what became of it."""
    return _table("undelivered").groupBy("ledger_id", "queue", "outcome").agg(F.count("*").alias("entries"))
