"""Table ``events``: every event of every entry, as it was read; append-only."""

from typing import Final

import pyarrow as pa

from postroom.spark.ledger_source.columns import COLUMNS
from postroom.spark.tables.definition import Field, Merge, TableDefinition
from postroom.spark.tables.range import Range

KEY: Final = ("ledger_id", "position", "ordinal")

FIELDS: Final = tuple(
    Field(column.name, column.type, Merge.KEY if column.name in KEY else Merge.ONLY, column.comment)
    for column in COLUMNS
)


def units(events: Range) -> pa.Table:
    """The rows themselves."""
    return pa.table({field.name: events.column(field.name, field.type) for field in FIELDS})


EVENTS: Final = TableDefinition(
    "events",
    "Every event of every entry: one row for each position, ordinal and entry; and acts",
    2,
    FIELDS,
    units,
    None,
    "time",
)
