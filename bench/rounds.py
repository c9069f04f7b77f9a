"""Interleaved rounds: each starts each broker anew, without data."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tools.peers import BrokerFailed

from bench.contenders import Contender
from bench.loadtool import LoadFailed
from bench.progress import show_progress


def run(
    what: str,
    contenders: list[Contender],
    rounds: int,
    measure: Callable[[Contender, Path], None],
    failures: list[str],
    measure_floor: Callable[[Path], None] | None = None,
) -> None:
    """Measures each contender in a folder of its own, once a round, and first what the machine itself can do.
    A contender that fails is named, and left out from then."""
    left = list(contenders)
    for number in range(1, rounds + 1):
        if measure_floor is not None:
            with tempfile.TemporaryDirectory(prefix="bench-") as name:
                measure_floor(Path(name))
        for contender in left[:]:
            show_progress(f"{what}, round {number} of {rounds}: {contender.key}")
            with tempfile.TemporaryDirectory(prefix="bench-") as name:
                try:
                    measure(contender, Path(name))
                except (LoadFailed, BrokerFailed) as failed:
                    show_progress(f"failed: {failed}")
                    failures.append(f"{what} of {contender.key}: {failed}")
                    left.remove(contender)
