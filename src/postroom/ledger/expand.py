"""Records become rows: one row per (position, ordinal, entry), as Spark, the audit and people read them.

An arrival speaks for every queue of its routing set, a decision or a group event for every entry of its
ranges. Here each of them is spelled out, with numpy over whole runs of records: no step of Python is taken
per record. Pure: arrays in, arrays out. What a run needs besides its own records are the routing sets, which
are in the file's header.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.errors import LedgerError
from postroom.ledger.layout import GROUP_DTYPE, RANGE_DTYPE, Array, rows_together
from postroom.ledger.records import GROUP, RANGE, SET_BASE, RecordType

MAX_GROUP_ROWS: Final = 1 << 18
"""Rows made from ranges come in blocks of at most this many: a purge of millions needs little memory."""

GROUP_FIELDS: Final = (
    "queue",
    "from_state",
    "to_state",
    "outcome",
    "causes",
    "delivery_delta",
    "failure_delta",
    "flags",
)
ROW_FIELDS: Final = (
    "position",
    "time_us",
    "serial",
    "due_us",
    "queue",
    "holder",
    "from_state",
    "to_state",
    "holder_kind",
    "event",
    "outcome",
    "causes",
    "flags",
    "delivery_delta",
    "failure_delta",
)


ARRIVAL_RECORD: Final = 0
NO_RECORD: Final = 255
"""What rows are made from, beside `RecordType`: an arrival; nothing (see `carried`)."""


class ExpandError(LedgerError):
    """A record can't be spelled out: its detail breaks the format. Carries the record's position."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(f"record {position}: {what}")
        self.position: Final = position


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of records of one file: both widths in position order, and the heap their offsets point into."""

    arrivals: Array
    transitions: Array
    names: npt.NDArray[np.uint8]

    @property
    def record_count(self) -> int:
        """How many records, of both widths."""
        return len(self.arrivals) + len(self.transitions)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as columns of one length, named in ``ROW_FIELDS`` (times in µs, states and kinds as codes).

    ``record`` says for each row which kind of record it was made from (a `RecordType`, `ARRIVAL_RECORD`, or
    `NO_RECORD` where there is none); a single number where that is the same for all.
    ``ordinal`` counts the rows of one record from 0. ``arrivals`` holds the arrival record of each row, or is
    None where the rows are changes; ``transitions`` likewise the ENTRY_EVENT record, None for arrivals and
    groups. ``names`` is the heap that their ids and details lie in.
    """

    columns: dict[str, Array]
    record: int | Array
    ordinal: Array
    arrivals: Array | None
    transitions: Array | None
    names: npt.NDArray[np.uint8]

    def where(self, wanted: npt.NDArray[np.bool_]) -> "Rows":
        """Only the rows for which `wanted` holds; itself if that is all of them."""
        if wanted.all():
            return self
        columns = {name: values[wanted] for name, values in self.columns.items()}
        record = self.record if isinstance(self.record, int) else self.record[wanted]
        arrivals = None if self.arrivals is None else self.arrivals.compress(wanted)
        transitions = None if self.transitions is None else self.transitions.compress(wanted)
        return Rows(columns, record, self.ordinal[wanted], arrivals, transitions, self.names)

    def __len__(self) -> int:
        return len(self.ordinal)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]


RoutingSets = Mapping[int, Array]
"""Queue ids (u32) by routing-set id, for the ids from SET_BASE on."""


def expand(chunk: Chunk, sets: RoutingSets) -> Iterator[Rows]:
    """Every row of a chunk: arrivals, then single changes, then groups; each block is in position order.

    Raises ``ExpandError`` for an undefined routing set or a detail that breaks the format.
    """
    if len(chunk.arrivals):
        yield expand_arrivals(chunk.arrivals, chunk.names, sets)
    kinds = chunk.transitions["type"]
    single = kinds == RecordType.ENTRY_EVENT
    if single.all():
        if len(single):
            yield entry_rows(chunk.transitions, chunk.names)
        return
    if single.any():
        yield entry_rows(chunk.transitions.compress(single), chunk.names)
    grouped = (kinds == RecordType.GROUP_EVENT) | (kinds == RecordType.DECISION)
    if grouped.any():
        yield from expand_groups(chunk.transitions.compress(grouped), chunk.names)


def entry_rows(transitions: Array, names: npt.NDArray[np.uint8]) -> Rows:
    """ENTRY_EVENT records as rows: they are rows already."""
    columns = {name: transitions[name] for name in ROW_FIELDS}
    ordinal = np.zeros(len(transitions), np.uint32)
    return Rows(columns, int(RecordType.ENTRY_EVENT), ordinal, None, transitions, names)


MOST_KINDS: Final = 8
LEAST_ROWS: Final = 1024
"""Blocks with more kinds of change, or of fewer rows, are left whole by `by_kind`."""

_SAID_BY_CHANGES: Final = ("from_state", "to_state", "holder_kind", "event", "outcome", "causes", "flags")
_SAID_BY_ARRIVALS: Final = ("to_state", "holder_kind", "event", "causes")


def by_kind(rows: Rows) -> Iterator[Rows]:
    """The same rows, single changes of a kind in a block of their own: mostly a few kinds, each many times.

    What all rows of a block say is then a column of stride 0, which is cheap to find and to write. Rows of
    another making, few rows, or such of many kinds, come as they are.
    """
    if len(rows) < LEAST_ROWS:
        yield rows
    elif rows.arrivals is not None:
        yield _with_constants(rows, _SAID_BY_ARRIVALS, _words(rows.arrivals, _SAID_BY_ARRIVALS))
    elif rows.transitions is None:
        yield rows
    else:
        yield from _changes_by_kind(rows, rows.transitions)


def _changes_by_kind(rows: Rows, transitions: Array) -> Iterator[Rows]:
    words = _words(transitions, _SAID_BY_CHANGES)
    masks: list[Array] = []
    left = np.ones(len(words), np.bool_)
    while len(masks) <= MOST_KINDS and left.any():
        masks.append(words == words[np.argmax(left)])
        left &= ~masks[-1]
    if len(masks) > MOST_KINDS:
        yield rows
        return
    for mask in masks:
        some = rows if len(masks) == 1 else entry_rows(transitions.compress(mask), rows.names)
        yield replace(some, columns=some.columns | _constants(some, _SAID_BY_CHANGES))


def _with_constants(rows: Rows, fields: tuple[str, ...], words: Array) -> Rows:
    if (words != words[0]).any():
        return rows
    return replace(rows, columns=rows.columns | _constants(rows, fields))


def _constants(rows: Rows, fields: tuple[str, ...]) -> dict[str, Array]:
    return {name: np.broadcast_to(rows[name][:1], len(rows)) for name in fields}


def _words(records: Array, fields: tuple[str, ...]) -> Array:
    """Fields of a byte each, all within eight bytes, as one number a record."""
    offsets = [_offset_of(records.dtype, name) for name in fields]
    first = min(min(offsets), records.dtype.itemsize - 8)
    word = np.dtype(
        {"names": ["word"], "formats": ["<u8"], "offsets": [first], "itemsize": records.dtype.itemsize}
    )
    mask = sum(0xFF << 8 * (offset - first) for offset in offsets)
    words: Array = records.view(word)["word"] & np.uint64(mask)
    return words


def _offset_of(kind: np.dtype[Any], field: str) -> int:
    assert kind.fields is not None
    return int(kind.fields[field][1])


# --- arrivals -------------------------------------------------------------------------------------


def expand_arrivals(arrivals: Array, names: npt.NDArray[np.uint8], sets: RoutingSets) -> Rows:
    """One row per arrival and queue of its routing set; ordinals follow the set's order."""
    routing = arrivals["routing_set"]
    if (routing < SET_BASE).all():
        return _arrival_rows(arrivals, routing, np.zeros(len(arrivals), np.uint32), names)
    ids, which = np.unique(routing, return_inverse=True)
    members = [_members(int(set_id), sets, arrivals, routing) for set_id in ids]
    sizes = np.array([len(m) for m in members], np.int64)
    starts = np.cumsum(sizes) - sizes
    counts = sizes[which]
    record, ordinal = _repeat(counts)
    queue = np.concatenate(members)[starts[which][record] + ordinal]
    return _arrival_rows(arrivals.take(record), queue, ordinal.astype(np.uint32), names)


def _members(set_id: int, sets: RoutingSets, arrivals: Array, routing: Array) -> Array:
    if set_id < SET_BASE:
        return np.array([set_id], np.uint32)
    found = sets.get(set_id)
    if found is None:
        position = int(arrivals["position"][np.argmax(routing == set_id)])
        raise ExpandError(position, f"routing set {set_id:#x} is not defined in this file")
    return found


def _arrival_rows(arrivals: Array, queue: Array, ordinal: Array, names: npt.NDArray[np.uint8]) -> Rows:
    zero = np.broadcast_to(np.uint8(0), len(arrivals))
    columns = {
        "position": arrivals["position"],
        "time_us": arrivals["time_us"],
        "serial": arrivals["position"],
        "due_us": arrivals["due_us"],
        "queue": queue,
        "holder": arrivals["holder"],
        "from_state": zero,  # State.START
        "to_state": arrivals["to_state"],
        "holder_kind": arrivals["holder_kind"],
        "event": arrivals["event"],
        "outcome": zero,
        "causes": arrivals["causes"],
        "flags": arrivals["flags"],
        "delivery_delta": zero,
        "failure_delta": zero,
    }
    return Rows(columns, ARRIVAL_RECORD, ordinal, arrivals, None, names)


def _repeat(counts: Array) -> tuple[Array, Array]:
    """For counts (2, 0, 3): which one each row belongs to (0 0 2 2 2), and its number there (0 1 0 1 2)."""
    owner = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - starts[owner]


# --- groups ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Groups:
    """The ranges of many details as flat arrays: the record and group that each belongs to, its first and
    last."""

    groups: Array  # GROUP_DTYPE, in the order (record, group)
    record: Array  # index of the record of each range
    group: Array  # index into groups of each range
    first: Array  # serials, both included
    last: Array


def parse_groups(records: Array, names: npt.NDArray[np.uint8]) -> Groups:
    """The details of GROUP_EVENT and DECISION records, all at once: step k reads every record's k-th group.

    Raises ``ExpandError`` where a detail leaves the heap, is cut short, or holds a range that is upside down
    or reaches its own record.
    """
    at = records["detail_offset"].astype(np.int64)
    end = at + records["detail_len"]
    _require(records, end <= len(names), "its detail lies outside the names heap")
    owner = np.arange(len(records))
    owners: list[Array] = []
    headers: list[Array] = []
    range_at: list[Array] = []
    while len(owner):
        _require(records, at + GROUP.size_bytes <= end, "a group of its detail is cut short", owner)
        header = _gather(names, at, GROUP_DTYPE)
        after = at + GROUP.size_bytes
        following = after + header["range_count"].astype(np.int64) * RANGE.size_bytes
        _require(records, following <= end, "the ranges of a group of its detail are cut short", owner)
        owners.append(owner)
        headers.append(header)
        range_at.append(after)
        more = following < end
        owner, at, end = owner[more], following[more], end[more]
    if not headers:
        empty = np.zeros(0, np.int64)
        return Groups(np.zeros(0, GROUP_DTYPE), empty, empty, empty, empty)
    return _collect(records, names, np.concatenate(owners), rows_together(headers), np.concatenate(range_at))


def _collect(
    records: Array, names: npt.NDArray[np.uint8], owner: Array, headers: Array, range_at: Array
) -> Groups:
    order = np.argsort(owner, kind="stable")  # the k-th groups of all records → the groups of each record
    owner, headers, range_at = owner[order], headers.take(order), range_at[order]
    group, number = _repeat(headers["range_count"].astype(np.int64))
    ranges = _gather(names, range_at[group] + number * RANGE.size_bytes, RANGE_DTYPE)
    first, last = ranges["first_serial"].astype(np.int64), ranges["last_serial"].astype(np.int64)
    record = owner[group]
    upright = (first >= 1) & (first <= last)
    _require(records, upright, "a range of its detail is empty or upside down", record)
    before = last < records["position"][record].astype(np.int64)
    _require(records, before, "a range reaches its own position", record)
    return Groups(headers, record, group, first, last)


def expand_groups(records: Array, names: npt.NDArray[np.uint8]) -> Iterator[Rows]:
    """GROUP_EVENT and DECISION records as rows, in blocks of about ``MAX_GROUP_ROWS``."""
    groups = parse_groups(records, names)
    ordinal = _range_ordinals(groups)
    for some in _split_ranges(groups.last - groups.first + 1):
        yield _group_rows(records, names, groups, ordinal, *some)


def _range_ordinals(groups: Groups) -> Array:
    """The ordinal of each range's first entry within its record."""
    counts = groups.last - groups.first + 1
    before = np.cumsum(counts) - counts
    opens = np.ones(len(counts), bool)
    opens[1:] = groups.record[1:] != groups.record[:-1]
    of_record: Array = np.repeat(before[opens], np.diff(np.append(np.flatnonzero(opens), len(counts))))
    ordinal: Array = before - of_record
    return ordinal


def _split_ranges(counts: Array) -> Iterator[tuple[Array, Array, Array]]:
    """(ranges, entries to skip in each, entries to take of each), one for each block of rows."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    for low in range(0, total, MAX_GROUP_ROWS):
        high = min(low + MAX_GROUP_ROWS, total)
        first, last = np.searchsorted(ends, [low, high - 1], side="right")
        which = np.arange(first, last + 1)
        starts = ends[which] - counts[which]
        skip = np.maximum(low - starts, 0)
        yield which, skip, np.minimum(ends[which], high) - starts - skip


def _group_rows(
    records: Array,
    names: npt.NDArray[np.uint8],
    groups: Groups,
    ordinals: Array,
    which: Array,
    skip: Array,
    take: Array,
) -> Rows:
    index, number = _repeat(take)
    number = number + skip[index]
    range_of = which[index]
    record = records.take(groups.record[range_of])
    group = groups.groups.take(groups.group[range_of])
    columns = {name: (group if name in GROUP_FIELDS else record)[name] for name in ROW_FIELDS}
    columns["serial"] = (groups.first[range_of] + number).astype(np.uint64)
    ordinal = (ordinals[range_of] + number).astype(np.uint32)
    return Rows(columns, record["type"], ordinal, None, None, names)


def _gather(heap: npt.NDArray[np.uint8], at: Array, dtype: np.dtype[Any]) -> Array:
    """Structures at any byte offsets of a heap."""
    if not len(at):
        return np.zeros(0, dtype)
    windows: Array = np.lib.stride_tricks.sliding_window_view(heap, dtype.itemsize)
    structures: Array = np.ascontiguousarray(windows[at]).view(dtype).reshape(len(at))
    return structures


def _require(records: Array, good: Array, what: str, of: Array | None = None) -> None:
    """`of`: which of the records each is told of, one each by default."""
    if not good.all():
        at = int(np.argmin(good))
        raise ExpandError(int(records["position"][at if of is None else of[at]]), what)
