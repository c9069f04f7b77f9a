"""Which lines and branches of each room its own tests play, and which all tests do: ``python -m
tests.coverage``.

What runs while a module is imported counts for everybody. A room is a folder of a package, or what lies in
the package itself; its own tests are those of the folder that mirrors it. Played are the pure tests,
interpreted, or with ``--all`` every test, in the process of the test itself: what runs in a broker's own
process isn't seen. No share may be smaller than in ``tests/coverage.json``, where ``--keep`` writes those
that are reached.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

import coverage

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "postroom"
RECORD: Final = ROOT / "tests" / "coverage.json"
FOLDER: Final = "POSTROOM_COVERAGE"
"""The environment variable with the folder for the measurements of all processes."""
TOLERANCE: Final = 0.3
"""Of a hundred: what threads and time may change from run to run."""


def _measuring(folder: str, suffix: bool = False) -> coverage.Coverage:
    """``suffix``: the file of a process of its own among those of others."""
    file = f"{folder}/measured"
    return coverage.Coverage(file, suffix, branch=True, source_dirs=[str(SOURCE)], config_file=False)


# -- the plug-in


class Measuring:
    """Measures a process that runs tests, under the name of the folder of each test."""

    def __init__(self, folder: str) -> None:
        self._coverage = _measuring(folder, suffix=True)
        self._coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        path = PurePosixPath(item.nodeid.partition("::")[0])
        self._coverage.switch_context("/".join(path.parts[1:-1]))

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


def pytest_configure(config: pytest.Config) -> None:
    if FOLDER in os.environ and (
        not config.getoption("numprocesses", None) or hasattr(config, "workerinput")
    ):
        config.pluginmanager.register(Measuring(os.environ[FOLDER]))


# -- the measurements


@dataclass
class Share:
    """How much of something was played."""

    played: int = 0
    whole: int = 0

    def add(self, played: int, whole: int) -> None:
        self.played += played
        self.whole += whole

    @property
    def percent(self) -> float:
        return round(100 * self.played / self.whole, 1) if self.whole else 100.0


COLUMNS: Final = ("own lines", "own branches", "lines", "branches")
Shares = dict[str, dict[str, float]]
"""Of each room, percent by column."""


def room_of(path: Path) -> str:
    """As ``manager/queues``, or ``manager`` for what lies in the package itself."""
    return "/".join(path.relative_to(SOURCE).parts[:-1][:2]) or "."


def measured(folder: str) -> Shares:
    """What the processes that have measured saw, in percent."""
    whole = _measuring(folder)
    whole.combine([folder])
    found: dict[str, dict[str, Share]] = defaultdict(lambda: {column: Share() for column in COLUMNS})
    for path in sorted(SOURCE.rglob("*.py")):
        room = room_of(path)
        for prefix, contexts in (("own ", ["^$", f"^{room}($|/)"]), ("", [])):
            whole.get_data().set_query_contexts(contexts or None)
            _, statements, _, missing, _ = whole.analysis2(str(path))
            found[room][f"{prefix}lines"].add(len(statements) - len(missing), len(statements))
            for total, taken in whole.branch_stats(str(path)).values():
                found[room][f"{prefix}branches"].add(taken, total)
    return {room: {column: each.percent for column, each in shares.items()} for room, shares in found.items()}


def played(arguments: Sequence[str], folder: str) -> int:
    """Run the tests; pytest's exit code."""
    environment = {**os.environ, FOLDER: folder, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "pytest", "-p", "tests.coverage", "-n", "auto", "--timeout", "900"]
    return subprocess.run([*command, *arguments], cwd=ROOT, env=environment, check=False).returncode


def smaller(before: Shares, now: Shares) -> Iterator[str]:
    """What no longer holds."""
    for room, shares in before.items():
        for column, percent in shares.items():
            if room in now and now[room][column] < percent - TOLERANCE:
                yield f"{room}: {column} {now[room][column]} %, was {percent} %"


def table(shares: Shares) -> Iterator[str]:
    yield "".join(f"{column:>14}" for column in COLUMNS) + "  room"
    for room, row in shares.items():
        yield "".join(f"{row[column]:14.1f}" for column in COLUMNS) + f"  {room}"


def main() -> int:
    """Exit code 1 where a test failed, or a share is smaller than it was."""
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every test; without it the pure ones")
    parser.add_argument("--keep", action="store_true", help="write the shares that are reached")
    options = parser.parse_args()
    kind = "all" if options.all else "pure"
    with tempfile.TemporaryDirectory() as folder:
        if failed := played([] if options.all else ["--pure"], folder):
            return failed
        shares = measured(folder)
    print(*table(shares), sep="\n")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    faults = [] if options.keep else list(smaller(record.get(kind, {}), shares))
    if options.keep:
        RECORD.write_text(json.dumps({**record, kind: shares}, indent=1) + "\n")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
