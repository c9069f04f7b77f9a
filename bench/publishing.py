"""Publishes to one, ten and a thousand durable subscriptions, and what comes out of them, beside Artemis.

The subscriptions are made as JMS makes them: a link with the subscription's name, from a container with the
client's. They keep what is published, and then each has a consumer on a connection of its own.
"""

from __future__ import annotations

from pathlib import Path

from tools.peers import Broker
from tools.peers.ports import LOOPBACK

from bench import loadtool, rounds
from bench.contenders import Contender
from bench.traffic import Measured
from postroom.client import Topic, connect

PUBLISHES = {1: 100_000, 10: 30_000, 1000: 1_000}
"""In the timed run, by the number of subscriptions."""
QUICK_SHARE = 4
CONTENDERS = ("postroom", "artemis")
CLIENT_ID = "bench"


def measure(
    contenders: list[Contender], count: int, quick: bool, results: dict[str, Measured], failures: list[str]
) -> None:
    """So many rounds; fills `results` by row label."""
    share = QUICK_SHARE if quick else 1
    rounds.run(
        "topics",
        [contender for contender in contenders if contender.key in CONTENDERS],
        count,
        lambda contender, folder: _measure_contender(contender, folder, share, results),
        failures,
    )


def name_of(what: str, subscriptions: int) -> str:
    """The measurement of publishes or deliveries with so many subscriptions."""
    return f"{what}_{subscriptions}"


def _measure_contender(contender: Contender, folder: Path, share: int, results: dict[str, Measured]) -> None:
    with contender.start(folder) as broker:
        measured = results.setdefault(contender.rows[0].label, Measured())
        for subscriptions, publishes in PUBLISHES.items():
            topic = f"topic-{subscriptions}"
            _subscribe(broker, topic, subscriptions)
            count = publishes // share
            _publish_and_receive(broker, topic, subscriptions, count)  # to warm up
            published, delivered = _publish_and_receive(broker, topic, subscriptions, count)
            measured.add(name_of("publishes", subscriptions), published)
            measured.add(name_of("deliveries", subscriptions), delivered)


def _subscribe(broker: Broker, topic: str, count: int) -> None:
    with connect(f"amqp://{LOOPBACK}:{broker.port}", client_id=CLIENT_ID) as connection:
        for number in range(count):
            connection.consumer(Topic(topic), subscription=f"{topic}-{number}", durable=True).close()


def _publish_and_receive(
    broker: Broker, topic: str, subscriptions: int, publishes: int
) -> tuple[float, float]:
    """Publishes and deliveries a second."""
    published = loadtool.run(broker, "send", topic, messages=publishes)
    queue = broker.subscription_address(topic, CLIENT_ID, f"{topic}-%")
    delivered = loadtool.run(
        broker, "receive", queue, messages=publishes * subscriptions, connections=subscriptions, copies=True
    )
    return published.rate, delivered.rate
