"""The commands that run seeds of a simulation: which of them, and what came of it."""

import argparse
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import Final, TypeVar

from tests.simulation.world import World

STEPS: Final = 1600

BATCH_RUNS: Final = 50
"""Runs of each process at a time."""

AnyWorld = TypeVar("AnyWorld", bound=World)


def played(world: Callable[[int], AnyWorld], seed: int, steps: int = STEPS) -> AnyWorld:
    """The world of a seed at its end; raises whatever broke."""
    logging.disable(logging.CRITICAL)
    try:
        made = world(seed)
        made.run(steps)
    finally:
        logging.disable(logging.NOTSET)
    return made


def parser_of(prog: str, what: str | None) -> argparse.ArgumentParser:
    """The arguments that every such command has; `what` it is for."""
    parser = argparse.ArgumentParser(prog=prog, description=what)
    parser.add_argument("--seeds", type=int, default=300, help="how many, from --first")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--stop", action="store_true", help="at the first run that fails")
    parser.add_argument("--workers", type=int, default=1, help="processes that run them side by side")
    parser.add_argument(
        "--minutes", type=float, default=0, help="end after so long, wherever it is; 0: never"
    )
    return parser


def chosen(arguments: argparse.Namespace) -> range:
    """The seeds that are asked for."""
    if arguments.seed is not None:
        return range(arguments.seed, arguments.seed + 1)
    return range(arguments.first, arguments.first + arguments.seeds)


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    name: str
    broken: str
    """What a run that failed has said; empty: it passed."""
    counts: Mapping[str, int]


Run = tuple[str, Callable[[], object]]
"""Its name, and what it does; where that gives counts, they are summed."""


def outcome_of(run: Run) -> Outcome:
    """Do it."""
    name, deed = run
    try:
        counts = deed()
    except Exception:
        return Outcome(name, traceback.format_exc(), {})
    return Outcome(name, "", counts if isinstance(counts, Mapping) else {})


def outcomes_of(runs: Iterable[Run], workers: int) -> Iterator[Outcome]:
    """Do these, so many at once, a batch after the other: who takes no more outcomes ends it."""
    if workers == 1:
        yield from map(outcome_of, runs)
        return
    left = iter(runs)
    with get_context("fork").Pool(workers) as pool:
        while batch := list(islice(left, workers * BATCH_RUNS)):
            yield from pool.imap_unordered(outcome_of, batch)


def run_all(runs: Iterable[Run], arguments: argparse.Namespace) -> int:
    """Do each of these, tell of those that fail, with their names, and how many did; the exit code."""
    began, done = time.monotonic(), 0
    failed: list[str] = []
    sums: Counter[str] = Counter()
    for outcome in outcomes_of(runs, arguments.workers):
        done += 1
        sums.update(outcome.counts)
        if outcome.broken:
            failed.append(outcome.name)
            print(f"{outcome.broken}failed: {outcome.name}", file=sys.stderr, flush=True)
        seconds = time.monotonic() - began
        if (failed and arguments.stop) or 0 < arguments.minutes * 60 < seconds:
            break
    if sums:
        print(", ".join(f"{number:,} {counted}" for counted, number in sums.items()))
    for name in failed:
        print(f"failed: {name}")
    print(f"in {time.monotonic() - began:.0f} s, {arguments.workers} at once")
    print(f"{done - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def counted(
    world: Callable[[int], AnyWorld],
    counts: Callable[[AnyWorld], Mapping[str, int]],
    steps: int,
    seed: int,
) -> Mapping[str, int]:
    """What the world of a seed `counts` at its end."""
    return counts(played(world, seed, steps))


def command(
    prog: str,
    what: str | None,
    world: Callable[[int], AnyWorld],
    counts: Callable[[AnyWorld], Mapping[str, int]],
) -> int:
    """Run the seeds of a kind of world; in the end say the sums of what each `counts`. The exit code."""
    parser = parser_of(prog, what)
    parser.add_argument("--steps", type=int, default=STEPS)
    arguments = parser.parse_args()
    steps = arguments.steps
    runs = (
        (f"{prog} --seed {seed} --steps {steps}", partial(counted, world, counts, steps, seed))
        for seed in chosen(arguments)
    )
    return run_all(runs, arguments)
