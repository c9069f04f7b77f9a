"""What a file's transitions do to entries, one row a change: entry events as they are, groups spelled out."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.format.dictionary import SETS, records_from
from postroom.ledger.format.expand import ExpandError, parse_groups
from postroom.ledger.format.file_names import events_name
from postroom.ledger.format.layout import Array, rows_together
from postroom.ledger.format.records import RecordType
from postroom.ledger.storage.events_image import EventsImage
from postroom.model.codes import State

HELD_STATES: Final = (
    int(State.PUT_UNCONFIRMED),
    int(State.LOCKED_FOR_BROWSE),
    int(State.GET_UNCONFIRMED),
    int(State.BROWSE_GET_UNCONFIRMED),
)
IS_HELD: Final = np.isin(np.arange(256), HELD_STATES)
"""By state: whether a holder must confirm."""
IS_TAKEN: Final = np.isin(np.arange(256), HELD_STATES[1:])
"""By state: whether somebody other than its producer holds the entry."""

_GROUP_TYPES: Final = (int(RecordType.GROUP_EVENT), int(RecordType.DECISION))


class Changes:
    """Entry changes in order of (position, ordinal). Fields as in ``records.TRANSITION``.

    Other records may lie among them: they name no entry that could be live (queue 0), so they change nothing.
    """

    def __init__(self, rows: Array, ordinals: Array | None) -> None:
        self.rows = rows
        self.ordinals = ordinals
        """Place in the expansion of a group record; None if every row is an entry event (all 0)."""

    def ordinals_at(self, indexes: Array | slice) -> Array:
        if self.ordinals is None:
            return np.zeros(len(self.rows), np.uint32)[indexes]
        return self.ordinals[indexes]


def change_batches(image: EventsImage, batch_rows: int) -> Iterator[Changes]:
    """All entry changes of a file in order, at most about `batch_rows` at a time. Raises LedgerCorrupt."""
    grouped = (image.own_types == _GROUP_TYPES[0]) | (image.own_types == _GROUP_TYPES[1])
    transitions = image.own_transitions()
    if not grouped.any():
        for start in range(0, len(transitions), batch_rows):
            yield Changes(transitions[start : start + batch_rows], None)
        return
    try:
        expansion = _Expansion(transitions[grouped], image.names)
    except ExpandError as error:
        raise LedgerCorrupt(events_name(image.file_number), 0, str(error)) from error
    sizes = np.ones(len(transitions), np.int64)
    sizes[grouped] = expansion.sizes
    first_record = np.cumsum(grouped) - grouped
    for start, end in _spans(sizes, batch_rows):
        records = (int(first_record[start]), int(first_record[end - 1] + grouped[end - 1]))
        if end - start == 1 and grouped[start]:
            yield from expansion.alone(records[0], batch_rows)
        else:
            singles = transitions[start:end].compress(~grouped[start:end])
            yield _merged(singles, expansion.rows_of(*records))


def _spans(sizes: Array, batch_rows: int) -> Iterator[tuple[int, int]]:
    """Runs of records that expand to at most `batch_rows` rows, or are one record."""
    ends = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(sizes):
        end = max(start + 1, int(np.searchsorted(ends, done + batch_rows, "right")))
        yield start, end
        start, done = end, int(ends[end - 1])


def _merged(singles: Array, expanded: Changes) -> Changes:
    rows = rows_together([singles, expanded.rows])
    ordinals = np.concatenate([np.zeros(len(singles), np.uint32), expanded.ordinals_at(slice(None))])
    order = np.argsort(rows["position"], kind="stable")
    return Changes(rows.take(order), ordinals[order])


class _Expansion:
    """The group records of a file, spelled out piece by piece."""

    def __init__(self, records: Array, names: memoryview) -> None:
        self._records = records
        self._groups = parse_groups(records, np.frombuffer(names, np.uint8))
        counts = self._groups.last - self._groups.first + 1
        self._ends = np.cumsum(counts)
        """Rows up to and including each range."""
        self.sizes = np.bincount(self._groups.record, weights=counts, minlength=len(records)).astype(np.int64)
        """Rows of each record."""
        self._record_ends = np.cumsum(self.sizes)

    def rows_of(self, first: int, end: int) -> Changes:
        """The rows of records first to end (excluded)."""
        return self._rows(self._before(first), self._before(end))

    def alone(self, record: int, batch_rows: int) -> Iterator[Changes]:
        """The rows of one record, which may be many."""
        start, end = self._before(record), self._before(record + 1)
        for low in range(start, end, batch_rows):
            yield self._rows(low, min(low + batch_rows, end))

    def _before(self, record: int) -> int:
        return int(self._record_ends[record - 1]) if record else 0

    def _rows(self, low: int, high: int) -> Changes:
        groups = self._groups
        row = np.arange(low, high)
        range_of = np.searchsorted(self._ends, row, "right")
        record = groups.record[range_of]
        rows = self._records.take(record)
        rows["serial"] = groups.last[range_of] - (self._ends[range_of] - 1 - row)
        group = groups.groups.take(groups.group[range_of])
        for name in _GROUP_FIELDS:
            rows[name] = group[name]
        return Changes(rows, (row - (self._record_ends - self.sizes)[record]).astype(np.uint32))


_GROUP_FIELDS: Final = (
    "queue",
    "from_state",
    "to_state",
    "outcome",
    "causes",
    "delivery_delta",
    "failure_delta",
)


def routing_sets(image: EventsImage) -> dict[int, Array]:
    """The queues of every routing set that an arrival of the file can name."""
    sets = image.transitions[image.transitions["type"] == RecordType.ROUTING_SET_DEFINED]
    return {
        int.from_bytes(record.record[36:40], "little"): np.frombuffer(record.detail, "<u4")
        for record in records_from(sets, image.names)
        if record.type == SETS
    }
