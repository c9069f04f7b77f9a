"""The message ids that destinations remember (`duplicate_window`), as a fold of arrivals.

A checkpoint carries them as rows (queue or topic, serial of the arrival, key of its message id), the last so
many of each destination. What was rolled back or lost was not taken: its rows go.
"""

import json
from typing import Any, Final

import numpy as np

from postroom.ledger.format.dictionary import QUEUES, Dictionary
from postroom.ledger.format.layout import Array, are_children, rows_together
from postroom.ledger.format.records import SET_BASE, ArrivalFlag
from postroom.ledger.storage.events_image import EventsImage
from postroom.model.codes import Event, Outcome
from postroom.model.duplicates import KEY_BYTES, key_of
from postroom.model.holders import TRANSACTIONAL

DUPLICATE_DTYPE: Final = np.dtype(
    [("queue", "<u4"), ("reserved", "<u4"), ("serial", "<u8"), ("key", f"V{KEY_BYTES}")]
)
"""By (queue, serial)."""

_NOT_TAKEN: Final = (int(Outcome.ROLLED_BACK), int(Outcome.LOST))


def windows_of(dictionary: Dictionary) -> dict[int, int]:
    """How many ids each destination remembers; those that remember none are left out."""
    found = {}
    for queue, record in dictionary.of_kind(QUEUES).items():
        if b"duplicate_window" in record.detail:
            size = json.loads(record.detail).get("duplicate_window", 0)
            if size > 0:
                found[queue] = int(size)
    return found


def fold_duplicates(
    rows: Array,
    windows: dict[int, int],
    image: EventsImage,
    empty_sets: list[int],
    ended: Array,
    open_: Array,
) -> Array:
    """The rows after a file: `windows` as they are at its end, `empty_sets` the routing sets of nobody,
    `ended` the serials of what the file says was not taken, `open_` of what is not decided yet: these are
    kept beside, for they may be taken and may not."""
    kept = [np.zeros(0, DUPLICATE_DTYPE)]
    arrivals = _put(image.arrivals, empty_sets)
    arrivals = arrivals.compress(~np.isin(arrivals["position"], ended))
    rows = rows.compress(~np.isin(rows["serial"], ended))
    for queue, size in sorted(windows.items()):
        own = arrivals.compress(_destinations(arrivals) == queue)
        known = rows.compress(rows["queue"] == queue)
        new = _rows_of(queue, own.compress(_last(own["position"], open_, size)), image.names)
        joined = rows_together([known, new])
        kept.append(joined.compress(_last(joined["serial"], open_, size)))
    return rows_together(kept)


def _last(serials: Array, open_: Array, size: int) -> Array:
    """Of ascending serials, which to keep: the last so many that are decided, and those that are not."""
    undecided = np.isin(serials, open_)
    later = np.cumsum(~undecided[::-1])[::-1]
    return np.asarray(undecided | (later <= size))


def not_taken(changes: Array) -> Array:
    """The serials of the changes that say so."""
    return np.ascontiguousarray(changes["serial"][np.isin(changes["outcome"], _NOT_TAKEN)])


def _put(arrivals: Array, empty_sets: list[int]) -> Array:
    """Those that were sent, with a message id, and reached somebody."""
    put = ~are_children(arrivals) & (arrivals["message_id_type"] != 0)
    put &= (arrivals["event"] == Event.PUT) | np.isin(arrivals["holder_kind"], TRANSACTIONAL)
    put &= (arrivals["routing_set"] < SET_BASE) | ~np.isin(arrivals["routing_set"], empty_sets)
    return np.asarray(arrivals.compress(put))


def _destinations(arrivals: Array) -> Array:
    """The topic that it was published to, else the queue."""
    received = (arrivals["flags"] & int(ArrivalFlag.RECEIVED)) != 0
    topics = np.where(received, 0, arrivals["parent_queue"])
    return np.where(topics != 0, topics, arrivals["routing_set"])


def _rows_of(queue: int, arrivals: Array, names: memoryview) -> Array:
    rows = np.zeros(len(arrivals), DUPLICATE_DTYPE)
    rows["queue"], rows["serial"] = queue, arrivals["position"]
    fields = (arrivals["message_id_type"], arrivals["message_id_offset"], arrivals["message_id_len"])
    keys = [
        key_of(kind, bytes(names[at : at + size]))
        for kind, at, size in zip(*(field.tolist() for field in fields), strict=True)
    ]
    rows["key"] = np.array(keys, rows["key"].dtype) if keys else rows["key"]
    return rows


def only(rows: Array, serials: Array) -> Array:
    """Those of the rows that are of these serials."""
    return np.asarray(rows.compress(np.isin(rows["serial"], serials)))


def windows_recovered(rows: Array, lost: Array) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """(queue, [(serial, key), the oldest first]), without the serials that recovery finds `lost`."""
    rows = rows.compress(~np.isin(rows["serial"], lost))
    found: dict[int, list[tuple[int, bytes]]] = {}
    row: Any
    for row in rows:
        found.setdefault(int(row["queue"]), []).append((int(row["serial"]), row["key"].tobytes()))
    return sorted(found.items())
