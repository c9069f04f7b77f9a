"""The tutorials and README's first lines are run word by word (`walking`); what needs Spark is in
tests/spark/session/test_tutorials.py."""

import re
from pathlib import Path

import pytest

from tests.docs.tutorials import PAGES
from tests.docs.walking import Walk, pattern_of, steps_of

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_happens(page: Path, tmp_path: Path) -> None:
    with Walk(page, tmp_path / "here") as walk:
        assert any("postroom put" in step for step in walk.go())


def test_a_page_is_taken_apart() -> None:
    page = "`a.toml`: so\n\n```toml\nx = 1\n```\n\n```console\n$ one &  # why\nsaid\n$ two\n```\n"
    page += "<!-- walk: kill -9 one -->\n"
    steps = list(steps_of(page))
    assert [(step.kind, step.text, step.printed, step.name) for step in steps] == [
        ("toml", "x = 1\n", [], "a.toml"),
        ("command", "one", ["said"], ""),
        ("command", "two", [], ""),
        ("kill", "one", [], ""),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "is_so"),
    [
        ("sent 1 to letters", "sent 1 to letters", True),
        ("sent 1 to letters", "sent 2 to letters", False),
        ("P  running   no   4 s ago", "P running no 17 s ago", True),
        ("P  running   no   4 s ago", "P stopped no 17 s ago", False),
        ("│ ID:b723… │ 4 │", "│ ID:0-8-1 │ 4 │", True),
    ],
)
def test_only_times_ids_and_widths_are_anyones(shown: str, printed: str, is_so: bool) -> None:
    assert bool(re.fullmatch(pattern_of(shown), printed)) == is_so
