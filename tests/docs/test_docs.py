"""What README, CONTRIBUTING and the documentation name exists; `make docs` builds the documentation."""

import re
from pathlib import Path

from bench.__main__ import SECTIONS

ROOT = Path(__file__).resolve().parents[2]


def test_links_of_readme_and_contributing_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        targets = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text())
        missing = [t for t in targets if not t.startswith("http") and not (ROOT / t).exists()]
        assert not missing, f"{page} links to {missing}"


def test_make_targets_named_in_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text()))
    missing = [target for target in named if not re.search(rf"^{target}:", makefile, re.M)]
    assert not missing


def test_no_text_has_two_versions_of_its_lines() -> None:
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.inc")]
    marks = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.M)
    assert [str(text.relative_to(ROOT)) for text in texts if marks.search(text.read_text())] == []


def test_every_section_of_the_benchmarks_is_documented() -> None:
    row = re.search(r"^\| `--sections` \|.*$", (ROOT / "docs/howto/benchmark.md").read_text(), re.M)
    assert row is not None
    assert re.findall("`([a-z-]+)`", row[0])[1:] == list(SECTIONS)
