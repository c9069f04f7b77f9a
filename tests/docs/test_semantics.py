"""docs/reference/semantics: every rule names tests that exist, or says why it is not offered."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference" / "semantics"
INDEX = FOLDER / "index.md"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page != INDEX)
HEAD = ["rule", "what Postroom does", "test"]
COLLECT_S = 100

TEST = re.compile(r"`(?:(?P<file>[\w/]+\.py|…)::(?P<name>\w+(?:::\w+)?)|…)(?:\[(?P<id>[^`]*)\])?`")
LINK = re.compile(r"\[[^\]]+\]\((?P<page>[\w-]+\.md)\): (?P<rule>.*)")


@dataclass(frozen=True)
class Rule:
    """A row of a page."""

    text: str
    what: str
    tests: str


def rows(page: Path) -> list[list[str]]:
    """The cells of all rows of its tables, heads and lines left out."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row != HEAD and not all(set(cell) <= set("-:") for cell in row)]


def rules(page: Path) -> list[Rule]:
    """The rules of a page; a row with other than three cells is a TypeError."""
    return [Rule(*row) for row in rows(page)]


def named_tests(page: Path) -> dict[str, list[str]]:
    """For each rule that has tests: patterns of their node ids, where … stands for anything."""
    first = TEST.search(page.read_text())
    default = (first["file"], first["name"]) if first else ("", "")
    return {rule.text: references(rule.tests, default) for rule in rules(page) if rule.tests != "–"}


def references(cell: str, default: tuple[str, str]) -> list[str]:
    """The tests of a cell: … is the file before, and …[id] the test before, or the first of the page."""
    found = []
    file, name = default
    for match in TEST.finditer(cell):
        if match["file"] and match["file"] != "…":
            file = match["file"]
        name = match["name"] or name
        found.append(f"tests/{file}::{name}" + (f"[{match['id']}]" if match["id"] else ""))
    return found


@cache
def collected() -> str:
    """The node ids of all tests in the files that are named, a line each."""
    patterns = [pattern for page in PAGES for tests in named_tests(page).values() for pattern in tests]
    files = sorted({pattern.split("::")[0] for pattern in patterns})
    missing = [file for file in files if not (ROOT / file).exists()]
    assert not missing, missing
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", *files],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=COLLECT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exists(pattern: str) -> bool:
    """Whether a test was collected that the pattern means; without an id any of a parametrized test."""
    expression = ".*".join(re.escape(piece) for piece in pattern.split("…"))
    parameters = "" if pattern.endswith("]") else r"(\[.*\]|::\w+)?"
    return re.search(f"^{expression}{parameters}$", collected(), re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_rule_names_tests_that_exist(page: Path) -> None:
    tests = named_tests(page)
    assert not [rule for rule, patterns in tests.items() if not patterns], "no test named"
    missing = {rule: [p for p in patterns if not exists(p)] for rule, patterns in tests.items()}
    assert not {rule: patterns for rule, patterns in missing.items() if patterns}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_only_what_is_not_offered_has_no_test(page: Path) -> None:
    untested = [rule for rule in rules(page) if rule.tests == "–"]
    assert not [rule.text for rule in untested if not re.match(r"not offered.*[,:] .+", rule.what)]


def test_no_rule_is_told_twice() -> None:
    texts = [rule.text for page in PAGES for rule in rules(page)]
    assert len(set(texts)) == len(texts), {text for text in texts if texts.count(text) > 1}


def test_the_index_leads_to_rules_that_are_there() -> None:
    known = {(page.name, rule.text) for page in PAGES for rule in rules(page)}
    documented = [row for row in rows(INDEX) if row != ["documented", "rule"]]
    links = [(name, LINK.fullmatch(rule)) for name, rule in documented]
    lost = [name for name, link in links if link is None or (link["page"], link["rule"]) not in known]
    assert documented
    assert not lost
