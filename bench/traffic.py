"""Rates and latencies of all contenders in interleaved rounds: each starts each broker anew, without data."""

from __future__ import annotations

import subprocess
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.peers import Broker, BrokerFailed

from bench import floor, loadtool, processor
from bench.contenders import Contender, Row
from bench.loadtool import LoadFailed
from bench.progress import show_progress

IDLE_PINGS = 2000
IDLE_AFTER_S = 3.0
"""Nothing is sent for so long before them: what traffic has left to do in a broker's files is done."""
BESIDE_S = 4.0
BESIDE_LEAD_S = 1.0
"""The saturating sender starts this much before the synchronous one, and ends as much later."""


RATES = (("enqueue", "send"), ("dequeue", "receive"), ("both", "both"))
"""Measurements of rates, and the load client's mode for each."""


def of_window(name: str, window: int) -> str:
    """The measurement of that rate with so many messages in flight."""
    return f"{name}_window_{window}"


@dataclass(frozen=True)
class Sizes:
    """How much traffic a run makes."""

    messages: int = 200_000
    """In each timed run of `enqueue`, `dequeue` and `both`."""
    rounds: int = 5
    warm_up_s: float = 4.0
    body_bytes: int = 1024
    window: int = 1000
    windows: tuple[int, ...] = ()
    """Of rates that are measured again, each with so many messages in flight."""


@dataclass
class Measured:
    """What one row has shown: a list by measurement, one value a round."""

    values: dict[str, list[float]] = field(default_factory=dict)
    version: str = ""
    settings: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """One more value of a measurement."""
        self.values.setdefault(name, []).append(value)


def measure(
    contenders: list[Contender],
    sizes: Sizes,
    sections: set[str],
    results: dict[str, Measured],
    failures: list[str],
) -> None:
    """All rounds; fills `results` by row label, the floor among them; a failure ends one contender only."""
    for number in range(1, sizes.rounds + 1):
        _measure_floors(results)
        for contender in contenders:
            show_progress(f"round {number} of {sizes.rounds}: {contender.key}")
            with tempfile.TemporaryDirectory(prefix="bench-") as name:
                try:
                    _measure_contender(contender, Path(name), sizes, sections, results)
                except (LoadFailed, BrokerFailed) as failed:
                    show_progress(f"failed: {failed}")
                    failures.append(f"{contender.key}, round {number}: {failed}")


def _measure_floors(results: dict[str, Measured]) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        found = {
            floor.LABEL: floor.measure(Path(name)),
            floor.ANSWERED: floor.measure_answered(Path(name)),
        }
    for label, each in found.items():
        measured = results.setdefault(label, Measured())
        measured.add("enqueue", each.rate)
        measured.add("ping_p50_us", each.p50_us)
        measured.add("ping_p99_us", each.p99_us)


def _measure_contender(
    contender: Contender, folder: Path, sizes: Sizes, sections: set[str], results: dict[str, Measured]
) -> None:
    sizes = replace(sizes, messages=sizes.messages // contender.share)
    with contender.start(folder) as broker:
        for row in contender.rows:
            measured = results.setdefault(
                row.label, Measured(version=broker.version(), settings=broker.settings())
            )
            traffic = _Traffic(broker, row, sizes, measured)
            traffic.warm_up()
            if "rates" in sections:
                traffic.rates()
                for window in sizes.windows:
                    traffic.rates_of_window(window)
            if "latency" in sections:
                traffic.latency()


class _Traffic:
    """The timed runs of one row in one round."""

    def __init__(self, broker: Broker, row: Row, sizes: Sizes, measured: Measured) -> None:
        self.broker, self.row, self.sizes, self.measured = broker, row, sizes, measured
        self.common: dict[str, object] = {"body_bytes": sizes.body_bytes, "window": sizes.window}

    def warm_up(self) -> None:
        """Just-in-time compilers, caches and files get their time, alike for all."""
        loadtool.run(
            self.broker, "both", self.row.queue, messages=0, seconds=self.sizes.warm_up_s, **self.common
        )

    def rates(self) -> None:
        """In, out, and both at once."""
        for name, mode in RATES:
            used = processor.seconds_of(self.broker)
            report = loadtool.run(
                self.broker, mode, self.row.queue, messages=self.sizes.messages, **self.common
            )
            used = processor.seconds_of(self.broker) - used
            self.measured.add(name, report.rate)
            self.measured.add(f"{name}_cpu_us", used * 1e6 / self.sizes.messages)

    def rates_of_window(self, window: int) -> None:
        """The same with so many messages unanswered, or so much credit."""
        sizes: dict[str, object] = {**self.common, "window": window, "credit": window}
        for name, mode in RATES:
            report = loadtool.run(self.broker, mode, self.row.queue, messages=self.sizes.messages, **sizes)
            self.measured.add(of_window(name, window), report.rate)

    def latency(self) -> None:
        """One message in flight on an idle broker, then beside a saturating sender to another queue."""
        time.sleep(IDLE_AFTER_S)
        self._ping("ping", messages=IDLE_PINGS)
        seconds = BESIDE_S + 2 * BESIDE_LEAD_S
        flood = loadtool.start(
            self.broker, "send", self.row.beside, messages=0, seconds=seconds, **self.common
        )
        try:
            self._wait_for_flood(flood)
            self._ping("beside", messages=0, seconds=BESIDE_S)
            output, errors = flood.communicate()
        finally:
            flood.kill()
        self.measured.add("beside_flood_rate", loadtool.read_report(output, errors).rate)

    def _wait_for_flood(self, flood: subprocess.Popen[str]) -> None:
        try:
            flood.wait(BESIDE_LEAD_S)
        except subprocess.TimeoutExpired:
            return
        loadtool.read_report(*flood.communicate())

    def _ping(self, name: str, **limits: object) -> None:
        report = loadtool.run(self.broker, "ping", self.row.queue, body_bytes=self.sizes.body_bytes, **limits)
        self.measured.add(f"{name}_p50_us", report.latency_us["p50"])
        self.measured.add(f"{name}_p99_us", report.latency_us["p99"])
