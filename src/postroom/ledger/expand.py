"""Records become rows: one row per (position, ordinal, entry), as Spark, the audit and people read them.

An arrival speaks for every queue of its routing set, a decision or a group event for every entry of its
ranges. Here each of them is spelled out, with numpy over whole runs of records: no step of Python is taken
per record. Pure: arrays in, arrays out. What a run needs besides its own records are the routing sets, which
are in the file's header.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
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

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint64]:
        """What each transition says in fields of a byte (`KIND_FIELDS`, the first lowest) as one number."""
        return _words(self.transitions, KIND_FIELDS)

    @cached_property
    def types(self) -> npt.NDArray[np.uint8]:
        """The `RecordType` of each transition, taken out of records that lie far apart but once."""
        return np.ascontiguousarray(self.kinds.view(np.uint8)[:: self.kinds.itemsize])


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


def expand(chunk: Chunk, sets: RoutingSets, in_kinds: bool = False) -> Iterator[Rows]:
    """Every row of a chunk: arrivals, then single changes, then groups; each block is in position order.

    `in_kinds`: single changes of a kind in a block of their own, where they are many and their kinds few.
    What all rows of a block say is then a column of stride 0, which is cheap to find and to write.
    Raises ``ExpandError`` for an undefined routing set or a detail that breaks the format.
    """
    if len(chunk.arrivals):
        rows = expand_arrivals(chunk.arrivals, chunk.names, sets)
        yield _of_one_kind(rows, chunk.arrivals) if in_kinds and len(rows) >= LEAST_ROWS else rows
    single = chunk.types == _SINGLE
    singles = int(np.count_nonzero(single))
    kinds = _kinds(chunk, single) if in_kinds and singles >= LEAST_ROWS else []
    if kinds:
        yield from (_rows_of_kind(chunk, kind) for kind in kinds)
    elif singles:
        yield entry_rows(_chosen(chunk.transitions, single), chunk.names)
    if singles < len(single):
        grouped = (chunk.types == RecordType.GROUP_EVENT) | (chunk.types == RecordType.DECISION)
        if grouped.any():
            yield from expand_groups(chunk.transitions.compress(grouped), chunk.names)


def _chosen(records: Array, mask: Array) -> Array:
    return records if mask.all() else records.compress(mask)


def entry_rows(transitions: Array, names: npt.NDArray[np.uint8]) -> Rows:
    """ENTRY_EVENT records as rows: they are rows already."""
    columns = {name: transitions[name] for name in ROW_FIELDS}
    return Rows(columns, _SINGLE, _zeros(len(transitions)), None, transitions, names)


MOST_KINDS: Final = 8
LEAST_ROWS: Final = 1024
"""Blocks with more kinds of change, or of fewer rows, are left whole by `expand`."""

KIND_FIELDS: Final = (
    "type", "from_state", "to_state", "holder_kind", "event", "outcome", "causes", "flags"
)  # fmt: skip
"""All that a transition says in one aligned word, its type first."""

_SAID_BY_ARRIVALS: Final = ("to_state", "holder_kind", "event", "causes")
_SINGLE: Final = int(RecordType.ENTRY_EVENT)


def _kinds(chunk: Chunk, single: Array) -> list[Array]:
    """For each kind of single change which transitions are such; none if there are too many kinds."""
    masks: list[Array] = []
    left = single.copy()
    while left.any():
        if len(masks) == MOST_KINDS:
            return []
        masks.append(chunk.kinds == chunk.kinds[np.argmax(left)])
        left &= ~masks[-1]
    return masks


def _rows_of_kind(chunk: Chunk, mask: Array) -> Rows:
    return _with_constants(entry_rows(_chosen(chunk.transitions, mask), chunk.names), KIND_FIELDS[1:])


def _of_one_kind(rows: Rows, arrivals: Array) -> Rows:
    """The rows of arrivals; what they say in bytes as constants, if all of them say the same."""
    words = _words(arrivals, _SAID_BY_ARRIVALS)
    return rows if (words != words[0]).any() else _with_constants(rows, _SAID_BY_ARRIVALS)


def _with_constants(rows: Rows, fields: tuple[str, ...]) -> Rows:
    """Rows with fields of a byte, of which each is the same in all of them, as columns of stride 0."""
    constants = {name: _same(rows[name][:1], np.uint8, len(rows)) for name in fields}
    return replace(rows, columns=rows.columns | constants)


def _same(value: bytes | Array, kind: type[np.generic], count: int) -> Array:
    """One value many times, as an array of stride 0. (`np.broadcast_to` takes ten times as long.)"""
    return np.ndarray((count,), kind, value, strides=(0,))


def _zeros(count: int) -> Array:
    return _same(bytes(4), np.uint32, count)


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
        return _arrival_rows(arrivals, routing, _zeros(len(arrivals)), names)
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
    zero = _same(bytes(1), np.uint8, len(arrivals))
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
