"""Encoded messages as a place gives them, without a place."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from postroom.ledger.layout import ARRIVAL_DTYPE
from postroom.spark.messages.rows import Events
from postroom.spark.names import Names
from postroom.spark.places import Messages

LEDGER_ID = "0195f2a0-0000-7000-8000-00000000000a"
FIRST_POSITION = 100
TIME_US = 1_790_000_000_000_000


def stored(sections: Sequence[bytes], padding: int = 0) -> Messages:
    """Present, found, of priority 4; with so many bytes of `padding` behind the last."""
    count = len(sections)
    arrivals = np.zeros(count, ARRIVAL_DTYPE)
    arrivals["position"] = np.arange(FIRST_POSITION, FIRST_POSITION + count)
    arrivals["time_us"] = TIME_US
    arrivals["priority"] = 4
    ends = np.cumsum([0, *map(len, sections)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join([*sections, bytes(padding)]))]
    array = pa.Array.from_buffers(pa.large_binary(), count, buffers)
    nothing = np.zeros(count, np.uint8)
    return Messages(np.ones(count, bool), arrivals, nothing[:0], array, nothing, {})


def events(count: int, queue: str = "Q") -> Events:
    """Arrivals of so many messages, one after the other."""
    positions = np.arange(FIRST_POSITION, FIRST_POSITION + count, dtype=np.uint64)
    times = np.full(count, TIME_US)
    nothing = np.zeros(count, np.uint32)
    return Events(LEDGER_ID, positions, nothing, positions, nothing + 7, times, Names({7: queue}))
