"""Duplicates on a queue: messages with the same message id, or the same in some columns; the first stays."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from postroom.manager.administration.message_jobs import DISCARD
from postroom.spark.jobs.contents import CONTENT_COLUMNS, with_contents
from postroom.spark.jobs.errors import OptionInvalid
from postroom.spark.jobs.plan_builder import KEPT_COLUMNS, RULE_COLUMN, Decision
from postroom.spark.jobs.queued_messages import LedgerAtPosition, queued_messages
from postroom.spark.messages.schema import FULL_SCHEMA, TYPED_MAP

BY_MESSAGE_ID: Final = ("message_id", "message_id_type")
DUPLICATE: Final = Decision("duplicate", DISCARD)
_PLACE: Final = ("position", "ordinal", "serial")


def check_columns(by: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that duplicates have in common. Raises ``OptionInvalid``."""
    unknown = [name for name in by if name not in CONTENT_COLUMNS]
    if unknown:
        raise OptionInvalid(
            f"messages have no columns {', '.join(unknown)} to be compared by; they have"
            f" {', '.join(CONTENT_COLUMNS)}"
        )
    return BY_MESSAGE_ID if by == BY_MESSAGE_ID[:1] else by


def duplicates(
    spark: SparkSession, ledger: LedgerAtPosition, queue: str, by: tuple[str, ...], keeps: bool
) -> DataFrame:
    """The free messages of a queue that are duplicates of one before them, which somebody may hold.

    A message with a null in one of the columns is nobody's duplicate.
    """
    here = queued_messages(spark, ledger, queue, False)
    place = ledger.place()
    seen = with_contents(here, place, ledger.ledger_id, [name for name in CONTENT_COLUMNS if name in by])
    for name in by:
        seen = seen.where(F.col(name).isNotNull())
    # maps can't be compared; their entries in order can
    maps = {name for name in by if FULL_SCHEMA.field(name).type.equals(TYPED_MAP)}
    keys = [F.array_sort(F.map_entries(name)) if name in maps else F.col(name) for name in by]
    same = Window.partitionBy(*keys).orderBy(*_PLACE)
    later = seen.withColumn("rank", F.row_number().over(same)).where("rank > 1 AND is_free")
    rows = later.select(*[name for name in here.columns if name != "is_free"]).orderBy(*_PLACE)
    kept = [name for name in CONTENT_COLUMNS if name in KEPT_COLUMNS] if keeps else []
    rows = with_contents(rows, place, ledger.ledger_id, kept)
    named = {"ledger_id": F.lit(ledger.ledger_id), "queue": F.lit(queue), RULE_COLUMN: F.lit(0)}
    return rows.withColumns(named)
