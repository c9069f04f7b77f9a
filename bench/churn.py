"""Everything that comes and goes at a broker, all at once, at full speed, for minutes or hours.

``python -m bench.churn --minutes 60`` with PYTHONPATH=build/compiled, or as a section of ``python -m bench``:
connections, attaches, queues, transactions, rollbacks, selectors, expiries, dead letters, subscriptions, and
plain traffic, each in a loop of two client processes (`bench.churn_clients`). What was done is counted by
tenths of the time; at the end of each the broker's memory, its file descriptors and its files are looked at.
History is bounded to 128 MiB, so that the files are as many as they will be after a while. A step that fails,
or whose message doesn't come within 20 s, ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import uvloop
from tools.peers import Postroom

from bench import command, processor
from bench.churn_clients import DEAD, Churn
from bench.memory import resident_bytes
from bench.progress import show_progress

PROCESSES: Final = 2
MINUTES, QUICK_MINUTES = 60.0, 1.0
WARM_UP_S: Final = 10.0
TENTHS: Final = 10
CONFIGURATION: Final = """
[ledger]
journal_file_bytes = 33554432
retention_bytes = 134217728
acts_retention_bytes = 16777216

[queue_defaults]
redelivery_delay_ms = -1

"""


def configuration() -> str:
    """A history that is full soon, and queues whose dead letters are their client's own."""
    queues = [
        f'[[queue]]\nname = "churn.dying.{number}"\ndead_letter_queue = "{DEAD}.{number}"\n\n'
        for number in range(PROCESSES)
    ]
    return CONFIGURATION + "".join(queues)


# --- a process of clients --------------------------------------------------------------------------


async def _churn(port: int, number: int) -> None:
    """Until standard input ends; each line of it is answered with the counts until now, as JSON."""
    churn = Churn(port, number)
    counts = dict.fromkeys(churn.kinds, 0)
    over = asyncio.Event()
    running = asyncio.create_task(churn.run(over, counts))
    loop = asyncio.get_running_loop()
    while not running.done():
        line = loop.run_in_executor(None, sys.stdin.readline)
        await asyncio.wait([running, line], return_when=asyncio.FIRST_COMPLETED)
        if not line.done() or not line.result():
            break
        print(json.dumps(counts), flush=True)
    over.set()
    try:
        await running
    except Exception as error:
        print(f"churn: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


# --- the measurement -------------------------------------------------------------------------------


class Clients:
    """The processes of clients."""

    def __init__(self, port: int) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.churn", "--serve", str(port), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]

    def counts(self) -> Counter[str]:
        """What all have done until now."""
        done: Counter[str] = Counter()
        for process in self._processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            done.update(json.loads(process.stdout.readline() or "{}"))
        if not done:
            raise SystemExit("churn: the clients have ended")
        return done

    def end(self) -> None:
        """Have them end in order; raises SystemExit where one doesn't."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            if process.wait(60) != 0:
                raise SystemExit("churn: a client has failed")

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class Tenth:
    """What happened in a tenth of the time, and how the broker was at its end."""

    def __init__(self, broker: Postroom, done: Counter[str], seconds: float, cpu_s: float) -> None:
        self.done = done
        self.rate = sum(done.values()) / seconds
        self.cpu_us = cpu_s / sum(done.values()) * 1_000_000
        self.memory = resident_bytes(broker)
        self.descriptors = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
        sizes = [path.stat().st_size for path in broker.data.rglob("*") if path.is_file()]
        self.files, self.file_bytes = len(sizes), sum(sizes)

    def show(self, number: int) -> None:
        """A line for people."""
        show_progress(
            f"tenth {number}: {self.rate:,.0f} steps a second, {self.cpu_us:,.0f} µs of the broker each, "
            f"{self.memory / 1e6:,.0f} MB of memory, {self.descriptors} descriptors, {self.files} files of "
            f"{self.file_bytes / 1e6:,.0f} MB"
        )


def measure(folder: Path, minutes: float) -> dict[str, float]:
    """Every figure by its name."""
    broker = Postroom(folder)
    broker.configuration += configuration()
    tenths: list[Tenth] = []
    with broker:
        clients = Clients(broker.port)
        try:
            time.sleep(WARM_UP_S)
            done, at, cpu_s = clients.counts(), time.monotonic(), processor.seconds_of(broker)
            begun = at
            for number in range(1, TENTHS + 1):
                time.sleep(max(begun + number * minutes * 60 / TENTHS - time.monotonic(), 0))
                before = done, at, cpu_s
                done, at, cpu_s = clients.counts(), time.monotonic(), processor.seconds_of(broker)
                tenths.append(Tenth(broker, done - before[0], at - before[1], cpu_s - before[2]))
                tenths[-1].show(number)
            clients.end()
        finally:
            clients.kill()
    return _report(minutes, tenths)


def _report(minutes: float, tenths: list[Tenth]) -> dict[str, float]:
    first, last = tenths[0], tenths[-1]
    found: dict[str, float] = {"minutes": minutes}
    for name in first.done:
        found[f"{name}, a second"] = sum(each.done[name] for each in tenths) / (minutes * 60)
    found["steps a second, first tenth"] = first.rate
    found["steps a second, last tenth"] = last.rate
    found["last / first"] = last.rate / first.rate
    found["least of all tenths / first"] = min(each.rate for each in tenths) / first.rate
    for when, tenth in (("first", first), ("last", last)):
        found[f"broker CPU a step, {when} tenth, µs"] = tenth.cpu_us
        found[f"memory after the {when} tenth, MB"] = tenth.memory / 1e6
        found[f"file descriptors after the {when} tenth"] = tenth.descriptors
        found[f"files after the {when} tenth"] = tenth.files
        found[f"bytes of files after the {when} tenth, MB"] = tenth.file_bytes / 1e6
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.churn", description=__doc__)
    parser.add_argument("--minutes", type=float, help=f"without warm-up ({MINUTES:.0f}; quick: 1)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(_churn(*options.serve))
        return
    minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found = measure(Path(name), minutes)
    command.print_report(found, options.json, 2)


if __name__ == "__main__":
    main()
