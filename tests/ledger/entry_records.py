"""Arrivals and entry events for tests, by the names of their fields."""

from typing import Final
from zlib import crc32

from postroom.ledger.format.block import BlockBuilder
from postroom.ledger.format.entry_records import Arrival, EntryEvent
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.model.message import RecordedProperties

GET: Final = EntryEvent(Event.GET, State.AVAILABLE, State.DELETED, HolderKind.NONE, Outcome.CONSUMED)
"""Somebody takes an available entry for good."""

ACQUIRE: Final = EntryEvent(Event.ACQUIRE, State.AVAILABLE, State.GET_UNCONFIRMED, HolderKind.CONSUMER)
CONFIRM: Final = EntryEvent(
    Event.CONFIRM, State.GET_UNCONFIRMED, State.DELETED, HolderKind.CONSUMER, Outcome.CONSUMED
)
"""A consumer takes it, and accepts it."""


def arrival_of(queue: int, body: bytes | None = None, **fields: object) -> Arrival:
    """A persistent message on ``queue``, put and available, with this body and its CRC; all else as in
    ``fields``, by the names in `Arrival` and `RecordedProperties`."""
    properties = RecordedProperties()
    arrival = Arrival(queue, Event.PUT, State.AVAILABLE, properties, priority=4, flags=1, expiry_us=0)
    arrival.body = body
    arrival.body_crc = crc32(body or b"")
    for name, value in fields.items():
        setattr(properties if hasattr(properties, name) else arrival, name, value)
    return arrival


def put(builder: BlockBuilder, body: bytes, **fields: object) -> BodyPlace:
    """Write such an arrival on queue 1: where its body lies, as entries remember it."""
    arrival = arrival_of(1, body, **fields)
    serial = builder.arrival(arrival)
    return int(serial), int(arrival.body_offset), len(body)


def put_chunks(builder: BlockBuilder, positions: list[int], body: bytes, queue: int = 1) -> BodyPlace:
    """Write the arrival of a body whose chunks are at these positions: where it lies."""
    arrival = arrival_of(queue, body_crc=crc32(body), body_len=len(body), chunk_positions=positions)
    serial = builder.arrival(arrival)
    return int(serial), int(arrival.body_offset), len(body)


def event_of(
    event: int,
    from_state: int,
    to_state: int,
    holder_kind: int = 0,
    outcome: int = 0,
    *,
    causes: int = 0,
    flags: int = 0,
    due_us: int = 0,
    delivery_delta: int = 0,
    failure_delta: int = 0,
    detail: bytes = b"",
) -> EntryEvent:
    """An entry event with all that it may say."""
    made = EntryEvent(event, from_state, to_state, holder_kind, outcome, causes, flags)
    made.due_us = due_us
    made.count(delivery_delta, failure_delta)
    made.detail = detail
    return made
