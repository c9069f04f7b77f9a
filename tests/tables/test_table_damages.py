"""A sample of the matrix of damages of tables; ``python -m tests.tables.damage`` plays all of it."""

from pathlib import Path
from random import Random

import pytest

from tests.tables.damage import FORMATS, Matrix

SAMPLE = 8


@pytest.mark.parametrize("table_format", FORMATS)
def test_damaged_tables_are_told_or_show_what_they_showed(table_format: str, tmp_path: Path) -> None:
    matrix = Matrix(tmp_path, table_format)
    cells = list(matrix.cells(Random(18).sample(matrix.damages, SAMPLE)))
    assert [str(cell) for cell in cells if cell.wrong] == []
    assert any(cell.verdict.word != "clean" for cell in cells)
