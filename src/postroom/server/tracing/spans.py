"""What a span is here, whoever exports it, and the names that OpenTelemetry's conventions for messaging give
to what it says."""

import hashlib
from dataclasses import dataclass
from struct import Struct
from typing import Final

SYSTEM: Final = "postroom"
"""``messaging.system``: the conventions name the broker there, and the protocol in
``network.protocol.name``."""

Value = str | int | bool
Attributes = dict[str, Value]

SERVER: Final = "server"
CLIENT: Final = "client"
INTERNAL: Final = "internal"
"""Kinds of spans. PRODUCER and CONSUMER are those of applications, so that a link from a consumer leads to
who sent and not to a broker between them."""

OPERATION_TYPES: Final = {"put": "send", "forward": "send", "deliver": "receive", "settle": "settle"}
"""``messaging.operation.type``, where the conventions have one."""

_PLACE: Final = Struct("<QQQ")


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span."""

    name: str
    time_us: int


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended; times in µs since 1970."""

    operation: str
    destination: str
    kind: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    trace_state: str
    flags: int
    start_us: int
    end_us: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    link_id: bytes = b""
    """A span of the same trace that led to this one."""
    error: str = ""
    """``error.type``; "": it went well."""

    @property
    def name(self) -> str:
        return f"{self.operation} {self.destination}"


def span_id_of(ledger_id: bytes, position: int, serial: int, queue: int, operation: str) -> bytes:
    """The id of the span that begins with that record: the same whenever it is made."""
    place = _PLACE.pack(position, serial, queue)
    found = hashlib.blake2b(operation.encode() + place, digest_size=8, key=ledger_id).digest()
    return found if any(found) else b"\1" * 8
