"""Every planted bug still has its place: a text that stands once in the source as it is."""

from pathlib import Path

import pytest

from tests.simulation.mutations import MUTATIONS

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "postroom"


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_text_of_a_planted_bug_stands_once_in_the_source(name: str) -> None:
    mutation = MUTATIONS[name]

    assert (PACKAGE / mutation.path).read_text().count(mutation.old) == 1
