"""Recovery, decoding and publishing: benchmarks of single parts, run as the programs that they are."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from tools.peers.broker import ROOT

SHOWN_WHOLE = 100
"""From here on a figure's decimals say nothing."""


class ScaleFailed(Exception):
    """A benchmark program ended with an error."""


def _run(program: str, *arguments: str) -> dict[str, str]:
    return _texts(_figures(program, [str(ROOT / "bench" / program), *arguments], subprocess.PIPE))


def _texts(values: dict[str, Any]) -> dict[str, str]:
    return {str(key).replace("_", " "): _shown(value) for key, value in values.items()}


def _figures(program: str, arguments: list[str], errors: int | None) -> dict[str, Any]:
    """What the last line says; None: its errors, and how it goes, are shown."""
    command = [sys.executable, *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)
    if done.returncode != 0:
        raise ScaleFailed(f"{program} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= SHOWN_WHOLE else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def recovery(quick: bool) -> dict[str, str]:
    """How fast a ledger's events are folded into a broker's state."""
    return _run("ledger_scale.py", *(["--quick"] if quick else []))


def decode(quick: bool) -> dict[str, str]:
    """How fast `.events` files become Arrow tables."""
    arguments = ["-m", "bench.reader_bench", *(["--quick"] if quick else [])]
    return _texts(_figures("reader_bench", arguments, subprocess.PIPE))


def selectors(quick: bool) -> dict[str, str]:
    """What it costs to find the few messages of a deep queue that a selector means."""
    return _run("deep_selectors.py", *(["--quick"] if quick else []))


def rare(quick: bool) -> dict[str, str]:
    """The same of a deeper queue, of which nearly nothing is wanted."""
    sizes = ("--messages", "1000000" if quick else "10000000", "--every", "100000" if quick else "1000000")
    return _run("deep_selectors.py", *sizes)


def topics(quick: bool) -> dict[str, str]:
    """What publishing to many subscriptions costs."""
    return _run("topics.py", *(["--quick"] if quick else []))


def senders(quick: bool) -> dict[str, str]:
    """What unborn messages cost, and sends that wait for room, however many wait."""
    return _run("senders.py", *(["--quick"] if quick else []))


def wide(quick: bool) -> dict[str, str]:
    """Many queues."""
    return _module("wide", quick)


def crowd(quick: bool) -> dict[str, str]:
    """Many connections with traffic on each."""
    return _module("crowd", quick)


def cores(quick: bool) -> dict[str, str]:
    """What more than one core gives."""
    return _module("cores", quick)


def churn(quick: bool, minutes: float | None) -> dict[str, str]:
    """Everything that comes and goes, for minutes."""
    return _module("churn", quick, *_given(minutes=minutes))


def readers(quick: bool) -> dict[str, str]:
    """What reading the ledger over HTTP costs who sends meanwhile."""
    return _module("beside_readers", quick)


def _module(name: str, quick: bool, *arguments: str) -> dict[str, str]:
    """A module of this folder, which shows how it goes."""
    return _texts(_figures(name, ["-m", f"bench.{name}", *(["--quick"] if quick else []), *arguments], None))


def spark(options: argparse.Namespace) -> dict[str, float]:
    """The ledger as a Spark source, its tables, the audit."""
    events = options.events or (1_000_000 if options.quick else None)
    rounds = options.rounds or (1 if options.quick else None)
    return _figures("spark", ["-m", "bench.spark", *_given(events=events, rounds=rounds)], None)


def spark_messages(options: argparse.Namespace) -> dict[str, float]:
    """Queues as Spark's source and sink."""
    messages = options.messages or (60_000 if options.quick else None)
    rounds = options.rounds or (1 if options.quick else None)
    given = _given(messages=messages, rounds=rounds)
    return _figures("spark_messages", ["-m", "bench.spark_messages", *given], None)


def spark_long(options: argparse.Namespace) -> dict[str, float]:
    """The pipeline for long, and how fresh its tables are."""
    quick = {"full_s": 60, "fresh_s": 20, "commits": 200} if options.quick else {}
    given = {name: getattr(options, name) or quick.get(name) for name in ("full_s", "fresh_s", "commits")}
    return _figures("spark_long", ["-m", "bench.spark_long", *_given(**given)], None)


def _given(**options: float | None) -> list[str]:
    """Options of a program: those that have a value."""
    named = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items() if value]
    return [word for pair in named for word in pair]
