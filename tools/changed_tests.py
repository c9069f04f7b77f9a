"""Which test files depend on what differs from a commit: ``python -m tools.changed_tests [COMMIT]`` prints
them.

By the import graph, imports inside functions counted: a test file depends on a module of the source that it
imports itself, or by one module between them, and on those of the room that its folder mirrors. Longer ways
aren't followed: nearly all of the broker is below nearly all of the tests, and `make test` plays those. A
module of the tests or the tools leads to every test file above it. What no module imports, as a template or a
page, leads to the test files that name it or its folder, and to those of its room.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = ("postroom", "tests", "tools", "bench", "demo")
SOURCE: Final = PurePosixPath("src/postroom")
TESTS: Final = PurePosixPath("tests")
NEAR: Final = 2
"""Imports from a test file down to a module of the source."""
FAR: Final = 100
"""More than any way through the tests has."""


@cache
def graph() -> grimp.ImportGraph:
    """What imports what at run time, in the source, the tests and the tools."""
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)


def changed_files(commit: str) -> list[str]:
    """Those that differ from the commit, and those that git doesn't know yet."""
    differing = _git("diff", "--name-only", commit)
    return sorted({*differing, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def module_of(file: str) -> str | None:
    """Its name, where it is or was one that can be imported."""
    path = PurePosixPath(file)
    if path.suffix != ".py" or path.parts[0] not in ("src", *PACKAGES):
        return None
    parts = path.with_suffix("").parts[1 if path.parts[0] == "src" else 0 :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module: str) -> str:
    """Of a test file."""
    return module.replace(".", "/") + ".py"


def is_test(module: str) -> bool:
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def dependents(module: str) -> set[str]:
    """The modules of test files that depend on it, as described above."""
    found, edge = {module}, {module}
    for _ in range(NEAR if module.startswith("postroom") else FAR):
        importers = (graph().find_modules_that_directly_import(one) for one in edge if one in graph().modules)
        edge = set().union(*importers) - found
        found |= edge
    return {one for one in found if is_test(one)}


def mirrored(file: str) -> list[str]:
    """The test files of the folder that mirrors the one of a source file, or of the nearest one above."""
    folder = TESTS / PurePosixPath(file).relative_to(SOURCE).parent
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return [] if folder == TESTS else _test_files(ROOT / folder)


def _test_files(folder: Path) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in folder.glob("test_*.py")]


def naming(file: str) -> Iterator[str]:
    """Test files that name it, or its folder, in a text."""
    path = PurePosixPath(file)
    names = {f'"{path.name}"', f'"{path}"', f"{path.parent.name}/{path.name}"} | {
        f'"{one}"' for one in path.parts[:-1]
    }
    for test in (ROOT / TESTS).rglob("test_*.py"):
        text = test.read_text(encoding="utf-8")
        if any(name in text for name in names):
            yield str(test.relative_to(ROOT))


def tests_of(file: str) -> set[str]:
    """The test files that depend on a changed file."""
    path, module = PurePosixPath(file), module_of(file)
    found: set[str] = set()
    if path.name == "conftest.py":
        found |= {str(each.relative_to(ROOT)) for each in (ROOT / path.parent).rglob("test_*.py")}
    if module is not None:
        found |= {file_of(one) for one in dependents(module)}
    else:
        found |= {*naming(file)}
    if path.is_relative_to(SOURCE):
        found |= {*mirrored(file)}
    return {one for one in found if (ROOT / one).exists()}


def tests_of_all(files: Iterable[str]) -> list[str]:
    return sorted(set().union(*map(tests_of, files)))


def main() -> int:
    """Prints a file a line; exit code 1 where nothing depends on what has changed."""
    parser = argparse.ArgumentParser(prog="python -m tools.changed_tests", description=__doc__)
    parser.add_argument("commit", nargs="?", default="HEAD")
    files = changed_files(parser.parse_args().commit)
    found = tests_of_all(files)
    print(f"{len(files)} files differ, {len(found)} test files depend on them", file=sys.stderr)
    print(*found, sep="\n")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
