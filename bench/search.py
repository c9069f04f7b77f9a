"""The best settings found for RabbitMQ: a small search over a stated list, its outcome kept as data.

``python -m bench --search-rabbitmq`` measures each of `CANDIDATES` by itself, then, for each kind of queue,
all that helped together, in interleaved rounds. A candidate's score in a round is the geometric mean of its
rates (in, out, both at once) over those of the defaults in that round; the best is the one with the highest
median score. Settings that give up a guarantee (no sync, no checksums, bodies in memory alone) are not tried.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.peers import BrokerFailed, RabbitMQ
from tools.peers.broker import ROOT
from tools.peers.rabbitmq import CLASSIC, QUORUM, QueueArguments

from bench import loadtool, machine
from bench.loadtool import LoadFailed
from bench.progress import show_progress

FOUND = ROOT / "bench/rabbitmq_best.json"
KINDS = (QUORUM, CLASSIC)
MODES = {"enqueue": "send", "dequeue": "receive", "both": "both"}
WARM_UP_S = 1.0
BODY_BYTES, WINDOW = 1024, 1000
HELPS = 1.02
"""From this score on a setting is taken into the combination."""


@dataclass(frozen=True)
class Settings:
    """What differs from RabbitMQ's defaults, and for which kinds of queue it matters."""

    name: str
    config: dict[str, str] = field(default_factory=dict)
    """Lines of rabbitmq.conf."""
    advanced: dict[str, str] = field(default_factory=dict)
    """Erlang terms of the application's environment."""
    erlang: str = ""
    """Options of the virtual machine."""
    kinds: tuple[str, ...] = KINDS

    def together(self, other: Settings) -> Settings:
        """Both."""
        return Settings(
            f"{self.name} + {other.name}",
            {**self.config, **other.config},
            {**self.advanced, **other.advanced},
            f"{self.erlang} {other.erlang}".strip(),
            tuple(kind for kind in self.kinds if kind in other.kinds),
        )

    def clashes(self, other: Settings) -> bool:
        """Whether both set the same thing."""
        return bool(self.config.keys() & other.config.keys() or self.advanced.keys() & other.advanced.keys())

    def broker(self, folder: Path) -> RabbitMQ:
        """A broker so set up, with a queue of each kind and one that is beside it."""
        queues: dict[str, QueueArguments] = {}
        for kind in KINDS:
            queues[kind] = queues[f"{kind}-beside"] = {"x-queue-type": kind}
        return RabbitMQ(folder, self.config, queues, self.advanced, self.erlang)


DEFAULTS = Settings("defaults")
CANDIDATES = (
    DEFAULTS,
    Settings("larger batches of the log", {"raft.wal_max_batch_size": "32768"}, kinds=(QUORUM,)),
    Settings("smaller files of the log", {"raft.wal_max_size_bytes": str(64 << 20)}, kinds=(QUORUM,)),
    Settings("larger segments", {"raft.segment_max_entries": "32768"}, kinds=(QUORUM,)),
    Settings("256 commands ahead", advanced={"quorum_commands_soft_limit": "256"}, kinds=(QUORUM,)),
    Settings("1024 commands ahead", advanced={"quorum_commands_soft_limit": "1024"}, kinds=(QUORUM,)),
    Settings("later flow control", advanced={"credit_flow_default_credit": "{2000, 1000}"}),
    Settings("no flow control", advanced={"credit_flow_default_credit": "{0, 0}"}),
    Settings(
        "larger socket buffers", {f"tcp_listen_options.{each}": "524288" for each in ("sndbuf", "recbuf")}
    ),
    Settings("no busy waiting", erlang="+sbwt none +sbwtdcpu none +sbwtdio none"),
    Settings("more credit for senders", advanced={"max_link_credit": "1000", "max_incoming_window": "1000"}),
    Settings("more credit at queues", advanced={"max_queue_credit": "1000"}),
)


@dataclass
class Tried:
    """One candidate for one kind of queue: its rates and scores, one a round."""

    settings: Settings
    rates: dict[str, list[float]] = field(default_factory=dict)
    scores: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """One for each round in which it failed."""

    def score(self) -> float:
        """The median score; 0 for one that failed more often than not."""
        return statistics.median(self.scores) if len(self.scores) > len(self.failures) else 0.0

    def add(self, rates: dict[str, float], defaults: dict[str, float]) -> None:
        """One more round."""
        for name, rate in rates.items():
            self.rates.setdefault(name, []).append(rate)
        self.scores.append(math.prod(rates[name] / defaults[name] for name in MODES) ** (1 / len(MODES)))

    def as_data(self) -> dict[str, Any]:
        """For the file."""
        settings = {key: value for key, value in dataclasses.asdict(self.settings).items() if value}
        rates = {name: round(statistics.median(values)) for name, values in self.rates.items()}
        return {**settings, "score": round(self.score(), 3), **rates, "failures": self.failures}


def search(messages: int, rounds: int) -> None:
    """Search, print, and keep the outcome in `FOUND`."""
    tried = {kind: [Tried(one) for one in CANDIDATES if kind in one.kinds] for kind in KINDS}
    _measure_rounds(tried, messages, rounds)
    together = {kind: _combination(tried[kind]) for kind in KINDS}
    again = {kind: [tried[kind][0], one] for kind, one in together.items() if one is not None}
    _measure_rounds(again, messages, rounds)
    outcome: dict[str, Any] = {
        "day": time.strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        "version": DEFAULTS.broker(Path()).version(),
        "messages": messages,
        "rounds": rounds,
        "kinds": {},
    }
    for kind in KINDS:
        every = tried[kind] + again.get(kind, [])[1:]
        best = max(every, key=Tried.score)
        show_progress(
            f"{kind}: best of {len(every)} is {best.settings.name!r}, {best.score():.2f} times the defaults"
        )
        outcome["kinds"][kind] = {"best": best.as_data(), "tried": [one.as_data() for one in every]}
    FOUND.write_text(json.dumps(outcome, indent=1) + "\n")
    show_progress(f"saved in {FOUND.relative_to(ROOT)}")


def best_settings(kind: str) -> Settings:
    """The best that the last search has found for a kind of queue."""
    best = json.loads(FOUND.read_text())["kinds"][kind]["best"]
    names = [each.name for each in dataclasses.fields(Settings) if each.name in best]
    return Settings(**{name: best[name] for name in names if name != "kinds"}, kinds=(kind,))


def how_many_tried(kind: str) -> int:
    """How many settings the last search has compared; 0 if there was none."""
    return len(json.loads(FOUND.read_text())["kinds"][kind]["tried"]) if FOUND.exists() else 0


def _measure_rounds(tried: dict[str, list[Tried]], messages: int, rounds: int) -> None:
    """Every candidate once a round, for the kinds of queue that have it; the defaults first."""
    settings = list({id(one.settings): one.settings for some in tried.values() for one in some}.values())
    for number in range(1, rounds + 1):
        defaults: dict[str, dict[str, float]] = {}
        for one in settings:
            show_progress(f"round {number} of {rounds}: {one.name}")
            own = {kind: each for kind, some in tried.items() for each in some if each.settings is one}
            rates = _measured(one, own, messages)
            defaults = defaults or rates
            if not defaults:
                break  # a round without the defaults compares nothing
            for kind in rates:
                own[kind].add(rates[kind], defaults[kind])


def _measured(settings: Settings, own: dict[str, Tried], messages: int) -> dict[str, dict[str, float]]:
    """`_measure`, or nothing, noted as a failure."""
    try:
        return _measure(settings, list(own), messages)
    except (LoadFailed, BrokerFailed) as failed:
        first_line = str(failed).splitlines()[0]
        show_progress(f"failed: {first_line}")
        for each in own.values():
            each.failures.append(first_line)
        return {}


def _measure(settings: Settings, kinds: list[str], messages: int) -> dict[str, dict[str, float]]:
    """The three rates of a broker without data, by kind of queue."""
    common: dict[str, object] = {"body_bytes": BODY_BYTES, "window": WINDOW}
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as name, settings.broker(Path(name)) as broker:
        for kind in kinds:
            loadtool.run(broker, "both", kind, messages=0, seconds=WARM_UP_S, **common)
            found[kind] = {
                rate: loadtool.run(broker, mode, kind, messages=messages, **common).rate
                for rate, mode in MODES.items()
            }
    return found


def _combination(tried: list[Tried]) -> Tried | None:
    """Everything that helped; of two that set the same, the better. None if fewer than two are left."""
    chosen: list[Settings] = []
    for one in sorted(tried[1:], key=Tried.score, reverse=True):
        if one.score() >= HELPS and not any(one.settings.clashes(other) for other in chosen):
            chosen.append(one.settings)
    return Tried(functools.reduce(Settings.together, chosen)) if len(chosen) > 1 else None
