"""A sample of the matrix of damages; `python -m tests.damage` plays all of it."""

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.damage.damages import KINDS_OF_FILES
from tests.damage.excuses import Excuse, excuse_of
from tests.damage.matrix import Matrix
from tests.damage.readers import READERS
from tests.sampling import stride

SAMPLE = 12
"""One of so many damages of a kind of file is played, the whole of it and each of its sections in turn."""
QUICK = tuple(reader for reader in READERS if reader != "pipeline")


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    return Matrix(tmp_path_factory.mktemp("damage"))


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_damaged_files_are_refused_by_all_or_excused(matrix: Matrix, kind: str) -> None:
    damages = [damage for damage in matrix.damages if damage.kind == kind]
    cells = list(matrix.cells(islice(damages, 0, None, stride(SAMPLE)), QUICK))
    cells += matrix.cells(islice(damages, 1, 2), ["pipeline"])
    assert cells
    assert [str(cell) for cell in cells if cell.wrong] == []


def test_the_three_that_were_seen_are_refused_by_all(matrix: Matrix) -> None:
    """A byte flipped in sealed records, sealed bodies removed, sealed records removed."""
    seen = [("events", "flipped", "transitions"), ("bodies", "removed", ""), ("events", "removed", "")]
    found = [one for one in matrix.damages if (one.kind, one.what, one.section) in seen]
    cells = list(matrix.cells(found))
    assert len(cells) == 3 * len(READERS)
    assert [str(cell) for cell in cells if cell.wrong] == []
    assert {cell.reader for cell in cells if not cell.refusal} == {"http"}


def test_every_excuse_is_of_use(matrix: Matrix) -> None:
    used = {excuse_of(damage, reader) for damage in matrix.damages for reader in READERS}
    assert used == {None, *Excuse}
