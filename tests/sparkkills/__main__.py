"""``python -m tests.sparkkills``: every way through Spark, every victim at every point of it, speculation,
and every loss of a checkpoint; then the audit of all brokers. Takes most of an hour.

    python -m tests.sparkkills [--only NAME…]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.sparkkills.chains import ALL, NEWEST, VICTIMS, WAYS, chain, play, play_loss
from tests.sparkkills.points import Kill, Point
from tests.sparkkills.speculating import play_speculation
from tests.sparkkills.stage import PlayFailed, Stage, audited

Case = Callable[[Stage, str], object]


def cases() -> dict[str, Case]:
    """All of them, by name."""
    found: dict[str, Case] = {}
    for way in WAYS.values():
        for victim in VICTIMS:
            found[f"{way.name}-{victim}"] = partial(_chain, way.name, chain(way, victim))
    for name in ("enrich", "tap-enrich", "table", "call", "tap"):
        for what in (NEWEST, ALL):
            for point in WAYS[name].points[-2:]:
                found[f"{name}-{what}-lost-{point}"] = partial(_loss, name, what, point)
    for point in (Point.BEFORE_BRANCH_DURABLE, Point.AFTER_BRANCH_DURABLE):
        found[f"speculation-{point}"] = partial(_speculation, point)
    return found


def _chain(name: str, kills: list[Kill], stage: Stage, queue: str) -> None:
    play(stage, WAYS[name], queue, kills)


def _loss(name: str, what: str, point: Point, stage: Stage, queue: str) -> None:
    play_loss(stage, WAYS[name], queue, what, point)


def _speculation(point: Point, stage: Stage, queue: str) -> None:
    play_speculation(stage, queue, point)


def attempt(case: Case, folder: Path) -> str:
    """What was wrong; empty if all was well. Each case has a broker of its own."""
    folder.mkdir()
    with Stage(folder) as stage:
        try:
            case(stage, "queue")
        except (AssertionError, PlayFailed) as failure:
            return f"{type(failure).__name__}: {failure}"
        stage.broker.stop()
        return audited(stage)


def main() -> int:
    """Exit code 1 when something came out otherwise than promised."""
    parser = argparse.ArgumentParser(prog="python -m tests.sparkkills", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    options = parser.parse_args()
    chosen = {
        name: case
        for name, case in cases().items()
        if not options.only or name.startswith(tuple(options.only))
    }
    problems = 0
    with tempfile.TemporaryDirectory(prefix="postroom-kills-", ignore_cleanup_errors=True) as folder:
        for name, case in chosen.items():
            begun_s = time.monotonic()
            problem = attempt(case, Path(folder) / name)
            problems += bool(problem)
            print(f"{name}: {problem or 'exact'} ({time.monotonic() - begun_s:.0f} s)", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
