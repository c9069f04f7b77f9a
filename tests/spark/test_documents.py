"""What the reference says of the tables is what they have."""

import re
from pathlib import Path

from postroom.spark import crossings
from postroom.spark.audit import RULES
from postroom.spark.columns import COLUMNS
from postroom.spark.frames import ENTRY_COMMENTS
from postroom.spark.source import EVENTS_STRUCT

DOCS = Path(__file__).parents[2] / "docs"


def _table(page: str, heading: str) -> dict[str, str]:
    """First and last column of the first table under a heading."""
    text = (DOCS / page).read_text(encoding="utf-8").split(heading, 1)[1]
    rows = re.search(r"\|---.*?\n((?:\|.*\n)+)", text)
    assert rows
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]
    return {row[0].strip("`"): row[-1] for row in cells}


def test_every_column_of_events_is_documented_with_its_comment() -> None:
    documented = _table("reference/spark-tables.md", "### Columns of the events table")
    assert documented == {c.name: c.comment + " *(arrival)*" * c.arrival_only for c in COLUMNS}
    assert list(documented) == EVENTS_STRUCT.names


def test_every_column_of_entries_is_documented() -> None:
    assert _table("reference/spark-tables.md", "## Table `entries`") == ENTRY_COMMENTS


def test_every_rule_is_documented() -> None:
    assert _table("explanation/audit.md", "## What is checked") == RULES


def test_every_rule_and_verdict_of_crossings_is_documented() -> None:
    assert _table("explanation/audit.md", "## Between queue managers") == crossings.RULES
    assert _table("explanation/audit.md", "These break no rule:") == crossings.VERDICTS
