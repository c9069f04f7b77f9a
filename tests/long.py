"""Everything whole, step by step: ``python -m tests.long --minutes 180``; what each step found, in the end.

First come all tests with all their cases and new examples, a folder at a time, and the planted bugs; then
seeds, kills and take-overs, each for its share of ``--minutes``; then what is handed out, in full. Every step
is a command of its own that can be run alone.

The state is in ``build/test-long.json``. Who stops it (control and C) and begins again goes on with the step
that was under way; steps that have failed are played again, and so is everything once the source has changed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.sampling import PURE
from tests.sparkkills.__main__ import cases

ROOT: Final = Path(__file__).resolve().parent.parent
STATE: Final = ROOT / "build" / "test-long.json"
LOGS: Final = ROOT / "build" / "test-long"
CHECK_PYTHON: Final = ".venv-check/bin/python"
SEEDS: Final = 10_000_000
"""More than there is time for: --minutes ends it."""
KILLS: Final = 25
BESIDE_A_LOAD: Final = (
    "tests/server",
    "tests/clients",
    "tests/replication",
    "tests/channels",
    "tests/crash",
    "tests/foreign",
)
"""What talks to other processes, and is most easily red by chance."""
FIRST_STEP: Final = 1_000_000
"""So far apart are the first seeds of two rounds."""
WORKERS: Final = str(os.cpu_count() or 1)


@dataclass(frozen=True)
class Step:
    """One of the long runs."""

    name: str
    minutes: float
    """About so many it takes, where it is played once, on two quiet cores."""
    share: float
    """Of --minutes, in rounds; 0: once, whatever it takes."""
    command: Callable[[int, float, int], list[str]]
    """Of the round, of the minutes that are left, of the first seed."""


@dataclass
class Ran:
    """What came of a step."""

    rounds: int = 0
    seconds: float = 0.0
    last_line: str = ""
    failed: str = ""
    """The command that failed first."""


@dataclass
class State:
    """How far a run is."""

    source: str
    """A sum of what is played."""
    first: int
    """The first seed of everything."""
    ran: dict[str, Ran] = field(default_factory=dict)

    def save(self) -> None:
        STATE.write_text(json.dumps(asdict(self), indent=1))


def loaded(first: int, again: bool) -> State:
    """The state of the run that was stopped; a new one where there is none, or its source was another."""
    state = State(source_sum(), first)
    if not STATE.exists() or again:
        return state
    record = json.loads(STATE.read_text())
    if record["source"] != state.source:
        print("the source has changed since the last run: everything is played anew", flush=True)
        return state
    kept = {name: Ran(**ran) for name, ran in record["ran"].items() if not ran["failed"]}
    return State(state.source, record["first"], kept)


def source_sum() -> str:
    """Of every file of the source and the tests."""
    whole = hashlib.sha256()
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            whole.update(path.read_bytes())
    return whole.hexdigest()


# -- the steps


def _pytest(*paths: str, python: str = sys.executable) -> list[str]:
    return [python, "-m", "pytest", "-n", WORKERS, "--timeout", "1200", *paths]


def _test_folders() -> list[str]:
    """Those that have tests, but for Spark's, of which each has its own."""
    tests = ROOT / "tests"
    plain = [path for path in tests.iterdir() if path.is_dir() and path.name != "spark"]
    folders = [path for path in (*plain, *(tests / "spark").iterdir()) if any(path.rglob("test_*.py"))]
    return sorted(str(path.relative_to(ROOT)) for path in folders)


def _seeds(module: str) -> Callable[[int, float, int], list[str]]:
    def command(number: int, minutes: float, first: int) -> list[str]:
        start = str(first + number * FIRST_STEP)
        seeds = ["--seeds", str(SEEDS), "--first", start, "--workers", WORKERS]
        return [sys.executable, "-m", module, *seeds, "--minutes", f"{minutes:.1f}"]

    return command


def _module(*words: str) -> Callable[[int, float, int], list[str]]:
    return lambda number, minutes, first: [sys.executable, "-m", *words]


def _seeded(*words: str) -> Callable[[int, float, int], list[str]]:
    return lambda number, minutes, first: [sys.executable, "-m", *words, "--seed", str(first + number)]


def _take_overs(number: int, minutes: float, first: int) -> list[str]:
    end = ["--take-overs", str(SEEDS), "--minutes", f"{minutes:.1f}"]
    return [sys.executable, "-m", "tests.replication", *end, "--seed", str(first + number)]


def _spark_case(number: int, minutes: float, first: int) -> list[str]:
    names = list(cases())
    return [sys.executable, "-m", "tests.sparkkills", "--only", names[(first + number) % len(names)]]


def _new_examples(number: int, minutes: float, first: int) -> list[str]:
    return _pytest("-m", "hypothesis", "tests")


def steps() -> Iterator[Step]:
    """All of them, in their order."""
    pure = [f"tests/{name}" for name in PURE]
    yield Step("pure tests, interpreted", 12, 0, lambda *_: _pytest(*pure, python=CHECK_PYTHON))
    for folder in _test_folders():
        yield Step(folder, 4, 0, lambda *_, folder=folder: _pytest(folder))
    yield Step("planted bugs", 20, 0, _module("tests.simulation.mutants"))
    yield Step("coverage", 12, 0, lambda *_: [CHECK_PYTHON, "-m", "tests.coverage", "--whole"])
    yield Step("beside a load", 60, 0, _module("tests.load", *_pytest(*BESIDE_A_LOAD)))
    yield Step("damaged files", 3, 0, _module("tests.damage"))
    yield Step("damaged tables", 60, 0, _module("tests.spark.damage"))
    yield Step("faults, single and double", 4, 0, _module("tests.faults", "--twice", "20"))
    yield Step("new examples", 0, 0.1, _new_examples)
    yield Step("world", 0, 0.25, _seeds("tests.simulation"))
    yield Step("world of channels", 0, 0.1, _seeds("tests.simulation.channels"))
    yield Step("kills", 0, 0.15, _seeded("tests.crash", "--kills", str(KILLS)))
    yield Step("kills of two-phase commit", 0, 0.1, _module("tests.twophase", "--rounds", "1"))
    yield Step("take-overs", 0, 0.1, _take_overs)
    yield Step("kills of channels", 0, 0.1, _module("tests.channels"))
    yield Step("kills of Spark", 0, 0.1, _spark_case)
    yield Step("PySpark 4.2", 6, 0, lambda *_: ["make", "test-spark42"])
    yield Step("what is handed out", 10, 0, lambda *_: ["make", "dist-check", "FORCE=1"])


# -- playing them


def environment(command: list[str]) -> dict[str, str]:
    """Everything whole; the interpreted source for the environment that has no compiled one."""
    path = {"PYTHONPATH": "src"} if command[0] == CHECK_PYTHON else {}
    return {**os.environ, "POSTROOM_TESTS": "whole", **path}


def play(step: Step, ran: Ran, minutes: float, state: State) -> None:
    """Round after round, until the step's share of the time is used, or one fails; once at least."""
    share, before = step.share * minutes * 60, ran.seconds
    log, began = LOGS / f"{step.name.replace('/', '-').replace(' ', '-')}.log", time.monotonic()
    while not ran.failed and (ran.rounds == 0 or ran.seconds < share):
        command = step.command(ran.rounds, (share - ran.seconds) / 60, state.first)
        with log.open("a") as output:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment(command),
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        ran.seconds = before + time.monotonic() - began
        ran.rounds += 1
        ran.last_line = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
        if done.returncode:
            ran.failed = f"{' '.join(command)}   (its output: {log.relative_to(ROOT)})"
        state.ran[step.name] = ran
        state.save()


def estimate(step: Step, state: State, minutes: float) -> float:
    """Minutes that are left of a step."""
    whole = step.minutes or step.share * minutes
    ran = state.ran.get(step.name)
    return whole if ran is None else max(0.0, step.share * minutes - ran.seconds / 60)


def is_done(step: Step, state: State, minutes: float) -> bool:
    ran = state.ran.get(step.name)
    return ran is not None and ran.seconds >= step.share * minutes * 60


def words(minutes: float) -> str:
    """Hours and minutes, as people say them."""
    return f"{int(minutes) // 60} h {int(minutes) % 60} min" if minutes >= 60 else f"{minutes:.0f} min"


def main() -> int:
    """Exit code 1 when a step has failed, 130 when it was stopped."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("--minutes", type=float, default=180, help="of seeds, kills and take-overs in all")
    parser.add_argument("--first", type=int, default=int(time.time()), help="the first seed of everything")
    parser.add_argument("--only", nargs="*", default=[], help="steps whose names begin so")
    parser.add_argument("--again", action="store_true", help="from the first step, whatever was done before")
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    state = loaded(options.first, options.again)
    chosen = [step for step in steps() if not options.only or step.name.startswith(tuple(options.only))]
    print(
        f"{len(chosen)} steps, --first {state.first}; their output goes to {LOGS.relative_to(ROOT)}",
        flush=True,
    )
    try:
        for number, step in enumerate(chosen, 1):
            left = sum(estimate(one, state, options.minutes) for one in chosen[number - 1 :])
            if is_done(step, state, options.minutes):
                continue
            now = words(estimate(step, state, options.minutes))
            print(
                f"[{number}/{len(chosen)}] {step.name}: about {now}; all that is left: {words(left)}",
                flush=True,
            )
            ran = state.ran.get(step.name, Ran())
            play(step, ran, options.minutes, state)
            print(f"    {'FAILED: ' + ran.failed if ran.failed else ran.last_line}", flush=True)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on here")
        return 130
    print("== summary")
    for step in chosen:
        ran = state.ran[step.name]
        came = f"FAILED: {ran.failed}" if ran.failed else ran.last_line
        print(f"{step.name:28} {ran.rounds:3} rounds {ran.seconds / 60:6.1f} min  {came}")
    failures = sum(bool(state.ran[step.name].failed) for step in chosen)
    print(f"{len(chosen) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
