"""Writes the data dictionary of the Spark tables, from their definitions: each column with how it merges.

``python -m tools.spark_tables_docs`` rewrites the file; a test compares it with the definitions.
"""

from pathlib import Path

import pyarrow as pa

from postroom.spark.ledger_source.columns import ARRIVAL_ONLY
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import Field, TableDefinition
from postroom.spark.tables.events import EVENTS

LISTING = Path(__file__).parent.parent / "docs" / "reference" / "spark-tables-columns.inc"

TYPES = {
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.bool_(): "boolean",
}


def listing() -> str:
    """Every table."""
    return "\n\n".join(_table(definition) for definition in DEFINITIONS.values()) + "\n"


def _table(definition: TableDefinition) -> str:
    key = ", ".join(f"`{name}`" for name in definition.key)
    lines = [
        f"## Table `{definition.name}`",
        "",
        f"{definition.comment}. Key: {key}.{_remarks(definition)}",
        "",
        "| column | type | merge | meaning |",
        "|---|---|---|---|",
        *(_row(definition, field) for field in definition.fields),
    ]
    return "\n".join(lines)


def _remarks(definition: TableDefinition) -> str:
    if definition.is_done is None:
        return " Append-only: rows never merge."
    made_of = (
        f" Made of rows of `{definition.source}` that are done." if definition.source != "events" else ""
    )
    late = " Late: a row that is done may be followed by another of its key." if definition.is_late else ""
    return f"{made_of} Day of done rows: `{definition.day_of}`.{late}"


def _row(definition: TableDefinition, field: Field) -> str:
    merge = "–" if definition.is_done is None and field.merge != "key" else str(field.merge)
    merge += f" of `{field.of}`" if field.of else ""
    kind = TYPES.get(field.type, str(field.type))
    return f"| `{field.name}` | {kind} | {merge} | {_meaning(definition, field)} |"


def _meaning(definition: TableDefinition, field: Field) -> str:
    of_arrivals = definition is EVENTS and field.name in ARRIVAL_ONLY
    return field.comment + " *(arrival)*" * of_arrivals


if __name__ == "__main__":
    LISTING.write_text(listing(), encoding="utf-8")
