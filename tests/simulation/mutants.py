"""Planted bugs: each must be found by the simulation within its seeds, or the simulation proves nothing.

A mutant is one change of the source: a text that stands in a file exactly once, and what is put in its place.
``python -m tests.simulation.mutants`` copies the package, plants each in turn and runs seeds until an oracle
objects, or the tests that are there to find it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.mutation import Mutation
from tests.simulation.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600
TESTS_FAILED = 1


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    name: str
    found: bool
    where: str
    """The seed that found it, or how many didn't; or the tests."""
    complaint: str


def plant(package: Path, name: str) -> None:
    """Change the copied source; ValueError when the place is not there exactly once."""
    mutation = MUTATIONS[name]
    path = package / mutation.path
    text = path.read_text()
    if text.count(mutation.old) != 1:
        raise ValueError(
            f"mutant {name}: its text stands {text.count(mutation.old)} times in {mutation.path}"
        )
    path.write_text(text.replace(mutation.old, mutation.new))


def hunt(name: str) -> Verdict:
    """Run seeds, or its tests, against one mutant until one fails."""
    mutation = MUTATIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "src" / "postroom", Path(folder) / "postroom", ignore=shutil.ignore_patterns("*.so")
        )
        plant(Path(folder) / "postroom", name)
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            _command(mutation), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    return _of_tests(name, done) if mutation.tests else _of_seeds(name, done)


def _command(mutation: Mutation) -> list[str]:
    if mutation.tests:
        return [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutation.tests]
    return [sys.executable, "-m", mutation.module, "--stop", "--seeds", str(mutation.seeds)]


def _of_seeds(name: str, done: "subprocess.CompletedProcess[str]") -> Verdict:
    lines = done.stdout.splitlines()
    tried = next((int(x.split()[0]) + int(x.split()[2]) for x in lines if x.endswith(" failed")), 0)
    errors = [x for x in done.stderr.splitlines() if x and not x.startswith((" ", "Traceback", "failed:"))]
    found, seeds = done.returncode == 1 and tried > 0, MUTATIONS[name].seeds
    where = f"at seed {tried} of {seeds}" if found else f"in {seeds} seeds"
    return Verdict(name, found, where, errors[-1][:100] if errors else "")


def _of_tests(name: str, done: "subprocess.CompletedProcess[str]") -> Verdict:
    """Pytest's exit code 1: a test has failed; any other: it couldn't be run."""
    errors = [line[2:].strip() for line in done.stdout.splitlines() if line.startswith("E  ")]
    found = done.returncode == TESTS_FAILED
    return Verdict(name, found, MUTATIONS[name].tests[0], errors[0][:100] if errors else done.stdout[-100:])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    arguments = parser.parse_args()
    verdicts = []
    for name in arguments.names or MUTATIONS:
        verdict = hunt(name)
        verdicts.append(verdict)
        seen = "found" if verdict.found else "NOT FOUND"
        print(f"{name:32} {seen:9} {verdict.where}  {verdict.complaint}", flush=True)
    missed = [verdict.name for verdict in verdicts if not verdict.found]
    print(f"{len(verdicts) - len(missed)} passed, {len(missed)} failed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
