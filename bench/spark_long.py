"""The long runs of the pipeline: whether it keeps its speed, and how soon a table has an event.

    python -m bench.spark_long [--parts speed,freshness] [--full-s 1200] [--fresh-s 120] [--commits 7200]

*speed*: the pipeline runs continuously with all tables while a process writes sealed files of the workload
always a few ahead of it, and removes those that were read. Rates of the first and the last tenth of the time.
*freshness*: a process writes 20,000 events a second to a real ledger. Before that the same tables get as many
commits as an hour has at the pipeline's interval: real batches of a few events each, through the same code
without Spark, with a clock that goes on by one interval a batch (so that settling, compaction and vacuum come
as often as in an hour), and without syncs. Then the pipeline runs, and each table's own log tells when it had
each block's last event.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.command import add_arguments, print_report, scratch
from bench.progress import show_progress
from bench.spark import Report, attempt, session, tree_bytes
from postroom.spark.pipeline.batches import BatchDone
from postroom.spark.pipeline.engine import HereEngine
from postroom.spark.pipeline.operations.run import Stop, run
from postroom.spark.pipeline.options import INTERVAL_MS, PipelineOptions
from postroom.spark.pipeline.pipeline import Pipeline
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import settled_options
from postroom.spark.pipeline.slice_files import write_slice
from postroom.spark.places.slices import plan
from postroom.spark.tables import DEFINITIONS

FULL_S: Final = 1200.0
FRESH_S: Final = 120.0
WARM_UP_S: Final = 10.0
COMMITS: Final = 3600 * 1000 // INTERVAL_MS
"""As many as an hour has."""
EVENTS_A_COMMIT: Final = 30
RATE: Final = 20_000
FILES_AHEAD: Final = 12
"""Of half a million events each: three batches."""
TENTH: Final = 10
FIRST_BATCHES: Final = 10
"""That are told of; later ones only if something was done to the tables."""
LEAST_FREE_BYTES: Final = 6 << 30
PARTS: Final = ("speed", "freshness")


@contextmanager
def process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A program of the bench beside this one, told what to do on its input; ended at the end."""
    command = [sys.executable, "-m", *arguments]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        if running.stdin is not None:
            running.stdin.close()
        running.wait()


def request(running: "subprocess.Popen[str]", words: str) -> str:
    """Tell the program something and wait for its answer."""
    assert running.stdin is not None and running.stdout is not None
    running.stdin.write(words + "\n")
    running.stdin.flush()
    return running.stdout.readline().strip()


class Running:
    """A continuous pipeline in a thread, with what each batch took and when."""

    def __init__(self, scratch: Path, options: PipelineOptions) -> None:
        self._scratch: Final = scratch
        self._options: Final = options
        self._stop: Final = Stop()
        self._begun: Final = threading.Event()
        self.error: Exception | None = None
        self.batches: Final[list[tuple[float, float, int]]] = []
        """(began, ended, events), in seconds of the monotonic clock."""
        self.position = 0
        self._thread: Final = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            with session(self._scratch, is_short=True) as spark:
                run(spark, self._options, (self,), self._stop)
        except Exception as error:
            self.error = error
        finally:
            self._begun.set()

    def begun(self, pipeline: Pipeline) -> None:
        """See `run.Watcher`."""
        self._begun.set()

    def batch(self, pipeline: Pipeline, done: BatchDone) -> None:
        """See `run.Watcher`."""
        ended = time.monotonic()
        self.batches.append((ended - done.seconds, ended, done.rows))
        self.position = max(one.last for one in done.ranges)
        if done.upkeep or len(self.batches) <= FIRST_BATCHES:
            show_progress(f"batch of {done.rows:,} in {done.seconds:.2f} s {', '.join(done.upkeep)}")

    def __enter__(self) -> "Running":
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.request()
        self._thread.join()
        if self.error is not None:
            raise self.error


# --- speed ----------------------------------------------------------------------------------------


def speed(scratch: Path, full_s: float) -> Report:
    """The pipeline at full speed for so long."""
    folder, tables = scratch / "speed-ledger", scratch / "speed-tables"
    with process("bench.spark_writer", "files", str(folder)) as feeder:
        ends = [int(request(feeder, "more")) for _ in range(FILES_AHEAD)]
        with Running(scratch, PipelineOptions((str(folder),), str(tables), continuous=True)) as running:
            while not running.batches and running.error is None:
                time.sleep(0.1)
            begin = time.monotonic()
            minutes_shown = 0
            while time.monotonic() - begin < full_s and running.error is None:
                if ends[-FILES_AHEAD] <= running.position:
                    ends.append(int(request(feeder, f"more {running.position}")))
                else:
                    time.sleep(0.02)
                if (time.monotonic() - begin) // 60 > minutes_shown:
                    minutes_shown += 1
                    show_progress(f"{minutes_shown} min: position {running.position:,}")
                    if shutil.disk_usage(scratch).free < LEAST_FREE_BYTES:
                        show_progress("the disk is nearly full: the run ends early")
                        break
            end = time.monotonic()
    rates = tenths(running.batches, begin, end)
    report = {
        "speed_s": end - begin,
        "speed_events": float(running.position),
        "speed_first_tenth_events_per_s": rates[0],
        "speed_last_tenth_events_per_s": rates[-1],
        "speed_slowest_tenth_events_per_s": min(rates),
        "speed_last_over_first": rates[-1] / rates[0],
        "speed_table_bytes_per_event": tree_bytes(tables) / running.position,
    }
    shutil.rmtree(folder)
    shutil.rmtree(tables)
    return report


def tenths(batches: list[tuple[float, float, int]], begin: float, end: float) -> list[float]:
    """Events per second in each tenth of the time: a batch counts evenly from the end of the one before."""
    width = (end - begin) / TENTH
    events = [0.0] * TENTH
    before = begin
    for _, ended, rows in batches:
        if ended <= begin:
            continue
        for tenth in range(TENTH):
            low, high = begin + tenth * width, begin + (tenth + 1) * width
            overlap = max(0.0, min(ended, high) - max(before, low))
            events[tenth] += rows * overlap / (ended - before)
        before = ended
    return [some / width for some in events]


# --- freshness ------------------------------------------------------------------------------------


class Steps:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def no_syncs() -> Iterator[None]:
    """What is written meanwhile is not made durable."""
    real = os.fsync
    os.fsync = lambda fd: None
    try:
        yield
    finally:
        os.fsync = real


def an_hour(options: PipelineOptions, commits: int) -> None:
    """So many batches, all that there is of the ledger, each with its commits and what comes between
    batches."""
    clock = Steps()
    pipeline = Pipeline(settled_options(Root(options.tables), options), HereEngine(), clock)
    pipeline.refresh()
    seen = next(iter(pipeline.seen.values()))
    snapshot = seen.snapshot
    step = (snapshot.durable_through - snapshot.first_position + 1) // commits
    for number in range(commits):
        first = snapshot.first_position + number * step
        last = first + step - 1 if number + 1 < commits else snapshot.durable_through
        job = pipeline.job()
        pipeline.take(
            [write_slice(one, job) for one in plan(seen.place, snapshot, first, last, 1 << 30)], 0.0
        )
        clock.now_s += options.interval_ms / 1000
        if number % 500 == 499:
            show_progress(f"{number + 1} commits of {commits}")


def freshness(scratch: Path, fresh_s: float, commits: int) -> Report:
    """How old events are when each table has them."""
    folder, tables, blocks = scratch / "fresh-ledger", scratch / "fresh-tables", scratch / "blocks"
    options = PipelineOptions((str(folder),), str(tables), continuous=True)
    with process("bench.spark_writer", "live", str(folder), str(blocks)) as writer:
        request(writer, f"at once {commits * EVENTS_A_COMMIT}")
        start = time.monotonic()
        with no_syncs():
            an_hour(options, commits)
        prepared_s = time.monotonic() - start
        logged = min(commits_of(tables, name) for name in of_events())
        show_progress(f"{logged} commits and more in each table's log, made in {prepared_s:.0f} s")
        with Running(scratch, options) as running:
            request(writer, f"rate {RATE}")
            time.sleep(WARM_UP_S)
            from_us = time.time_ns() // 1000
            time.sleep(fresh_s)
            upto_us = time.time_ns() // 1000
            time.sleep(WARM_UP_S)
            if running.error is None:
                request(writer, "stop")
    written = [
        (at_us, position)
        for at_us, position in map(_numbers, blocks.read_text().splitlines())
        if from_us <= at_us <= upto_us
    ]
    report: Report = {
        "freshness_commits_before": float(logged),
        "freshness_events_per_s": (written[-1][1] - written[0][1]) * 1e6 / (written[-1][0] - written[0][0]),
    }
    ages = {name: sorted(ages_s(tables, name, written)) for name in of_events()}
    every = max(ages.values(), key=lambda some: some[len(some) * 99 // 100])
    for share, name in ((50, "p50"), (99, "p99")):
        report[f"freshness_entries_{name}_s"] = ages["entries"][len(every) * share // 100]
        report[f"freshness_slowest_table_{name}_s"] = every[len(every) * share // 100]
    seconds = [end - begun for begun, end, _ in running.batches]
    report["freshness_batch_median_s"] = statistics.median(seconds)
    return report


def of_events() -> list[str]:
    """The tables that are made from the ledger itself."""
    return [name for name, one in DEFINITIONS.items() if one.source == "events"]


def _numbers(line: str) -> tuple[int, int]:
    at_us, position = line.split()
    return int(at_us), int(position)


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table: what it reaches to, and when it was there."""

    position: int
    at_us: int


def log_of(tables: Path, name: str) -> Iterator[Commit]:
    """The commits of a Delta table in order, from its own log."""
    for file in sorted((tables / name / "_delta_log").glob("*.json")):
        for line in file.read_text().splitlines():
            info = json.loads(line).get("commitInfo")
            if info is not None and "postroom" in info:
                state = json.loads(info["postroom"])
                position = max((at["position"] for at in state["positions"].values()), default=0)
                yield Commit(position, state["updated_us"])


def commits_of(tables: Path, name: str) -> int:
    """How many versions a table has had."""
    return 1 + max(int(file.stem) for file in (tables / name / "_delta_log").glob("*.json"))


def ages_s(tables: Path, name: str, written: list[tuple[int, int]]) -> list[float]:
    """For each block: from its time to the first commit that has all of it."""
    commits = list(log_of(tables, name))
    positions = [one.position for one in commits]
    found = []
    for at_us, position in written:
        index = bisect_left(positions, position)
        if index == len(commits):
            raise RuntimeError(f"table {name} has no commit that reaches to position {position}")
        found.append((commits[index].at_us - at_us) / 1e6)
    return found


# --- all ------------------------------------------------------------------------------------------


def measure(scratch: Path, options: argparse.Namespace) -> Report:
    """The figures of the chosen parts."""
    works: dict[str, Callable[[], Report]] = {
        "speed": lambda: speed(scratch, options.full_s),
        "freshness": lambda: freshness(scratch, options.fresh_s, options.commits),
    }
    report: Report = {}
    for part in options.parts.split(","):
        attempt(part, partial(_into, report, works[part]), report)
    return report


def _into(report: Report, work: Callable[[], Report]) -> None:
    report.update(work())


def main() -> int:
    """Measure and print."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--parts", default=",".join(PARTS))
    command.add_argument("--full-s", type=float, default=FULL_S, help="how long the run at full speed lasts")
    command.add_argument("--fresh-s", type=float, default=FRESH_S, help="how long freshness is looked at")
    command.add_argument("--commits", type=int, default=COMMITS, help="made before freshness is looked at")
    add_arguments(command)
    options = command.parse_args()
    with scratch(options.folder) as folder:
        report = measure(folder, options)
    print_report(report, options.json, 3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
