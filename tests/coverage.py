"""Which lines and branches of each room its own tests play, and which all tests do: ``python -m
tests.coverage``.

A room is a folder of a package, or what lies in the package itself; its own tests are those of the folder
that mirrors it, and what runs while a module is imported counts as theirs. Measured is the process of the
test itself, interpreted: what runs in a broker's own process isn't seen.

``tests/coverage.json`` has what was reached, and a sum of each room and its tests. Without options, rooms
that have changed since are measured by their own tests; ``--whole`` measures every room by the pure tests,
``--all`` by every test. No share may be smaller than the recorded one; ``--keep`` records those that are
reached.
"""

import argparse
import hashlib
import importlib
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
TESTS: Final = ROOT / "tests"
RECORD: Final = TESTS / "coverage.json"
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
    """Measures a process that runs tests, under the name of the folder of each test; begins at once, before
    anything of the source is imported."""

    def __init__(self, folder: str) -> None:
        self._coverage = _measuring(folder, suffix=True)
        self._coverage.start()

    def pytest_configure(self) -> None:
        for module in modules():
            importlib.import_module(module)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        path = PurePosixPath(item.nodeid.partition("::")[0])
        self._coverage.switch_context("/".join(path.parts[1:-1]))

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()


_IN_A_WORKER: Final = {FOLDER, "PYTEST_XDIST_WORKER"} <= os.environ.keys()
_MEASURING: Final = Measuring(os.environ[FOLDER]) if _IN_A_WORKER else None


def pytest_configure(config: pytest.Config) -> None:
    if _MEASURING is not None:
        config.pluginmanager.register(_MEASURING)


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


def packages() -> Sequence[str]:
    """Those that pure tests are for; pytest must know what it rewrites before it is imported."""
    from tests.sampling import PURE

    return PURE


def modules() -> Iterator[str]:
    """Names of all modules of these packages, those that make a program of one left out."""
    for package in packages():
        for path in sorted((SOURCE / package).rglob("*.py")):
            if path.name != "__main__.py":
                yield ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(
                    ".__init__"
                )


def own_tests(room: str) -> list[Path]:
    """Files below ``tests``: the folder of a room, or what lies in the folder of a package itself."""
    folder = TESTS / room
    return sorted(folder.rglob("*.py") if "/" in room else folder.glob("*.py"))


def sums() -> dict[str, str]:
    """Of the source and the own tests of each room that pure tests are for."""
    found: dict[str, str] = {}
    for room in sorted(
        {room_of(path) for package in packages() for path in (SOURCE / package).rglob("*.py")}
    ):
        whole = hashlib.sha256()
        for path in (*sorted((SOURCE / room).glob("*.py")), *own_tests(room)):
            whole.update(path.read_bytes())
        found[room] = whole.hexdigest()[:16]
    return found


def measured(folder: str, columns: Sequence[str] = COLUMNS) -> Shares:
    """What the processes that have measured saw, in percent."""
    whole = _measuring(folder)
    whole.combine([folder])
    found: dict[str, dict[str, Share]] = defaultdict(lambda: {column: Share() for column in columns})
    for path in sorted(SOURCE.rglob("*.py")):
        room = room_of(path)
        for prefix, contexts in (("own ", ["^$", f"^{room}($|/)" if "/" in room else f"^{room}$"]), ("", [])):
            if f"{prefix}lines" not in columns:
                continue
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
            if now.get(room, {}).get(column, percent) < percent - TOLERANCE:
                yield f"{room}: {column} {now[room][column]} %, was {percent} %"


def table(shares: Shares) -> Iterator[str]:
    columns = list(next(iter(shares.values()), {}))
    yield "".join(f"{column:>14}" for column in columns) + "  room"
    for room, row in shares.items():
        yield "".join(f"{row[column]:14.1f}" for column in columns) + f"  {room}"


def main() -> int:
    """Exit code 1 where a test failed, or a share is smaller than it was."""
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--whole", action="store_true", help="every room, by all pure tests")
    kinds.add_argument("--all", action="store_true", help="every room, by every test")
    parser.add_argument("--keep", action="store_true", help="record the shares that are reached")
    options = parser.parse_args()
    kind = "all" if options.all else "pure"
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    before, now = record.get(kind, {}), sums()
    part = not (options.whole or options.all)
    rooms = [room for room in now if not part or now[room] != record.get("sums", {}).get(room)]
    if part:
        rooms = [room for room in rooms if own_tests(room)]
        tests = [str(path) for room in rooms for path in own_tests(room) if path.name.startswith("test_")]
        if not tests:
            print("no room has changed since its coverage was recorded")
            return 0
    else:
        tests = [] if options.all else ["--pure"]
    with tempfile.TemporaryDirectory() as folder:
        if failed := played(tests, folder):
            return failed
        shares = measured(folder, COLUMNS[:2] if part else COLUMNS)
    if not options.all:
        shares = {room: shares[room] for room in rooms}
    print(*table(shares), sep="\n")
    if options.keep:
        merged = {room: {**before.get(room, {}), **row} for room, row in shares.items()}
        record[kind] = {**before, **merged} if part else shares
        if not options.all:
            record["sums"] = now
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        return 0
    faults = list(smaller(before, shares))
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
