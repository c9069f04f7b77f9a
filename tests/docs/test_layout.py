"""Tests stand where one looks for them, and `make test` and `make check` run all of them."""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
MOST_MODULES = 25
NO_ROOMS = {
    "manager/random_commands": "all commands of the queue manager at random, against a reference",
    "server/links/transactions": "of the room links, what is about local transactions",
    "server/links/xa": "of the room links, what is about XA",
    "spark/damage": "every damage of every table",
    "spark/exactly_once": "sources and sinks in each failure",
    "spark/session": "what of rooms that are tested without Spark needs a session, by room",
}
"""Folders of tests within packages that are no rooms, and what they have."""


def test_every_test_is_run() -> None:
    dry = subprocess.run(
        ["make", "-n", "check", "test"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.findall(r" -m pytest (.*)", dry.stdout) == [
        "tests/static",
        "-n auto --times=build/test-times.json --ignore=tests/static",
    ]
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert options["testpaths"] == ["tests"]


def test_no_folder_is_a_heap() -> None:
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    heaps = [folder for folder in folders if len(list(folder.glob("test_*.py"))) > MOST_MODULES]
    assert heaps == []


def test_tests_mirror_the_rooms() -> None:
    house = ROOT / "src" / "postroom"
    packages = [path.name for path in house.iterdir() if any(path.glob("*/*.py"))]
    folders = {path.parent for package in packages for path in (TESTS / package).rglob("test_*.py")}
    names = {str(folder.relative_to(TESTS)) for folder in folders}
    assert set(NO_ROOMS) <= {str(path.relative_to(TESTS)) for path in TESTS.rglob("*") if path.is_dir()}
    others = [name for name in names if not any(Path(name).is_relative_to(each) for each in NO_ROOMS)]
    assert [name for name in others if not any((house / name).glob("*.py"))] == []
