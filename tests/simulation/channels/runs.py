"""Ways to run a world: with a fault before one chosen step, and with faults at random."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final

from tests.simulation.channels.scenarios import pair, triangle, without_dead_letters, wrapping
from tests.simulation.channels.world import Scenario, World
from tests.simulation.oracle import Broken

FAULTS: Final[dict[str, Callable[[World], None]]] = {
    "cut": lambda world: world.cut(world.channel_lines()),
    "crash of the sender": lambda world: world.crash("LONDON"),
    "crash of the receiver": lambda world: world.crash("PARIS"),
    "orderly restarts": lambda world: (world.restart("LONDON"), world.restart("PARIS"))[0],
    "crash of both": lambda world: (world.crash("LONDON"), world.crash("PARIS"))[0],
}
PAIRS: Final[dict[str, Callable[[], Scenario]]] = {
    "batches of three": lambda: pair(8, 3),
    "batches of one": lambda: pair(4, 1),
    "normal speed": lambda: pair(6, 3, "normal"),
    "server and requester": lambda: pair(5, 3, requester=True),
    "sequence numbers that wrap": wrapping,
    "no dead-letter queue": without_dead_letters,
    "no dead-letter queue, fast": lambda: without_dead_letters("fast"),
}
EVERY: Final = {"no dead-letter queue": 7, "no dead-letter queue, fast": 7}
"""Where a world takes many steps, most of them retries, a fault comes before one in so many."""
RANDOM_STEPS: Final = 700
CUT_CHANCE: Final = 0.008
CRASH_CHANCE: Final = 0.006
TIME_CHANCE: Final = 0.03


@contextmanager
def quiet() -> Iterator[None]:
    """No logs: whatever breaks here is meant to."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def run_with_fault(scenario: Scenario, seed: int, step: int, fault: Callable[[World], None]) -> World:
    """Run a world in its one order; the fault comes before the step of that number."""
    with quiet():
        world = World(scenario, seed)
        while world.steps_taken < step:
            steps = world.steps()
            if steps:
                world.take(steps[world.steps_taken % len(steps)])
            elif world.unrest():
                world.jump()
            else:
                break
        fault(world)
        world.finish()
    return world


def steps_of(scenario: Scenario, seed: int) -> int:
    """How many steps it takes without a fault until all is at rest; then nothing may have been lost."""
    with quiet():
        world = World(scenario, seed)
        world.settle()
        steps = world.steps_taken
        world.finish()
    return steps


def sweep(kind: str, fault: str, seed: int, choose: Callable[[Sequence[int]], Sequence[int]] = list) -> int:
    """A fault before each step of a scenario, or one in ``EVERY``, that ``choose`` picks; how many runs that
    were."""
    every = EVERY.get(kind, 1)
    count = steps_of(PAIRS[kind](), seed)
    steps = choose(range(seed % every, count + 1, every))
    for step in steps:
        try:
            run_with_fault(PAIRS[kind](), seed, step, FAULTS[fault])
        except Exception as broken:
            raise Broken(f"{kind}, {fault} before step {step}, seed {seed}: {broken}") from broken
    return len(steps)


def run_seed(seed: int, steps: int = RANDOM_STEPS) -> World:
    """Three queue managers with everything at random."""
    random = Random(seed)
    with quiet():
        world = World(triangle(random), seed)
        calm = random.random() < 0.2
        for _ in range(steps):
            if not calm:
                _maybe_fail(world)
            if (found := world.steps()) and world.random.random() >= TIME_CHANCE:
                world.take(world.random.choice(found))
            else:
                world.pass_time()
        world.finish()
    return world


def _maybe_fail(world: World) -> None:
    random = world.random
    if random.random() < CUT_CHANCE and world.lines:
        world.cut([random.choice(world.lines)])
    if random.random() < CRASH_CHANCE:
        fail = random.choice((world.crash, world.crash, world.restart))
        fail(random.choice(list(world.nodes)))
