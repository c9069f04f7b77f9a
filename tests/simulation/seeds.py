"""The commands that run seeds of a simulation: which of them, and what came of it."""

import argparse
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from tests.simulation.world import World

STEPS: Final = 1600

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
    return parser


def chosen(arguments: argparse.Namespace) -> range:
    """The seeds that are asked for."""
    if arguments.seed is not None:
        return range(arguments.seed, arguments.seed + 1)
    return range(arguments.first, arguments.first + arguments.seeds)


def run_all(runs: Iterable[tuple[str, Callable[[], object]]], stop: bool) -> int:
    """Do each of these deeds, tell of those that fail, with their name, and how many did; the exit code."""
    done = failures = 0
    for name, deed in runs:
        done += 1
        try:
            deed()
        except Exception:
            failures += 1
            traceback.print_exc()
            print(f"failed: {name}")
            if stop:
                break
    print(f"{done - failures} passed, {failures} failed")
    return 1 if failures else 0


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
    sums: Counter[str] = Counter()

    def run(seed: int) -> None:
        sums.update(counts(played(world, seed, arguments.steps)))

    runs = (
        (f"{prog} --seed {seed} --steps {arguments.steps}", partial(run, seed)) for seed in chosen(arguments)
    )
    code = run_all(runs, arguments.stop)
    print(", ".join(f"{number} {counted}" for counted, number in sums.items()))
    return code
