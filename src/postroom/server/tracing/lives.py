"""The records of the ledger as spans: what a traced message did, put, wait, deliver and settle.

Each entry of a message has one span open at a time: `put` until its transaction is decided, `wait` until
somebody has it, `deliver` (or `forward`, to a channel's partner) until it is settled. All are children of the
sender's span. A dead letter, or what a move makes, is traced as the message was that it is made of.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from postroom.amqp.message.trace_context import TraceContext
from postroom.ledger.format.expand import Chunk, Rows, expand
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.dump import heap_piece, id_text
from postroom.model.codes import DelayCause, Event, HolderKind, Outcome, State
from postroom.model.holders import TRANSACTIONAL
from postroom.server.tracing.spans import (
    CLIENT,
    INTERNAL,
    OPERATION_TYPES,
    SERVER,
    SYSTEM,
    Attributes,
    Span,
    span_id_of,
)
from postroom.server.tracing.traced_messages import HELD, PUT, WAIT, TracedEntry, TracedMessage

MAX_EVENTS: Final = 64
"""Of one span: a message that is delayed again and again has no more."""

_HELD_STATES: Final = (State.GET_UNCONFIRMED, State.BROWSE_GET_UNCONFIRMED)
_ARRIVED_AS: Final[Mapping[int, str]] = {
    Event.MOVE: "move",
    Event.DEAD_LETTER: "dead_letter",
    Event.REDIRECT: "redirect",
    Event.RETURN_TO_SENDER: "return_to_sender",
}
"""What an arrival is called that was made of another message; others were `put`."""
_UNSUCCESSFUL: Final = frozenset(
    {Event.UNDO, Event.FAIL, Event.LINK_LOST, Event.RESTART, Event.DEAD_LETTER, Event.DISCARD, Event.EXPIRE}
    | {Event.REDIRECT, Event.RETURN_TO_SENDER}
)
"""Events with which a span ends as failed."""


_TAKEN: Final = (
    *("position", "time_us", "serial", "queue", "to_state", "event", "outcome", "causes"),
    *("holder", "holder_kind"),
)
"""Columns of a row that a change has, in its order."""


@dataclass(slots=True)
class Change:
    """One row about a traced message."""

    ordinal: int
    position: int
    time_us: int
    serial: int
    queue: int
    to_state: int
    event: int
    outcome: int
    causes: int
    holder: int
    holder_kind: int
    arrival: Any = field(default=None, init=False)
    """The record, of a message that has arrived."""
    names: Array | None = field(default=None, init=False)


class Lives:
    """The traced messages that are alive, and the spans of what becomes of them."""

    def __init__(self, ledger_id: bytes, max_messages: int) -> None:
        self._ledger_id: Final = ledger_id
        self._max_messages: Final = max_messages
        self.messages: dict[int, TracedMessage] = {}
        """By serial."""
        self._noted: dict[int, TraceContext] = {}
        self.dropped = 0
        """Sampled messages that weren't traced: too many were alive."""

    @property
    def is_idle(self) -> bool:
        """Whether no record can be about a traced message."""
        return not self.messages and not self._noted

    def note(self, notes: list[tuple[int, TraceContext]]) -> None:
        """These messages are to be traced; their records come later."""
        self._noted.update(notes)

    def read(self, chunk: Chunk, known: Definitions) -> list[Span]:
        """The spans that end in a run of records; runs follow one another."""
        self._adopt(chunk)
        last = last_position(chunk)
        changes = self._changes(chunk, known)
        spans = [span for change in changes for span in self._change(change, known)]
        for serial in [serial for serial in self._noted if serial <= last]:
            del self._noted[serial]  # no queue had it
        return spans

    def _adopt(self, chunk: Chunk) -> None:
        """What is made of a traced message is traced, and what is made of that."""
        arrivals = chunk.arrivals
        is_made = (arrivals["parent_serial"] != 0) & ((arrivals["flags"] & ArrivalFlag.RECEIVED) == 0)
        made = arrivals[is_made]
        while len(made) and not self.is_idle:
            is_traced = _is_among(made["parent_serial"], self._wanted())
            if not is_traced.any():
                return
            for record in made[is_traced]:
                self._noted[int(record["position"])] = self._context_of(int(record["parent_serial"]))
            made = made[~is_traced]

    def _context_of(self, serial: int) -> TraceContext:
        """That of a traced message."""
        message = self.messages.get(serial)
        return self._noted[serial] if message is None else message.context()

    def _wanted(self) -> Array:
        """Serials of all that are traced, in order."""
        return np.array(sorted({*self.messages, *self._noted}), np.uint64)

    def _changes(self, chunk: Chunk, known: Definitions) -> list[Change]:
        if self.is_idle:
            return []
        wanted = self._wanted()
        found = [
            change
            for rows in expand(chunk, known.routing_sets)
            for change in _changes_of(rows, np.flatnonzero(_is_among(rows["serial"], wanted)))
        ]
        return sorted(found, key=lambda change: (change.position, change.ordinal))

    def _change(self, change: Change, known: Definitions) -> Iterator[Span]:
        if change.arrival is not None:
            yield from self._arrive(change, known)
            return
        message = self.messages.get(change.serial)
        entry = message.entries.get(change.queue) if message is not None else None
        if message is None or entry is None:
            return
        if entry.stage == PUT:
            yield from self._decide(change, message, entry)
        elif entry.stage == WAIT:
            yield from self._go_on(change, message, entry, known)
        else:
            yield from self._settle(change, message, entry)
        if change.to_state == State.DELETED:
            del message.entries[change.queue]
            if not message.entries:
                del self.messages[change.serial]

    def _arrive(self, change: Change, known: Definitions) -> Iterator[Span]:
        message = self._arrived(change, known)
        if message is None:
            return
        operation = _ARRIVED_AS.get(change.event, "put")
        entry = TracedEntry(
            PUT,
            change.time_us,
            self._span_id(change, operation),
            operation,
            _destination(known, change.queue),
        )
        entry.attributes = _arrival_attributes(change, known)
        entry.link_id = self._left_from(change)
        message.entries[change.queue] = entry
        if change.to_state != State.PUT_UNCONFIRMED:
            yield from self._decide(change, message, entry)

    def _arrived(self, change: Change, known: Definitions) -> TracedMessage | None:
        """The message of an arrival, which may have entries already."""
        message = self.messages.get(change.serial)
        context = self._noted.pop(change.serial, None)
        if message is not None or context is None:
            return message
        if len(self.messages) >= self._max_messages:
            self.dropped += 1
            return None
        message = self.messages[change.serial] = TracedMessage.of(context)
        made_of = self.messages.get(int(change.arrival["parent_serial"])) if _is_made(change) else None
        ids = made_of.attributes if made_of is not None else {}  # its own arrival may leave them out
        message.attributes = ids | _message_attributes(change)
        return message

    def _left_from(self, change: Change) -> bytes:
        """The span that was open where the message was made from another."""
        if not _is_made(change):
            return b""
        parent = self.messages.get(int(change.arrival["parent_serial"]))
        entry = parent.entries.get(int(change.arrival["parent_queue"])) if parent is not None else None
        return entry.span_id if entry is not None else b""

    def _decide(self, change: Change, message: TracedMessage, entry: TracedEntry) -> Iterator[Span]:
        """A put, which ends when it is there for others, or is taken back."""
        if change.to_state == State.PUT_UNCONFIRMED:
            return
        rolled_back = change.to_state == State.DELETED
        yield _span(message, entry, change.time_us, SERVER, "rolled_back" if rolled_back else "")
        self._begin(entry, WAIT, change, "wait")
        if change.to_state == State.DELAYED:
            _happen(entry, change)

    def _go_on(
        self, change: Change, message: TracedMessage, entry: TracedEntry, known: Definitions
    ) -> Iterator[Span]:
        """It waited, and waits on, is taken, or ends."""
        taken = change.to_state in _HELD_STATES or change.event == Event.GET
        if not taken and change.to_state != State.DELETED:
            _happen(entry, change)
            return
        if not taken:
            entry.attributes["postroom.outcome"] = Outcome(change.outcome).name.lower()
        yield _span(message, entry, change.time_us, INTERNAL, "" if taken else _error(change))
        if not taken:
            return
        attributes = _holder_attributes(change, known)
        entry.attempts += 1
        self._begin(entry, HELD, change, "forward" if "postroom.channel" in attributes else "deliver")
        entry.attributes = attributes | {"postroom.delivery.attempt": entry.attempts}
        if change.to_state == State.DELETED:
            yield from self._settle(change, message, entry)

    def _settle(self, change: Change, message: TracedMessage, entry: TracedEntry) -> Iterator[Span]:
        """Somebody had it, and has it still, or confirms, or gives it back."""
        if change.to_state in _HELD_STATES:
            if change.holder_kind in TRANSACTIONAL and entry.disposed_us == 0:
                entry.disposed_us = change.time_us
            _happen(entry, change)
            return
        kind = CLIENT if entry.operation == "forward" else SERVER
        error = _error(change)
        if change.outcome:
            entry.attributes["postroom.outcome"] = Outcome(change.outcome).name.lower()
        yield _span(message, entry, change.time_us, kind, error)
        settling = TracedEntry(
            HELD,
            entry.disposed_us or change.time_us,
            self._span_id(change, "settle"),
            "settle",
            entry.destination,
        )
        settling.attributes = {"postroom.event": Event(change.event).name.lower()}
        yield _span(message, settling, change.time_us, SERVER, error, parent_id=entry.span_id)
        if change.to_state != State.DELETED:
            self._begin(entry, WAIT, change, "wait")
            if change.to_state == State.DELAYED:
                _happen(entry, change)

    def _begin(self, entry: TracedEntry, stage: str, change: Change, operation: str) -> None:
        entry.stage = stage
        entry.operation = operation
        entry.since_us = change.time_us
        entry.span_id = self._span_id(change, operation)
        entry.attributes = {}
        entry.events = []
        entry.disposed_us = 0
        entry.link_id = b""

    def _span_id(self, change: Change, operation: str) -> bytes:
        return span_id_of(self._ledger_id, change.position, change.serial, change.queue, operation)


def _changes_of(rows: Rows, indexes: Array) -> Iterator[Change]:
    if not len(indexes):
        return
    columns = [rows[name][indexes].tolist() for name in _TAKEN]
    numbers = rows.ordinal[indexes].tolist(), indexes.tolist()
    for ordinal, index, *values in zip(*numbers, *columns, strict=True):
        change = Change(ordinal, *values)
        if rows.arrivals is not None:
            change.arrival, change.names = rows.arrivals[index], rows.names
        yield change


def _is_among(serials: Array, wanted: Array) -> Array:
    """Which of the serials are wanted; those are in order."""
    places = np.searchsorted(wanted, serials)
    places[places == len(wanted)] = 0
    among: Array = wanted[places] == serials
    return among


def _is_made(change: Change) -> bool:
    """Whether an arrival was made of another message of this ledger."""
    arrival = change.arrival
    return bool(arrival["parent_serial"]) and not arrival["flags"] & ArrivalFlag.RECEIVED


def last_position(chunk: Chunk) -> int:
    """Of the last record of a run."""
    ends = [int(each["position"][-1]) for each in (chunk.arrivals, chunk.transitions) if len(each)]
    return max(ends, default=0)


def _happen(entry: TracedEntry, change: Change) -> None:
    """Something happens within the span that is open."""
    if len(entry.events) >= MAX_EVENTS:
        return
    name = Event(change.event).name.lower()
    if change.to_state == State.DELAYED:
        causes = [cause.name.lower() for cause in DelayCause(change.causes) if cause.name]
        name = f"delayed: {', '.join(causes)}"
    entry.events.append((name, change.time_us))


def _error(change: Change) -> str:
    """``error.type`` of a span that ends with this change."""
    if change.event in _UNSUCCESSFUL:
        return Event(change.event).name.lower()
    return "lost" if change.outcome == Outcome.LOST else ""


def _span(
    message: TracedMessage, entry: TracedEntry, end_us: int, kind: str, error: str, parent_id: bytes = b""
) -> Span:
    operation = entry.operation
    attributes: Attributes = {"messaging.system": SYSTEM, "messaging.operation.name": operation}
    if operation in OPERATION_TYPES:
        attributes["messaging.operation.type"] = OPERATION_TYPES[operation]
    attributes |= entry.destination | message.attributes | entry.attributes
    if error:
        attributes["error.type"] = error
    return Span(
        operation=operation,
        destination=str(entry.destination["messaging.destination.name"]),
        kind=kind,
        trace_id=message.trace_id,
        span_id=entry.span_id,
        parent_id=parent_id or message.span_id,
        trace_state=message.trace_state,
        flags=message.flags,
        start_us=entry.since_us,
        end_us=max(end_us, entry.since_us),
        attributes=attributes,
        events=entry.span_events(),
        link_id=entry.link_id,
        error=error,
    )


def _destination(known: Definitions, queue: int) -> Attributes:
    definition = known.queues.get(queue, {})
    name = str(definition.get("name", f"#{queue}"))
    if definition.get("kind") != "subscription":
        return {"messaging.destination.name": name}
    topic = str(definition.get("topic", name))
    return {"messaging.destination.name": topic, "messaging.destination.subscription.name": name}


def _message_attributes(change: Change) -> Attributes:
    record, names = change.arrival, change.names
    found: Attributes = {
        "postroom.message.serial": change.serial,
        "messaging.message.envelope.size": int(record["body_len"]),
    }
    assert names is not None
    for name, attribute in (("message_id", "id"), ("correlation_id", "conversation_id")):
        text = id_text(heap_piece(names, record, name), int(record[f"{name}_type"]))
        if text:
            found[f"messaging.message.{attribute}"] = text
    return found


def _arrival_attributes(change: Change, known: Definitions) -> Attributes:
    """Of who put it: a client, or a channel."""
    detail = known.producer_details.get(int(change.arrival["producer"]), {})
    found = _client(detail)
    if change.arrival["flags"] & ArrivalFlag.RECEIVED and detail.get("channel"):
        found["postroom.channel"] = str(detail["channel"])
    return found


def _holder_attributes(change: Change, known: Definitions) -> Attributes:
    """Of who has it."""
    detail = known.holder_details.get(change.holder, {})
    found = _client(detail) | {"postroom.holder": HolderKind(change.holder_kind).name.lower()}
    if detail.get("channel"):
        found["postroom.channel"] = str(detail["channel"])
    return found


def _client(detail: Mapping[str, Any]) -> Attributes:
    container = detail.get("container")
    return {"messaging.client.id": str(container)} if container else {}
