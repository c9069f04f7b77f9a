"""AMQP frames in both directions of a traced connection, decoded by Proton: no code of ours judges ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from proton import Data

ATTACH, TRANSFER, DISPOSITION = 0x12, 0x14, 0x15
ACCEPTED = 0x24
PROTOCOL_HEADER_BYTES = 8
AMQP_FRAME = 0


@dataclass(frozen=True)
class Frame:
    """One performative: its code and fields, the payload behind it, where in the trace it was complete."""

    code: int
    fields: list[Any]
    payload: bytes
    place: int

    def field(self, index: int) -> Any:
        """A field by its place in the specification's list; None when absent."""
        return self.fields[index] if index < len(self.fields) else None


@dataclass
class FrameStream:
    """Cuts one direction of a connection into frames."""

    pending: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes, place: int) -> Iterator[Frame]:
        """The frames that these bytes complete; SASL, empty frames and protocol headers are passed over."""
        self.pending += data
        while len(self.pending) >= PROTOCOL_HEADER_BYTES:
            is_header = self.pending.startswith(b"AMQP")
            size = PROTOCOL_HEADER_BYTES if is_header else int.from_bytes(self.pending[:4], "big")
            if len(self.pending) < size:
                return
            frame = bytes(self.pending[:size])
            del self.pending[:size]
            body = frame[4 * frame[4] :]
            if not is_header and frame[5] == AMQP_FRAME and body:
                yield _frame(body, place)


def _frame(body: bytes, place: int) -> Frame:
    data = Data()
    used = data.decode(body)
    data.rewind()
    data.next()
    described: Any = data.get_py_described()
    return Frame(int(described.descriptor), list(described.value), body[used:], place)
