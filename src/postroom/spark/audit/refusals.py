"""Messages that were refused though their senders had settled them: nobody was told, but the ledger is."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from postroom.spark.audit.result import MAX_SHOWN, RefusedSums

_REASON: Final = "address string, bytes long, condition string, description string"


def refusals(refused: DataFrame) -> DataFrame:
    """A row for each of them, of their rows among the steps."""
    parsed = refused.withColumn("told", F.from_json("reason", _REASON))
    return parsed.select(
        "ledger_id",
        "position",
        "time",
        F.col("holder").alias("sender"),
        F.col("told.address").alias("address"),
        F.col("told.bytes").alias("bytes"),
        F.col("told.condition").alias("condition"),
        F.col("told.description").alias("description"),
    )


def refused_sums(found: DataFrame) -> tuple[RefusedSums, ...]:
    """How many by ledger, sender, address and condition; those with the most, and the rest in one row a
    ledger."""
    by = ("ledger_id", "sender", "address", "condition")
    known = found.fillna("", list(by))
    counted = known.groupBy(*by).count().orderBy(F.desc("count"), *by)
    first = counted.limit(MAX_SHOWN).collect()
    rows = [RefusedSums(*row) for row in first]
    if len(first) < MAX_SHOWN:
        return tuple(rows)
    named: dict[str, int] = {}
    for row in rows:
        named[row.ledger_id] = named.get(row.ledger_id, 0) + row.messages
    for one in found.groupBy("ledger_id").count().orderBy("ledger_id").collect():
        left = one["count"] - named.get(one["ledger_id"], 0)
        if left:
            rows.append(RefusedSums(one["ledger_id"], "", "", "", left))
    return tuple(rows)
