"""The state that a fold of the ledger carries from file to file; what a checkpoint stores.

A live entry is *plain* (available, never counted, at its arrival's place, nobody's child) or *explicit*. Of a
plain one only the index of its arrival is kept, by file and queue: four bytes. File 0 stands for the carried
arrivals, those whose own events file is gone or about to go.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from postroom.ledger.errors import LedgerError
from postroom.ledger.fold.duplicates import DUPLICATE_DTYPE
from postroom.ledger.fold.retained_bodies import NOTHING_RETAINED
from postroom.ledger.format.dictionary import Dictionary
from postroom.ledger.format.layout import (
    ARRIVAL_DTYPE,
    CHUNK_DTYPE,
    EXPLICIT_DTYPE,
    TOTAL_DTYPE,
    Array,
    are_children,
)
from postroom.ledger.format.records import SET_BASE, ArrivalFlag
from postroom.model.codes import State

CARRIED_FILE: Final = 0

Arrivals = Callable[[int], Array]
"""The arrivals of an events file by its number (0: the carried ones)."""


class FileSpan(NamedTuple):
    """Which positions an events file holds."""

    number: int
    first_position: int
    last_position: int


class FoldState:
    """Everything that holds after the records up to `position`."""

    def __init__(self) -> None:
        self.position = 0
        self.time_us = 0
        self.epoch = 0
        self.file_number = 0
        """The last file folded."""
        self.next_queue_id = 1
        self.next_holder_id = 1
        self.next_set_id = SET_BASE
        self.dictionary = Dictionary()
        self.needs: list[FileSpan] = []
        """Files that live entries may refer to, ascending."""
        self.plain: dict[tuple[int, int], Array] = {}
        """(file, queue) → ascending u32 indexes into the file's arrivals."""
        self.explicit: Array = np.empty(0, EXPLICIT_DTYPE)
        """By (serial, queue)."""
        self.carried: Array = np.empty(0, ARRIVAL_DTYPE)
        self.carried_names = b""
        self.totals: Array = np.empty(0, TOTAL_DTYPE)
        """By queue."""
        self.chunks: Array = np.empty(0, CHUNK_DTYPE)
        """By position."""
        self.retained: Array = NOTHING_RETAINED
        """Bodies that stay though their entries have ended, until a time."""
        self.duplicates: Array = np.empty(0, DUPLICATE_DTYPE)
        """Message ids that destinations remember."""

    def set_plain(self, file_number: int, queue: int, indexes: Array) -> None:
        """An empty list is not kept."""
        if len(indexes):
            self.plain[file_number, queue] = indexes.astype(np.uint32)
        else:
            self.plain.pop((file_number, queue), None)

    def file_of(self, serials: Array) -> Array:
        """For each serial the file whose arrivals have it: one of `needs`, else the carried ones."""
        if not self.needs:
            return np.full(len(serials), CARRIED_FILE, np.int64)
        firsts = np.array([span.first_position for span in self.needs], np.uint64)
        lasts = np.array([span.last_position for span in self.needs], np.uint64)
        numbers = np.array([span.number for span in self.needs], np.int64)
        row = np.searchsorted(firsts, serials, "right") - 1
        inside = (row >= 0) & (serials <= lasts[row])
        return np.where(inside, numbers[row], CARRIED_FILE)


class KeySpace:
    """(serial, queue) pairs as single sortable numbers, for the queues of one fold step."""

    def __init__(self, queues: Array) -> None:
        self._queues = distinct(queues)
        self._bits = len(self._queues).bit_length()
        self._ranks: Array | None = None
        if len(self._queues) and self._queues[-1] < _TABLE_LIMIT:
            self._ranks = np.zeros(int(self._queues[-1]) + 1, np.uint64)
            self._ranks[self._queues] = np.arange(len(self._queues))

    def encode(self, serials: Array, queues: Array) -> Array:
        """A number for each pair; pairs of a queue that this space doesn't know must not be asked for."""
        if len(serials) and int(serials.max()).bit_length() + self._bits > 64:
            raise LedgerError("positions and queues together need more than 64 bits")
        if self._ranks is not None:
            rank = self._ranks[queues]
        else:
            rank = np.searchsorted(self._queues, queues).astype(np.uint64)
        return (serials.astype(np.uint64) << np.uint64(self._bits)) | rank


def distinct(values: Array) -> Array:
    """The different values, ascending; quick for small ones, which ids of queues are."""
    if not len(values) or values.max() >= _TABLE_LIMIT:
        # Not np.unique: its first call imports all of numpy.ma, a fifth of a second at every start.
        ordered = np.sort(values)
        return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
    seen = np.zeros(int(values.max()) + 1, np.bool_)
    seen[values] = True
    return np.flatnonzero(seen).astype(values.dtype)


_TABLE_LIMIT: Final = 1 << 22


def find(sorted_keys: Array, wanted: Array) -> Array:
    """Index of each wanted key in an ascending array, −1 where it isn't there."""
    if not len(sorted_keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(sorted_keys, wanted), len(sorted_keys) - 1)
    return np.where(sorted_keys[at] == wanted, at, -1)


def rows_from_arrivals(arrivals: Array, queues: Array) -> Array:
    """Explicit rows of entries as they were when they arrived."""
    rows = np.zeros(len(arrivals), EXPLICIT_DTYPE)
    rows["serial"] = arrivals["position"]
    rows["queue"] = queues
    for name in _SAME_NAME:
        rows[name] = arrivals[name]
    rows["state"] = arrivals["to_state"]
    rows["arrival_flags"] = arrivals["flags"]
    rows["last_event"] = arrivals["event"]
    available = arrivals["to_state"] == State.AVAILABLE
    rows["place_position"] = np.where(available, arrivals["position"], 0)
    return rows


_SAME_NAME: Final = (
    "holder",
    "due_us",
    "expiry_us",
    "time_us",
    "body_serial",
    "parent_serial",
    "upload",
    "parent_queue",
    "body_offset",
    "body_len",
    "body_crc",
    "routing_set",
    "producer",
    "message_format",
    "holder_kind",
    "causes",
    "priority",
)


def arrives_plain(arrivals: Array) -> Array:
    """Which arrivals make plain entries."""
    shared = (arrivals["flags"] & int(ArrivalFlag.BODY_SHARED)) != 0
    plain = (arrivals["to_state"] == State.AVAILABLE) & ~are_children(arrivals) & ~shared
    return np.asarray(plain)


_NEVER_PLAIN: Final = int(ArrivalFlag.BODY_SHARED | ArrivalFlag.ACQUIRED)


def rows_are_plain(rows: Array) -> Array:
    """Which explicit rows have become what a plain entry is."""
    marked = (rows["arrival_flags"] & _NEVER_PLAIN) != 0
    uncounted = (rows["delivery_count"] == 0) & (rows["failure_count"] == 0)
    at_place = (rows["place_position"] == rows["serial"]) & (rows["place_ordinal"] == 0)
    parentless = ~are_children(rows, "arrival_flags") & ~marked
    return np.asarray((rows["state"] == State.AVAILABLE) & uncounted & at_place & parentless)
