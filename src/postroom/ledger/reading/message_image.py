"""Messages on the wire: what a broker answers who asks for messages by their serials.

Little-endian, in this order: `HEADER`; the arrivals (128 bytes each, as in the ledger, zero where one isn't
known); the offsets of the bodies (u64, one more than messages); the states (a byte each, `BodyState`); the
names; the errors as JSON (row → text); the bodies, and `BODIES_END` zeros.
"""

import json
from typing import Final

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.layout import ARRIVAL_DTYPE
from postroom.ledger.format.records import Layout
from postroom.ledger.reading.body_reader import BODIES_END, BodyState, FoundMessages, packed_bodies
from postroom.ledger.storage.disk import Bytes

MESSAGES_MAGIC: Final = 0x314D5250  # "PRM1"
MAX_SERIALS: Final = 1 << 16
"""Serials in one request."""

HEADER: Final = Layout(
    32,
    [
        ("magic", "I"),
        ("count", "I"),
        ("names_bytes", "Q"),
        ("errors_bytes", "Q"),
        ("bodies_bytes", "Q"),  # with the zeros behind them
    ],
)


def encode_messages(found: FoundMessages) -> list[Bytes]:
    """The bytes of an answer."""
    errors = json.dumps({str(row): text for row, text in found.errors.items()}).encode()
    bodies, offsets = packed_bodies(found.bodies, found.starts, found.ends)
    sizes = (len(found.found), len(found.names), len(errors), len(bodies))
    return [
        HEADER.struct.pack(MESSAGES_MAGIC, *sizes),
        np.ascontiguousarray(found.arrivals).view(np.uint8).data,
        offsets.astype("<u8").view(np.uint8).data,
        found.states.data,
        np.ascontiguousarray(found.names).data,
        errors,
        bodies,
    ]


def decode_messages(data: bytes, where: str) -> FoundMessages:
    """The inverse; copies nothing but a few. `where` is what errors name. Raises LedgerCorrupt."""
    view = memoryview(data)
    if len(view) < HEADER.size_bytes or HEADER.struct.unpack(view[: HEADER.size_bytes])[0] != MESSAGES_MAGIC:
        raise LedgerCorrupt(where, 0, "this is no answer with messages")
    _, count, *sizes = HEADER.struct.unpack(view[: HEADER.size_bytes])
    widths = (ARRIVAL_DTYPE.itemsize * count, 8 * (count + 1), count, *sizes)
    parts, at = [], HEADER.size_bytes
    for width in widths:
        parts.append(view[at : at + width])
        at += width
    if at != len(view) or widths[-1] < BODIES_END:
        raise LedgerCorrupt(where, at, f"the answer has {len(view)} bytes instead of {at}")
    try:
        found = _decoded(parts)
    except (ValueError, AttributeError) as error:
        raise LedgerCorrupt(where, 0, f"the answer's errors are no JSON of texts by row: {error}") from error
    if not _is_sound(found):
        raise LedgerCorrupt(where, 0, "offsets or states of the answer are out of bounds")
    return found


def _decoded(parts: list[memoryview]) -> FoundMessages:
    arrivals = np.frombuffer(parts[0], ARRIVAL_DTYPE)
    errors = {int(row): str(text) for row, text in json.loads(bytes(parts[4])).items()}
    offsets = np.frombuffer(parts[1], "<u8").astype(np.int64)
    return FoundMessages(
        arrivals["position"] != 0,
        arrivals,
        np.frombuffer(parts[3], np.uint8),
        np.frombuffer(parts[2], np.uint8).copy(),
        parts[5],
        offsets[:-1],
        offsets[1:],
        errors,
    )


def _is_sound(found: FoundMessages) -> bool:
    first, last = (int(found.starts[0]), int(found.ends[-1])) if len(found.found) else (0, 0)
    within = first == 0 and last == len(found.bodies) - BODIES_END
    ascends = bool((found.ends >= found.starts).all())
    known = not len(found.states) or int(found.states.max()) <= max(BodyState)
    return bool(within and ascends and known and all(0 <= row < len(found.found) for row in found.errors))
