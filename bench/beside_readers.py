"""How long a send waits for its answer while others read the broker's ledger over HTTP.

    python -m bench.beside_readers [--readers 4] [--seconds 10] [--rounds 3] [--messages 200000]

A compiled broker gets some history. Then the C client sends persistent messages of 1 KiB, one in flight,
three times in each round: with nobody beside it; beside so many processes that *follow* the tail, as
pipelines do at their interval; and beside as many that read the *whole* ledger again and again, as fast as
they can, through the same code as Spark's tasks. Each reader has a cache of its own, as on a machine of its
own; but all share this machine's processors with the broker. Prints medians of the rounds.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.peers import Postroom
from tools.peers.ports import LOOPBACK, free_port
from tools.peers.postroom import COMPILED

from bench import loadtool
from bench.progress import show_progress
from postroom.server.http.tokens import TOKENS_NAME, Right, add_token
from postroom.spark.pipeline.options import INTERVAL_MS, PARTITION_RECORDS
from postroom.spark.places.broker import BrokerPlace
from postroom.spark.places.place import Slice
from postroom.spark.places.slices import plan

QUEUE: Final = "bench"
READERS: Final = 4
SECONDS: Final = 10.0
ROUNDS: Final = 3
MESSAGES: Final = 200_000
BODY_BYTES: Final = 1024
WAYS: Final = ("alone", "follow", "whole")
TOKEN: Final = "POSTROOM_BENCH_TOKEN"


# --- a reader, in a process of its own ------------------------------------------------------------


@dataclass
class Read:
    """What came of it."""

    records: int = 0
    rounds: int = 0


def follow(place: BrokerPlace, over: threading.Event) -> Read:
    """Read what is new, at the pipeline's interval."""
    done = Read()
    position = place.snapshot().durable_through
    while not over.wait(INTERVAL_MS / 1000):
        snapshot = place.snapshot()
        for slice in plan(place, snapshot, position + 1, snapshot.durable_through, PARTITION_RECORDS):
            done.records += _records_of(slice, over)
        position = snapshot.durable_through
        done.rounds += 1
    return done


def whole(place: BrokerPlace, cache: Path, over: threading.Event) -> Read:
    """Read all there is, again and again, each time from the broker."""
    done = Read()
    while not over.is_set():
        snapshot = place.snapshot()
        for slice in plan(
            place, snapshot, snapshot.first_position, snapshot.durable_through, PARTITION_RECORDS
        ):
            done.records += _records_of(slice, over)
        shutil.rmtree(cache, ignore_errors=True)
        done.rounds += 1
    return done


def _records_of(slice: Slice, over: threading.Event) -> int:
    if over.is_set():
        return 0
    for _ in slice.place.read(slice):
        if over.is_set():
            return 0
    return slice.last - slice.first + 1


def read(way: str, url: str) -> None:
    """Until standard input ends; then says how many records it has read."""
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        place = BrokerPlace(url, os.environ[TOKEN], str(cache))
        place.snapshot()
        print("begun", flush=True)
        done = follow(place, over) if way == "follow" else whole(place, cache, over)
    print(done.records)


@contextmanager
def reader(way: str, url: str, token: str, counts: list[int]) -> Iterator[None]:
    """A reader beside the body; what it has read is added to `counts`."""
    running = subprocess.Popen(
        [sys.executable, "-m", "bench.beside_readers", "--read", way, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, TOKEN: token},
    )
    assert running.stdout is not None
    running.stdout.readline()
    try:
        yield
    finally:
        output, _ = running.communicate("")
    counts.append(int(output))


# --- the measurement ------------------------------------------------------------------------------


def measure(readers: int, seconds: float, rounds: int, messages: int) -> dict[str, float]:
    """The figures, by name."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        broker = Postroom(Path(name), COMPILED)
        broker.data.mkdir()
        token = add_token(broker.data / TOKENS_NAME, "bench", [Right.LEDGER])
        address = f"{LOOPBACK}:{free_port()}"
        broker.configuration += f'[http]\naddress = "{address}"\nmax_requests_per_s = 10000\n'
        with broker:
            loadtool.run(broker, "both", QUEUE, messages=messages, body_bytes=BODY_BYTES, window=1000)
            for number in range(rounds):
                for way in WAYS:
                    show_progress(f"round {number + 1} of {rounds}: {way}")
                    for key, value in _one(broker, way, address, token, readers, seconds).items():
                        found.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in found.items()}


def _one(
    broker: Postroom, way: str, address: str, token: str, readers: int, seconds: float
) -> dict[str, float]:
    counts: list[int] = []
    with ExitStack() as stack:
        for _ in range(readers if way != "alone" else 0):
            stack.enter_context(reader(way, f"http://{address}", token, counts))
        begun = time.monotonic()
        report = loadtool.run(broker, "ping", QUEUE, messages=0, seconds=seconds, body_bytes=BODY_BYTES)
        lasted_s = time.monotonic() - begun
    figures = {f"{way}_{share}_us": report.latency_us[share] for share in ("p50", "p99")}
    return figures | ({f"{way}_records_per_s": sum(counts) / lasted_s} if counts else {})


def main() -> int:
    """Measure and print."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--readers", type=int, default=READERS)
    command.add_argument("--seconds", type=float, default=SECONDS, help="each measurement lasts so long")
    command.add_argument("--rounds", type=int, default=ROUNDS)
    command.add_argument("--messages", type=int, default=MESSAGES, help="in the history, each three records")
    command.add_argument("--quick", action="store_true", help="one short round over little history")
    command.add_argument("--json", action="store_true", help="one flat JSON object as the last line")
    command.add_argument("--read", nargs=2, metavar=("WAY", "URL"), help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.read:
        read(*options.read)
        return 0
    sizes = (3.0, 1, 20_000) if options.quick else (options.seconds, options.rounds, options.messages)
    report = measure(options.readers, *sizes)
    if options.json:
        print(json.dumps(report))
        return 0
    for key, value in report.items():
        print(f"{key:30} {value:,.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
