"""The section `replication`: rates of brokers with copies on three nodes, what the engine itself takes, and
how long a take-over lasts."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from proton.utils import BlockingConnection
from tools.peers import Postroom
from tools.peers.broker import START_LIMIT_S
from tools.peers.nats import NatsCluster
from tools.peers.ports import LOOPBACK

from bench import loadtool, replicated, traffic
from bench.progress import show_progress
from bench.tables import tenths, whole
from postroom.replication.nats_log import NatsLog
from postroom.replication.options import ReplicationOptions

REFERENCE = "RabbitMQ quorum, 3 nodes"
QUEUE = "bench"
SMALL_BYTES, LARGE_BYTES = 1300, 1 << 20
"""An entry with one message of 1 KB, and the largest there is."""
SMALL, LARGE = 500, 100
WINDOWS = (500, 4000, replicated.IN_FLIGHT)
"""Messages in flight, beside the usual number: an answer from several nodes takes longer."""
TAKE_OVERS = 11
FOLLOWING = "following"


def rates(sizes: traffic.Sizes, results: dict[str, traffic.Measured], failures: list[str]) -> None:
    """In, out, both at once, each with several windows, and one message in flight."""
    sizes = replace(sizes, windows=WINDOWS)
    traffic.measure(replicated.CONTENDERS, sizes, {"rates", "latency"}, results, failures)


def engine() -> dict[str, str]:
    """What NATS takes when nothing but the log is there."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, NatsCluster(Path(name)) as cluster:
        options = ReplicationOptions(tuple(cluster.urls), "bench", monitoring=tuple(cluster.monitoring))
        small_us, large_s = asyncio.run(_append(NatsLog(options)))
    marks = statistics.quantiles(small_us, n=100)
    return {
        f"NATS, one entry of {SMALL_BYTES} bytes in flight": (
            f"p50 {whole(marks[49])} µs, p99 {whole(marks[98])} µs"
        ),
        "NATS, entries of 1 MiB one after the other": f"{tenths(LARGE * LARGE_BYTES / large_s / 1e6)} MB/s",
    }


async def _append(log: NatsLog) -> tuple[list[float], float]:
    await log.open()
    try:
        last, small_us = 0, []
        for _ in range(SMALL):
            small = os.urandom(SMALL_BYTES)
            begun = time.perf_counter()
            last = await log.append(last, [small])
            small_us.append((time.perf_counter() - begun) * 1e6)
        large = os.urandom(log.most_bytes)
        begun = time.perf_counter()
        for _ in range(LARGE):
            last = await log.append(last, [large])
        return small_us, time.perf_counter() - begun
    finally:
        await log.close()


def _start_again(member: Postroom) -> None:
    """Returns when it follows."""

    def starts() -> int:
        return member.log.read_text().count(FOLLOWING)

    before = starts()
    member.start(wait=False)
    replicated.wait_until("a member that follows", lambda: starts() > before)


def take_overs(waiting: int, sizes: traffic.Sizes) -> dict[str, str]:
    """From SIGKILL of the active member to the first message from the other, so many waiting."""
    seconds = []
    common: dict[str, object] = {"body_bytes": sizes.body_bytes, "window": sizes.window}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        cluster = stack.enter_context(NatsCluster(folder / "nats"))
        active, other = (replicated.member(folder / name, name, cluster) for name in ("a", "b"))
        for each in (active, other):
            stack.callback(each.kill)
        active.start()
        other.start(wait=False)
        loadtool.run(active, "send", QUEUE, messages=waiting, **common)
        for number in range(TAKE_OVERS):
            show_progress(f"take-over {number + 1} of {TAKE_OVERS}")
            begun = time.perf_counter()
            active.kill()
            other.wait_until_ready()
            connection = BlockingConnection(f"{LOOPBACK}:{other.port}")
            connection.create_receiver(QUEUE, credit=1).receive(timeout=START_LIMIT_S)
            seconds.append(time.perf_counter() - begun)
            connection.close()
            _start_again(active)
            active, other = other, active
    seconds.sort()
    what = f"first message after SIGKILL of the active member, {waiting:,} waiting, {TAKE_OVERS} times"
    middle = seconds[len(seconds) // 2]
    return {what: f"{middle:.1f} s (median; {seconds[0]:.1f} to {seconds[-1]:.1f})"}
