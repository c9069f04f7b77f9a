"""Words of the events table that every rule uses, and the rows of violations: how every rule writes them."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

Position = int | Column
"""A position of a ledger; where there are several ledgers, an expression of the row's ledger_id."""

CARRIED_EVENT: Final = "none"
"""Of rows that are no events."""

ENTRY_KEY: Final = ("ledger_id", "serial", "queue_id")
COLUMNS: Final = ("rule", "ledger_id", "queue_id", "queue", "serial", "positions", "detail")
SCHEMA: Final = (
    "rule string, ledger_id string, queue_id long, queue string, serial long, positions array<long>, "
    "detail string"
)


def is_carried() -> Column:
    """Whether a row is no event but tells where an entry older than the history was at the checkpoint."""
    return F.col("event") == CARRIED_EVENT


def violation_rows(
    broken: DataFrame,
    rule: Column | str,
    positions: list[Column],
    detail: Column,
    serial: str | None = "serial",
    queue_id: str | None = "queue_id",
) -> DataFrame:
    """One row of `COLUMNS` for each row of `broken`, which has ledger_id and queue; ``positions`` that are
    null are left out. ``rule``: a column's name, or the rule."""
    nothing = F.lit(None).cast("long")
    return broken.select(
        (F.lit(rule) if isinstance(rule, str) else rule).alias("rule"),
        "ledger_id",
        (F.col(queue_id) if queue_id else nothing).cast("long").alias("queue_id"),
        "queue",
        (F.col(serial) if serial else nothing).cast("long").alias("serial"),
        F.array_compact(F.array(*(one.cast("long") for one in positions))).alias("positions"),
        detail.alias("detail"),
    )
