"""Runs each failed test of a run once more, alone, and prints both results: ``python -m tests.again FILE``.

Continuous integration calls it, with what ``--times`` has written, so that one test with real processes that
fails by chance doesn't hold up a change. A test that passes the second time is a defect of itself or of the
product all the same: it is listed in ``tests/FLAKY.md`` until it is mended. Pure tests have no chance in them
and get no second one.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Final

from tests.sampling import PURE

ROOT: Final = Path(__file__).resolve().parent.parent
NO_CHANCE: Final = (*PURE, "docs")
"""Folders of tests that must pass the first time."""
MOST: Final = 5
"""More failures than that have no chance about them."""


def has_chance(test: str) -> bool:
    """Whether it talks to other processes."""
    return PurePosixPath(test).parts[1] not in NO_CHANCE


def passes_alone(test: str) -> bool:
    command = [sys.executable, "-m", "pytest", test]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Exit code 1 where a failure stands."""
    parser = argparse.ArgumentParser(prog="python -m tests.again", description=__doc__)
    parser.add_argument("file", type=Path, help="what --times has written")
    file = parser.parse_args().file
    tests = json.loads(file.read_text())["tests"] if file.exists() else []
    failed = [each["test"] for each in tests if each["outcome"] == "failed"]
    final = [test for test in failed if not has_chance(test)]
    if not failed or final or len(failed) > MOST:
        print(f"{len(failed)} tests failed, {len(final)} of them without chance: none is run again")
        return 1
    results = {test: passes_alone(test) for test in failed}
    for test, passed in results.items():
        print(
            f"{test}: failed, then alone {'passed: it belongs into tests/FLAKY.md' if passed else 'failed'}"
        )
    print(f"{sum(results.values())} passed, {len(results) - sum(results.values())} failed")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
