"""Words of the events table that every rule uses."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

Position = int | Column
"""A position of a ledger; where there are several ledgers, an expression of the row's ledger_id."""

ENTRY_KEY: Final = ("ledger_id", "serial", "queue_id")


def is_arrival() -> Column:
    """Whether an events row is the entry's arrival."""
    return F.col("from_state") == "start"


def is_carried() -> Column:
    """Whether a row is no event but tells where an entry older than the history was at the checkpoint."""
    return F.col("event") == "none"


def is_refused() -> Column:
    """Whether a row tells of no entry but of a message that was refused and whose sender had settled it."""
    return F.col("queue_id") == 0


def is_end() -> Column:
    """Whether an events row ends its entry."""
    return F.col("to_state") == "deleted"
