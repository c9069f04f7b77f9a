"""``python -m bench``: see ``--help``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tools.peers import BrokerFailed
from tools.peers.broker import ROOT

from bench import (
    channels,
    connections,
    features,
    loadtool,
    machine,
    memory,
    publishing,
    replication,
    scale,
    search,
    sizes,
    spark_tables,
    syncs,
    tables,
    traffic,
    transactions,
)
from bench.contenders import CONTENDERS, Contender
from bench.document import merged
from bench.progress import show_progress

SECTIONS = (
    "rates",
    "latency",
    "syncs",
    "transactions",
    "sizes",
    "connections",
    "features",
    "channels",
    "replication",
    "memory",
    "deep",
    "wide",
    "crowd",
    "churn",
    "cores",
    "recovery",
    "decode",
    "selectors",
    "rare",
    "topics",
    "senders",
    "readers",
    "spark",
    "spark-messages",
    "spark-long",
)
WITHOUT_LOAD_CLIENT = {"recovery", "decode", "selectors", "rare", "spark", "spark-long"}
FACTS: dict[str, Callable[[bool], dict[str, str]]] = {
    "recovery": scale.recovery,
    "decode": scale.decode,
    "senders": scale.senders,
    "readers": scale.readers,
    "wide": scale.wide,
    "crowd": scale.crowd,
    "cores": scale.cores,
    "selectors": scale.selectors,
    "rare": scale.rare,
    "topics": scale.topics,
}
"""Sections that are a list of figures by name."""
OUT = ROOT / "bench/out"
DOCUMENTED = ROOT / "docs/reference/benchmarks.inc"
DOCUMENTED_REPLICATION = ROOT / "docs/reference/benchmarks-replication.inc"
DOCUMENTED_SPARK = ROOT / "docs/reference/benchmarks-spark.inc"
SYNC_RUN_MESSAGES = 50_000
SEARCH_MESSAGES, SEARCH_ROUNDS = 20_000, 3


@dataclass
class Run:
    """Everything that one run has found."""

    machine: dict[str, str]
    client: dict[str, object]
    transactions: dict[str, traffic.Measured] = field(default_factory=dict)
    sizes: dict[str, traffic.Measured] = field(default_factory=dict)
    connections: dict[str, traffic.Measured] = field(default_factory=dict)
    features: dict[str, traffic.Measured] = field(default_factory=dict)
    publishes: dict[str, traffic.Measured] = field(default_factory=dict)
    channels: dict[str, traffic.Measured] = field(default_factory=dict)
    replicated: dict[str, traffic.Measured] = field(default_factory=dict)
    replication: dict[str, str] = field(default_factory=dict)
    traffic: dict[str, traffic.Measured] = field(default_factory=dict)
    waiting: memory.Waiting | None = None
    deep: memory.Waiting | None = None
    wide: dict[str, str] = field(default_factory=dict)
    crowd: dict[str, str] = field(default_factory=dict)
    churn: dict[str, str] = field(default_factory=dict)
    cores: dict[str, str] = field(default_factory=dict)
    recovery: dict[str, str] = field(default_factory=dict)
    decode: dict[str, str] = field(default_factory=dict)
    selectors: dict[str, str] = field(default_factory=dict)
    rare: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    senders: dict[str, str] = field(default_factory=dict)
    readers: dict[str, str] = field(default_factory=dict)
    spark: dict[str, float] = field(default_factory=dict)
    spark_messages: dict[str, float] = field(default_factory=dict)
    spark_long: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def _has(self, name: str) -> bool:
        return any(name in measured.values for measured in self.traffic.values())

    def markdown(self) -> str:
        """The run as a whole."""
        return "\n".join(part for part in (self.of_brokers(), self.of_replication(), self.of_spark()) if part)

    def of_brokers(self) -> str:
        """The page's part that isn't Spark; empty if nothing of it was measured."""
        parts: list[tuple[str, str]] = []
        for title, is_measured, of_traffic in (
            ("Versions and settings", any(each.version for each in self.traffic.values()), tables.versions),
            ("Rates", self._has("dequeue"), tables.rates),
            ("Processor time", self._has("enqueue_cpu_us"), tables.processor),
            ("Latency", self._has("beside_p50_us"), tables.latency),
        ):
            if is_measured:
                parts.append((title, of_traffic(self.traffic)))
        for title, results, table in (
            ("Transactions", self.transactions, tables.transactions),
            ("Sizes", self.sizes, tables.sizes),
            ("Forty connections", self.connections, tables.connections),
            ("Features at work", self.features, tables.features),
            ("Publishes", self.publishes, tables.publishes),
            ("Channels", self.channels, tables.channels),
        ):
            if results:
                parts.append((title, table(results)))
        if self.waiting:
            parts.append(("Memory and restart", tables.waiting(self.waiting)))
        if self.deep:
            parts.append(("A deep queue", tables.waiting(self.deep)))
        for title, values in (
            ("Many queues", self.wide),
            ("Many connections", self.crowd),
            ("Churn", self.churn),
            ("Cores", self.cores),
            ("Recovery", self.recovery),
            ("Decoding", self.decode),
            ("Selectors on a deep queue", self.selectors),
            ("A selector that wants one message in a million", self.rare),
            ("Topics", self.topics),
            ("Unborn messages and full quotas", self.senders),
            ("One message in flight beside readers of the ledger", self.readers),
        ):
            if values:
                parts.append((title, tables.facts(values)))
        when = f"Of {self.client['day']}, {self.machine['processor']}, {self.machine['cores']} cores."
        texts = [f"### {title}\n\n{when}\n\n{table}" for title, table in parts]
        if not texts:
            return ""
        client = tables.facts({**self.machine, **_texts(self.client)})
        return "\n".join([f"### Machine and client\n\n{client}", *texts, *self._failed()])

    def of_replication(self) -> str:
        """The page's part on brokers with copies; empty if that wasn't measured."""
        if not self.replicated:
            return ""
        facts = tables.facts({**self.machine, **_texts(self.client)})
        rates = tables.rates(self.replicated, replication.REFERENCE)
        windows = tables.best_windows(
            self.replicated, traffic.Sizes.window, replication.WINDOWS, replication.REFERENCE
        )
        parts = [tables.versions(self.replicated), rates, windows, tables.latency(self.replicated)]
        return "\n".join([facts, *parts, tables.facts(self.replication), *self._failed()])

    def of_spark(self) -> str:
        """The page's part on Spark; empty if nothing of it was measured."""
        parts = []
        if self.spark:
            parts.append(f"### Spark\n\n{spark_tables.figures(self.spark)}")
        if self.spark_messages:
            parts.append(f"### Spark, messages\n\n{spark_tables.messages(self.spark_messages)}")
        if self.spark_long:
            parts.append(f"### Spark, long runs\n\n{spark_tables.long_runs(self.spark_long)}")
        if plan := spark_tables.plan(self.spark):
            parts.append(f"### Spark, larger\n\n{plan}")
        if not parts:
            return ""
        where = {**self.machine, "day": str(self.client["day"])}
        return "\n".join([f"### Machine\n\n{tables.facts(where)}", *parts, *self._failed()])

    def _failed(self) -> list[str]:
        lines = [f"- {_first_and_last_line(failure)}\n" for failure in self.failures]
        return ["### Failed\n\n" + "".join(lines)] if lines else []


def _first_and_last_line(text: str) -> str:
    lines = text.splitlines()
    return lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1]}"


def _texts(values: dict[str, object]) -> dict[str, str]:
    return {key.replace("_", " "): str(value) for key, value in values.items()}


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of one run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, two rounds: minutes, not an hour")
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}")
    keys = ", ".join(contender.key for contender in CONTENDERS)
    parser.add_argument("--contenders", default="", help=f"of {keys} (default: all)")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (5; quick: 2)")
    parser.add_argument("--messages", type=int, help="messages in each timed run (200,000; quick: 50,000)")
    parser.add_argument(
        "--waiting", type=int, help="messages of the memory section (10,000,000; quick: 1,000,000)"
    )
    parser.add_argument(
        "--deep", type=int, help="messages of the section deep (100,000,000; quick: 2,000,000)"
    )
    parser.add_argument("--minutes", type=float, help="of the section churn (60; quick: 1)")
    parser.add_argument(
        "--search-rabbitmq",
        action="store_true",
        help=f"only look for RabbitMQ's best settings, and keep them in {search.FOUND.relative_to(ROOT)}",
    )
    parser.add_argument(
        "--events", type=int, help="events of the Spark sections (20,000,000; quick: 1,000,000)"
    )
    parser.add_argument("--full-s", type=float, help="the pipeline at full speed (1200; quick: 60)")
    parser.add_argument("--fresh-s", type=float, help="the pipeline beside a paced writer (120; quick: 20)")
    parser.add_argument("--commits", type=int, help="made before that (an hour's, 7200; quick: 200)")
    parser.add_argument(
        "--document",
        action="store_true",
        help="also write the tables that the documentation shows, those of the sections that were measured",
    )
    return parser.parse_args(arguments)


def _chosen(names: str, known: list[str], what: str) -> list[str]:
    wanted = [name for name in names.split(",") if name]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"bench: no {what} called {', '.join(unknown)}; there are {', '.join(known)}")
    return wanted or known


def _sizes(options: argparse.Namespace) -> traffic.Sizes:
    messages = options.messages or (50_000 if options.quick else 200_000)
    rounds = options.rounds or (2 if options.quick else 5)
    return traffic.Sizes(messages=messages, rounds=rounds, warm_up_s=2.0 if options.quick else 4.0)


def _count_syncs(contenders: list[Contender], run: Run) -> None:
    if not syncs.available():
        run.failures.append("messages a sync: strace is not installed")
        return
    for contender in contenders:
        show_progress(f"counting syncs: {contender.key}")
        try:
            counted = syncs.messages_per_sync(contender, SYNC_RUN_MESSAGES)
        except (loadtool.LoadFailed, BrokerFailed) as failed:
            run.failures.append(f"syncs of {contender.key}: {failed}")
            continue
        for label, value in counted.items():
            run.traffic.setdefault(label, traffic.Measured()).add("messages_per_sync", value)


def measure(options: argparse.Namespace, run: Run) -> None:
    """Runs the chosen sections; one that fails is named in the table and doesn't end the others."""
    sections = set(_chosen(options.sections, list(SECTIONS), "section"))
    keys = _chosen(options.contenders, [contender.key for contender in CONTENDERS], "contender")
    contenders = [contender for contender in CONTENDERS if contender.key in keys]
    waiting = options.waiting or (1_000_000 if options.quick else 10_000_000)

    def traffic_section() -> None:
        traffic.measure(contenders, _sizes(options), sections, run.traffic, run.failures)

    def channels_section() -> None:
        channels.measure(options.rounds or 3, options.quick, run.channels, run.failures)

    def replication_section() -> None:
        sizes = _sizes(options)
        replication.rates(sizes, run.replicated, run.failures)
        run.replication = replication.engine()
        run.replication |= replication.take_overs(100_000 if options.quick else 1_000_000, sizes)

    def memory_section() -> None:
        run.waiting = memory.measure(waiting)

    def deep_section() -> None:
        run.deep = memory.measure(options.deep or (2_000_000 if options.quick else 100_000_000), False)

    def churn_section() -> None:
        run.churn = scale.churn(options.quick, options.minutes)

    steps = [
        (bool(sections & {"rates", "latency"}), "rates and latency", traffic_section),
        ("syncs" in sections, "syncs", lambda: _count_syncs(contenders, run)),
        *_contender_steps(options, sections, contenders, run),
        ("channels" in sections, "channels", channels_section),
        ("replication" in sections, "replication", replication_section),
        ("memory" in sections, "memory", memory_section),
        ("deep" in sections, "deep", deep_section),
        ("churn" in sections, "churn", churn_section),
        *_fact_steps(options, sections, run),
        *_spark_steps(options, sections, run),
    ]
    for wanted, name, step in steps:
        if wanted:
            show_progress(f"section {name}")
            _guarded(name, step, run)


def _contender_steps(
    options: argparse.Namespace, sections: set[str], contenders: list[Contender], run: Run
) -> list[tuple[bool, str, Callable[[], None]]]:
    """Sections that measure contenders in rounds, and have a table of their own."""
    found = {
        "transactions": (transactions.measure, run.transactions),
        "sizes": (sizes.measure, run.sizes),
        "connections": (connections.measure, run.connections),
        "features": (features.measure, run.features),
        "topics": (publishing.measure, run.publishes),
    }

    def measured(name: str) -> None:
        measure, results = found[name]
        measure(contenders, options.rounds or 3, options.quick, results, run.failures)

    return [(name in sections, name, partial(measured, name)) for name in found]


def _fact_steps(
    options: argparse.Namespace, sections: set[str], run: Run
) -> list[tuple[bool, str, Callable[[], None]]]:
    def measured(name: str) -> None:
        setattr(run, name, FACTS[name](options.quick))

    return [(name in sections, name, partial(measured, name)) for name in FACTS]


def _spark_steps(
    options: argparse.Namespace, sections: set[str], run: Run
) -> list[tuple[bool, str, Callable[[], None]]]:
    def kept(figures: dict[str, float]) -> dict[str, float]:
        failed = [name for name in figures if name.startswith("failed_")]
        run.failures += [f"Spark, part {name.removeprefix('failed_')}" for name in failed]
        return {name: value for name, value in figures.items() if name not in failed}

    def short() -> None:
        run.spark = kept(scale.spark(options))

    def messages() -> None:
        run.spark_messages = kept(scale.spark_messages(options))

    def long() -> None:
        run.spark_long = kept(scale.spark_long(options))

    steps = {"spark": short, "spark-messages": messages, "spark-long": long}
    return [(name in sections, name, step) for name, step in steps.items()]


def _guarded(name: str, step: Any, run: Run) -> None:
    try:
        step()
    except (loadtool.LoadFailed, BrokerFailed, scale.ScaleFailed, memory.NoRoom) as failed:
        show_progress(f"{name} failed: {failed}")
        run.failures.append(f"{name}: {failed}")


def save(run: Run, document: bool) -> None:
    """Writes results.json and table.md, and the documentation's table where asked."""
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "results.json").write_text(json.dumps(dataclasses.asdict(run), indent=1) + "\n")
    (OUT / "table.md").write_text(run.markdown())
    if document:
        for page, text in (
            (DOCUMENTED, run.of_brokers()),
            (DOCUMENTED_REPLICATION, run.of_replication()),
            (DOCUMENTED_SPARK, run.of_spark()),
        ):
            if text:
                page.write_text(merged(page.read_text(), text))


def main() -> int:
    """Measures, prints the tables, saves them; exit code 1 when a section failed."""
    options = parse(sys.argv[1:])
    if options.search_rabbitmq:
        search.search(options.messages or SEARCH_MESSAGES, options.rounds or SEARCH_ROUNDS)
        return 0
    sizes = _sizes(options)
    client = {
        **dataclasses.asdict(sizes),
        "delivery": "at least once, durable",
        "day": time.strftime("%Y-%m-%d"),
    }
    run = Run(machine.describe(), client)
    if set(options.sections.split(",")) - WITHOUT_LOAD_CLIENT:
        loadtool.build()
    if not options.quick:
        show_progress("touching the machine's free memory")
        machine.touch_free_memory()
    measure(options, run)
    save(run, options.document)
    print(run.markdown())
    show_progress(f"saved in {Path(OUT).relative_to(ROOT)}")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
