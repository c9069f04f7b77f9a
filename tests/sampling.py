"""What `make test` plays of tests that take hours as a whole, and `make test-long` plays whole.

A sample is the same in every run. It is spread: every value of every parameter is in it, or first and last
and what lies evenly between. What once failed is never left to a sample: it is a case of its own, or an
explicit example of Hypothesis.

- ``@pytest.mark.long``: only the whole run plays it, for what it costs;
- ``@pytest.mark.sample(most)``: so many of a test's cases, where the parameters have many combinations;
- ``spread(cases, most)``: so many of what a test goes through in a loop, or of one parameter's values;
- ``stride(sample)``: the same where nobody knows before how many there are;
- ``examples(whole)``: how many examples Hypothesis makes.

``POSTROOM_TESTS=whole`` plays everything, with new examples. ``--interpreted-tenth`` keeps a tenth of the
tests, chosen by their ids: it is played interpreted beside the compiled run.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

WHOLE: Final = os.environ.get("POSTROOM_TESTS") == "whole"
EXAMPLES: Final = 100
"""Of a test that names no number."""
PORTION: Final = 5
"""One in so many examples is made in a sample."""
FEWEST: Final = 4
TENTH: Final = 10
TESTS: Final = Path(__file__).resolve().parent
PURE: Final = ("amqp", "channel", "damage", "ledger", "manager", "model", "simulation")
"""Folders whose tests need no socket, no process beside them, and nothing but the broker's libraries."""

Case = TypeVar("Case")


def examples(whole: int = EXAMPLES) -> int:
    """How many of ``whole`` examples this run makes."""
    return whole if WHOLE else min(whole, max(FEWEST, whole // PORTION))


def spread(cases: Sequence[Case], most: int) -> list[Case]:
    """At most so many of the cases, evenly from the first to the last; all of them in the whole run."""
    if WHOLE or len(cases) <= most:
        return list(cases)
    if most == 1:
        return [cases[len(cases) // 2]]
    step = (len(cases) - 1) / (most - 1)
    return [cases[round(number * step)] for number in range(most)]


settings.register_profile(
    "postroom",
    max_examples=examples(),
    deadline=None,  # no test asserts a time
    derandomize=not WHOLE,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("postroom")


def stride(sample: int) -> int:
    """From one case to the next, where only going through them shows how many there are; whole: 1."""
    return 1 if WHOLE else sample


def chosen(items: Sequence[pytest.Item], most: int) -> set[pytest.Item]:
    """At most so many cases of one test, and more only where each value of a parameter needs one.

    In the order of a sum of their ids: first those with a value that no other has, then any.
    """
    kept: list[pytest.Item] = []
    seen: set[tuple[str, str]] = set()
    rest: list[pytest.Item] = []
    for item in sorted(items, key=_sum):
        values = {(name, repr(value)) for name, value in item.callspec.params.items()}  # type: ignore[attr-defined]
        (rest if values <= seen else kept).append(item)
        seen |= values
    return {*kept, *rest[: max(0, most - len(kept))]}


def _sum(item: pytest.Item) -> int:
    return crc32(item.nodeid.encode())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pure", action="store_true", help="only tests without sockets, processes and Spark")
    parser.addoption(
        "--interpreted-tenth",
        action="store_true",
        help="one in ten of the tests, chosen by a sum of their ids",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Folders that aren't pure aren't even imported for ``--pure``."""
    if not config.getoption("--pure") or TESTS not in collection_path.parents:
        return None
    path = collection_path.relative_to(TESTS)
    return (
        None if any(path.is_relative_to(each) or Path(each).is_relative_to(path) for each in PURE) else True
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out: set[pytest.Item] = set()
    if not WHOLE:
        left_out |= {item for item in items if item.get_closest_marker("long")}
        cases: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
        for item in items:
            if (mark := item.get_closest_marker("sample")) is not None:
                cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
        for (_, most), all_cases in cases.items():
            left_out |= {*all_cases} - chosen(all_cases, most)
    if config.getoption("--interpreted-tenth"):
        left_out |= {item for item in items if _sum(item) % TENTH}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
