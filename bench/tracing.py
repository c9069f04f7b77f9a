"""What tracing costs: rates with and without it, in turns.

    python -m bench.tracing [--messages 200000] [--rounds 5]

Compiled brokers on a disk, and the C client sends and receives persistent messages of 1 KiB at once: without
the table ``[tracing]``; with it and messages that have no context; with contexts of which no, or one of a
hundred, or each is sampled. The collector is a process beside them that reads spans and forgets them. Prints
the median rate of each, and the processor time that its broker took for a message.
"""

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from tools.peers import Postroom
from tools.peers.ports import LOOPBACK, free_port
from tools.peers.postroom import COMPILED

from bench import loadtool
from bench.progress import show_progress

QUEUE: Final = "bench"
MESSAGES: Final = 200_000
ROUNDS: Final = 5
WAYS: Final[dict[str, tuple[bool, int]]] = {
    "off": (False, 0),
    "on, no contexts": (True, 0),
    "off, contexts": (False, 1_000_000_000),
    "on, none sampled": (True, 1_000_000_000),
    "on, 1 % sampled": (True, 100),
    "on, 10 % sampled": (True, 10),
}
"""Whether the broker traces, and of how many contexts one is sampled; 0: messages have none."""


class Collector(BaseHTTPRequestHandler):
    """Takes everything."""

    def do_POST(self) -> None:
        gzip.decompress(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """It says nothing."""


@contextmanager
def collector(port: int) -> Iterator[None]:
    """One in a process of its own."""
    with subprocess.Popen([sys.executable, "-m", "bench.tracing", "--collect", str(port)]) as running:
        try:
            yield
        finally:
            running.terminate()


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(way: str, messages: int, port: int) -> tuple[float, float]:
    """Messages a second, and µs of the broker's processor time for each."""
    traces, one_in = WAYS[way]
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        broker = Postroom(Path(name), COMPILED)
        if traces:
            broker.configuration += f'[tracing]\nendpoint = "http://{LOOPBACK}:{port}/v1/traces"\n'
        with broker:
            loadtool.run(broker, "both", QUEUE, messages=20_000, sampled_one_in=one_in)
            assert broker.process is not None
            before_s = processor_s(broker.process.pid)
            report = loadtool.run(broker, "both", QUEUE, messages=messages, sampled_one_in=one_in)
            return report.rate, (processor_s(broker.process.pid) - before_s) / messages * 1e6


def main() -> int:
    """Measure and print."""
    command = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.add_argument("--messages", type=int, default=MESSAGES, help="in each run")
    command.add_argument("--rounds", type=int, default=ROUNDS)
    command.add_argument("--collect", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.collect:
        ThreadingHTTPServer((LOOPBACK, options.collect), Collector).serve_forever()
    port = free_port()
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with collector(port):
        for number in range(options.rounds):
            for way in WAYS:
                show_progress(f"round {number + 1} of {options.rounds}: {way}")
                found[way].append(measure(way, options.messages, port))
    for way, runs in found.items():
        rate, cost_us = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"{way:20} {rate:>10,.0f} a second {cost_us:8.2f} µs of processor each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
