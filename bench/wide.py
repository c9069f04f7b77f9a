"""A hundred thousand queues: what they hold in memory, how long a start takes, how long an attach.

``python -m bench.wide`` with PYTHONPATH=build/compiled, or as a section of ``python -m bench``: queues are
created through the management node of a real broker, and each gets a durable message. Then the broker is
stopped, started, killed and started: the time is from the start of the process to the first delivery.
An attach is measured by the Python client, from its call to the broker's answer, the link to one queue out of
all; links stay attached while more are. ``--quick``: 5,000 queues.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import uvloop
from tools.peers import Postroom
from tools.peers.ports import LOOPBACK

from bench import command, loadtool
from bench.memory import AnonymousMemory, resident_bytes
from bench.progress import show_progress
from postroom.client import Message
from postroom.client.aio import Connection, ConnectionFactory

QUEUES, QUICK_QUEUES = 100_000, 5_000
KIND: Final = "postroom.queue"
REQUESTERS: Final = 64
SENDERS: Final = 8
BODY: Final = bytes(100)
SESSIONS: Final = 4
ATTACHES: Final = 1_000
"""In each session; senders and receivers in turns."""
SETTLE_S: Final = 3.0


class Wide:
    """One broker with very many queues, and what was seen of it."""

    def __init__(self, broker: Postroom, queues: int) -> None:
        self._broker = broker
        self._queues = queues
        self.found: dict[str, float] = {"queues": queues}

    def measure(self) -> None:
        """Everything."""
        before = resident_bytes(self._broker)
        self.found["memory before, MB"] = before / 1e6
        show_progress(f"creating {self._queues:,} queues")
        with AnonymousMemory(self._broker.pid) as memory:
            begun = time.monotonic()
            uvloop.run(self._connected(self._create))
            self.found["created a second"] = self._queues / (time.monotonic() - begun)
            time.sleep(SETTLE_S)
            self.found["memory with empty queues, MB"] = resident_bytes(self._broker) / 1e6
            self.found["bytes of memory a queue"] = (resident_bytes(self._broker) - before) / self._queues
            uvloop.run(self._connected(self._fill))
            time.sleep(SETTLE_S)
        self.found["memory with a message in each, MB"] = resident_bytes(self._broker) / 1e6
        self.found["most memory, MB"] = memory.peak_bytes / 1e6
        self._attach("after creation")
        begun = time.monotonic()
        self._broker.stop(limit_s=60)
        self.found["clean stop, s"] = time.monotonic() - begun
        self._start("clean stop")
        self._attach("after a start")
        self._broker.kill()
        self._start("SIGKILL")

    def _start(self, ended: str) -> None:
        begun = time.monotonic()
        self._broker.start(wait=False)
        with AnonymousMemory(self._broker.pid) as memory:
            self._broker.wait_until_ready()
            loadtool.run(self._broker, "receive", f"first-{ended[0]}", messages=1)
            seconds = time.monotonic() - begun
            time.sleep(SETTLE_S)
        show_progress(f"first delivery {seconds:.1f} s after the start, after {ended}")
        self.found[f"start to first delivery after {ended}, s"] = seconds
        self.found[f"most memory of the start after {ended}, MB"] = memory.peak_bytes / 1e6

    def _attach(self, when: str) -> None:
        show_progress(f"attaching {when}")
        for what, took in uvloop.run(self._connected(self._attach_all)):
            quantiles = statistics.quantiles(took, n=100)
            self.found[f"attach of a {what}, {when}, p50 ms"] = quantiles[49] * 1000
            self.found[f"attach of a {what}, {when}, p99 ms"] = quantiles[98] * 1000

    async def _connected(self, action: Callable[[Connection], Awaitable[Any]]) -> Any:
        factory = ConnectionFactory(f"amqp://{LOOPBACK}:{self._broker.port}")
        async with await factory.create_connection() as connection:
            return await action(connection)

    async def _create(self, connection: Connection) -> None:
        names = iter(self._names())

        async def some() -> None:
            management = await connection.create_management()
            for name in names:
                await management.create(KIND, name)

        await asyncio.gather(*(some() for _ in range(REQUESTERS)))

    async def _fill(self, connection: Connection) -> None:
        names = iter(self._names())

        async def some() -> None:
            producer = await (await connection.create_session()).create_producer()
            while batch := list(itertools.islice(names, 64)):
                await asyncio.gather(*(producer.send(Message(BODY), destination=name) for name in batch))

        await asyncio.gather(*(some() for _ in range(SENDERS)))

    async def _attach_all(self, connection: Connection) -> list[tuple[str, list[float]]]:
        producers: list[float] = []
        consumers: list[float] = []
        for _ in range(SESSIONS):
            names = random.sample(list(self._names()), min(ATTACHES, self._queues))
            session = await connection.create_session()
            producers += await _timed(session.create_producer, names[::2])
            consumers += await _timed(session.create_consumer, names[1::2])
        return [("sender", producers), ("receiver", consumers)]

    def _names(self) -> Iterable[str]:
        return (f"orders.{number % 1000}.{number}" for number in range(self._queues))


async def _timed(attach: Callable[[str], Awaitable[object]], names: list[str]) -> list[float]:
    """How long each took; none before the last was answered."""
    took: list[float] = []
    kept: list[object] = []
    gc.collect()
    gc.disable()
    for name in names:
        begun = time.perf_counter()
        kept.append(await attach(name))
        took.append(time.perf_counter() - begun)
    gc.enable()
    return took


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m bench.wide", description=__doc__)
    parser.add_argument("--queues", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    queues = options.queues or (QUICK_QUEUES if options.quick else QUEUES)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        broker = Postroom(Path(name))
        broker.start_limit_s = 300.0
        broker.start()
        try:
            for ended in ("c", "S"):  # what the first delivery after each start is of
                loadtool.run(broker, "send", f"first-{ended}", messages=1)
            wide = Wide(broker, queues)
            wide.measure()
            broker.stop(limit_s=60)
        finally:
            broker.kill()
    command.print_report(wide.found, options.json, 2)


if __name__ == "__main__":
    main()
