"""Forty connections at once, each with a sender and a receiver: all on one queue, or each on its own."""

from __future__ import annotations

from pathlib import Path

from bench import loadtool, rounds
from bench.contenders import Contender, beside_peers
from bench.traffic import RATES, Measured

CONNECTIONS = 40
LAYOUTS = (("one", "all on one queue"), ("own", "each on its own queue"))
MESSAGES, QUICK_MESSAGES = 100_000, 40_000
"""In each timed run, over all connections."""
WARM_UP_S = 2.0
WINDOW = 100
"""Messages in flight of each connection, and its credit."""
WITHOUT = "nats"
"""Its client has one connection for each direction."""


def measure(
    contenders: list[Contender], count: int, quick: bool, results: dict[str, Measured], failures: list[str]
) -> None:
    """So many rounds; fills `results` by row label."""
    messages = QUICK_MESSAGES if quick else MESSAGES
    rounds.run(
        "connections",
        [contender for contender in beside_peers(contenders) if contender.key != WITHOUT],
        count,
        lambda contender, folder: _measure_contender(contender, folder, messages, results),
        failures,
    )


def name_of(rate: str, layout: str) -> str:
    """The measurement of a rate with that layout of queues."""
    return f"{rate}_{layout}"


def _measure_contender(
    contender: Contender, folder: Path, messages: int, results: dict[str, Measured]
) -> None:
    broker = contender.start(folder)
    broker.add_queues([f"own-{number}" for number in range(CONNECTIONS)])
    row = contender.rows[0]
    measured = results.setdefault(row.label, Measured())
    common: dict[str, object] = {"connections": CONNECTIONS, "window": WINDOW, "credit": WINDOW}
    with broker:
        for layout, queue in (("one", row.queue), ("own", "own-%")):
            loadtool.run(broker, "both", queue, messages=0, seconds=WARM_UP_S, **common)
            for rate, mode in RATES:
                report = loadtool.run(broker, mode, queue, messages=messages, **common)
                measured.add(name_of(rate, layout), report.rate)
