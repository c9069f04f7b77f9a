"""Unborn messages coming due, and quotas that stay full: what a message costs, and whether it stays flat.

``python -m bench.senders`` with PYTHONPATH=build/compiled or src; ``--json`` for one line of JSON,
``--quick`` for small sizes. The queue manager over its real ledger, without sockets. Processor time.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import tempfile
import time
from pathlib import Path

from postroom._build import compiled
from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.ledger import Ledger
from postroom.ledger.options import LedgerOptions
from postroom.manager.kernel.effects import Delivery, Sink
from postroom.manager.kernel.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.manager import QueueManager
from postroom.manager.queues.queue import as_queue
from postroom.model.message import MessageHead

UNBORN = 1_000_000
QUICK_UNBORN = 100_000
SPAN_S = 20
"""The births are spread evenly, in no order, over so long."""
FIRST_BIRTH_S = 3600
TICK_US = 10_000
BODY = b"x" * 256
WAITERS = (10, 100, 1_000, 10_000, 100_000)
QUICK_WAITERS = (10, 1_000, 10_000)
CHURN = 20_000
START_US = 1_800_000_000_000_000
ROOMY = ManagerOptions(
    max_blocked_bytes=1 << 40, max_blocked_bytes_per_link=1 << 40, max_send_timeout_ms=10**9
)


class Bench:
    """A queue manager over a ledger; time is a number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_us = START_US
        self.sink = Sink()
        self.tokens = 0
        self.open()

    def open(self) -> None:
        options = LedgerOptions(reserve_bytes=0)
        self.ledger = Ledger.open(self.folder, options, self.now_us)
        self.manager = QueueManager(ROOMY, self.ledger.builder)
        self.manager.restore(self.ledger.recovered, self.now_us)
        del self.ledger.recovered
        self.producer = self.manager.open_producer("bench", "bench", "", 10**9)

    def put(self, queue: str, delay_ms: int = 0) -> None:
        head = MessageHead()
        head.durable = True
        head.delivery_delay_ms = delay_ms
        destination = self.manager.queues[queue]
        self.manager.put(self.producer, destination, head, BODY, self.sink, self.tokens, self.now_us)
        self.tokens += 1

    def commit(self) -> list[Delivery]:
        """Everything durable; what is to be delivered."""
        effects = self.manager.take_effects()
        self.manager.durable(self.ledger.flush(), self.now_us)
        return effects.deliveries


def resident_bytes() -> int:
    """Memory of this process in use, without the pages of files that it has mapped."""
    gc.collect()
    resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * 4096


def memory_each(count: int) -> float:
    """Bytes of memory that an unborn message costs the queue manager; the ledger has a memory of its own."""
    builder, now_us = BlockBuilder(), START_US
    manager, sink = QueueManager(ManagerOptions(), builder), Sink()
    queue = as_queue(manager.create_queue(QueueDefinition(name="later"), now_us))
    producer = manager.open_producer("bench", "bench", "")
    chance, before = random.Random(1), resident_bytes()
    for number in range(count):
        head = MessageHead()
        head.durable = True
        head.delivery_delay_ms = FIRST_BIRTH_S * 1000 + chance.randrange(SPAN_S * 1000)
        manager.put(producer, queue, head, BODY, sink, number, now_us)
        if number % 1000 == 999:
            while builder.take() is not None:
                pass
            manager.durable(builder.next_position - 1, now_us)
            manager.take_effects()
    return (resident_bytes() - before) / count


def unborn(folder: Path, count: int) -> dict[str, object]:
    """Put `count` unborn messages, start again, and let them come due."""
    bench = Bench(folder)
    bench.manager.create_queue(QueueDefinition(name="later"), bench.now_us)
    chance = random.Random(1)
    start = time.process_time()
    for number in range(count):
        bench.put("later", FIRST_BIRTH_S * 1000 + chance.randrange(SPAN_S * 1000))
        if number % 1000 == 999:
            bench.commit()
    bench.commit()
    put_s = time.process_time() - start
    bench.ledger.close()
    del bench.manager
    start = time.process_time()
    bench.open()
    restart_s = time.process_time() - start
    found: dict[str, object] = {
        "unborn_messages": count,
        "put_us": put_s / count * 1e6,
        "restart_s": restart_s,
    }
    found.update(_births(bench, count))
    bench.ledger.close()
    return found


def _births(bench: Bench, count: int) -> dict[str, object]:
    """Time goes on in ticks; each must bear exactly what is due by then."""
    queue = bench.manager.queues["later"]
    start, late_us = time.process_time(), 0
    bench.now_us = START_US + FIRST_BIRTH_S * 1_000_000 - TICK_US
    while queue.statistics.current < count:
        due_us = bench.manager.next_deadline_us()
        if due_us > bench.now_us:
            bench.now_us = max(bench.now_us + TICK_US, due_us)
        late_us = max(late_us, bench.now_us - due_us)
        bench.manager.on_time(bench.now_us)
        bench.commit()
    return {
        "birth_us": (time.process_time() - start) / count * 1e6,
        "born_late_ms": late_us / 1000,
    }


def churn(folder: Path, policy: str, waiters: int) -> float:
    """A full queue with so many blocked sends: µs for one message consumed, one let in, one blocked anew."""
    bench = Bench(folder)
    definition = QueueDefinition(name="full", max_messages=1000, quota_policy=policy)
    queue = as_queue(bench.manager.create_queue(definition, bench.now_us))
    for _ in range(1000):
        bench.put("full")
    for _ in range(waiters):
        bench.producer = bench.manager.open_producer("bench", "bench", "", 10**9)
        bench.put("full")
    bench.commit()
    consumer = bench.manager.open_consumer(queue, Sink(), ConsumerOptions(name="bench"), bench.now_us)
    assert queue.statistics.blocked == waiters
    start, done = time.process_time(), 0
    while done < CHURN:
        bench.manager.set_credit(consumer, 100, False, bench.now_us)
        for delivery in bench.commit():
            bench.manager.accept(consumer, delivery.entry, bench.now_us)
            bench.producer = bench.manager.open_producer("bench", "bench", "", 10**9)
            bench.put("full")
            done += 1
        bench.commit()
    spent_us = (time.process_time() - start) / done * 1e6
    assert (queue.statistics.blocked, queue.statistics.depth) == (waiters, 1000)
    bench.ledger.close()
    return spent_us


def measure(quick: bool) -> dict[str, object]:
    """Everything, by name."""
    found: dict[str, object] = {"compiled": compiled()}
    count = QUICK_UNBORN if quick else UNBORN
    found["memory_bytes_each"] = memory_each(count)
    with tempfile.TemporaryDirectory() as folder:
        found.update(unborn(Path(folder), count))
    for policy in ("fifo", "preemptive"):
        for waiters in QUICK_WAITERS if quick else WAITERS:
            with tempfile.TemporaryDirectory() as folder:
                found[f"churn_{policy}_{waiters}_blocked_us"] = churn(Path(folder), policy, waiters)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.quick)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(
            f"{name.replace('_', ' '):44} {value:>12.2f}"
            if isinstance(value, float)
            else f"{name:44} {value}"
        )


if __name__ == "__main__":
    main()
