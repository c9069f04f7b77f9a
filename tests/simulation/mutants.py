"""Planted bugs: each must be found by the sample of tests that `make test` plays, or the sample proves
nothing.

A mutant is one change of the source: a text that stands in a file exactly once, and what is put in its place.
``python -m tests.simulation.mutants`` copies the package, plants each in turn and runs the tests that are
there to find it: seeds of a simulation until an oracle objects, or a test of its own.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path

from tests.simulation.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parents[2]
TESTS_FAILED = 1


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant."""

    name: str
    found: bool
    where: str
    """The test that found it, or those that didn't."""
    complaint: str
    seconds: float


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
    """Run its tests against one mutant until one fails."""
    mutation, began = MUTATIONS[name], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            ROOT / "src" / "postroom", Path(folder) / "postroom", ignore=shutil.ignore_patterns("*.so")
        )
        plant(Path(folder) / "postroom", name)
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("POSTROOM_TESTS", None)
        options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not planted_bug", "--tb=short"]
        command = [sys.executable, "-m", "pytest", *options, *mutation.tests]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    errors = [line[2:].strip() for line in lines if line.startswith("E  ")]
    failed = [line.split()[1] for line in lines if line.startswith("FAILED ")]
    # Pytest's exit code 1: a test has failed; any other: it couldn't be run.
    found = done.returncode == TESTS_FAILED and bool(failed)
    where = failed[0] if found else " ".join(mutation.tests)
    complaint = errors[-1][:100] if errors else done.stdout[-100:]
    return Verdict(name, found, where, complaint, time.monotonic() - began)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    arguments = parser.parse_args()
    verdicts = []
    with ThreadPool(arguments.workers) as pool:
        for verdict in pool.imap(hunt, arguments.names or MUTATIONS):
            verdicts.append(verdict)
            seen = "found" if verdict.found else "NOT FOUND"
            print(f"{verdict.name:40} {seen:9} {verdict.seconds:4.0f} s  {verdict.where}", flush=True)
            print(f"    {verdict.complaint}", flush=True)
    missed = [verdict.name for verdict in verdicts if not verdict.found]
    print(f"{len(verdicts) - len(missed)} passed, {len(missed)} failed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
