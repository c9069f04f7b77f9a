"""Who is measured: each broker with its settings, and the queues that stand for the rows of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tools.peers import Artemis, Broker, Postroom, RabbitMQ
from tools.peers.nats_broker import NatsBroker
from tools.peers.postroom import COMPILED, INTERPRETED
from tools.peers.rabbitmq import CLASSIC

from bench import search


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
    share: int = 1
    """Its timed runs have one of so many messages: for a broker that syncs for each."""


def _rabbit(folder: Path) -> Broker:
    return RabbitMQ(folder, queues={f"{kind}-beside": {"x-queue-type": kind} for kind in search.KINDS})


def _rabbit_tuned(kind: str) -> Contender:
    """With the best settings that `search` has found for this kind of queue."""
    label = f"RabbitMQ {kind}, best of {search.how_many_tried(kind)}"
    row = Row(label, kind, f"{kind}-beside")
    return Contender(
        f"rabbitmq-{kind}-tuned", lambda folder: search.best_settings(kind).broker(folder), [row]
    )


def _artemis(journal: str) -> Callable[[Path], Broker]:
    return lambda folder: Artemis(folder, journal=journal, queues=("bench", "beside"))


CONTENDERS = [
    Contender("postroom", lambda folder: Postroom(folder, COMPILED), [Row("Postroom", "bench", "beside")]),
    Contender(
        "interpreted",
        lambda folder: Postroom(folder, INTERPRETED),
        [Row("Postroom interpreted", "bench", "beside")],
    ),
    Contender(
        "rabbitmq", _rabbit, [Row(f"RabbitMQ {kind}", kind, f"{kind}-beside") for kind in search.KINDS]
    ),
    *(_rabbit_tuned(kind) for kind in search.KINDS if search.how_many_tried(kind)),
    Contender("artemis", _artemis("ASYNCIO"), [Row("Artemis ASYNCIO", "bench", "beside")]),
    Contender("artemis-nio", _artemis("NIO"), [Row("Artemis NIO", "bench", "beside")]),
    Contender(
        "nats",
        lambda folder: NatsBroker(folder, ("bench", "beside")),
        [Row("NATS JetStream", "bench", "beside")],
        share=20,
    ),
]
BESIDE_PEERS = ("postroom", "rabbitmq", "rabbitmq-quorum-tuned", "artemis", "nats")


def beside_peers(contenders: list[Contender]) -> list[Contender]:
    """Of these, Postroom and each peer with its fastest queue or journal that keeps what was accepted."""
    return [
        replace(contender, rows=[row for row in contender.rows if row.queue != CLASSIC])
        for contender in contenders
        if contender.key in BESIDE_PEERS
    ]
