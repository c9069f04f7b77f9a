"""Transactions: messages a second by the size of each, and commits a second of several senders at once.

Local transactions of any broker that has them; branches of XA, committed in two phases, of Postroom.
"""

from __future__ import annotations

from pathlib import Path

from tools.peers import Broker

from bench import floor, loadtool, rounds
from bench.contenders import Contender
from bench.traffic import Measured

MESSAGES = {1: 3_000, 10: 20_000, 100: 100_000, 1000: 200_000}
"""In the timed run of each size of a transaction."""
QUICK_SHARE = 4
SENDERS = (1, 4, 16)
SENDERS_S = 3.0
WARM_UP_TRANSACTIONS = 200
POSTROOM = "postroom"
WITHOUT = ("rabbitmq", "nats")
"""RabbitMQ refuses a coordinator with amqp:not-implemented; JetStream has none."""
FLOOR_BRANCHES = "append + fdatasync, twice"
"""What one branch after the other could reach: prepare and commit each need a sync."""


def measure(
    contenders: list[Contender], count: int, quick: bool, results: dict[str, Measured], failures: list[str]
) -> None:
    """So many rounds; fills `results` by row label."""
    rounds.run(
        "transactions",
        [contender for contender in contenders if not contender.key.startswith(WITHOUT)],
        count,
        lambda contender, folder: _measure_contender(contender, folder, quick, results),
        failures,
        lambda folder: _measure_floor(folder, results),
    )


def _measure_floor(folder: Path, results: dict[str, Measured]) -> None:
    for messages in MESSAGES:
        found = floor.measure(folder, syncs=500, batch=messages)
        results.setdefault(floor.LABEL, Measured()).add(f"send_{messages}", found.rate)
        if messages == 1:
            results[floor.LABEL].add("commits_1", found.rate)
            results.setdefault(FLOOR_BRANCHES, Measured()).add("branches_1", found.rate / 2)


def _measure_contender(contender: Contender, folder: Path, quick: bool, results: dict[str, Measured]) -> None:
    with contender.start(folder) as broker:
        for row in contender.rows:
            _warm_up(broker, row.queue)
            measured = results.setdefault(row.label, Measured())
            for size, messages in MESSAGES.items():
                count = messages // QUICK_SHARE // size * size if quick else messages
                for name, mode in (("send", "send"), ("receive", "receive")):
                    report = loadtool.run(broker, mode, row.queue, messages=count, transaction=size)
                    measured.add(f"{name}_{size}", report.rate)
            for senders in SENDERS:
                measured.add(f"commits_{senders}", _together(broker, row.beside, senders))
                if contender.key == POSTROOM:
                    measured.add(f"branches_{senders}", _together(broker, row.beside, senders, xa=True))


def _warm_up(broker: Broker, queue: str) -> None:
    for mode in ("send", "receive"):
        loadtool.run(broker, mode, queue, messages=WARM_UP_TRANSACTIONS * 10, transaction=10)


def _together(broker: Broker, queue: str, senders: int, **options: object) -> float:
    """Commits a second of so many senders at once, each with one message in each transaction."""
    started = [
        loadtool.start(broker, "send", queue, messages=0, seconds=SENDERS_S, transaction=1, **options)
        for _ in range(senders)
    ]
    try:
        outputs = [sender.communicate() for sender in started]
    finally:
        for sender in started:
            sender.kill()
    return sum(loadtool.read_report(*output).transaction_rate for output in outputs)
