"""Bodies that stay for a while after their entries have ended: queues with `body_retention_s`.

They are told by stretches of `STRETCH` positions: for each queue of which something in one has ended the time
until which its bodies there stay. So a state has a row for thousands of messages, and what stays is a little
more than was promised.
"""

import json
from collections.abc import Iterable
from typing import Final

import numpy as np

from postroom.ledger.format.dictionary import QUEUES, records_from
from postroom.ledger.format.layout import Array, rows_together
from postroom.ledger.storage.events_image import EventsImage

STRETCH: Final = 4096
"""Positions told of together."""

ANY_QUEUE: Final = 0
"""Of a row whose bodies were put to another queue: all of the stretch stay."""

RETAINED_DTYPE: Final = np.dtype(
    [("stretch", "<u8"), ("until_us", "<i8"), ("queue", "<u4"), ("reserved", "<u4")]
)
"""Position ÷ `STRETCH`; by (stretch, queue)."""

NOTHING_RETAINED: Final = np.zeros(0, RETAINED_DTYPE)
MAX_RETENTION_US: Final = 1 << 60
"""For ever: so that a time is a number of 64 bits."""

_SECOND_US: Final = 1_000_000
_OPTION: Final = "body_retention_s"


def retentions_of(image: EventsImage) -> dict[int, int]:
    """How long bodies of ended entries stay, by queue, in µs; those where they don't are left out."""
    defined = image.transitions[image.transitions["type"] == QUEUES]
    found: dict[int, int] = {}
    for record in records_from(defined, image.names):
        queue = int.from_bytes(record.record[32:36], "little")
        found.pop(queue, None)
        if _OPTION.encode() in record.detail:
            retention_s = int(json.loads(record.detail).get(_OPTION, 0))
            found[queue] = min(retention_s * _SECOND_US, MAX_RETENTION_US)
    return {queue: duration_us for queue, duration_us in found.items() if duration_us > 0}


def ended_at(
    positions: Array, queues: Array, entry_queues: Array, times_us: Array, retentions: dict[int, int]
) -> Array:
    """Rows of bodies at these positions, whose entries on `entry_queues` ended at these times; `queues`
    are those that they were put to, or `ANY_QUEUE`."""
    pieces = [NOTHING_RETAINED]
    for queue, duration_us in retentions.items():
        own = entry_queues == queue
        rows = np.zeros(int(own.sum()), RETAINED_DTYPE)
        rows["stretch"], rows["queue"] = positions[own] // STRETCH, queues[own]
        rows["until_us"] = times_us[own] + duration_us
        pieces.append(rows)
    return joined(pieces)


def joined(pieces: Iterable[Array]) -> Array:
    """Of each stretch and queue the latest time."""
    rows = rows_together([NOTHING_RETAINED, *pieces])
    rows = rows.take(np.lexsort((rows["until_us"], rows["queue"], rows["stretch"])))
    last = np.ones(len(rows), np.bool_)
    last[:-1] = (rows["stretch"][1:] != rows["stretch"][:-1]) | (rows["queue"][1:] != rows["queue"][:-1])
    return rows.compress(last)


def still(rows: Array, now_us: int) -> Array:
    """Those whose time is not over."""
    return rows.compress(rows["until_us"] > now_us)


def overlapping(rows: Array, first: int, last: int) -> Array:
    """Those of stretches with any of the positions first to last."""
    low, high = np.searchsorted(rows["stretch"], np.array([first // STRETCH, last // STRETCH + 1], np.uint64))
    return rows[low:high]


def are_retained(rows: Array, positions: Array, routing_sets: Array, members: dict[int, Array]) -> Array:
    """Which arrivals at these positions, of these routing sets, have bodies that stay; `members` are the
    queues of the sets of several."""
    found = np.zeros(len(positions), np.bool_)
    stretches = positions // STRETCH
    for queue in np.unique(rows["queue"]).tolist():
        here = np.isin(stretches, rows["stretch"][rows["queue"] == queue])
        if queue != ANY_QUEUE:
            sets = [queue, *(number for number, queues in members.items() if queue in queues)]
            here &= np.isin(routing_sets, sets)
        found |= here
    return found


def hold_positions(rows: Array, positions: Array) -> Array:
    """Which positions lie in a stretch of which anything stays."""
    return np.isin(positions // STRETCH, rows["stretch"])
