"""The files that come from npm are those of the locked versions, and nothing beside them is served."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from postroom.server.console import static_files, templating
from tests.server.console.console_pages import ROOT

STATIC = static_files.FOLDER
MADE = ("echarts.js", "htmx.js", "echarts.LICENSE.txt", "echarts.NOTICE.txt", "htmx.LICENSE.txt")
OWN = ("charts.js", "console.css", "console.js", "icon.svg")


def test_every_file_is_known() -> None:
    assert {path.name for path in STATIC.iterdir()} == {*MADE, *OWN}


@pytest.mark.peer
def test_what_is_committed_is_what_the_lock_makes(tmp_path: Path) -> None:
    assert shutil.which("npm"), "npm is missing: make peers"
    subprocess.run([ROOT / "tools/assets.sh", tmp_path], check=True, capture_output=True)
    for name in MADE:
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), f"{name}: run tools/assets.sh"


def test_the_lock_names_no_registry() -> None:
    packages = json.loads((ROOT / "tools/assets/package-lock.json").read_text())["packages"]
    assert not [name for name, each in packages.items() if "resolved" in each]


def test_nothing_is_inline_and_nothing_comes_from_elsewhere() -> None:
    for template in templating.FOLDER.iterdir():
        text = template.read_text()
        for part in (
            " style=",
            "<style",
            " onclick",
            "javascript:",
            "http://",
            "https://",
            "|safe",
            "| safe",
        ):
            assert part not in text, f"{template.name} has {part}"
        assert text.count("<script") == text.count('<script src="{{ asset(')
