"""What tests cost: a plug-in that measures, and ``python -m tests.times`` that prints tables of it.

Processor time is that of the test's own process and of every process below it, living or ended. A phase
(set-up, call, tear-down) is charged with what was used since the phase before it ended, so that a module's or
a session's fixtures stand at the test that began or ended them.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest

from tests.sampling import PURE

TICKS: Final = os.sysconf("SC_CLK_TCK")
SAVED_EVERY_S: Final = 20
INSPECTED_EVERY_S: Final = 1.0
WORKER: Final = "PYTEST_XDIST_WORKER"


def below(pid: int) -> Iterator[int]:
    """All processes below ``pid``."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from below(child)


class Spent:
    """Processor time of this process and all below it. They are looked for now and then only: a Java process
    has hundreds of threads, each of which may have started another."""

    def __init__(self) -> None:
        self._pids: list[int] = []
        self._inspected_s = -INSPECTED_EVERY_S

    def seconds(self) -> float:
        if time.monotonic() - self._inspected_s > INSPECTED_EVERY_S:
            self._pids, self._inspected_s = [*below(os.getpid())], time.monotonic()
        ended = os.times()
        own_s = time.process_time() + ended.children_user + ended.children_system
        return own_s + sum(map(self._of, self._pids))

    @staticmethod
    def _of(pid: int) -> float:
        """Of one of them, and of those that it had and has waited for."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0.0  # it has ended: its parent has its time once it has waited for it
        return sum(map(int, fields[11:15])) / TICKS


@dataclass
class Cost:
    """Of one test; seconds."""

    test: str
    began: float
    """Of the set-up, in seconds of the epoch."""
    worker: str
    outcome: str = "passed"
    wall_s: float = 0.0
    processor_s: float = 0.0
    setup_s: float = 0.0
    """Wall time of set-up and tear-down, which ``wall_s`` has, too."""
    why: str = ""
    """How it failed: a run that is ended before its summary has that, too."""

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


class Times:
    """Measures in a worker, and gathers where the reports arrive."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.costs: dict[str, Cost] = {}
        self._spent = Spent()
        self._last_s = 0.0
        self._began = self._saved = time.time()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Collecting is no test's cost."""
        self._last_s = self._spent.seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        now_s = self._spent.seconds()
        report.processor_s, self._last_s = max(0.0, now_s - self._last_s), now_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        worker = getattr(report, "worker_id", "main")
        cost = self.costs.setdefault(report.nodeid, Cost(report.nodeid, report.start, worker))
        cost.wall_s += report.duration
        cost.processor_s += getattr(report, "processor_s", 0.0)  # unknown where its process has crashed
        if report.when != "call":
            cost.setup_s += report.duration
        if report.outcome != "passed":
            cost.outcome = report.outcome
        if report.failed:
            cost.why += report.longreprtext
        if time.time() - self._saved > SAVED_EVERY_S:
            self.pytest_sessionfinish()

    def pytest_sessionfinish(self) -> None:
        """Now and then before the end, too: a run that is ended has its figures."""
        self._saved = time.time()
        if self.file is not None and WORKER not in os.environ:
            whole = {
                "began": self._began,
                "wall_s": time.time() - self._began,
                "tests": [asdict(cost) for cost in self.costs.values()],
            }
            self.file.write_text(json.dumps(whole))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=Path, help="write what each test costs there, for python -m tests.times")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times(config.getoption("--times")))


# -- the tables


@dataclass
class Row:
    """The costs of tests that are told together; seconds."""

    name: str
    tests: int = 0
    wall_s: float = 0.0
    processor_s: float = 0.0
    setup_s: float = 0.0

    def add(self, cost: Cost) -> None:
        self.tests += 1
        self.wall_s += cost.wall_s
        self.processor_s += cost.processor_s
        self.setup_s += cost.setup_s


def kind(cost: Cost) -> str:
    """Pure, with sockets, or with Spark: by the folder."""
    folder = PurePosixPath(cost.test).parts[1]
    if folder in PURE:
        return "pure"
    return (
        "Spark" if folder == "spark" or "spark" in PurePosixPath(cost.file).name else "sockets and processes"
    )


def folder(cost: Cost) -> str:
    """Of a package, or of what goes through the product as a whole."""
    return "/".join(PurePosixPath(cost.file).parts[:-1][:3])


def rows(costs: Iterable[Cost], name_of: Callable[[Cost], str]) -> list[Row]:
    """By name, the most processor time first."""
    found: dict[str, Row] = {}
    for cost in costs:
        name = name_of(cost)
        found.setdefault(name, Row(name)).add(cost)
    return sorted(found.values(), key=lambda row: -row.processor_s)


def table(title: str, lines: Sequence[Row], most: int) -> Iterator[str]:
    """A table of text with a head; at most so many lines, the rest as one."""
    yield f"{'processor s':>11} {'wall s':>9} {'set-up s':>9} {'tests':>6}  {title}"
    rest = Row(f"{len(lines[most:])} more")
    for row in lines[most:]:
        rest.tests += row.tests
        rest.wall_s += row.wall_s
        rest.processor_s += row.processor_s
        rest.setup_s += row.setup_s
    for row in [*lines[:most], *([rest] if rest.tests else [])]:
        yield f"{row.processor_s:11.1f} {row.wall_s:9.1f} {row.setup_s:9.1f} {row.tests:6}  {row.name}"
    yield ""


def report(run: Mapping[str, Any], most: int) -> Iterator[str]:
    """All tables of a run."""
    costs = [Cost(**each) for each in run["tests"]]
    processes = {cost.worker for cost in costs}
    yield (
        f"{len(costs)} tests in {run['wall_s']:.0f} s, {len(processes)} processes, "
        f"{sum(cost.processor_s for cost in costs):.0f} s of processor time in tests"
    )
    for process in sorted(processes):
        own = [cost for cost in costs if cost.worker == process]
        ended = max(cost.began + cost.wall_s for cost in own) - run["began"]
        began = min(cost.began for cost in own) - run["began"]
        yield f"  {process}: first test after {began:.0f} s, last after {ended:.0f} s"
    yield ""
    for title, name_of in TABLES.items():
        yield from table(title, rows(costs, name_of), most)


TABLES: Final[dict[str, Callable[[Cost], str]]] = {
    "kind": kind,
    "folder": folder,
    "file": lambda cost: cost.file,
    "test, all its cases": lambda cost: cost.test.partition("[")[0],
    "test": lambda cost: cost.test,
}


def main() -> int:
    """Prints the tables of a run; exit code 2 where there is none."""
    parser = argparse.ArgumentParser(prog="python -m tests.times", description=__doc__)
    parser.add_argument("file", type=Path, help="what --times has written")
    parser.add_argument("--most", type=int, default=25, help="lines of a table")
    options = parser.parse_args()
    if not options.file.exists():
        print(f"{options.file} isn't there: `make test` writes it", file=sys.stderr)
        return 2
    print(*report(json.loads(options.file.read_text()), options.most), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
