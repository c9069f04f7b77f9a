"""Each bug that ``make mutants`` plants has its place, and the tests that find it are there."""

from pathlib import Path

import pytest

from tests.simulation.mutants import MUTATIONS
from tests.simulation.mutation import Mutation

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("planted", MUTATIONS.values(), ids=MUTATIONS)
def test_its_place_is_there_once(planted: Mutation) -> None:
    assert (ROOT / "src" / "postroom" / planted.path).read_text().count(planted.old) == 1
    assert [test for test in planted.tests if not (ROOT / test.partition("::")[0]).exists()] == []
