"""The tutorials with the lines that need Spark: ledgers become tables, a proof and a page."""

from pathlib import Path

import pytest

from tests.docs.tutorials import PAGES
from tests.docs.walking import BY_SPARK, Walk

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_of_spark_happens(page: Path, tmp_path: Path) -> None:
    with Walk(page, tmp_path / "here", spark=True) as walk:
        done = walk.go()
    assert {word for word in BY_SPARK if any(step.startswith(word) for step in done)} >= set(BY_SPARK[:3])
    assert (tmp_path / "here" / "report.html").stat().st_size
