"""Makes and checks everything that a release hands out, and stops before it is handed out.

``make release`` runs it; ``TAG=1 make release`` also tags the commit, here alone. What is quick is checked
first: the tree is clean, the version is said alike everywhere, the changelog has it with a date and nothing
above it, its upgrade fixtures are there. Then come ``make check``, ``make docs``,
``make test-spark42`` and ``make dist``, and what the built files say of themselves. At last it prints what
there is to upload.
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FIXTURES: Final = Path("tests/upgrades/fixtures")
MAKE: Final = ("check", "docs", "test-spark42", "dist")
NAME: Final = "postroom"
MAX_SUMMARY_CHARS: Final = 512
"""That the index of Python packages takes."""

HEADING: Final = re.compile(r"^## (?P<version>\S+) – (?P<date>\d{4}-\d{2}-\d{2})$", re.MULTILINE)


class Fault(Exception):
    """Why this is no release."""


def version_of(root: Path) -> str:
    """What pyproject.toml says."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def faults_of(root: Path) -> Iterator[str]:
    """What is wrong in the tree, each in a line."""
    version = version_of(root)
    found = re.search(r'__version__.* = "(.*)"', (root / "src/postroom/__init__.py").read_text())
    if found is None or found[1] != version:
        yield f"src/postroom/__init__.py says {found[1] if found else 'no version'}, pyproject.toml {version}"
    yield from changelog_faults((root / "CHANGELOG.md").read_text(), version)
    yield from documents_faults(root, version)
    fixtures = root / FIXTURES / version
    if not any(fixtures.glob("ledgers/*.tar.xz")):
        yield f"{FIXTURES / version} isn't there: python -m tests.upgrades.write makes it"


def changelog_faults(text: str, version: str) -> Iterator[str]:
    """It has the version first, with a date and something to tell, and nothing is left unreleased."""
    first = HEADING.search(text)
    if first is None or first["version"] != version:
        yield f"CHANGELOG.md: the newest version is {first['version'] if first else 'none'}, not {version}"
        return
    _, found, unreleased = text[: first.start()].partition("## Unreleased")
    if not found:
        yield "CHANGELOG.md: there is no heading “Unreleased” above the newest version"
    if unreleased.strip():
        yield f"CHANGELOG.md: something is unreleased: {unreleased.strip().splitlines()[0][:80]}"
    after = HEADING.search(text, first.end())
    if not text[first.end() : after.start() if after else None].strip():
        yield f"CHANGELOG.md: nothing is told of {version}"


def documents_faults(root: Path, version: str) -> Iterator[str]:
    """Pages that name a version of Postroom name this one; measurements say what they were made with."""
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        for match in re.finditer(rf"\b{NAME}[- ]v?(\d+\.\d+\.\d+)\b", page.read_text(), re.IGNORECASE):
            if match[1] != version:
                yield f"{page.relative_to(root)} speaks of {match[0]}, this is {version}"


def metadata_faults(path: Path, version: str) -> Iterator[str]:
    """Whether the index would take a built file, by what it says of itself."""
    fields = metadata_of(path)
    for field, wanted in {"Name": NAME, "Version": version, "License-Expression": "Apache-2.0"}.items():
        if fields[field] != wanted:
            yield f"{path.name}: {field} is {fields[field]!r}, not {wanted!r}"
    summary = fields["Summary"] or ""
    if not summary or "\n" in summary or len(summary) > MAX_SUMMARY_CHARS:
        yield f"{path.name}: the summary must be one line of at most {MAX_SUMMARY_CHARS} characters"
    if fields["Description-Content-Type"] != "text/markdown":
        yield f"{path.name}: the description's type is {fields['Description-Content-Type']!r}, not Markdown"
    if not str(fields.get_payload()).strip():
        yield f"{path.name}: there is no description"
    if not fields["Requires-Python"]:
        yield f"{path.name}: it doesn't say which Python it needs"
    if not path.name.startswith(f"{NAME}-{version}") or "linux_x86_64" in path.name.replace("manylinux", ""):
        yield f"{path.name}: the index takes no file of this name"


def metadata_of(path: Path) -> Message:
    """Of a wheel or an sdist."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
            return BytesParser().parsebytes(wheel.read(name))
    with tarfile.open(path) as sdist:
        file = sdist.extractfile(f"{path.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert file is not None
        return BytesParser().parse(file)


def require_clean(root: Path) -> None:
    """Nothing is there that the commit hasn't."""
    changed = _git(root, "status", "--porcelain")
    if changed:
        raise Fault("the tree isn't clean; commit or remove:\n  " + "\n  ".join(changed.splitlines()[:20]))


def tag(root: Path, version: str) -> None:
    """Name the commit, in this repository alone."""
    _git(root, "tag", "--annotate", f"v{version}", "--message", f"Postroom {version}")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Fault(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def make(root: Path, target: str) -> None:
    print(f"== make {target}", flush=True)
    if subprocess.run(["make", target], cwd=root, check=False).returncode:
        raise Fault(f"make {target} failed")


def release(root: Path, tags: bool) -> list[Path]:
    """Returns the files to upload. Raises ``Fault``."""
    require_clean(root)
    _require_none(faults_of(root))
    for target in MAKE:
        make(root, target)
    require_clean(root)
    version = version_of(root)
    files = [*sorted((root / "dist").glob("*.tar.gz")), *sorted((root / "dist").glob("*.whl"))]
    _require_none(fault for path in files for fault in metadata_faults(path, version))
    if tags:
        tag(root, version)
    return files


def _require_none(faults: Iterator[str]) -> None:
    found = list(faults)
    if found:
        raise Fault("\n".join(found))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--tag", action="store_true", help="tag the commit in this repository")
    arguments = parser.parse_args()
    try:
        files = release(ROOT, arguments.tag)
    except Fault as fault:
        print(f"postroom: no release: {fault}", file=sys.stderr)
        return 1
    version = version_of(ROOT)
    print(f"Postroom {version} is ready. To upload:")
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"  {path.relative_to(ROOT)}  {path.stat().st_size:,} bytes  sha256 {digest}")
    print(f"with: python -m twine upload dist/*; and git push origin v{version}, after TAG=1 make release")
    return 0


if __name__ == "__main__":
    sys.exit(main())
