"""Who is measured: each broker with its settings, and the queues that stand for the rows of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools.peers import Artemis, Broker, Postroom, RabbitMQ
from tools.peers.postroom import COMPILED, INTERPRETED
from tools.peers.rabbitmq import QueueArguments

KINDS = ("quorum", "classic")
RABBIT_TUNED_CONFIG = {"raft.wal_max_batch_size": "32768"}
"""More of the log is written and synced at once."""
RABBIT_TUNED_ADVANCED = {"quorum_commands_soft_limit": "256", "credit_flow_default_credit": "{2000, 1000}"}
"""Channels stop later for queues that have not answered yet."""
RABBIT_TUNED_CLASSIC: QueueArguments = {"x-queue-version": 2}
"""The newer store of classic queues."""


@dataclass(frozen=True)
class Row:
    """One line of the tables: a queue of a contender, and a second one for what runs beside it."""

    label: str
    queue: str
    beside: str


@dataclass(frozen=True)
class Contender:
    """One broker process and the rows that it serves, measured one after another."""

    key: str
    start: Callable[[Path], Broker]
    rows: list[Row] = field(default_factory=list)


def _rabbit(folder: Path) -> Broker:
    return RabbitMQ(folder, queues={f"{kind}-beside": {"x-queue-type": kind} for kind in KINDS})


def _rabbit_tuned(folder: Path) -> Broker:
    classic: QueueArguments = {"x-queue-type": "classic", **RABBIT_TUNED_CLASSIC}
    queues: dict[str, QueueArguments] = {
        "quorum-beside": {"x-queue-type": "quorum"},
        "classic": classic,
        "classic-beside": classic,
    }
    return RabbitMQ(folder, config=RABBIT_TUNED_CONFIG, advanced=RABBIT_TUNED_ADVANCED, queues=queues)


def _rabbit_rows(suffix: str = "") -> list[Row]:
    return [Row(f"RabbitMQ {kind}{suffix}", kind, f"{kind}-beside") for kind in KINDS]


def _artemis(journal: str) -> Callable[[Path], Broker]:
    return lambda folder: Artemis(folder, journal=journal, queues=("bench", "beside"))


CONTENDERS = [
    Contender("postroom", lambda folder: Postroom(folder, COMPILED), [Row("Postroom", "bench", "beside")]),
    Contender(
        "interpreted",
        lambda folder: Postroom(folder, INTERPRETED),
        [Row("Postroom interpreted", "bench", "beside")],
    ),
    Contender("rabbitmq", _rabbit, _rabbit_rows()),
    Contender("rabbitmq-tuned", _rabbit_tuned, _rabbit_rows(", tuned")),
    Contender("artemis", _artemis("ASYNCIO"), [Row("Artemis ASYNCIO", "bench", "beside")]),
    Contender("artemis-nio", _artemis("NIO"), [Row("Artemis NIO", "bench", "beside")]),
]
