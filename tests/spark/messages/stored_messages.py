"""Encoded messages as a place gives them, without a place."""

from collections.abc import Sequence

import numpy as np

from postroom.ledger.format.layout import ARRIVAL_DTYPE
from postroom.ledger.reading.body_reader import BODIES_END
from postroom.spark.ledger_source.names import Names
from postroom.spark.messages.rows import Events
from postroom.spark.places.place import Messages

LEDGER_ID = "0195f2a0-0000-7000-8000-00000000000a"
FIRST_POSITION = 100
TIME_US = 1_790_000_000_000_000


def stored(sections: Sequence[bytes], gap_bytes: int = 0) -> Messages:
    """Present, found, of priority 4; in the heap the last is the first, with so many bytes between them."""
    count = len(sections)
    arrivals = np.zeros(count, ARRIVAL_DTYPE)
    arrivals["position"] = np.arange(FIRST_POSITION, FIRST_POSITION + count)
    arrivals["time_us"] = TIME_US
    arrivals["priority"] = 4
    lengths = np.array([len(data) for data in sections], np.int64)
    ends = (np.cumsum(lengths[::-1] + gap_bytes) - gap_bytes)[::-1]
    heap = b"".join([(b"\xa1" * gap_bytes).join(sections[::-1]), bytes(BODIES_END)])
    bodies = np.frombuffer(heap, np.uint8), ends - lengths, ends
    nothing = np.zeros(count, np.uint8)
    return Messages(np.ones(count, bool), arrivals, nothing[:0], *bodies, nothing, {})


def events(count: int, queue: str = "Q") -> Events:
    """Arrivals of so many messages, one after the other."""
    positions = np.arange(FIRST_POSITION, FIRST_POSITION + count, dtype=np.uint64)
    times = np.full(count, TIME_US)
    nothing = np.zeros(count, np.uint32)
    return Events(LEDGER_ID, positions, nothing, positions, nothing + 7, times, Names({7: queue}))
