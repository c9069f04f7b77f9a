"""What one durable 1 KB message costs inside the broker, part by part, without sockets and syncs.

``python -m bench.parts`` with PYTHONPATH=build/compiled or src; the last line is JSON. Figures are processor
time, the best of several repetitions, in µs a message.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from isal.isal_zlib import crc32
from librt.strings import BytesWriter

from postroom._build import compiled
from postroom.amqp.frames.frames import FrameDecoder, write_disposition, write_frame, write_transfer
from postroom.amqp.frames.outcomes import ACCEPTED
from postroom.amqp.frames.transfers import Transfer
from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data, Header, Message, Properties
from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.options import LedgerOptions
from postroom.ledger.storage.bodies import BodyStore
from postroom.ledger.storage.body_file import JournalBodies
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.ledger.storage.disk import RealDisk
from postroom.ledger.storage.journal import BlockTable
from postroom.manager.kernel.effects import Delivery, Sink
from postroom.manager.kernel.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.manager import QueueManager
from postroom.manager.queues.queue import as_queue
from postroom.server.links.delivery_headers import header_of

MESSAGES = 2_000
REPETITIONS = 15
NOW_US = 1_800_000_000_000_000
MAX_FRAME_BYTES = 1 << 20
RANGE = 50
"""Messages that one disposition speaks of."""


def payload() -> bytes:
    """A message as clients send it: header, properties with a 36-byte id, 1 KB of data."""
    properties = Properties(message_id="0c9d3b1e-5d0f-4a52-9f7e-3c1f6a1c2b3d", to="orders")
    return Message(header=Header(durable=True), properties=properties, body=Data([b"x" * 1024])).encode()


def best_us(action: Callable[[], None]) -> float:
    """Processor time of one message in the fastest repetition; ``action`` handles `MESSAGES`."""
    times = []
    for _ in range(REPETITIONS):
        start = time.process_time_ns()
        action()
        times.append(time.process_time_ns() - start)
    return min(times) / MESSAGES / 1000


def frames(message: bytes) -> bytes:
    """So many transfers as a socket would give them, from a client that leaves out what has its default, as
    those on Proton do."""
    writer = BytesWriter()
    for number in range(MESSAGES):
        transfer = Transfer(0, number, number.to_bytes(8, "big"), message_format=0)
        write_frame(writer, 0, transfer, message)
    return writer.getvalue()


def stored(folder: Path, body: bytes) -> tuple[BodyStore, list[list[BodyPlace]]]:
    """So many bodies in a journal's file, and where they are, in batches as queues ask for them."""
    piece = body + crc32(body).to_bytes(4, "little")
    table = BlockTable()
    table.add((1, MESSAGES), 0, 0, MESSAGES * len(piece))
    (folder / "bodies").write_bytes(piece * MESSAGES)
    disk = RealDisk(folder)
    store = BodyStore(disk, LedgerOptions().read_gap_bytes)
    store.replace([], [JournalBodies("bodies", disk.open("bodies"), 1, 1, table)])
    places = [(number + 1, number * len(piece), len(body)) for number in range(MESSAGES)]
    batch = ManagerOptions().fetch_entries
    return store, [places[start : start + batch] for start in range(0, MESSAGES, batch)]


class Parts:
    """The parts, each as an action on `MESSAGES` messages."""

    def __init__(self, folder: Path) -> None:
        self.message = payload()
        self.frames = frames(self.message)
        self.bodies, self.places = stored(folder, self.message)
        self.sink = Sink()
        self.builder = BlockBuilder()
        self.manager = QueueManager(ManagerOptions(), self.builder)
        self.queue = as_queue(self.manager.create_queue(QueueDefinition(name="orders"), NOW_US))
        self.producer = self.manager.open_producer("bench", "bench", "")
        options = ConsumerOptions(name="bench")
        self.consumer = self.manager.open_consumer(self.queue, self.sink, options, NOW_US)
        self.deliveries: list[Delivery] = []
        self.tokens = 0

    def receive(self) -> None:
        decoder = FrameDecoder(MAX_FRAME_BYTES)
        for start in range(0, len(self.frames), 1 << 18):
            decoder.feed(self.frames[start : start + (1 << 18)])
            while decoder.next():
                decoder.performative()
                decoder.payload()

    def scan(self) -> None:
        for _ in range(MESSAGES):
            scan_head(self.message)

    def checksum(self) -> None:
        for _ in range(MESSAGES):
            crc32(self.message)

    def put(self) -> None:
        head, manager = scan_head(self.message), self.manager
        body = self.message[head.bare_offset :]
        for _ in range(MESSAGES):
            manager.put(self.producer, self.queue, head, body, self.sink, self.tokens, NOW_US)
            self.tokens += 1

    def commit(self) -> None:
        while self.builder.take() is not None:
            pass
        self.manager.durable(self.builder.next_position - 1, NOW_US)
        self.deliveries += self.manager.take_effects().deliveries

    def read_bodies(self) -> None:
        for places in self.places:
            if self.bodies.read_cached(places) is None:
                self.bodies.read(places)

    def deliver(self) -> None:
        while len(self.deliveries) < MESSAGES:
            self.manager.set_credit(self.consumer, MESSAGES - len(self.deliveries), False, NOW_US)
            self.commit()

    def send(self) -> None:
        writer = BytesWriter()
        for delivery in self.deliveries:
            header, body = header_of(True, 4, 0, 0, NOW_US), delivery.body
            write_transfer(writer, 0, 0, 1, b"\0\0\0\1", 0, False, False, header, len(body))
            writer.write(body)
        writer.getvalue()

    def accept(self) -> None:
        for delivery in self.deliveries:
            self.manager.accept(self.consumer, delivery.entry, NOW_US)
        self.deliveries = []

    def dispositions(self) -> None:
        writer = BytesWriter()
        for number in range(0, MESSAGES, RANGE):
            write_disposition(writer, 0, True, number, number + RANGE - 1, True, ACCEPTED)
        decoder = FrameDecoder(MAX_FRAME_BYTES)
        decoder.feed(writer.getvalue())
        while decoder.next():
            decoder.performative()


def measure(folder: Path) -> dict[str, float]:
    """µs a message of each part, in the order of a message's way."""
    parts = Parts(folder)
    found = {
        "frame found, transfer read, payload copied": best_us(parts.receive),
        "head scanned": best_us(parts.scan),
        "CRC of the body (in put)": best_us(parts.checksum),
    }
    timed: dict[str, list[float]] = {}
    for _ in range(REPETITIONS):
        for name, action in (
            ("put: rules, arrival record, body into the block", parts.put),
            ("block taken", parts.commit),
            ("delivered: rules, record", parts.deliver),
            ("body read from the page cache, checked", parts.read_bodies),
            ("header and transfer written", parts.send),
            ("accepted: rules, record", parts.accept),
        ):
            start = time.process_time_ns()
            action()
            timed.setdefault(name, []).append((time.process_time_ns() - start) / MESSAGES / 1000)
        parts.commit()
    found |= {name: min(times) for name, times in timed.items()}
    found[f"dispositions written and read, {RANGE} messages each"] = best_us(parts.dispositions)
    return found


def main() -> None:
    with TemporaryDirectory(prefix="bench-") as folder:
        found = measure(Path(folder))
    for name, cost_us in found.items():
        print(f"{name:58} {cost_us:7.2f} µs")
    print(json.dumps({"compiled": compiled(), **{name: round(cost, 3) for name, cost in found.items()}}))


if __name__ == "__main__":
    main()
