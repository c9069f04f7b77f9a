"""Every example of README, documentation and ``examples/`` that uses the client passes ``mypy --strict``."""

import re
import subprocess
import sys
from pathlib import Path

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


def test_examples_pass_mypy_strict(tmp_path: Path) -> None:
    for name, text in programs().items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".mypy_cache/examples"]
    done = subprocess.run(
        [*command, "--config-file", "", str(tmp_path)],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
