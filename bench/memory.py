"""Millions of waiting messages: resident memory, rate of puts, and the way back after a stop or a kill."""

from __future__ import annotations

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
"""A timed run puts this share of all messages: 200,000 of ten million."""


@dataclass
class Waiting:
    """What was seen; rates in messages a second, sizes in bytes, times in seconds."""

    messages: int
    empty_rates: list[float] = field(default_factory=list)
    full_rates: list[float] = field(default_factory=list)
    fill_rate: float = 0.0
    peak_filling: int = 0
    ledger_bytes: int = 0
    stop_s: float = 0.0
    restarts: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By kind of end: seconds from start of the process to first delivery, and its peak RssAnon in bytes."""

    @property
    def full_over_empty(self) -> float:
        """The rate on the full queue as a share of that on an empty one."""
        return statistics.median(self.full_rates) / statistics.median(self.empty_rates)


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
            found = [line for line in text.splitlines() if line.startswith("RssAnon:")]
            if found:
                self.peak_bytes = max(self.peak_bytes, int(found[0].split()[1]) * 1024)

    def __enter__(self) -> AnonymousMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def measure(messages: int) -> Waiting:
    """Fills a queue with `messages`, ends the broker both ways, and measures on the way."""
    seen = Waiting(messages)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
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


def _send(broker: Postroom, queue: str, messages: int, first: int = 0) -> float:
    report = loadtool.run(
        broker,
        "send",
        queue,
        messages=messages,
        first=first,
        body_bytes=BODY_BYTES,
        id_bytes=ID_BYTES,
        mixed_priorities=True,
    )
    return report.rate


def _fill(broker: Postroom, seen: Waiting) -> None:
    share = max(seen.messages // RATE_SHARE, 1)
    with AnonymousMemory(broker.pid) as memory:
        seen.empty_rates = [_send(broker, f"empty-{run}", share) for run in range(RATE_RUNS)]
        show_progress(f"filling a queue with {seen.messages:,} messages")
        seen.fill_rate = _send(broker, "full", seen.messages)
        firsts = [seen.messages + run * share for run in range(RATE_RUNS)]
        seen.full_rates = [_send(broker, "full", share, first) for first in firsts]
    seen.peak_filling = memory.peak_bytes
    seen.ledger_bytes = sum(path.stat().st_size for path in broker.data.rglob("*") if path.is_file())


def _restart(broker: Postroom) -> tuple[float, int]:
    begun = time.monotonic()
    broker.start(wait=False)
    with AnonymousMemory(broker.pid) as memory:
        broker.wait_until_ready()
        loadtool.run(broker, "receive", "full", messages=1, of=2**32 - 1)
        seconds = time.monotonic() - begun
    show_progress(f"first delivery {seconds:.1f} s after the start")
    return seconds, memory.peak_bytes
