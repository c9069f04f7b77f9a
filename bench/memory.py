"""Millions of waiting messages: memory, rates in and out, and the way back after a stop or a kill."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tools.peers import Postroom

from bench import loadtool
from bench.progress import show_progress

BODY_BYTES, ID_BYTES = 100, 36
SAMPLE_S = 0.1
RATE_RUNS = 5
RATE_SHARE = 50
RATE_MOST = 500_000
"""A timed run puts a share of all messages, so many at most."""

DISK_BYTES = 560
"""That a waiting message may take of the disk, with its event and while files are sealed."""

SETTLED_S = 10.0
"""The files of the ledger don't grow or shrink for so long: what goes on beside the broker is done."""
SETTLE_LIMIT_S = 180.0


class NoRoom(Exception):
    """The disk is too small for what was to be measured."""


@dataclass
class Waiting:
    """What was seen; rates in messages a second, sizes in bytes, times in seconds."""

    messages: int
    mixed_priorities: bool = True
    empty_rates: list[float] = field(default_factory=list)
    full_rates: list[float] = field(default_factory=list)
    empty_out_rates: list[float] = field(default_factory=list)
    full_out_rates: list[float] = field(default_factory=list)
    fill_rate: float = 0.0
    peak_filling: int = 0
    before: int = 0
    """RssAnon of the broker before it was filled."""
    settled: int = 0
    """RssAnon when all are there and nothing goes on any more."""
    ledger_bytes: int = 0
    stop_s: float = 0.0
    restarts: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By kind of end: seconds from start of the process to first delivery, and its peak RssAnon in bytes."""

    @property
    def full_over_empty(self) -> float:
        """The rate in of the full queue as a share of that of an empty one."""
        return statistics.median(self.full_rates) / statistics.median(self.empty_rates)

    @property
    def full_over_empty_out(self) -> float:
        """The same of the rate out."""
        return statistics.median(self.full_out_rates) / statistics.median(self.empty_out_rates)

    @property
    def bytes_each(self) -> float:
        """Memory that a waiting message takes."""
        return (self.settled - self.before) / self.messages


class AnonymousMemory:
    """Watches a process' RssAnon in a thread; mapped files, which can be dropped at any time, don't count."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._status = Path(f"/proc/{pid}/status")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._end.wait(SAMPLE_S):
            try:
                text = self._status.read_text()
            except OSError:
                return
            self.peak_bytes = max(self.peak_bytes, anonymous_bytes(text))

    def __enter__(self) -> AnonymousMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def anonymous_bytes(status: str) -> int:
    """RssAnon by the text of /proc/PID/status; 0 where the process is ending."""
    found = [line for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(found[0].split()[1]) * 1024 if found else 0


def measure(messages: int, mixed_priorities: bool = True) -> Waiting:
    """Fills a queue with `messages`, ends the broker both ways, and measures on the way.

    Raises ``NoRoom``.
    """
    seen = Waiting(messages, mixed_priorities)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        if shutil.disk_usage(name).free < messages * DISK_BYTES:
            raise NoRoom(f"{messages:,} waiting messages need {messages * DISK_BYTES >> 30} GiB of disk")
        broker = Postroom(Path(name))
        broker.start_limit_s = 300.0
        broker.start()
        try:
            _fill(broker, seen)
            begun = time.monotonic()
            broker.stop(limit_s=120.0)
            seen.stop_s = time.monotonic() - begun
            seen.restarts["clean stop"] = _restart(broker)
            broker.kill()
            seen.restarts["SIGKILL"] = _restart(broker)
        finally:
            broker.kill()
    return seen


class _Load:
    """Messages of the one kind that all runs use, in and out of a broker's queues."""

    def __init__(self, broker: Postroom, seen: Waiting) -> None:
        self._broker = broker
        self._options: dict[str, object] = {"body_bytes": BODY_BYTES}
        if seen.mixed_priorities:
            self._options["mixed_priorities"] = True
        self._sent = 0

    def send(self, queue: str, messages: int) -> float:
        """Numbered on; returns the rate."""
        first, self._sent = self._sent, self._sent + messages
        counted = {"messages": messages, "first": first, "id_bytes": ID_BYTES}
        return loadtool.run(self._broker, "send", queue, **counted, **self._options).rate

    def receive(self, queue: str, messages: int) -> float:
        """Whatever the queue gives first; returns the rate."""
        return loadtool.run(self._broker, "receive", queue, messages=messages, of=2**32 - 1).rate


def _fill(broker: Postroom, seen: Waiting) -> None:
    share = min(max(seen.messages // RATE_SHARE, 1), RATE_MOST)
    load = _Load(broker, seen)
    load.send("warm", share)
    load.receive("warm", share)
    seen.before = resident_bytes(broker)
    with AnonymousMemory(broker.pid) as memory:
        show_progress(f"filling a queue with {seen.messages:,} messages")
        seen.fill_rate = load.send("full", seen.messages)
        _settle(broker)
        seen.settled = resident_bytes(broker)
        seen.ledger_bytes = _bytes_of(broker)
        show_progress(f"{seen.settled >> 20:,} MiB; rates in and out, beside those of an empty queue")
        for _ in range(RATE_RUNS):
            seen.empty_rates.append(load.send("empty", share))
            seen.full_rates.append(load.send("full", share))
            seen.empty_out_rates.append(load.receive("empty", share))
            seen.full_out_rates.append(load.receive("full", share))
    seen.peak_filling = memory.peak_bytes


def resident_bytes(broker: Postroom) -> int:
    """RssAnon of the broker's process now."""
    return anonymous_bytes(Path(f"/proc/{broker.pid}/status").read_text())


def _bytes_of(broker: Postroom) -> int:
    return sum(path.stat().st_size for path in broker.data.rglob("*") if path.is_file())


def _settle(broker: Postroom) -> None:
    """Until the ledger has sealed and compacted what there is."""
    limit, since = time.monotonic() + SETTLE_LIMIT_S, time.monotonic()
    names: set[str] = set()
    while time.monotonic() < min(limit, since + SETTLED_S):
        time.sleep(1)
        now = {path.name for path in broker.data.iterdir()}
        if now != names:
            names, since = now, time.monotonic()


def _restart(broker: Postroom) -> tuple[float, int]:
    begun = time.monotonic()
    broker.start(wait=False)
    with AnonymousMemory(broker.pid) as memory:
        broker.wait_until_ready()
        loadtool.run(broker, "receive", "full", messages=1, of=2**32 - 1)
        seconds = time.monotonic() - begun
    show_progress(f"first delivery {seconds:.1f} s after the start")
    return seconds, memory.peak_bytes
