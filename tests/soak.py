"""The long runs, in a stated time: ``python -m tests.soak --minutes 180``; what each found, in the end.

Every part is a command of its own that can be run alone. It gets its share of the time, and is run again and
again, each time with something new, until that is used up; once at least. Times are a little longer than
asked for: a run that has begun is run to its end.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.sparkkills.__main__ import cases

SEEDS: Final = 10_000_000
"""More than there is time for: --minutes ends it."""
KILLS: Final = 25
FIRST_STEP: Final = 1_000_000
"""So far apart are the first seeds of two rounds."""


@dataclass(frozen=True)
class Part:
    """One of the long runs."""

    name: str
    share: float
    """Of the time; 0: once, whatever it takes."""
    arguments: Callable[[int, float, int], list[str]]
    """Of ``python -m``: of the round, of the minutes that are left, of the first seed."""


@dataclass
class Ran:
    """What came of a part."""

    rounds: int = 0
    seconds: float = 0.0
    last_line: str = ""
    failed: str = ""
    """The command that failed first."""


def _seeds(module: str) -> Callable[[int, float, int], list[str]]:
    def arguments(number: int, minutes: float, first: int) -> list[str]:
        start = str(first + number * FIRST_STEP)
        return [
            module,
            "--seeds",
            str(SEEDS),
            "--first",
            start,
            "--workers",
            "2",
            "--minutes",
            f"{minutes:.1f}",
        ]

    return arguments


def _spark_case(number: int, minutes: float, first: int) -> list[str]:
    names = list(cases())
    return ["tests.sparkkills", "--only", names[(first + number) % len(names)]]


PARTS: Final = (
    Part("damaged files", 0, lambda number, minutes, first: ["tests.damage"]),
    Part("damaged tables", 0, lambda number, minutes, first: ["tests.spark.damage"]),
    Part("faults, single and double", 0, lambda number, minutes, first: ["tests.faults", "--twice", "20"]),
    Part("world", 0.3, _seeds("tests.simulation")),
    Part("world of channels", 0.15, _seeds("tests.simulation.channels")),
    Part(
        "kills",
        0.15,
        lambda number, minutes, first: ["tests.crash", "--kills", str(KILLS), "--seed", str(first + number)],
    ),
    Part(
        "kills of two-phase commit", 0.1, lambda number, minutes, first: ["tests.twophase", "--rounds", "1"]
    ),
    Part(
        "take-overs",
        0.1,
        lambda number, minutes, first: [
            "tests.replication",
            *("--take-overs", str(SEEDS)),
            *("--minutes", f"{minutes:.1f}"),
            *("--seed", str(first + number)),
        ],
    ),
    Part("kills of channels", 0.1, lambda number, minutes, first: ["tests.channels"]),
    Part("kills of Spark", 0.1, _spark_case),
)


def play(part: Part, minutes: float, first: int) -> Ran:
    """Round after round, until the part's share of the time is used, or one fails."""
    ran, began = Ran(), time.monotonic()
    share = part.share * minutes * 60
    while not ran.failed and (ran.rounds == 0 or ran.seconds < share):
        command = part.arguments(ran.rounds, (share - ran.seconds) / 60, first)
        done = subprocess.run(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, check=False
        )
        print(done.stdout, end="", flush=True)
        ran.rounds += 1
        ran.seconds = time.monotonic() - began
        ran.last_line = (done.stdout.strip().splitlines() or [""])[-1]
        if done.returncode:
            ran.failed = f"python -m {' '.join(command)}"
    return ran


def main() -> int:
    """Exit code 1 when a part has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=180)
    parser.add_argument("--first", type=int, default=int(time.time()), help="the first seed of everything")
    parser.add_argument("--only", nargs="*", default=[], help="parts whose names begin so")
    options = parser.parse_args()
    print(f"about {options.minutes:.0f} minutes, --first {options.first}", flush=True)
    results: dict[str, Ran] = {}
    for part in PARTS:
        if not options.only or part.name.startswith(tuple(options.only)):
            print(f"== {part.name}", flush=True)
            results[part.name] = play(part, options.minutes, options.first)
    print("== summary")
    for name, ran in results.items():
        came = f"FAILED: {ran.failed}" if ran.failed else ran.last_line
        print(f"{name:28} {ran.rounds:3} rounds {ran.seconds / 60:6.1f} min  {came}")
    failures = sum(bool(ran.failed) for ran in results.values())
    print(f"{len(results) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
