"""Ten thousand connections, each of which sends and receives.

``python -m bench.crowd`` with PYTHONPATH=build/compiled, or as a section of ``python -m bench``: processes of
clients open 10,000 connections to a real broker on loopback, each with a sender and a receiver of one of 100
queues. Then each sends a durable message a second, for a while (*paced*); and then each sends the next when
the last was accepted (*flat out*). Every message must come, once. The clients need a file descriptor for each
connection, the broker as well: see ``ulimit -n``. ``--quick``: 1,000 connections.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import uvloop
from tools.peers import Postroom
from tools.peers.ports import LOOPBACK

from bench import command, processor
from bench.memory import resident_bytes
from bench.progress import show_progress
from bench.raw_client import RawClient

CONNECTIONS, QUICK_CONNECTIONS = 10_000, 1_000
PROCESSES: Final = 2
QUEUES: Final = 100
BODY_BYTES: Final = 100
SECONDS, QUICK_SECONDS = 30.0, 5.0
AT_ONCE: Final = 200
"""Connections of one process that are being opened at a time."""
SPARE_FILES: Final = 500
SAMPLE: Final = 200_000
"""Latencies of one process and phase that are kept."""
HEARTBEAT_S: Final = 10.0
DRAIN_S: Final = 20.0
LIMITS = """
[limits]
max_connections = 20000
"""


@dataclass
class Phase:
    """What one process saw in one phase."""

    sent: int = 0
    accepted: int = 0
    received: int = 0
    seconds: float = 0.0
    accepted_us: list[int] = field(default_factory=list)
    ages_us: list[int] = field(default_factory=list)


# --- a process of clients --------------------------------------------------------------------------


class Crowd:
    """The connections of one process."""

    def __init__(self, port: int, number: int, count: int) -> None:
        self._port = port
        self._number = number
        self._count = count
        self.clients: list[RawClient] = []
        self._flat_out = False
        self._phase = Phase()
        self._ready: dict[RawClient, asyncio.Event] = {}

    async def open(self) -> None:
        """All of them, some at a time."""
        at_once = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(self._open_one(number, at_once) for number in range(self._count)))

    async def _open_one(self, number: int, at_once: asyncio.Semaphore) -> None:
        queue = f"crowd-{(self._number * self._count + number) % QUEUES}"
        async with at_once:
            client = RawClient(f"crowd-{self._number}-{number}", queue, BODY_BYTES, self._changed)
            ready = self._ready[client] = asyncio.Event()
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: client, LOOPBACK, self._port)
            await asyncio.wait_for(ready.wait(), 60)
            self.clients.append(client)

    def _changed(self, client: RawClient) -> None:
        waits = self._ready.pop(client, None)
        if waits is not None:
            waits.set()
            return
        if len(self._phase.accepted_us) < SAMPLE:
            self._phase.accepted_us.append(client.accepted_us)
        if self._flat_out:
            client.send()

    async def run(self, seconds: float, flat_out: bool) -> Phase:
        """One phase; ends when all that was sent has been accepted, and as much has come."""
        phase = self._phase = Phase()
        before = self._counts()
        for client in self.clients:
            client.ages_us.clear()
        begun = time.monotonic()
        self._flat_out = flat_out
        await asyncio.gather(self._send(begun, seconds, flat_out), self._beat(begun + seconds))
        self._flat_out = False
        phase.seconds = time.monotonic() - begun
        limit = time.monotonic() + DRAIN_S
        while any(client.sent > client.accepted for client in self.clients) and time.monotonic() < limit:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)  # what others have sent last
        phase.sent, phase.accepted, phase.received = (
            now - then for now, then in zip(self._counts(), before, strict=True)
        )
        phase.ages_us = [age for client in self.clients for age in client.ages_us[:SAMPLE]]
        if len(phase.ages_us) > SAMPLE:
            phase.ages_us = random.sample(phase.ages_us, SAMPLE)
        return phase

    async def _send(self, begun: float, seconds: float, flat_out: bool) -> None:
        if flat_out:
            for client in self.clients:
                client.send()
            await asyncio.sleep(seconds)
            return
        for second in range(int(seconds)):
            for place, client in enumerate(self.clients):
                due = begun + second + place / len(self.clients)
                while (left := due - time.monotonic()) > 0:
                    await asyncio.sleep(min(left + 0.001, 0.01))
                if client.sent == client.accepted:
                    client.send()

    async def _beat(self, until: float) -> None:
        while time.monotonic() < until:
            for client in self.clients:
                client.on_time()
            await asyncio.sleep(min(HEARTBEAT_S, max(until - time.monotonic(), 0.01)))

    def _counts(self) -> tuple[int, int, int]:
        sums = [(client.sent, client.accepted, client.received) for client in self.clients]
        sent, accepted, received = (sum(column) for column in zip(*sums, strict=True))
        return sent, accepted, received

    def errors(self) -> list[str]:
        return [client.error for client in self.clients if client.error]


async def _serve(port: int, number: int, count: int) -> None:
    """Do what standard input says, a line at a time, and answer each with a line of JSON."""
    crowd = Crowd(port, number, count)
    loop = asyncio.get_running_loop()
    while line := (await loop.run_in_executor(None, sys.stdin.readline)).split():
        if line[0] == "open":
            await crowd.open()
            gc.collect()
            gc.freeze()
            answer: dict[str, object] = {"opened": len(crowd.clients)}
        else:
            answer = asdict(await crowd.run(float(line[1]), line[0] == "flat"))
        print(json.dumps(answer | {"errors": crowd.errors()[:3]}), flush=True)


# --- the measurement -------------------------------------------------------------------------------


class Clients:
    """The processes, spoken to all at once."""

    def __init__(self, port: int, connections: int) -> None:
        each = connections // PROCESSES
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.crowd", "--serve", str(port), str(number), str(each)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]

    def do(self, line: str) -> list[dict[str, object]]:
        """Have all processes do it; their answers."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
        answers = []
        for process in self._processes:
            assert process.stdout is not None
            answer = json.loads(process.stdout.readline() or '{"errors": ["the process has ended"]}')
            if answer["errors"]:
                raise SystemExit(f"crowd: {answer['errors']}")
            answers.append(answer)
        return answers

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def measure(folder: Path, connections: int, seconds: float) -> dict[str, float]:
    """Every figure by its name."""
    broker = Postroom(folder)
    broker.configuration += LIMITS
    found: dict[str, float] = {"connections": connections, "queues": QUEUES}
    with broker:
        before = resident_bytes(broker)
        clients = Clients(broker.port, connections)
        try:
            show_progress(f"opening {connections:,} connections")
            begun, cpu_s = time.monotonic(), processor.seconds_of(broker)
            clients.do("open")
            found["opened a second, with two links each"] = connections / (time.monotonic() - begun)
            found["broker CPU of one, µs"] = (processor.seconds_of(broker) - cpu_s) / connections * 1_000_000
            found["KB of memory a connection"] = (resident_bytes(broker) - before) / connections / 1000
            for name in ("paced", "flat"):
                show_progress(name)
                _add_phase(found, broker, clients, name, seconds)
            found["KB of memory a connection, after that"] = (
                (resident_bytes(broker) - before) / connections / 1000
            )
        finally:
            clients.close()
    return found


def _add_phase(
    found: dict[str, float], broker: Postroom, clients: Clients, name: str, seconds: float
) -> None:
    cpu_s = processor.seconds_of(broker)
    phases = []
    for answer in clients.do(f"{name} {seconds}"):
        answer.pop("errors")
        phases.append(Phase(**answer))  # type: ignore[arg-type]
    cpu_s = processor.seconds_of(broker) - cpu_s
    sent, received = sum(each.sent for each in phases), sum(each.received for each in phases)
    if sent != received or sent != sum(each.accepted for each in phases):
        raise SystemExit(f"crowd, {name}: {sent} sent, {received} received")
    label = "flat out" if name == "flat" else name
    found[f"{label}, messages a second in and out"] = sent / phases[0].seconds
    found[f"{label}, broker CPU a message, µs"] = cpu_s / sent * 1_000_000
    for what in ("accepted", "received"):
        key = "accepted_us" if what == "accepted" else "ages_us"
        quantiles = statistics.quantiles([us for each in phases for us in getattr(each, key)], n=100)
        found[f"{label}, {what} after, p50 ms"] = quantiles[49] / 1000
        found[f"{label}, {what} after, p99 ms"] = quantiles[98] / 1000


def _require_files(connections: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        sys.exit(f"crowd: {wanted} file descriptors are needed, the limit is {hard} (ulimit -Hn)")
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.crowd", description=__doc__)
    parser.add_argument("--connections", type=int)
    parser.add_argument(
        "--seconds", type=float, help=f"of each phase ({SECONDS:.0f}; quick: {QUICK_SECONDS:.0f})"
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(_serve(*options.serve))
        return
    connections = options.connections or (QUICK_CONNECTIONS if options.quick else CONNECTIONS)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    _require_files(connections)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found = measure(Path(name), connections, seconds)
    command.print_report(found, options.json, 2)


if __name__ == "__main__":
    main()
