"""Compares an sdist or a wheel with the source tree, file by file: nothing lacks, nothing is there in vain.

``python tools/check_contents.py FILE…`` prints what differs and ends with 1, or says that each is whole.
"""

import runpy
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
BESIDE_SOURCE = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"}
MADE_BY_SETUPTOOLS = {"PKG-INFO", "setup.cfg"}
IN_METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
CONSOLE_SCRIPT = "postroom = postroom.cli:main"


def sources() -> set[str]:
    """Every file below src, by its path from there."""
    files = (path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*") if path.is_file())
    return {
        path.as_posix()
        for path in files
        if not path.parts[0].endswith(".egg-info") and "__pycache__" not in path.parts
    }


def extensions() -> set[str]:
    """The extension modules of a compiled wheel, without the ending that tells Python and platform."""
    declared = runpy.run_path(str(ROOT / "setup.py"), run_name="sources")
    found = {name.replace(".", "/") for name in declared["c_sources"]()}
    for paths, group in declared["hot_groups"]():
        found.add(f"{group}__mypyc")
        found |= {PurePosixPath(path).with_suffix("").relative_to("src").as_posix() for path in paths}
    return found


def differences(what: str, found: set[str], wanted: set[str]) -> list[str]:
    lacking = [f"{what} lacks {name}" for name in sorted(wanted - found)]
    return lacking + [f"{what} should not have {name}" for name in sorted(found - wanted)]


def faults_of_sdist(path: Path) -> list[str]:
    with tarfile.open(path) as archive:
        names = [member.name.split("/", 1)[1] for member in archive if member.isfile()]
    found = {name for name in names if ".egg-info/" not in name} - MADE_BY_SETUPTOOLS
    return differences(path.name, found, BESIDE_SOURCE | {f"src/{name}" for name in sources()})


def faults_of_wheel(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA")).removesuffix(
            "METADATA"
        )
        scripts = archive.read(f"{metadata}entry_points.txt").decode()
    of_metadata = {name.removeprefix(metadata) for name in names if name.startswith(metadata)}
    of_modules = {name for name in names if not name.startswith(metadata)}
    compiled = {name for name in of_modules if name.endswith((".so", ".pyd"))}
    faults = [f"{path.name} lacks {name}" for name in sorted(IN_METADATA - of_metadata)]
    faults += differences(
        path.name, of_modules - compiled, {name for name in sources() if not name.endswith(".c")}
    )
    wanted = set() if path.stem.endswith("-none-any") else extensions()
    faults += differences(path.name, {name.split(".", 1)[0] for name in compiled}, wanted)
    return faults if CONSOLE_SCRIPT in scripts else [*faults, f"{path.name} has no command: {CONSOLE_SCRIPT}"]


def main(paths: list[str]) -> int:
    faults = []
    for path in map(Path, paths):
        of_this = faults_of_wheel(path) if path.suffix == ".whl" else faults_of_sdist(path)
        faults += of_this
        if not of_this:
            print(f"{path.name}: all that it needs and nothing else, {path.stat().st_size / 1e6:.1f} MB")
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
