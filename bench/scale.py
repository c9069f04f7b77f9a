"""Recovery, decoding and publishing: benchmarks of single parts, run as the programs that they are."""

from __future__ import annotations

import json
import subprocess
import sys

from tools.peers.broker import ROOT

SHOWN_WHOLE = 100
"""From here on a figure's decimals say nothing."""


class ScaleFailed(Exception):
    """A benchmark program ended with an error."""


def _run(program: str, *arguments: str) -> dict[str, str]:
    command = [sys.executable, str(ROOT / "bench" / program), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ScaleFailed(f"{program} failed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {str(key).replace("_", " "): _shown(value) for key, value in said.items()}


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= SHOWN_WHOLE else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def recovery(quick: bool) -> dict[str, str]:
    """How fast a ledger's events are folded into a broker's state."""
    return _run("ledger_scale.py", *(["--quick"] if quick else []))


def decode(quick: bool) -> dict[str, str]:
    """How fast `.events` files become Arrow tables."""
    return _run("reader_bench.py", *(["--quick"] if quick else []))


def selectors(quick: bool) -> dict[str, str]:
    """What it costs to find the few messages of a deep queue that a selector means."""
    return _run("deep_selectors.py", *(["--quick"] if quick else []))


def topics(quick: bool) -> dict[str, str]:
    """What publishing to many subscriptions costs."""
    return _run("topics.py", *(["--quick"] if quick else []))


def senders(quick: bool) -> dict[str, str]:
    """What unborn messages cost, and sends that wait for room, however many wait."""
    return _run("senders.py", *(["--quick"] if quick else []))
