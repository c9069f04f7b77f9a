"""What a file's transitions do to entries, one row a change: entry events as they are, groups spelled out."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from postroom.ledger.dictionary import SETS, records_from
from postroom.ledger.image import EventsImage
from postroom.ledger.layout import GROUP_DTYPE, RANGE_DTYPE, TRANSITION_DTYPE, Array
from postroom.ledger.records import RecordType
from postroom.model.codes import State

HELD_STATES: Final = (
    int(State.PUT_UNCONFIRMED),
    int(State.LOCKED_FOR_BROWSE),
    int(State.GET_UNCONFIRMED),
    int(State.BROWSE_GET_UNCONFIRMED),
)
IS_HELD: Final = np.isin(np.arange(256), HELD_STATES)
"""By state: whether a holder must confirm."""

BATCH_ROWS: Final = 1 << 20
"""Changes folded at a time: bounds the memory of a purge of millions."""

_GROUP_TYPES: Final = (int(RecordType.GROUP_EVENT), int(RecordType.DECISION))


class Changes:
    """Entry changes in order of (position, ordinal). Fields as in ``records.TRANSITION``.

    Other records may lie among them: they name no entry that could be live (queue 0), so they change nothing.
    """

    def __init__(self, rows: Array, ordinals: Array | None) -> None:
        self.rows = rows
        self.ordinals = ordinals
        """Place in the expansion of a group record; None if every row is an entry event (all 0)."""

    def ordinals_at(self, indexes: Array) -> Array:
        if self.ordinals is None:
            return np.zeros(len(indexes), np.uint32)
        return self.ordinals[indexes]


def change_batches(image: EventsImage) -> Iterator[Changes]:
    """All entry changes of a file in order, at most about BATCH_ROWS at a time."""
    transitions = image.own_transitions()
    grouped = (image.own_types == _GROUP_TYPES[0]) | (image.own_types == _GROUP_TYPES[1])
    for start, end in _spans(transitions, grouped, image.names):
        batch = _changes(transitions[start:end], grouped[start:end], image.names)
        if len(batch.rows):
            yield batch


def _spans(transitions: Array, grouped: Array, names: memoryview) -> Iterator[tuple[int, int]]:
    """Runs of transitions that expand to at most BATCH_ROWS rows, or are one record."""
    sizes = np.ones(len(transitions), np.int64)
    for at in np.flatnonzero(grouped).tolist():
        sizes[at] = _expanded_count(transitions[at], names)
    ends = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(sizes):
        end = max(start + 1, int(np.searchsorted(ends, done + BATCH_ROWS, "right")))
        yield start, end
        start, done = end, int(ends[end - 1])


def _changes(transitions: Array, grouped: Array, names: memoryview) -> Changes:
    if not grouped.any():
        return Changes(transitions, None)
    rows = transitions[~grouped]
    pieces, ordinals = [rows], [np.zeros(len(rows), np.uint32)]
    for record in transitions[grouped]:
        expanded = _expand(record, names)
        pieces.append(expanded)
        ordinals.append(np.arange(len(expanded), dtype=np.uint32))
    joined, ordinal = np.concatenate(pieces), np.concatenate(ordinals)
    order = np.argsort(joined["position"], kind="stable")
    return Changes(joined[order], ordinal[order])


def _groups(record: Array, names: memoryview) -> Iterator[tuple[Array, Array]]:
    """The (group, ranges) of a GROUP_EVENT or DECISION."""
    start = int(record["detail_offset"])
    end = start + int(record["detail_len"])
    while start < end:
        group = np.frombuffer(names, GROUP_DTYPE, 1, start)[0]
        start += GROUP_DTYPE.itemsize
        ranges = np.frombuffer(names, RANGE_DTYPE, int(group["range_count"]), start)
        start += ranges.nbytes
        yield group, ranges


def _expanded_count(record: Array, names: memoryview) -> int:
    return sum(int(_lengths(ranges).sum()) for _, ranges in _groups(record, names))


def _lengths(ranges: Array) -> Array:
    return np.asarray((ranges["last_serial"] - ranges["first_serial"]).astype(np.int64) + 1)


def _expand(record: Array, names: memoryview) -> Array:
    """One row for each entry of a GROUP_EVENT or DECISION."""
    pieces = [_expand_group(record, group, ranges) for group, ranges in _groups(record, names)]
    return np.concatenate(pieces) if pieces else np.empty(0, TRANSITION_DTYPE)


def _expand_group(record: Array, group: Array, ranges: Array) -> Array:
    lengths = _lengths(ranges)
    rows = np.empty(int(lengths.sum()), TRANSITION_DTYPE)
    rows[:] = record
    before = np.cumsum(lengths) - lengths
    within = np.arange(len(rows)) - np.repeat(before, lengths)
    rows["serial"] = np.repeat(ranges["first_serial"], lengths) + within.astype(np.uint64)
    for name in ("queue", "from_state", "to_state", "outcome", "causes", "delivery_delta", "failure_delta"):
        rows[name] = group[name]
    return rows


def routing_sets(image: EventsImage) -> dict[int, Array]:
    """The queues of every routing set that an arrival of the file can name."""
    sets = image.transitions[image.transitions["type"] == RecordType.ROUTING_SET_DEFINED]
    return {
        int.from_bytes(record.record[36:40], "little"): np.frombuffer(record.detail, "<u4")
        for record in records_from(sets, image.names)
        if record.type == SETS
    }
