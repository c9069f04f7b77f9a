"""The life-cycle log of messages as WebLogic JMS writes it, made from the ledger: it costs the broker nothing
that isn't asked for.

A record says that a message was Produced on a destination, Consumed from it, Removed (deleted, purged, moved,
discarded), Expired, or was over its Retry limit; or that a consumer was created or destroyed. What is sent in
a transaction is produced by its commit. A consumer is known to the ledger, and so created here, with its
first delivery.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from postroom.ledger.format.expand import Chunk, Rows, expand
from postroom.ledger.format.layout import Array
from postroom.ledger.format.records import ArrivalFlag, RecordType
from postroom.ledger.reading.definitions import Definitions
from postroom.ledger.reading.dump import heap_piece, id_text, iso, json_or_hex
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.segments import SegmentReader
from postroom.ledger.storage.body_requests import BodyPlace
from postroom.model.codes import HolderKind, Outcome, State
from postroom.model.holders import TRANSACTIONAL

PRODUCED: Final = "Produced"
CONSUMED: Final = "Consumed"
REMOVED: Final = "Removed"
EXPIRED: Final = "Expired"
RETRY_EXCEEDED: Final = "Retry exceeded"
CONSUMER_CREATED: Final = "Consumer created"
CONSUMER_DESTROYED: Final = "Consumer destroyed"

OVER_LIMIT: Final = "postroom:redelivery-limit-exceeded"
"""The condition that the queue manager writes for a message over its redelivery limit."""

MAX_REMEMBERED: Final = 10_000
"""Published messages of which it is remembered that their expiry has been written."""

_BY_OUTCOME: Final[Mapping[int, str]] = {
    Outcome.CONSUMED: CONSUMED,
    Outcome.FORWARDED: CONSUMED,
    Outcome.EXPIRED: EXPIRED,
    Outcome.REDIRECTED: EXPIRED,
    Outcome.DELETED: REMOVED,
    Outcome.PURGED: REMOVED,
    Outcome.MOVED: REMOVED,
    Outcome.DISCARDED: REMOVED,
    Outcome.DEAD_LETTERED: REMOVED,
    Outcome.RETURNED_TO_SENDER: REMOVED,
}
_US_A_MS: Final = 1000
_NS_A_US: Final = 1000

Content = Callable[[BodyPlace], str]
"""Gives what a stored body says, for a record."""

Wants = Callable[[Mapping[str, Any], str], bool]
"""Whether an event (second) of a destination with that definition (first) is to be written."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record; an empty field says nothing."""

    time_us: int
    destination: str
    event: str
    user: str
    consumer: str
    transaction: str = ""
    message_id: str = ""
    correlation_id: str = ""
    selector: str = ""
    content: str = ""

    def text(self) -> str:
        """As a line: WebLogic's fields in its order. The diagnostic context is empty."""
        return "####" + " ".join(f"<{_escaped(each)}>" for each in self.fields().values())

    def fields(self) -> dict[str, str]:
        """By name, in order."""
        return {
            "date": iso(self.time_us),
            "transaction_id": self.transaction,
            "diagnostic_context": "",
            "milliseconds": str(self.time_us // _US_A_MS),
            "nanoseconds": str(self.time_us % _US_A_MS * _NS_A_US),
            "message_id": self.message_id,
            "correlation_id": self.correlation_id,
            "destination": self.destination,
            "event": self.event,
            "user": self.user,
            "consumer": self.consumer,
            "content": self.content,
            "selector": self.selector,
        }


def _escaped(text: str) -> str:
    """Without what would end the field or the line."""
    return text.replace("\\", "\\\\").replace(">", "\\>").replace("\n", "\\n").replace("\r", "\\r")


def as_defined(definition: Mapping[str, Any], event: str) -> bool:
    """`Wants` for what the definitions ask for: ``message_logging``, or expired messages of the policy
    "log"."""
    if definition.get("message_logging"):
        return True
    return event == EXPIRED and definition.get("expiration_policy") == "log"


class MessageLog:
    """The records of a range of positions. Kept for the next range, it remembers which published messages
    have expired already."""

    def __init__(self, wants: Wants, content: Content | None = None) -> None:
        """``content``: None leaves that field empty."""
        self._wants: Final = wants
        self._content: Final = content
        self._expired: dict[int, None] = {}

    def records(self, reader: LedgerReader, first: int, last: int) -> Iterator[LogRecord]:
        """Oldest first. Raises ``LedgerCorrupt``, ``ExpandError``."""
        arrivals = _Arrivals(reader)
        known: Definitions | None = None
        number = -1
        for segment, source, chunk in reader.chunks(first, last):
            if segment.number != number or known is None:
                known, number = source.definitions(segment.last_position), segment.number
            yield from _Page(self, chunk, known, arrivals).records()

    def wants(self, definition: Mapping[str, Any], event: str) -> bool:
        return self._wants(definition, event)

    def content(self, found: tuple[Any, Array] | None) -> str:
        """What the message of that arrival says, if that is wanted and stored."""
        if self._content is None or found is None or not found[0]["flags"] & ArrivalFlag.BODY_STORED:
            return ""
        names = ("body_serial", "body_offset", "body_len")
        serial, offset, length = (int(found[0][name]) for name in names)
        return self._content((serial, offset, length))

    def is_first_expiry(self, serial: int) -> bool:
        """Whether the expiry of that published message has not been written."""
        if serial in self._expired:
            return False
        self._expired[serial] = None
        if len(self._expired) > MAX_REMEMBERED:
            del self._expired[next(iter(self._expired))]
        return True


class _Arrivals:
    """Looks up arrivals by serial, wherever they lie."""

    def __init__(self, reader: LedgerReader) -> None:
        self._reader: Final = reader
        self._sources: dict[int, SegmentReader] = {}

    def find(self, serial: int) -> tuple[Any, Array] | None:
        """The arrival record and its heap; None where retention has dropped it."""
        segment = self._reader.segment_of(serial)
        if segment is None:
            return None
        if segment.number not in self._sources:
            self._sources[segment.number] = self._reader.open(segment)
        for chunk in self._sources[segment.number].chunks(serial, serial):
            if len(chunk.arrivals):
                return chunk.arrivals[0], chunk.names
        return None

    def ids(self, found: tuple[Any, Array] | None) -> tuple[str, str]:
        """Message id and correlation id; those of the message whose body it shares if it has none itself."""
        if found is None:
            return "", ""
        arrival, names = found
        if arrival["message_id_type"] == 0 and arrival["flags"] & ArrivalFlag.BODY_SHARED:
            return self.ids(self.find(int(arrival["body_serial"])))
        message_id, correlation_id = (
            id_text(heap_piece(names, arrival, name), int(arrival[f"{name}_type"]))
            for name in ("message_id", "correlation_id")
        )
        return message_id or "", correlation_id or ""


class _Page:
    """The records of one chunk."""

    def __init__(self, log: MessageLog, chunk: Chunk, known: Definitions, arrivals: _Arrivals) -> None:
        self._log: Final = log
        self._chunk: Final = chunk
        self._known: Final = known
        self._arrivals: Final = arrivals
        self._found: list[tuple[int, int, LogRecord]] = []

    def records(self) -> list[LogRecord]:
        for rows in expand(self._chunk, self._known.routing_sets):
            for index in np.flatnonzero(_is_logged(rows)).tolist():
                self._row(rows, index)
        kinds = self._chunk.transitions["type"]
        holders = (kinds == RecordType.HOLDER_OPENED) | (kinds == RecordType.HOLDER_CLOSED)
        holders &= self._chunk.transitions["holder_kind"] == HolderKind.CONSUMER
        for record in self._chunk.transitions[holders]:
            self._consumer(record)
        return [record for _, _, record in sorted(self._found, key=lambda one: one[:2])]

    def _row(self, rows: Rows, index: int) -> None:
        ordinal = int(rows.ordinal[index])
        outcome, serial = int(rows["outcome"][index]), int(rows["serial"][index])
        destination = int(rows["queue"][index])
        event = _BY_OUTCOME[outcome] if outcome else PRODUCED
        if event == REMOVED and _is_over_limit(rows, index):
            event = RETRY_EXCEEDED
        found = self._arrivals.find(serial)
        topic = _topic_of(found)
        if topic and event in (PRODUCED, EXPIRED):
            if event == PRODUCED and ordinal > 0:
                return  # once for the topic
            destination = topic
        definition = self._known.queues.get(destination, {})
        if not self._log.wants(definition, event):
            return
        if topic and event == EXPIRED and not self._log.is_first_expiry(serial):
            return
        kind, holder = int(rows["holder_kind"][index]), int(rows["holder"][index])
        by_consumer = kind == HolderKind.CONSUMER
        user = self._known.holder_users.get(holder, "") if by_consumer or event == CONSUMED else ""
        if event == PRODUCED and found is not None:
            user = self._known.producer_users.get(int(found[0]["producer"]), "")
        message_id, correlation_id = self._arrivals.ids(found)
        record = LogRecord(
            time_us=int(rows["time_us"][index]),
            transaction=self._transaction(kind, holder),
            message_id=message_id,
            correlation_id=correlation_id,
            destination=str(definition.get("name", f"#{destination}")),
            event=event,
            user=user,
            consumer=f"{self._known.holder_names.get(holder, '')}#{holder}" if by_consumer else "",
            content=self._log.content(found),
        )
        self._found.append((int(rows["position"][index]), ordinal, record))

    def _transaction(self, kind: int, holder: int) -> str:
        """The Xid of a branch, the number of a local transaction; "" for other holders."""
        if kind not in TRANSACTIONAL:
            return ""
        return str(self._known.holder_details.get(holder, {}).get("name", holder))

    def _consumer(self, record: Any) -> None:
        number = int(record["holder"])
        detail = self._known.holder_details.get(number, {})
        definition = self._definition(detail.get("queue"))
        event = CONSUMER_CREATED if record["type"] == RecordType.HOLDER_OPENED else CONSUMER_DESTROYED
        if not self._log.wants(definition, event):
            return
        written = LogRecord(
            time_us=int(record["time_us"]),
            destination=str(definition.get("name", detail.get("queue", ""))),
            event=event,
            user=str(detail.get("user", "")),
            consumer=f"{self._known.holder_names.get(number, '')}#{number}",
            selector=str(detail.get("selector", "")),
        )
        self._found.append((int(record["position"]), 0, written))

    def _definition(self, name: object) -> Mapping[str, Any]:
        for number, other in self._known.queue_names.items():
            if other == name and number not in self._known.deleted_queues:
                return self._known.queues[number]
        return {}


def _is_logged(rows: Rows) -> Array:
    """Which rows are events of the log."""
    ended = np.isin(rows["outcome"], np.array(list(_BY_OUTCOME), np.uint8))
    there = (rows["to_state"] == State.AVAILABLE) | (rows["to_state"] == State.DELAYED)
    came = (rows["from_state"] == State.START) | (rows["from_state"] == State.PUT_UNCONFIRMED)
    logged: Array = ended | (there & came)
    return logged


def _is_over_limit(rows: Rows, index: int) -> bool:
    if rows.transitions is None or rows.transitions["detail_len"][index] == 0:
        return False
    detail = json_or_hex(heap_piece(rows.names, rows.transitions[index], "detail"))
    return isinstance(detail, dict) and detail.get("condition") == OVER_LIMIT


def _topic_of(found: tuple[Any, Array] | None) -> int:
    """The topic that a message was published to; 0: it was put on a queue, or made of another message."""
    if found is None or found[0]["parent_serial"] != 0 or found[0]["flags"] & ArrivalFlag.RECEIVED:
        return 0
    return int(found[0]["parent_queue"])
