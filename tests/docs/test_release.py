"""What `make release` refuses before anything is built, and what it reads in a built file."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tools.release import (
    FIXTURES,
    Fault,
    changelog_faults,
    faults_of,
    metadata_faults,
    require_clean,
    tag,
    version_of,
)

ROOT = Path(__file__).resolve().parents[2]
VERSION = version_of(ROOT)
METADATA = f"""Metadata-Version: 2.4
Name: postroom
Version: {VERSION}
Summary: A message broker
License-Expression: Apache-2.0
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# Postroom
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As much of the repository as is looked at before the build."""
    for name in ("pyproject.toml", "CHANGELOG.md", "README.md", "src/postroom/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / FIXTURES / VERSION, tmp_path / FIXTURES / VERSION)
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_this_version_is_said_alike_everywhere() -> None:
    assert [fault for fault in faults_of(ROOT) if "unreleased" not in fault] == []


def test_what_differs_is_told(tree: Path) -> None:
    (tree / "src/postroom/__init__.py").write_text('__version__: Final = "9.9.9"\n')
    (tree / "docs" / "page.md").write_text("Since Postroom 9.8.7 …\n")
    shutil.rmtree(tree / FIXTURES)
    faults = "\n".join(fault for fault in faults_of(tree) if "unreleased" not in fault)
    assert faults == (
        f"src/postroom/__init__.py says 9.9.9, pyproject.toml {VERSION}\n"
        f"docs/page.md speaks of Postroom 9.8.7, this is {VERSION}\n"
        f"{FIXTURES / VERSION} isn't there: python -m tests.upgrades.write makes it"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("## Unreleased\n\n## 1.2.3 – 2026-11-24\n\n- this\n", ""),
        ("## Unreleased\n\n- that\n\n## 1.2.3 – 2026-11-24\n\n- this\n", "something is unreleased: - that"),
        ("## 1.2.3 – 2026-11-24\n\n- this\n", "there is no heading “Unreleased”"),
        ("## Unreleased\n\n## 1.2.2 – 2026-11-24\n\n- this\n", "the newest version is 1.2.2, not 1.2.3"),
        ("## Unreleased\n\n- this\n", "the newest version is none, not 1.2.3"),
        (
            "## Unreleased\n\n## 1.2.3 – 2026-11-24\n\n## 1.2.2 – 2026-01-01\n\n- x",
            "nothing is told of 1.2.3",
        ),
    ],
)
def test_the_changelog_has_the_version_first_and_nothing_above(text: str, fault: str) -> None:
    found = list(changelog_faults(text, "1.2.3"))
    assert len(found) == bool(fault)
    assert fault in "".join(found)


def test_a_tree_with_changes_is_no_release_and_a_tag_stays_here(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run([*git, "config", "user.name", "x"], cwd=tmp_path, check=True)
    subprocess.run([*git, "config", "user.email", "x@example.com"], cwd=tmp_path, check=True)
    (tmp_path / "file").write_text("one")
    with pytest.raises(Fault, match=r"isn't clean; commit or remove:\n  \?\? file"):
        require_clean(tmp_path)
    subprocess.run([*git, "add", "-A"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-qm", "one"], cwd=tmp_path, check=True)
    require_clean(tmp_path)
    tag(tmp_path, "1.2.3")
    with pytest.raises(Fault, match=r"git tag: .*already exists"):
        tag(tmp_path, "1.2.3")


def test_what_the_index_would_refuse_is_told(tmp_path: Path) -> None:
    def wheel(metadata: str, name: str = f"postroom-{VERSION}-py3-none-any.whl") -> list[str]:
        with zipfile.ZipFile(tmp_path / name, "w") as file:
            file.writestr(f"postroom-{VERSION}.dist-info/METADATA", metadata)
        return list(metadata_faults(tmp_path / name, VERSION))

    assert wheel(METADATA) == []
    (fault,) = wheel(METADATA.replace(f"Version: {VERSION}\n", "Version: 9\n"))
    assert "Version is '9'" in fault
    assert "the summary must be one line" in wheel(METADATA.replace("Summary: A message broker\n", ""))[0]
    assert "not Markdown" in wheel(METADATA.replace("text/markdown", "text/plain"))[0]
    assert "no description" in wheel(METADATA.replace("# Postroom", ""))[0]
    assert "no file of this name" in wheel(METADATA, f"postroom-{VERSION}-cp311-cp311-linux_x86_64.whl")[0]
