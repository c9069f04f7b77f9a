"""Every example of README, documentation and ``examples/`` that uses the client, and the applications of the
how-to pages, pass ``mypy --strict``."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.pages import files_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
USES = "postroom.client"


def programs() -> dict[str, str]:
    """Name of a module for each → its text."""
    found = {}
    for page in PAGES:
        for number, text in enumerate(PROGRAM.findall(page.read_text()), 1):
            found[f"{page.stem.replace('-', '_').lower()}_{number}"] = text
    for path in sorted((ROOT / "examples").rglob("*.py")):
        found[f"example_{path.stem}"] = path.read_text()
    return {name: text for name, text in found.items() if USES in text}


def test_there_are_examples_of_both_faces() -> None:
    texts = programs().values()
    assert any("from postroom.client import connect" in text for text in texts)
    assert any("from postroom.client.aio import connect" in text for text in texts)


def mypy(folder: Path, *arguments: str) -> None:
    """It finds nothing in a folder."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "examples"),
    ]
    done = subprocess.run(
        [*command, "--config-file", "", *arguments, str(folder)],
        cwd=folder,
        env={"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_examples_pass(tmp_path: Path) -> None:
    for name, text in programs().items():
        (tmp_path / f"{name}.py").write_text(text)
    mypy(tmp_path)


@pytest.mark.parametrize("name", ["write-a-worker.md", "use-with-fastapi.md"])
def test_applications_pass(name: str, tmp_path: Path) -> None:
    for path, text in files_of((ROOT / "docs" / "howto" / name).read_text()).items():
        (tmp_path / path).write_text(text)
    mypy(tmp_path, "--follow-imports=silent")
