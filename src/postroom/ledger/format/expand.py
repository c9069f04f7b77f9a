"""Records become rows: one row per (position, ordinal, entry), as Spark, the audit and people read them.

An arrival speaks for every queue of its routing set, a decision or a group event for every entry of its
ranges. Here each of them is spelled out, with numpy over whole runs of records: no step of Python is taken
per record. Pure: arrays in, arrays out. What a run needs besides its own records are the routing sets, which
are in the file's header.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from postroom.ledger.errors import LedgerError
from postroom.ledger.format.layout import (
    ARRIVAL_DTYPE,
    GROUP_DTYPE,
    RANGE_DTYPE,
    TRANSITION_DTYPE,
    Array,
    rows_together,
)
from postroom.ledger.format.record_kinds import Kind, Layout, Split
from postroom.ledger.format.records import GROUP, RANGE, SET_BASE, RecordType

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


MOST_KINDS: Final = 8
LEAST_ROWS: Final = 1024
"""Where there are more kinds of change, or fewer rows, all of them are one block of `expand`."""

CHANGES: Final = Layout(
    TRANSITION_DTYPE,
    key=("type", "from_state", "to_state", "holder_kind", "event", "outcome", "causes", "flags"),
    taken=("position", "time_us", "serial", "queue"),
)
"""What tells single changes apart, and what nearly everybody asks of each."""

ARRIVALS: Final = Layout(
    ARRIVAL_DTYPE,
    key=("message_id_type", "to_state", "holder_kind", "event", "causes"),
    taken=("position", "time_us", "routing_set", "message_id_offset", "message_id_len"),
)
"""The same of arrivals."""

ARRIVAL_RECORD: Final = 0
NO_RECORD: Final = 255
"""What rows are made from, beside `RecordType`: an arrival; nothing (see `carried`)."""


class ExpandError(LedgerError):
    """A record can't be spelled out: its detail breaks the format. Carries the record's position."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(f"record {position}: {what}")
        self.position: Final = position


@dataclass(frozen=True)
class Chunk:
    """A run of records of one file: both widths in position order, and the heap their offsets point into."""

    arrivals: Array
    transitions: Array
    names: npt.NDArray[np.uint8]

    @property
    def record_count(self) -> int:
        """How many records, of both widths."""
        return len(self.arrivals) + len(self.transitions)

    @property
    def types(self) -> npt.NDArray[np.uint8]:
        """The `RecordType` of each transition."""
        return self.changes.types

    @cached_property
    def changes(self) -> Split:
        """The single changes told apart, and the type of each transition: in one pass over records that may
        be read from the disk but once."""
        return CHANGES.split(self.transitions, MOST_KINDS, only=_SINGLE)


class Columns(dict[str, Array]):
    """Columns by name: those that are there, others of records that are made or looked at when first asked
    for."""

    def __init__(self, known: dict[str, Array], records: Callable[[], Array]) -> None:
        super().__init__(known)
        self.records: Final = records

    def __missing__(self, name: str) -> Array:
        values: Array = self.records()[name]
        self[name] = values
        return values


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as columns of one length, named in ``ROW_FIELDS`` (times in µs, states and kinds as codes).

    ``record`` says for each row which kind of record it was made from (a `RecordType`, `ARRIVAL_RECORD`, or
    `NO_RECORD` where there is none); a single number where that is the same for all.
    ``ordinal`` counts the rows of one record from 0. ``arrivals`` holds the arrival record of each row, or is
    None where the rows are changes; ``transitions`` likewise the ENTRY_EVENT record, None for arrivals and
    groups; where there are such records, the other fields of theirs are columns too. ``names`` is the heap
    that their ids and details lie in.
    """

    columns: dict[str, Array]
    record: int | Array
    ordinal: Array
    arrivals: Array | None
    changes: Callable[[], Array] | None
    """Gives `transitions`."""
    names: npt.NDArray[np.uint8]

    @property
    def transitions(self) -> Array | None:
        return None if self.changes is None else self.changes()

    def where(self, wanted: npt.NDArray[np.bool_]) -> "Rows":
        """Only the rows for which `wanted` holds; itself if that is all of them."""
        if wanted.all():
            return self
        columns = {name: self[name][wanted] for name in ROW_FIELDS}
        record = self.record if isinstance(self.record, int) else self.record[wanted]
        ordinal = self.ordinal[wanted]
        if self.arrivals is not None:
            return arrival_rows(columns, record, ordinal, self.arrivals.compress(wanted), self.names)
        changes = self.changes
        if changes is None:
            return Rows(columns, record, ordinal, None, None, self.names)
        chosen = cache(lambda: changes().compress(wanted))
        return Rows(Columns(columns, chosen), record, ordinal, None, chosen, self.names)

    def __len__(self) -> int:
        return len(self.ordinal)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]


def arrival_rows(
    columns: dict[str, Array],
    record: int | Array,
    ordinal: Array,
    arrivals: Array,
    names: npt.NDArray[np.uint8],
) -> Rows:
    """Rows that have an arrival each, not all of whose columns need be given."""
    return Rows(Columns(columns, lambda: arrivals), record, ordinal, arrivals, None, names)


RoutingSets = Mapping[int, Array]
"""Queue ids (u32) by routing-set id, for the ids from SET_BASE on."""


def expand(chunk: Chunk, sets: RoutingSets, in_kinds: bool = False) -> Iterator[Rows]:
    """Every row of a chunk: arrivals, then single changes, then groups; each block is in position order.

    `in_kinds`: single changes of a kind in a block of their own, where they are many and their kinds few.
    What all rows of a block say is then a column of stride 0, which is cheap to find and to write.
    Raises ``ExpandError`` for an undefined routing set or a detail that breaks the format.
    """
    if len(chunk.arrivals):
        kind = _only_kind(chunk.arrivals) if in_kinds else None
        yield expand_arrivals(chunk.arrivals, chunk.names, sets, kind)
    types = chunk.types
    single = types == _SINGLE
    singles = int(np.count_nonzero(single))
    kinds = chunk.changes.kinds if in_kinds and singles >= LEAST_ROWS else None
    if kinds is not None:
        for kind in kinds:
            whole = cache(partial(CHANGES.of_kind, chunk.transitions, kind))
            yield _change_rows(_constants(CHANGES, kind) | kind.taken, kind.count, whole, chunk.names)
    elif singles:
        transitions = chunk.transitions if singles == len(single) else chunk.transitions.compress(single)
        yield entry_rows(transitions, chunk.names)
    if singles < len(single):
        grouped = (types == RecordType.GROUP_EVENT) | (types == RecordType.DECISION)
        if grouped.any():
            yield from expand_groups(chunk.transitions.compress(grouped), chunk.names)


def entry_rows(transitions: Array, names: npt.NDArray[np.uint8]) -> Rows:
    """ENTRY_EVENT records as rows: they are rows already."""
    return _change_rows({}, len(transitions), lambda: transitions, names)


def _change_rows(
    columns: dict[str, Array], count: int, records: Callable[[], Array], names: npt.NDArray[np.uint8]
) -> Rows:
    return Rows(Columns(columns, records), _SINGLE, _zeros(count), None, records, names)


def _only_kind(arrivals: Array) -> Kind | None:
    """What they say, if they are many and all of them say the same."""
    kinds = ARRIVALS.split(arrivals, 1).kinds if len(arrivals) >= LEAST_ROWS else None
    return kinds[0] if kinds else None


def _constants(layout: Layout, kind: Kind) -> dict[str, Array]:
    """What all records of a kind say, as columns of stride 0."""
    return {
        name: _same(bytes([value]), np.uint8, kind.count) for name, value in layout.key_values(kind).items()
    }


def _same(value: bytes, kind: type[np.generic], count: int) -> Array:
    """One value many times, as an array of stride 0. (`np.broadcast_to` takes ten times as long.)"""
    return np.ndarray((count,), kind, value, strides=(0,))


def _zeros(count: int) -> Array:
    return _same(bytes(4), np.uint32, count)


_SINGLE: Final = int(RecordType.ENTRY_EVENT)


# --- arrivals -------------------------------------------------------------------------------------


def expand_arrivals(
    arrivals: Array, names: npt.NDArray[np.uint8], sets: RoutingSets, kind: Kind | None = None
) -> Rows:
    """One row per arrival and queue of its routing set; ordinals follow the set's order. `kind`: of all of
    them."""
    known = {} if kind is None else _constants(ARRIVALS, kind) | kind.taken
    routing = known.get("routing_set", arrivals["routing_set"])
    if (routing < SET_BASE).all():
        return _of_arrivals(arrivals, routing, _zeros(len(arrivals)), names, known)
    ids, which = np.unique(routing, return_inverse=True)
    members = [_members(int(set_id), sets, arrivals, routing) for set_id in ids]
    sizes = np.array([len(m) for m in members], np.int64)
    starts = np.cumsum(sizes) - sizes
    counts = sizes[which]
    record, ordinal = _repeat(counts)
    queue = np.concatenate(members)[starts[which][record] + ordinal]
    return _of_arrivals(arrivals.take(record), queue, ordinal.astype(np.uint32), names, {})


def _members(set_id: int, sets: RoutingSets, arrivals: Array, routing: Array) -> Array:
    if set_id < SET_BASE:
        return np.array([set_id], np.uint32)
    found = sets.get(set_id)
    if found is None:
        position = int(arrivals["position"][np.argmax(routing == set_id)])
        raise ExpandError(position, f"routing set {set_id:#x} is not defined in this file")
    return found


def _of_arrivals(
    arrivals: Array, queue: Array, ordinal: Array, names: npt.NDArray[np.uint8], known: dict[str, Array]
) -> Rows:
    zero = _same(bytes(1), np.uint8, len(arrivals))
    columns = known | {
        "serial": known.get("position", arrivals["position"]),
        "queue": queue,
        "from_state": zero,  # State.START
        "outcome": zero,
        "delivery_delta": zero,
        "failure_delta": zero,
    }
    return arrival_rows(columns, ARRIVAL_RECORD, ordinal, arrivals, names)


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
