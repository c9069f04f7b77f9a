"""Ten thousand subscriptions on one topic: what a publish costs, what it writes, what they hold in memory.

``python -m bench.topics`` with PYTHONPATH=build/compiled or src; ``--json`` for one line of JSON,
``--quick`` for small sizes. The queue manager over its real ledger, without sockets. Processor time.
"""

from __future__ import annotations

import argparse
import gc
import json
import tempfile
import time
from pathlib import Path

from postroom._build import compiled
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.ledger.reading.reader import LedgerReader
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.destination import Destination
from postroom.manager.kernel.effects import Sink
from postroom.manager.kernel.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.manager import QueueManager
from postroom.manager.queues.queue import Queue
from postroom.model.message import MessageHead

BODY = b"x" * 1024
MANY, QUICK_MANY = 10_000, 1_000
PUBLISHES = 100
FEW_PUBLISHES = 20
START_US = 1_800_000_000_000_000


class Bench:
    """A queue manager over a ledger; time is a number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_us = START_US
        self.sink = Sink()
        self.tokens = 0
        self.ledger = Ledger.open(folder, LedgerOptions(reserve_bytes=0), START_US)
        self.manager = QueueManager(ManagerOptions(), self.ledger.builder)
        self.manager.restore(self.ledger.recovered, START_US)
        self.producer = self.manager.open_producer("bench", "bench", "")

    def topic(self, name: str) -> Destination:
        return self.manager.create_queue(QueueDefinition(name=name, kind="topic"), self.now_us)

    def subscribe(self, topic: str, count: int, selector: str = "") -> list[Queue]:
        """So many durable subscriptions."""
        return [
            self.manager.subscribe(
                Subscribing(topic, "bench", f"{topic}-{number}", True, selector=selector), self.now_us
            )
            for number in range(count)
        ]

    def publish(self, topic: Destination, times: int) -> float:
        """Processor seconds of so many publishes, each a turn of its own."""
        begun = time.process_time()
        for _ in range(times):
            head = MessageHead()
            head.durable = True
            self.tokens += 1
            self.manager.put(self.producer, topic, head, BODY, self.sink, self.tokens, self.now_us)
            self.turn()
        return time.process_time() - begun

    def turn(self) -> None:
        """Everything that a publish leads to, deliveries and their acceptance included."""
        while True:
            effects = self.manager.take_effects()
            wrote = not self.ledger.builder.empty()
            if wrote:
                self.manager.durable(self.ledger.flush(), self.now_us)
            for fetch in effects.fetches:
                bodies = self.ledger.read_bodies(fetch.wanted)
                self.manager.fetched(fetch.entries, [bytes(body) for body in bodies], self.now_us)  # type: ignore[arg-type]
            for delivery in effects.deliveries:
                assert isinstance(delivery.consumer, Consumer)
                self.manager.accept(delivery.consumer, delivery.entry, self.now_us)
            if self.manager.next_deadline_us() == self.now_us:
                self.manager.on_time(self.now_us)
            if not wrote and effects.empty():
                return

    def consume(self, queues: list[Queue]) -> list[Consumer]:
        """A consumer with much credit on each."""
        consumers = []
        for queue in queues:
            consumer = self.manager.open_consumer(queue, self.sink, ConsumerOptions(), self.now_us)
            self.manager.set_credit(consumer, 1_000_000, False, self.now_us)
            consumers.append(consumer)
        self.turn()
        return consumers


def resident_bytes() -> int:
    """Of this process, now."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def idle_subscriptions(bench: Bench, count: int, found: dict[str, object]) -> None:
    """Nobody consumes: what the subscriptions and the messages that wait on them cost."""
    before = resident_bytes()
    topic = bench.topic("idle")
    bench.subscribe("idle", count)
    bench.turn()
    made = resident_bytes()
    first = bench.publish(topic, 1)
    position = bench.ledger.builder.next_position
    seconds = bench.publish(topic, PUBLISHES)
    held = resident_bytes()
    found["subscriptions"] = count
    found["KB of memory a subscription"] = (made - before) / count / 1024
    found["ms of the first publish, which defines the set"] = first * 1e3
    found["µs a publish and subscription, nobody consuming"] = seconds / PUBLISHES / count * 1e6
    found["records a publish"] = (bench.ledger.builder.next_position - position) / PUBLISHES
    found["bytes of memory a waiting entry"] = (held - made) / (PUBLISHES + 1) / count


def consumed_subscriptions(bench: Bench, count: int, found: dict[str, object]) -> None:
    """Everybody consumes: publish, deliver, accept."""
    for some in (count // 100, count):
        name = f"busy-{some}"
        topic = bench.topic(name)
        bench.consume(bench.subscribe(name, some))
        bench.publish(topic, 1)
        seconds = bench.publish(topic, FEW_PUBLISHES)
        found[f"µs a delivery, {some} subscriptions consuming"] = seconds / FEW_PUBLISHES / some * 1e6


def unrelated_patterns(bench: Bench, count: int, found: dict[str, object]) -> None:
    """What patterns that don't match cost a publish to somebody else's topic."""
    topic = bench.topic("mine.here")
    bench.consume(bench.subscribe("mine.here", 1))
    bench.publish(topic, 1)
    found["µs a publish to one subscription"] = bench.publish(topic, PUBLISHES) / PUBLISHES * 1e6
    for number in range(count):
        bench.subscribe(f"theirs.{number}.*", 1)
    bench.turn()
    bench.publish(topic, 1)
    name = f"the same, with {count} patterns that don't match, µs"
    found[name] = bench.publish(topic, PUBLISHES) / PUBLISHES * 1e6


def selectors(bench: Bench, count: int, found: dict[str, object]) -> None:
    """Every subscription has a selector; none matches."""
    topic = bench.topic("chosen")
    bench.subscribe("chosen", count, "colour = 'red' AND weight > 7")
    bench.publish(topic, 1)
    found["µs a publish and selector"] = bench.publish(topic, FEW_PUBLISHES) / FEW_PUBLISHES / count * 1e6


def arrivals(bench: Bench) -> float:
    """Arrival records for each message published, counted in the ledger itself."""
    bench.ledger.mark_idle()
    bench.ledger.wait()
    serials: set[int] = set()
    for rows in LedgerReader(bench.folder).rows():
        if rows.arrivals is not None:
            serials.update(rows["serial"].tolist())
    return len(serials)


def measure(quick: bool) -> dict[str, object]:
    """All of it, in one ledger."""
    count = QUICK_MANY if quick else MANY
    found: dict[str, object] = {"compiled": compiled()}
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name))
        idle_subscriptions(bench, count, found)
        found["arrival records a publish"] = arrivals(bench) / bench.tokens
        consumed_subscriptions(bench, count, found)
        unrelated_patterns(bench, count, found)
        selectors(bench, count, found)
        bench.ledger.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.topics", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    found = measure(options.quick)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name}: {value:,.3f}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    main()
