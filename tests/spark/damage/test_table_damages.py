"""A sample of the matrix of damages of tables; ``python -m tests.spark.damage`` plays all of it."""

from pathlib import Path
from random import Random

import pytest

from tests.sampling import WHOLE, spread
from tests.spark.damage.__main__ import FORMATS, Matrix

ALWAYS = {
    "events: luwid of a row changed": "violations",
    "all tables: older, what is noted beside them is not": "violations",
    "openings.json: gone": "not proven",
    "settings.json: truncated": "refused",
    "the catalog: truncated": "refused",
}
"""Nothing but the sums of the events and what is noted beside the tables can tell the first two; the others
were once no answer at all."""
SAMPLE = 4 if WHOLE else 1


@pytest.mark.parametrize("table_format", spread(FORMATS, 1))
def test_damaged_tables_are_told_or_show_what_they_showed(table_format: str, tmp_path: Path) -> None:
    matrix = Matrix(tmp_path, table_format)
    always = [damage for damage in matrix.damages if str(damage) in ALWAYS]
    assert len(always) == len(ALWAYS) - (table_format != "iceberg")  # nothing else has a catalog
    cells = list(matrix.cells([*always, *Random(18).sample(matrix.damages, SAMPLE)]))
    assert [str(cell) for cell in cells if cell.wrong] == []
    for cell in cells[: len(always)]:
        assert cell.verdict.word == ALWAYS[str(cell.damage)], cell
