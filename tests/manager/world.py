"""A queue manager in a test: time is a number, the disk a dictionary, and every record can be looked at."""

from typing import Any

import numpy as np

from postroom.ledger.errors import BodyUnreadable, LedgerCorrupt
from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.format.records import ARRIVAL, TRANSITION, RecordType
from postroom.ledger.reading.message_id_hash import hash_id
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.manager.consuming.browser import Browser
from postroom.manager.consuming.settlement import Modification
from postroom.manager.kernel.consumer import Consumer, Producer, QueueReader
from postroom.manager.kernel.effects import Delivery, Effects, IdRead, Sink
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ConsumerOptions, ManagerOptions, QueueDefinition
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.manager import QueueManager
from postroom.manager.queues.message_ids import id_of_kind
from postroom.manager.queues.queue import Queue
from postroom.manager.undeliverable.unreadable_bodies import UNREADABLE_DELAY_US
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.model.ids import ID_KINDS, MessageIds
from postroom.model.message import MessageHead

START_US = 1_700_000_000_000_000
MS = 1000
CHUNKED = 0x8000_0000

ARRIVAL_DTYPE = np.dtype(ARRIVAL.numpy_fields())
TRANSITION_DTYPE = np.dtype(TRANSITION.numpy_fields())


class TestSink(Sink):
    """Remembers what it was told."""

    __test__ = False

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = name
        self.accepted: list[int] = []
        self.settled: list[int] = []
        self.rejected: list[tuple[int, str, str]] = []


def a_head(
    durable: bool = True,
    priority: int = 4,
    ttl_ms: int = -1,
    delay_ms: int = 0,
    due_ms: int = 0,
    message_id: str = "",
    eligible: bool = False,
) -> MessageHead:
    head = MessageHead()
    head.message_id, head.message_id_type = message_id.encode(), int(bool(message_id))
    head.durable = durable
    head.dead_letter_eligible = eligible
    head.priority = priority
    head.ttl_ms = ttl_ms
    head.delivery_delay_ms = delay_ms
    head.delivery_time_ms = due_ms
    return head


def _ids_of(row: Any, names: bytes) -> MessageIds:
    def piece(start: int, size: int) -> bytes:
        return names[start : start + size]

    at, size = int(row["message_id_offset"]), int(row["message_id_len"])
    ids = MessageIds(
        piece(at + size, int(row["unique_id_len"])),
        piece(at, size),
        int(row["message_id_type"]),
        piece(int(row["correlation_id_offset"]), int(row["correlation_id_len"])),
        int(row["correlation_id_type"]),
    )
    ids.parent_queue, ids.parent_serial = int(row["parent_queue"]), int(row["parent_serial"])
    return ids


def _hashed(kind: int, ids: dict[int, MessageIds], serials: list[int]) -> Any:
    """As `Ledger.hash_ids` for one kind."""
    found = [(id_of_kind(ids[serial], kind), serial) for serial in serials]
    pairs = sorted((hash_id(*id), serial) for id, serial in found if id is not None)
    return np.array([hash for hash, _ in pairs], np.uint64), np.array(
        [serial for _, serial in pairs], np.uint64
    )


DAMAGE = LedgerCorrupt("00000001.bodies", 77, "the body is damaged")
UNREADABLE_DELAY_MS = int(UNREADABLE_DELAY_US) // MS + 1
UNREADABLE = BodyUnreadable("00000001.bodies", 77, "the body can't be read")


class World:
    """One queue manager; `turn` commits what was written and carries out the effects."""

    def __init__(self, options: ManagerOptions | None = None) -> None:
        self.options = options or ManagerOptions()
        self.builder = BlockBuilder()
        self.manager = QueueManager(self.options, self.builder)
        self.now_us = START_US
        self.bodies: dict[int, bytes] = {}
        self.arrivals: list[Any] = []
        self.transitions: list[Any] = []
        self.details: list[bytes] = []
        """Of the transitions, by index."""
        self.delivered: list[Delivery] = []
        self.drained: list[Consumer] = []
        self.detached: list[tuple[Sink, str]] = []
        self.fetches = 0
        """Reads of bodies."""
        self.id_reads = 0
        self.damaged: set[int] = set()
        """Serials of the messages whose bodies can't be read."""
        self.damage = DAMAGE
        self.ids: dict[int, MessageIds] = {}
        """Of the arrivals that are on the disk."""
        self._chunks: dict[int, bytes] = {}
        self._producer = self.manager.open_producer("sender", "test", "")
        self._tokens = 0

    # Shorthands.

    def queue(self, name: str = "q", **definition: Any) -> Any:
        return self.manager.create_queue(QueueDefinition(name=name, **definition), self.now_us)

    def put(
        self,
        queue: Queue,
        body: bytes = b"body",
        sink: TestSink | None = None,
        transaction: Transaction | None = None,
        producer: Producer | None = None,
        **head: Any,
    ) -> int:
        """Put a message; returns its token."""
        token = self.new_token()
        self.manager.put(
            producer or self._producer,
            queue,
            a_head(**head),
            body,
            sink or TestSink(),
            token,
            self.now_us,
            transaction,
        )
        return token

    def new_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def consumer(self, queue: Queue, credit: int = 0, **options: Any) -> Consumer:
        consumer = self.manager.open_consumer(
            queue, TestSink("consumer"), ConsumerOptions(**options), self.now_us
        )
        if credit:
            self.manager.set_credit(consumer, credit, False, self.now_us)
        return consumer

    def browser(self, queue: Queue, credit: int = 0, selector: str = "") -> Browser:
        options = ConsumerOptions(selector=selector)
        browser = self.manager.open_browser(queue, TestSink("browser"), options, self.now_us)
        if credit:
            self.manager.set_credit(browser, credit, False, self.now_us)
        return browser

    def credit(self, consumer: QueueReader, credit: int, drain: bool = False) -> None:
        self.manager.set_credit(consumer, credit, drain, self.now_us)

    def accept(self, consumer: Consumer, entry: Entry, transaction: Transaction | None = None) -> None:
        self.manager.accept(consumer, entry, self.now_us, -1, transaction)

    def release(self, consumer: Consumer, entry: Entry) -> None:
        self.manager.release(consumer, entry, self.now_us)

    def fail(self, consumer: Consumer, entry: Entry, not_here: bool = False) -> None:
        self.manager.modify(consumer, entry, Modification(True, not_here), self.now_us)

    def close(self, consumer: QueueReader, lost: bool = False) -> None:
        self.manager.close_reader(consumer, self.now_us, lost)

    # Turns and time.

    def turn(self, ms: int = 0) -> list[bytes]:
        """Let ``ms`` pass, then commit and carry out effects to the end; returns the bodies delivered."""
        self.now_us += ms * MS
        delivered: list[bytes] = []
        for _ in range(10_000):
            if self._is_due():
                self.manager.on_time(self.now_us)
            effects = self.manager.take_effects()
            wrote = self._commit()
            if not wrote and effects.empty() and not self._is_due():
                return delivered
            delivered += self._carry_out(effects)
        raise AssertionError("the turns don't come to an end")

    def _is_due(self) -> bool:
        deadline_us = self.manager.next_deadline_us()
        return 0 < deadline_us <= self.now_us

    def _commit(self) -> bool:
        last = 0
        while (parts := self.builder.take()) is not None:
            last = parts.last_position
            self._keep(parts)
        if last:
            self.manager.durable(last, self.now_us)
        return bool(last)

    def _keep(self, parts: Any) -> None:
        for row in np.frombuffer(parts.transitions, TRANSITION_DTYPE):
            at, size = int(row["detail_offset"]), int(row["detail_len"])
            if row["type"] == RecordType.BODY_CHUNK and size:
                upload = int(row["serial"])
                self._chunks[upload] = self._chunks.get(upload, b"") + b"".join(parts.bodies)[at : at + size]
            self.transitions.append(row)
            self.details.append(parts.names[at : at + size])
        for row in np.frombuffer(parts.arrivals, ARRIVAL_DTYPE):
            self.arrivals.append(row)
            self.ids[int(row["position"])] = _ids_of(row, parts.names)
            serial, offset = int(row["position"]), int(row["body_offset"])
            if row["body_serial"] == serial and row["flags"] & 2:
                if offset & CHUNKED:
                    self.bodies[serial] = self._chunks.pop(int(row["upload"]))
                else:
                    self.bodies[serial] = b"".join(parts.bodies)[offset : offset + int(row["body_len"])]

    def _carry_out(self, effects: Effects) -> list[bytes]:
        for fetch in effects.fetches:
            self.fetches += 1
            self.manager.fetched(fetch.entries, self._read(fetch.wanted), self.now_us)
        for read in effects.id_reads:
            self.id_reads += 1
            self.manager.ids_read(read, self._read_ids(read), self.now_us)
        for run in [*effects.provisional, *effects.accepted]:
            assert isinstance(run.sink, TestSink)
            run.sink.accepted += range(run.first, run.last + 1)
        for run in effects.settled:
            assert isinstance(run.sink, TestSink)
            run.sink.settled += range(run.first, run.last + 1)
        for refused in effects.rejected:
            assert isinstance(refused.sink, TestSink)
            refused.sink.rejected.append((refused.token, refused.condition, refused.description))
        for reply in effects.replies:
            reply.target.answered(reply.payload, self.now_us)
        sent = [delivery for delivery in effects.deliveries if not delivery.consumer.closed]
        self.delivered += sent
        self.drained += effects.drained
        self.detached += [(gone.sink, gone.condition) for gone in effects.detached]
        return [delivery.body for delivery in sent]

    def _read(self, wanted: list[BodyPlace]) -> list[Body]:
        return [
            self.damage if serial in self.damaged else self.bodies[serial][:size]
            for serial, _, size in wanted
        ]

    def _read_ids(self, read: IdRead) -> list[Any]:
        if read.all_serials is None:
            return [self.ids.get(serial) for serial in read.serials]
        serials: Any = read.all_serials
        return [[_hashed(kind, self.ids, serials.tolist()) for kind in range(ID_KINDS)]]

    # Looking.

    def held(self, consumer: Consumer) -> list[Entry]:
        return sorted(consumer.held, key=lambda entry: (-entry.priority, entry.place, entry.ordinal))

    def last(self, body: bytes) -> Delivery:
        """The latest delivery of that body."""
        return next(delivery for delivery in reversed(self.delivered) if delivery.body == body)

    def events(self, queue: Queue | None = None) -> list[tuple[str, str, str]]:
        """Entry events so far as (event, to_state, outcome)."""
        return [
            (Event(row["event"]).name, State(row["to_state"]).name, Outcome(row["outcome"]).name)
            for row in self.transitions
            if row["type"] == 1 and (queue is None or row["queue"] == queue.id)
        ]

    def holder_events(self) -> list[tuple[int, str]]:
        """(record type, holder kind) of what was opened and closed."""
        return [
            (int(row["type"]), HolderKind(row["holder_kind"]).name)
            for row in self.transitions
            if 8 <= row["type"] <= 11
        ]


def recount(queue: Queue) -> dict[str, int]:
    """Depth by state, counted from what is really there: for comparison with the statistics."""
    available = sum(int(band.count()) for band in queue.bands)
    consumers = [entry for consumer in queue.attached.consumers for entry in consumer.held]
    held = [*consumers, *queue.held]
    return {
        "current": available,
        "held": len(held),
        "delayed": len(queue.delayed),
        "held_bytes": sum(int(entry.body_len) for entry in held),
    }
