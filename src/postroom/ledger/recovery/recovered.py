"""What recovery hands to the queue manager: the last state, in the shapes that the manager keeps."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from postroom.ledger.fold.duplicates import only, windows_recovered
from postroom.ledger.fold.fold import survives
from postroom.ledger.fold.state import Arrivals, FoldState, distinct, rows_from_arrivals
from postroom.ledger.format.dictionary import (
    ANNOTATIONS,
    CHANNEL_STATES,
    CHANNELS,
    HOLDERS,
    PRINCIPALS,
    PRODUCERS,
    QUEUES,
    SETS,
    SINKS,
    SPARK_SUBSCRIPTIONS,
    Dictionary,
)
from postroom.ledger.format.layout import EXPLICIT_ROW, Array, are_children, rows_at, rows_together
from postroom.ledger.format.records import ArrivalFlag
from postroom.model.codes import DelayCause, Event, HolderKind, Outcome, State
from postroom.model.packed import CHUNK_ENTRIES, ORDERED_FIELDS, PACKED_FIELDS, UNBORN_FIELDS
from postroom.model.tables import LOST_AT_RESTART, OUTCOME

PACKED_DTYPE: Final = np.dtype(PACKED_FIELDS)
UNBORN_DTYPE: Final = np.dtype(UNBORN_FIELDS)
ORDERED_DTYPE: Final = np.dtype(ORDERED_FIELDS)
_PRIORITY_SHIFT: Final = 8
_MOST_COUNTED: Final = 0xFFFF
"""That a packed entry can say."""


class EntryRow(NamedTuple):
    """A live entry that isn't plain, as the ledger left it. Times in µs since 1970, 0 for none."""

    serial: int
    queue: int
    holder: int
    place_position: int
    """0 while it has never been available."""
    due_us: int
    """End of the delay it is in; of an unborn one its birth."""
    expiry_us: int
    time_us: int
    """When it arrived."""
    body_serial: int
    parent_serial: int
    upload: int
    place_ordinal: int
    parent_queue: int
    body_offset: int
    body_len: int
    body_crc: int
    routing_set: int
    delivery_count: int
    failure_count: int
    producer: int
    message_format: int
    flags: int
    """ArrivalFlag."""
    state: int
    holder_kind: int
    causes: int
    priority: int
    noted: int
    """Event (EXPIRE, DELETE) that acts when the held entry returns; 0 for none."""
    last_event: int
    acquired_position: int
    """Of the event by which a Spark subscription holds it; 0 none does."""


class HolderRow(NamedTuple):
    """A holder that was open at the end."""

    holder: int
    holder_kind: int
    opened_position: int
    detail: dict[str, Any]


class AssignedRows(NamedTuple):
    """What one Spark subscription holds of its queue, in the order of assignment; packed, for there may be a
    million."""

    holder: int
    queue: int
    packed: bytes
    """`PACKED_FIELDS` of each."""
    places: bytes
    """(place, ordinal) of each, two u64."""
    positions: bytes
    """Of the event that assigned it, u64 of each."""


class TotalRow(NamedTuple):
    """A queue's ledger totals, in entries; `ended` by Outcome. Queue 0: all queues that were deleted."""

    queue: int
    arrived: int
    arrived_bytes: int
    ended: list[int]


@dataclass
class RecoveryReport:
    """What recovery met and did, for the log."""

    files_folded: int = 0
    records_folded: int = 0
    checkpoint_position: int = 0
    cut: list[str] = field(default_factory=list)
    """Torn tails and void bytes that were passed over, and unfinished files that were removed."""


@dataclass
class Recovered:
    """The state after the last durable record."""

    next_position: int
    next_queue_id: int
    next_holder_id: int
    next_set_id: int
    time_us: int
    queues: list[tuple[int, dict[str, Any]]]
    backlog: list[tuple[int, bytes]]
    """(queue, at most 64 Ki packed entries of one priority in place order); highest priority first."""
    ordered: list[tuple[int, bytes]]
    """Stored entries that wait, behind another of their unit of order, for their turn: `ORDERED_FIELDS`, by
    queue."""
    unborn: list[tuple[int, bytes]]
    """(queue, at most 64 Ki packed entries that wait for nothing but their birth), in order of serial."""
    assigned: list[AssignedRows]
    """What Spark subscriptions hold and is stored."""
    explicit: list[EntryRow]
    """Every other live entry that is stored or that its holder decides about; by (serial, queue)."""
    lost: list[tuple[int, int, Array]]
    """(queue, from_state, ascending serials): not stored, and no transaction or branch decides about them."""
    holders: list[HolderRow]
    producers: list[tuple[int, dict[str, Any]]]
    routing_sets: list[tuple[int, list[int]]]
    totals: list[TotalRow]
    duplicates: list[tuple[int, list[tuple[int, bytes]]]]
    """(queue or topic, [(serial, key of its message id), the oldest first]): what it has taken last."""
    channels: list[tuple[int, dict[str, Any]]]
    """Definitions of message channels by id."""
    principals: list[tuple[int, dict[str, Any]]]
    """Definitions of users and roles by id."""
    channel_states: list[tuple[int, dict[str, Any]]]
    """What must survive of channels and of their partners, by id."""
    annotations: list[tuple[int, int, int, dict[str, Any]]]
    """(id, serial, queue, annotations) of live entries that have some beside their bodies."""
    sinks: list[tuple[int, dict[str, Any]]]
    """What must survive of Spark sinks, by id."""
    sink_ids: list[tuple[int, list[tuple[int, bytes]]]]
    """As `duplicates`: what undecided sink branches hold, so that it has not been taken yet."""
    spark_subscriptions: list[tuple[int, int, dict[str, Any]]]
    """(id, last position at which it was assigned something that has not ended, lost messages included; 0
    none, what must survive of it)."""
    report: RecoveryReport = field(default_factory=RecoveryReport)


def recovered_from(state: FoldState, source: Arrivals) -> Recovered:
    """Turn a fold's state into what the manager takes; the state's plain entries are used up."""
    aside: list[Array] = []
    backlog = list(_backlog(state, source, aside))
    rows = rows_together([state.explicit, *aside]) if aside else state.explicit
    rows = rows.take(np.lexsort((rows["queue"], rows["serial"])))
    lost = ~survives(rows["arrival_flags"]) & _LOSES[rows["state"], rows["holder_kind"]]
    rolled_back = _ROLLS_BACK[rows["state"], rows["holder_kind"]]
    unborn = _is_unborn(rows) & ~lost
    ordered = _is_ordered(rows) & ~lost
    in_sinks = rows["holder_kind"] == HolderKind.SPARK_BRANCH
    no_serials = np.zeros(0, np.uint64)
    assigned = (rows["holder_kind"] == HolderKind.SPARK_SUBSCRIPTION) & ~lost
    dictionary = state.dictionary
    return Recovered(
        next_position=state.position + 1,
        next_queue_id=state.next_queue_id,
        next_holder_id=state.next_holder_id,
        next_set_id=state.next_set_id,
        time_us=state.time_us,
        queues=list(_details(dictionary, QUEUES)),
        backlog=backlog,
        ordered=list(_ordered(rows.compress(ordered))),
        unborn=list(_unborn(rows.compress(unborn))),
        assigned=list(_assigned(rows.compress(assigned))),
        explicit=[
            EntryRow._make(row) for row in rows.compress(~lost & ~ordered & ~unborn & ~assigned).tolist()
        ],
        lost=list(_by_queue_and_state(rows.compress(lost))),
        holders=list(_holders(dictionary)),
        producers=list(_details(dictionary, PRODUCERS)),
        routing_sets=[
            (set_id, np.frombuffer(record.detail, "<u4").tolist())
            for set_id, record in sorted(dictionary.of_kind(SETS).items())
        ],
        totals=[
            TotalRow(int(row["queue"]), int(row["arrived"]), int(row["arrived_bytes"]), row["ended"].tolist())
            for row in state.totals
        ],
        duplicates=windows_recovered(state.duplicates, rows["serial"][lost | rolled_back | in_sinks]),
        channels=list(_details(dictionary, CHANNELS)),
        principals=list(_details(dictionary, PRINCIPALS)),
        channel_states=list(_details(dictionary, CHANNEL_STATES)),
        annotations=list(_annotations(dictionary)),
        sinks=list(_details(dictionary, SINKS)),
        sink_ids=windows_recovered(only(state.duplicates, rows["serial"][in_sinks]), no_serials),
        spark_subscriptions=list(_spark_subscriptions(dictionary, rows)),
    )


def _details(dictionary: Dictionary, kind: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for subject, record in sorted(dictionary.of_kind(kind).items()):
        yield subject, json.loads(record.detail) if record.detail else {}


def _annotations(dictionary: Dictionary) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    for id, record in sorted(dictionary.of_kind(ANNOTATIONS).items()):
        detail = json.loads(record.detail)
        yield id, detail["serial"], detail["queue"], detail["annotations"]


def _spark_subscriptions(dictionary: Dictionary, rows: Array) -> Iterator[tuple[int, int, dict[str, Any]]]:
    held = rows.compress(rows["holder_kind"] == HolderKind.SPARK_SUBSCRIPTION)
    for id, detail in _details(dictionary, SPARK_SUBSCRIPTIONS):
        positions = held["acquired_position"][held["holder"] == id]
        yield id, int(positions.max()) if len(positions) else 0, detail


def _packed(own: Array, dtype: np.dtype[np.void]) -> Array:
    """What entries say that are packed with both their counts; the fields beside it are 0."""
    packed = np.zeros(len(own), dtype)
    packed["flags"] = own["arrival_flags"] & _FLAG_MASK
    for name in ("serial", *_PACKED_AS_IT_IS):
        packed[name] = own[name]
    for name in ("delivery_count", "failure_count"):
        packed[name] = np.minimum(own[name], _MOST_COUNTED)
    return packed


def _assigned(rows: Array) -> Iterator[AssignedRows]:
    """By subscription; of one assignment in order of serial, as its record tells them."""
    for holder in distinct(rows["holder"]).tolist():
        own = rows.compress(rows["holder"] == holder)
        own = own.take(np.lexsort((own["serial"], own["acquired_position"])))
        packed = _packed(own, PACKED_DTYPE)
        places = np.stack([own["place_position"], own["place_ordinal"].astype(np.uint64)], axis=1)
        yield AssignedRows(
            holder,
            int(own["queue"][0]),
            packed.tobytes(),
            places.astype("<u8").tobytes(),
            own["acquired_position"].tobytes(),
        )


def _holders(dictionary: Dictionary) -> Iterator[HolderRow]:
    for holder, record in sorted(dictionary.of_kind(HOLDERS).items()):
        detail = json.loads(record.detail) if record.detail else {}
        yield HolderRow(holder, record.record[_HOLDER_KIND_AT], record.position, detail)


_HOLDER_KIND_AT: Final = 51


def _at_restart(flat: bytes) -> Array:
    """Of a flat table of the life cycle what it says of a restart, by state and kind of holder."""
    cells = np.frombuffer(flat, np.uint8).reshape(len(State), len(HolderKind), len(Event))
    return cells[:, :, Event.RESTART]


_LOSES: Final = _at_restart(LOST_AT_RESTART) != 0
_ROLLS_BACK: Final = _at_restart(OUTCOME) == Outcome.ROLLED_BACK


def _is_unborn(rows: Array) -> Array:
    """Which explicit rows say no more than a packed unborn entry can."""
    waits = (rows["state"] == State.DELAYED) & (rows["causes"] == DelayCause.UNBORN)
    untouched = (rows["place_position"] == 0) & (rows["failure_count"] == 0) & (rows["noted"] == 0)
    return np.asarray(waits & untouched & ~are_children(rows, "arrival_flags"))


def _unborn(rows: Array) -> Iterator[tuple[int, bytes]]:
    for queue in distinct(rows["queue"]).tolist():
        own = rows.compress(rows["queue"] == queue)
        packed = np.zeros(len(own), UNBORN_DTYPE)
        packed["flags"] = own["arrival_flags"] & _FLAG_MASK
        for name in ("serial", "due_us", "delivery_count", *_PACKED_AS_IT_IS):
            packed[name] = own[name]
        for start in range(0, len(packed), CHUNK_ENTRIES):
            yield queue, packed[start : start + CHUNK_ENTRIES].tobytes()


def _is_ordered(rows: Array) -> Array:
    """Which explicit rows say no more than a packed entry that waits for its turn can."""
    waits = (rows["state"] == State.DELAYED) & (rows["causes"] == DelayCause.ORDERED)
    return np.asarray(waits & (rows["noted"] == 0) & (rows["due_us"] == 0))


def _ordered(rows: Array) -> Iterator[tuple[int, bytes]]:
    for queue in distinct(rows["queue"]).tolist():
        own = rows.compress(rows["queue"] == queue)
        packed = _packed(own, ORDERED_DTYPE)
        packed["place"], packed["ordinal"] = own["place_position"], own["place_ordinal"]
        for start in range(0, len(packed), CHUNK_ENTRIES):
            yield queue, packed[start : start + CHUNK_ENTRIES].tobytes()


def _by_queue_and_state(rows: Array) -> Iterator[tuple[int, int, Array]]:
    for queue in distinct(rows["queue"]).tolist():
        on_queue = rows.compress(rows["queue"] == queue)
        for state in distinct(on_queue["state"]).tolist():
            yield queue, state, on_queue["serial"][on_queue["state"] == state]


def _backlog(state: FoldState, source: Arrivals, aside: list[Array]) -> Iterator[tuple[int, bytes]]:
    """Pieces of the plain entries by queue; those that aren't stored go to `aside` as explicit rows."""
    by_queue: dict[int, list[int]] = {}
    for file_number, queue in sorted(state.plain):
        by_queue.setdefault(queue, []).append(file_number)
    for queue, files in sorted(by_queue.items()):
        columns: dict[int, _Column] = {}
        for file_number in files:
            arrivals = source(file_number)
            indexes = state.plain.pop((file_number, queue))
            for start in range(0, len(indexes), _PACKED_AT_ONCE):
                rows = rows_at(arrivals, indexes[start : start + _PACKED_AT_ONCE])
                stored = survives(rows["flags"])
                if not stored.all():
                    gone = rows.compress(~stored)
                    aside.append(rows_from_arrivals(gone, np.full(len(gone), queue, np.uint32)))
                    rows = rows.compress(stored)
                _distribute(rows, columns)
        for _, column in sorted(columns.items(), reverse=True):
            yield from ((queue, piece) for piece in column.finish())


def _distribute(rows: Array, columns: "dict[int, _Column]") -> None:
    packed = _pack(rows)
    if len(packed) and (packed["priority"] == packed["priority"][0]).all():
        columns.setdefault(int(packed["priority"][0]), _Column()).add(packed)
        return
    order = np.argsort(packed["priority"], kind="stable")
    packed = packed.take(order)
    priorities = distinct(packed["priority"])
    ends = np.searchsorted(packed["priority"], priorities, "right").tolist()
    for priority, start, end in zip(priorities.tolist(), [0, *ends], ends, strict=False):
        columns.setdefault(priority, _Column()).add(packed[start:end])


def _pack(rows: Array) -> Array:
    packed = np.zeros(len(rows), PACKED_DTYPE)
    packed["serial"] = rows["position"]
    packed["flags"] = rows["flags"] & _FLAG_MASK
    for name in _PACKED_AS_IT_IS:
        packed[name] = rows[name]
    return packed


_PACKED_AT_ONCE: Final = 4096
"""Each field is gone through by itself, so that all of the rows had better stay in the processor's cache."""

_PACKED_AS_IT_IS: Final = ("body_serial", "expiry_us", "body_offset", "body_len", "priority")
_FLAG_MASK: Final = ~int(ArrivalFlag.RECEIVED) & 0xFFFF
"""That a message came through a channel concerns its arrival alone, not what becomes of it."""


class _Column:
    """Packed entries of one queue and priority, gathered into full pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._open: list[Array] = []
        self._open_count = 0
        self._last_serial = 0
        self._ascending = True

    def add(self, packed: Array) -> None:
        self._ascending &= int(packed["serial"][0]) > self._last_serial
        self._last_serial = int(packed["serial"][-1])
        while len(packed):
            room = CHUNK_ENTRIES - self._open_count
            self._open.append(packed[:room])
            self._open_count += len(packed[:room])
            packed = packed[room:]
            if self._open_count == CHUNK_ENTRIES:
                self._close()

    def _close(self) -> None:
        self._pieces.append(b"".join(part.view(np.uint8).data for part in self._open))
        self._open, self._open_count = [], 0

    def finish(self) -> Iterable[bytes]:
        """All pieces in order of serial."""
        if self._open_count:
            self._close()
        if self._ascending:
            return self._pieces
        rows = np.frombuffer(b"".join(self._pieces), PACKED_DTYPE)
        rows = rows.take(np.argsort(rows["serial"]))
        return [rows[at : at + CHUNK_ENTRIES].tobytes() for at in range(0, len(rows), CHUNK_ENTRIES)]


assert [name if name != "arrival_flags" else "flags" for name, _ in EXPLICIT_ROW.fields] == list(
    EntryRow._fields
), "EntryRow follows EXPLICIT_ROW"
