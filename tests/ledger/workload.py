"""A workload on a ledger beside a model of it: every kind of event, and what must be recovered.

The model is the slow twin of the fold: one dictionary, one event after the other, no numpy.
"""

import json
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

import numpy as np

from postroom.ledger.format.block import BlockBuilder, Group, encode_groups
from postroom.ledger.format.records import SET_BASE, ArrivalFlag, RecordType
from postroom.ledger.recovery.recovered import PACKED_DTYPE, UNBORN_DTYPE, Recovered
from postroom.ledger.storage.body_requests import Body, BodyPlace
from postroom.model.codes import DelayCause, Event, HolderKind, Outcome, State
from tests.ledger.entry_records import arrival_of, event_of

QUEUES = (1, 2, 3)
ROUTING_SET = SET_BASE + 5
ROUTING_QUEUES = (2, 3)
START_US = 1_700_000_000_000_000

Key = tuple[int, int]


@dataclass
class LiveEntry:
    """What the ledger must know of a live entry."""

    body: tuple[int, int, int]
    stored: bool
    priority: int
    expiry_us: int
    state: int
    holder_kind: int = 0
    holder: int = 0
    causes: int = 0
    due_us: int = 0
    delivery_count: int = 0
    failure_count: int = 0
    place: Key = (0, 0)
    noted: int = 0
    parent: int = 0

    def copy(self) -> "LiveEntry":
        return LiveEntry(**vars(self))

    def facts(self) -> tuple[object, ...]:
        return tuple(vars(self).values())


@dataclass
class Snapshot:
    """The model at one position."""

    entries: dict[Key, LiveEntry] = field(default_factory=dict)
    bodies: dict[int, bytes] = field(default_factory=dict)


class Workload:
    """Random steps, each written through the builder and applied to the model at once."""

    def __init__(self, builder: BlockBuilder, random: Random, largest_body: int = 200) -> None:
        self.builder = builder
        self.random = random
        self.largest_body = largest_body
        self.entries: dict[Key, LiveEntry] = {}
        self.bodies: dict[int, bytes] = {}
        self.next_holder = 1
        self.arrived = dict.fromkeys(QUEUES, 0)
        self.ended: dict[tuple[int, int], int] = {}

    def define(self) -> None:
        for queue in QUEUES:
            detail = json.dumps({"name": f"q{queue}"}).encode()
            self.builder.record(RecordType.QUEUE_DEFINED, 0, queue, 0, 0, 0, detail)
        ids = np.array(ROUTING_QUEUES, "<u4").tobytes()
        self.builder.record(RecordType.ROUTING_SET_DEFINED, 0, 0, ROUTING_SET, 0, 0, ids)

    def snapshot(self) -> Snapshot:
        live = {entry.body[0] for entry in self.entries.values() if entry.stored}
        return Snapshot(
            {key: entry.copy() for key, entry in self.entries.items()},
            {serial: body for serial, body in self.bodies.items() if serial in live},
        )

    def adopt(self, snapshot: Snapshot, builder: BlockBuilder) -> None:
        """Go on after a restart from what was recovered."""
        self.builder = builder
        self.entries = {key: entry.copy() for key, entry in snapshot.entries.items()}
        self.bodies = dict(snapshot.bodies)

    def step(self) -> None:
        """One random command."""
        self.builder.set_time(self.builder.time_us + self.random.randrange(1000))
        steps = [self.put, self.put, self.put, self.put_set, self.put_held, self.put_unborn, self.put_large]
        steps += [self.acquire, self.acquire, self.confirm, self.confirm, self.give_back, self.note]
        steps += [self.due, self.dead_letter, self.purge, self.decide, self.expire, self.open_holder]
        self.random.choice(steps)()

    # --- putting

    def put(self) -> None:
        stored = self.random.random() < 0.9
        self.arrive(self.random.choice(QUEUES), State.AVAILABLE, stored=stored)

    def put_set(self) -> None:
        self.arrive(ROUTING_SET, State.AVAILABLE)

    def put_unborn(self) -> None:
        due = self.builder.time_us + 10_000
        queue = self.random.choice((*QUEUES, ROUTING_SET))
        self.arrive(queue, State.DELAYED, causes=DelayCause.UNBORN, due_us=due)

    def put_held(self) -> None:
        kind = self.random.choice((HolderKind.LOCAL_TRANSACTION, HolderKind.XA_PREPARED))
        holder = self._new_holder(kind)
        for _ in range(self.random.randrange(1, 4)):
            queue = self.random.choice((*QUEUES, ROUTING_SET))
            self.arrive(queue, State.PUT_UNCONFIRMED, holder_kind=kind, holder=holder)

    def put_large(self) -> None:
        """A body in chunks; sometimes given up."""
        chunks = [self._body() for _ in range(self.random.randrange(1, 4))]
        positions = [self.builder.body_chunk(0, chunks[0])]
        positions += [self.builder.body_chunk(positions[0], chunk) for chunk in chunks[1:]]
        if self.random.random() < 0.3:
            self.builder.abort_upload(positions[0])
            return
        self.arrive(1, State.AVAILABLE, body=b"".join(chunks), chunks=positions)

    def _body(self) -> bytes:
        return self.random.randbytes(self.random.randrange(self.largest_body))

    def arrive(
        self,
        routing_set: int,
        state: State,
        *,
        stored: bool = True,
        holder_kind: int = 0,
        holder: int = 0,
        causes: int = 0,
        due_us: int = 0,
        body: bytes | None = None,
        chunks: list[int] | None = None,
    ) -> None:
        body = body if body is not None else self._body()
        priority = self.random.randrange(10)
        expiry_us = self.random.choice((0, self.builder.time_us + 50_000))
        event = Event.PUT_HELD if holder else Event.PUT
        name = b"id-%d" % self.builder.next_position
        inline = body if stored and chunks is None else None
        arrival = arrival_of(
            routing_set, inline, event=event, to_state=state, holder_kind=holder_kind, holder=holder,
            causes=causes, due_us=due_us, priority=priority, flags=0, producer=9, expiry_us=expiry_us,
            body_crc=crc32(body), body_len=len(body), chunk_positions=chunks, message_id=name,
            message_id_type=1,
        )  # fmt: skip
        serial = self.builder.arrival(arrival)
        place = (serial, arrival.body_offset, len(body))
        self.bodies[serial] = body
        queues = ROUTING_QUEUES if routing_set == ROUTING_SET else (routing_set,)
        for queue in queues:
            self.entries[serial, queue] = LiveEntry(
                place, stored, priority, expiry_us, int(state), int(holder_kind), holder, int(causes), due_us,
                place=(serial, 0) if state is State.AVAILABLE else (0, 0),
            )  # fmt: skip
            self.arrived[queue] += 1

    # --- changing

    def _pick(self, *states: State) -> list[Key]:
        found = [key for key, entry in self.entries.items() if entry.state in states]
        return self.random.sample(found, min(len(found), self.random.randrange(1, 5)))

    def _change(
        self,
        key: Key,
        event: Event,
        to_state: State,
        *,
        holder_kind: int = 0,
        holder: int = 0,
        outcome: Outcome = Outcome.NONE,
        causes: int = 0,
        due_us: int = 0,
        delivery: int = 0,
        failure: int = 0,
    ) -> None:
        change = (int(holder_kind), holder, outcome, int(causes), due_us, delivery, failure)
        record = event_of(
            event, self.entries[key].state, to_state, holder_kind, outcome, causes=causes, due_us=due_us,
            delivery_delta=delivery, failure_delta=failure,
        )  # fmt: skip
        position = self.builder.entry_event(*key, holder, record)
        self._apply(key, event, to_state, *change, position, 0)

    def _apply(
        self,
        key: Key,
        event: int,
        to_state: int,
        holder_kind: int,
        holder: int,
        outcome: int,
        causes: int,
        due_us: int,
        delivery: int,
        failure: int,
        position: int,
        ordinal: int,
    ) -> None:
        entry = self.entries[key]
        held = to_state in (State.PUT_UNCONFIRMED, State.GET_UNCONFIRMED)
        if to_state == State.DELETED:
            self.ended[key[1], int(outcome)] = self.ended.get((key[1], int(outcome)), 0) + 1
            del self.entries[key]
            return
        entry.state, entry.causes, entry.due_us = int(to_state), int(causes), due_us
        entry.holder_kind, entry.holder = (int(holder_kind), holder) if held else (0, 0)
        entry.delivery_count += delivery
        entry.failure_count += failure
        if to_state == State.AVAILABLE and entry.place == (0, 0):
            entry.place = (position, ordinal)
        if held and event in (Event.EXPIRE, Event.DELETE):
            entry.noted = int(event)
        elif not held:
            entry.noted = 0

    def acquire(self) -> None:
        kind = self.random.choice((HolderKind.CONSUMER, HolderKind.XA_PREPARED))
        for key in self._pick(State.AVAILABLE):
            self._change(key, Event.ACQUIRE, State.GET_UNCONFIRMED, holder_kind=kind, holder=77)

    def confirm(self) -> None:
        for key in self._pick(State.GET_UNCONFIRMED):
            self._end(key, Event.CONFIRM, Outcome.CONSUMED)

    def expire(self) -> None:
        for key in self._pick(State.AVAILABLE, State.DELAYED):
            self._end(key, Event.EXPIRE, Outcome.EXPIRED)

    def _end(self, key: Key, event: Event, outcome: Outcome) -> None:
        self._change(key, event, State.DELETED, holder_kind=1, holder=77, outcome=outcome)

    def give_back(self) -> None:
        for key in self._pick(State.GET_UNCONFIRMED):
            if self.random.random() < 0.5:
                self._change(key, Event.RELEASE, State.AVAILABLE, holder_kind=1, holder=77)
            else:
                due = self.builder.time_us + 5000
                cause = DelayCause.REDELIVERY_DELAY
                self._change(
                    key, Event.FAIL, State.DELAYED, holder_kind=1, holder=77, causes=cause, due_us=due,
                    delivery=1, failure=1,
                )  # fmt: skip

    def note(self) -> None:
        for key in self._pick(State.GET_UNCONFIRMED, State.PUT_UNCONFIRMED):
            entry = self.entries[key]
            event = self.random.choice((Event.EXPIRE, Event.DELETE))
            self._change(key, event, State(entry.state), holder_kind=entry.holder_kind, holder=entry.holder)

    def due(self) -> None:
        for key in self._pick(State.DELAYED):
            self._change(key, Event.DUE, State.AVAILABLE)

    def dead_letter(self) -> None:
        """The entry ends, and a child that shares its body begins on queue 3."""
        for key in self._pick(State.AVAILABLE):
            entry = self.entries[key]
            body_serial, body_offset, body_len = entry.body
            flags = ArrivalFlag.BODY_SHARED | (ArrivalFlag.BODY_STORED if entry.stored else 0)
            self._end(key, Event.DEAD_LETTER, Outcome.DEAD_LETTERED)
            arrival = arrival_of(
                3, event=Event.DEAD_LETTER, flags=flags, message_id=b"dl", message_id_type=1,
                body_serial=body_serial, body_len=body_len, body_offset=body_offset,
                parent_serial=key[0], parent_queue=key[1],
            )  # fmt: skip
            serial = self.builder.arrival(arrival)
            self.entries[serial, 3] = LiveEntry(
                entry.body, entry.stored, 4, 0, int(State.AVAILABLE), place=(serial, 0), parent=key[0]
            )
            self.arrived[3] += 1

    def purge(self) -> None:
        """All available entries of a queue at once, in exact runs; rarely."""
        if self.random.random() < 0.8:
            return
        queue = self.random.choice(QUEUES)
        available = [key for key, entry in self.entries.items() if entry.state == State.AVAILABLE]
        serials = sorted(serial for serial, on in available if on == queue)
        end = (State.AVAILABLE, State.DELETED, Outcome.PURGED)
        self._group(RecordType.GROUP_EVENT, Event.PURGE, 0, 0, queue, serials, *end)

    def decide(self) -> None:
        """A transaction's puts are committed or rolled back by one record."""
        keys = [key for key, entry in self.entries.items() if entry.state == State.PUT_UNCONFIRMED]
        if not keys:
            return
        first = self.entries[self.random.choice(keys)]
        own = [key for key in keys if self.entries[key].holder == first.holder]
        queue = self.random.choice(own)[1]
        serials = sorted(key[0] for key in own if key[1] == queue)
        if self.random.random() < 0.7:
            end: tuple[Event, State, Outcome] = (Event.CONFIRM, State.AVAILABLE, Outcome.NONE)
        else:
            end = (Event.UNDO, State.DELETED, Outcome.ROLLED_BACK)
        event, to_state, outcome = end
        change = (State.PUT_UNCONFIRMED, to_state, outcome)
        self._group(RecordType.DECISION, event, first.holder_kind, first.holder, queue, serials, *change)

    def _group(
        self,
        type: RecordType,
        event: Event,
        holder_kind: int,
        holder: int,
        queue: int,
        serials: list[int],
        from_state: State,
        to_state: State,
        outcome: Outcome,
    ) -> None:
        if not serials:
            return
        group = Group(queue, from_state, to_state, outcome, 0, 0, 0, runs_of(serials))
        position = self.builder.record(type, 0, 0, holder, holder_kind, event, encode_groups([group]))
        for ordinal, serial in enumerate(serials):
            key = (serial, queue)
            self._apply(key, event, to_state, holder_kind, holder, outcome, 0, 0, 0, 0, position, ordinal)

    def open_holder(self) -> None:
        holder = self._new_holder(HolderKind.CONSUMER)
        if self.random.random() < 0.8:
            self.builder.record(RecordType.HOLDER_CLOSED, 0, 0, holder, HolderKind.CONSUMER, 0, b"")

    def _new_holder(self, kind: HolderKind) -> int:
        holder, self.next_holder = self.next_holder, self.next_holder + 1
        self.builder.record(RecordType.HOLDER_OPENED, 0, 0, holder, kind, 0, b'{"name": "h"}')
        return holder


def runs_of(serials: list[int]) -> list[tuple[int, int]]:
    """Ascending serials as runs (first, last)."""
    runs: list[tuple[int, int]] = []
    for serial in serials:
        if runs and serial == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], serial)
        else:
            runs.append((serial, serial))
    return runs


def entries_of(recovered: Recovered) -> dict[Key, LiveEntry]:
    """What was recovered, in the model's form; lost entries apart (see `lost_of`)."""
    found: dict[Key, LiveEntry] = {}
    for queue, piece in recovered.backlog:
        for row in np.frombuffer(piece, PACKED_DTYPE):
            serial = int(row["serial"])
            body = (int(row["body_serial"]), int(row["body_offset"]), int(row["body_len"]))
            found[serial, queue] = LiveEntry(
                body,
                True,
                int(row["priority"]),
                int(row["expiry_us"]),
                int(State.AVAILABLE),
                place=(serial, 0),
            )
    for queue, piece in recovered.unborn:
        for row in np.frombuffer(piece, UNBORN_DTYPE):
            body = (int(row["body_serial"]), int(row["body_offset"]), int(row["body_len"]))
            found[int(row["serial"]), queue] = LiveEntry(
                body,
                True,
                int(row["priority"]),
                int(row["expiry_us"]),
                int(State.DELAYED),
                causes=int(DelayCause.UNBORN),
                due_us=int(row["due_us"]),
                delivery_count=int(row["delivery_count"]),
            )
    for e in recovered.explicit:
        body = (e.body_serial, e.body_offset, e.body_len)
        stored = bool(e.flags & ArrivalFlag.BODY_STORED)
        held = (e.state, e.holder_kind, e.holder, e.causes, e.due_us, e.delivery_count, e.failure_count)
        place = (e.place_position, e.place_ordinal)
        found[e.serial, e.queue] = LiveEntry(
            body, stored, e.priority, e.expiry_us, *held, place, e.noted, e.parent_serial
        )
    return found


def lost_of(recovered: Recovered) -> dict[Key, int]:
    """State by (serial, queue) of the entries that recovery gives up."""
    return {(serial, queue): state for queue, state, serials in recovered.lost for serial in serials.tolist()}


def expected_lost(snapshot: Snapshot) -> dict[Key, int]:
    return {
        key: entry.state
        for key, entry in snapshot.entries.items()
        if not entry.stored and entry.holder_kind != HolderKind.XA_PREPARED
    }


def assert_recovered(recovered: Recovered, snapshot: Snapshot) -> None:
    """The recovered state is exactly the model's."""
    lost = expected_lost(snapshot)
    assert lost_of(recovered) == lost
    want = {key: entry.facts() for key, entry in snapshot.entries.items() if key not in lost}
    got = {key: entry.facts() for key, entry in entries_of(recovered).items()}
    assert got == want


def assert_bodies(ledger: "BodyReader", snapshot: Snapshot) -> None:
    """Every live stored body can be read."""
    wanted, bodies = stored_bodies(snapshot)
    assert ledger.read_bodies(wanted) == bodies


def stored_bodies(snapshot: Snapshot) -> tuple[list[BodyPlace], list[bytes]]:
    """Where the live stored bodies are, and what they are."""
    wanted = sorted({entry.body for entry in snapshot.entries.values() if entry.stored})
    return wanted, [snapshot.bodies[serial] for serial, _, _ in wanted]


class BodyReader:
    """What `assert_bodies` needs of a ledger."""

    def read_bodies(self, wanted: list[BodyPlace]) -> list[Body]:
        raise NotImplementedError
