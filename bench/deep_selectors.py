"""Consumers with selectors on a deep queue: what a message costs, and how often it is looked at.

``python -m bench.deep_selectors`` with PYTHONPATH=build/compiled, or ``python -m bench --sections
selectors``: 1,000,000 messages wait on one queue, on disk, one in 10,000 of them is wanted (``--quick``:
100,000, one in 1,000; ``--messages 10000000 --every 1000000``: a deep queue). Times in µs a message.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from postroom._build import compiled
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Header, Message, Properties
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.effects import Sink
from postroom.manager.kernel.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.manager import QueueManager
from postroom.manager.queues.queue import as_queue

NOW_US = 1_800_000_000_000_000
BODY_BYTES = 200
PUTS_A_TURN = 1_000
COLORS = ("red", "green", "blue", "white", "black")


class Bench:
    """One queue manager over a real ledger, without sockets: commits and reads happen at once."""

    def __init__(self, folder: Path, every: int) -> None:
        self.every = every
        self.ledger = Ledger.open(folder, LedgerOptions(), NOW_US)
        self.manager = QueueManager(ManagerOptions(), self.ledger.builder)
        self.manager.restore(self.ledger.recovered, NOW_US)
        self.queue = as_queue(self.manager.create_queue(QueueDefinition(name="deep"), NOW_US))
        self.producer = self.manager.open_producer("bench", "bench", "")
        self.sink = Sink()
        self.delivered: list[tuple[Consumer, int]] = []
        self.fetches = 0
        self.number = 0

    def put(self, count: int) -> None:
        """So many messages with three properties; some wanted."""
        for at in range(0, count, PUTS_A_TURN):
            for _ in range(min(PUTS_A_TURN, count - at)):
                self._put_one()
            self.turn()

    def _put_one(self) -> None:
        self.number += 1
        color = "gold" if self.number % self.every == 0 else COLORS[self.number % 5]
        payload = Message(
            header=Header(durable=True),
            properties=Properties(message_id=f"ID:{self.number}", to="deep"),
            application_properties={"color": color, "weight": self.number % 1000, "number": self.number},
            body=Data([b"x" * BODY_BYTES]),
        ).encode()
        head = scan_head(payload)
        body = payload[head.bare_offset :]
        self.manager.put(self.producer, self.queue, head, body, self.sink, self.number, NOW_US)

    def turn(self) -> None:
        """Commit and carry out effects until nothing is left to do."""
        while True:
            effects = self.manager.take_effects()
            self.manager.durable(self.ledger.flush(), NOW_US)
            for delivery in effects.deliveries:
                assert isinstance(delivery.consumer, Consumer)
                self.delivered.append((delivery.consumer, int(delivery.entry.serial)))
            for fetch in effects.fetches:
                self.fetches += 1
                self.manager.fetched(fetch.entries, self.ledger.read_bodies(fetch.wanted), NOW_US)
            if self.manager.next_deadline_us() != 0:
                self.manager.on_time(NOW_US)
            elif not effects.fetches and self.ledger.builder.empty():
                return

    def consumer(self, selector: str) -> Consumer:
        options = ConsumerOptions(name="bench", selector=selector)
        return self.manager.open_consumer(self.queue, self.sink, options, NOW_US)

    def judged(self) -> int:
        return sum(int(cursor.judgements) for cursor in self.queue.selectors.cursors.values())

    def take(self, consumer: Consumer, count: int) -> None:
        """Take and accept so many, one at a time, as a client without prefetch does."""
        for _ in range(count):
            self.manager.set_credit(consumer, 1, False, NOW_US)
            self.turn()
            for entry in list(consumer.held):
                self.manager.accept(consumer, entry, NOW_US)
        self.turn()


def timed(count: int, action: object, *arguments: object) -> tuple[float, float]:
    """Processor and wall time of ``action``, in µs for each of ``count``."""
    assert callable(action)
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    action(*arguments)
    return (time.process_time_ns() - cpu) / count / 1000, (time.perf_counter_ns() - wall) / count / 1000


def measure(messages: int, every: int) -> dict[str, float]:
    """Every figure by its name."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), every)
        found["put, no selector, µs"] = round(timed(messages, bench.put, messages)[0], 2)
        plain = bench.consumer("")
        found["get without selectors, commits included, µs"] = round(
            timed(2_000, bench.take, plain, 2_000)[0], 2
        )
        consumer = bench.consumer("color = 'gold' AND weight >= 0")
        wanted = messages // every
        for quarter in range(4):
            before = bench.judged()
            cpu, wall = timed(messages // 4, bench.take, consumer, wanted // 4)
            found[f"search, quarter {quarter + 1}, µs a message judged"] = round(cpu, 2)
            found[f"search, quarter {quarter + 1}, wall µs"] = round(wall, 2)
            found[f"search, quarter {quarter + 1}, judged"] = bench.judged() - before
        bench.take(consumer, wanted % 4 + 1)
        found["judged in all"] = bench.judged()
        found["reads"] = bench.fetches
        again = bench.judged()
        found["receive with nothing to find, µs"] = round(timed(1000, bench.take, consumer, 1000)[0], 2)
        found["judged by those"] = bench.judged() - again
        found["put beside a waiting selector, µs"] = round(timed(50_000, bench.put, 50_000)[0], 2)
        found["judged by those puts"] = bench.judged() - again
        found["the same beside selectors, µs"] = round(timed(2_000, bench.take, plain, 2_000)[0], 2)
        second = bench.consumer("color = 'red' AND weight = 500")
        found["second selector, 1 in 1,000 wanted, µs a get"] = round(
            timed(100, bench.take, second, 100)[0], 2
        )
        bench.ledger.close()
    return found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int)
    parser.add_argument("--every", type=int, help="one of so many is wanted; at least 8 of all")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    messages, every = (100_000, 1_000) if options.quick else (1_000_000, 10_000)
    messages, every = options.messages or messages, options.every or every
    found: dict[str, object] = {"compiled": compiled(), "messages": messages, "every": every}
    found |= measure(messages, every)
    if options.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        print(f"{key:<48} {value}")


if __name__ == "__main__":
    main()
