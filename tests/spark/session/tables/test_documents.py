"""What the reference says of the tables is what they have."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from postroom.spark.audit import rules
from postroom.spark.audit.result import ExitCode

DOCS = Path(__file__).parents[4] / "docs"


def _table(page: str, heading: str) -> dict[str, str]:
    """First and last column of the first table under a heading."""
    text = (DOCS / page).read_text(encoding="utf-8").split(heading, 1)[1]
    rows = re.search(r"\|---.*?\n((?:\|.*\n)+)", text)
    assert rows
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1].splitlines()]
    return {row[0].strip("`"): row[-1] for row in cells}


@pytest.mark.parametrize(
    ("heading", "told"),
    [
        ("### Of an entry's events", rules.SEQUENCE_RULES),
        ("### Of families", rules.FAMILY_RULES),
        ("### Of transactions", rules.TRANSACTION_RULES),
        ("### Of order", rules.ORDER_RULES),
        ("### Of message ids\n", rules.DUPLICATE_RULES),
        ("### Of sums", rules.SUM_RULES),
        ("### Between queue managers", rules.CROSSING_RULES),
        ("### Of tables", rules.TABLE_RULES),
        ("### Of crossings", rules.CROSSING_VERDICTS),
        ("### Of message ids that come again", rules.DUPLICATE_VERDICTS),
    ],
)
def test_every_rule_and_verdict_of_the_audit_is_documented(heading: str, told: Mapping[str, str]) -> None:
    assert _table("reference/audit.md", heading) == told


def test_every_exit_code_of_the_audit_is_documented() -> None:
    documented = _table("reference/audit.md", "### Exit codes")
    assert {str(int(code)) for code in ExitCode} <= set(documented)
