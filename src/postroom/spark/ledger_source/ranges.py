"""Which positions of which ledgers are read: from options and looks, for one read or batch after batch.

What Spark asks a stream for is answered here, without Spark. Offsets are positions by ledger id. The offset
that a stream begins with is empty: its first batch reads nothing and only writes down where each ledger
begins, so that a batch that is done again after a crash is the same, whatever was written or dropped
meanwhile. A ledger that joins later does so in the same way.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from postroom.ledger.errors import LedgerError
from postroom.ledger.format.layout import Array
from postroom.spark.ledger_source.options import LATEST, SourceOptions
from postroom.spark.ledger_source.positions import BEGINNING, Position, Positions, check, position_in
from postroom.spark.ledger_source.queue_names import check_queues
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.place import Place, Seen, Slice, Snapshot, snapshots_of
from postroom.spark.places.slices import plan, plan_parts

T = TypeVar("T")


class DataLost(LedgerError):
    """Records that were not read yet have been dropped by retention: positions first to last."""

    def __init__(self, ledger_id: str, first: int, last: int) -> None:
        super().__init__(
            f"ledger {ledger_id}: positions {first} to {last} were not read and are"
            " dropped; read them from an object store that has them, or accept the loss with"
            " failOnDataLoss=false; a lease (`postroom ledger lease`) or more retention keeps them next time"
        )
        self.ledger_id: Final = ledger_id


class LedgerMissing(LedgerError):
    """A ledger that was read is not among the paths."""

    def __init__(self, ledger_ids: Iterable[str]) -> None:
        super().__init__(
            f"no path leads to ledger {', '.join(sorted(ledger_ids))}, which was read until now; add its"
            " path, or say onMissingLedger=drop to go on without it for good"
        )


# --- bounds ---------------------------------------------------------------------------------------


def position_at(place: Place, snapshot: Snapshot, time_us: int) -> int:
    """The first position whose record is not older than a time; the one behind the last if none is."""

    def first_at(records: Array) -> int:
        times = records["time_us"]
        return bisect_left(range(len(records)), time_us, key=lambda index: int(times[index]))

    for segment in snapshot.segments:
        if segment.record_count and segment.last_time_us >= time_us:
            for piece in plan(
                place, snapshot, segment.first_position, segment.last_position, segment.record_count
            ):
                found = [
                    int(records["position"][at])
                    for chunk, _ in place.read(piece)
                    for records in (chunk.arrivals, chunk.transitions)
                    if (at := first_at(records)) < len(records)
                ]
                if found:
                    return min(found)
    return snapshot.durable_through + 1


def first_wanted(options: SourceOptions, seen: Seen) -> int | None:
    """The first position that the options' bounds let through; None while it isn't there yet."""
    times = [options.from_time_us, options.start.at if isinstance(options.start.at, int) else None]
    after_us = max((time_us for time_us in times if time_us is not None), default=None)
    first, durable = options.first or 1, seen.snapshot.durable_through
    if after_us is not None:
        first = max(first, position_at(seen.place, seen.snapshot, after_us))
        return first if first <= durable else None
    return first if first <= durable + 1 else None


def last_wanted(options: SourceOptions, seen: Seen) -> int:
    """The last position that is there and that the options' bounds let through."""
    last = seen.snapshot.durable_through
    if options.last is not None:
        last = min(last, options.last)
    if options.to_time_us is not None and seen.snapshot.last_time_us >= options.to_time_us:
        last = min(last, position_at(seen.place, seen.snapshot, options.to_time_us) - 1)
    return last


def starting_position(options: SourceOptions, seen: Seen) -> Position | None:
    """The last position that is not to be read; None while where to start isn't there yet.

    Raises ``LedgerDiverged``, ``DataLost``.
    """
    first, snapshot, at = first_wanted(options, seen), seen.snapshot, options.start.at
    if first is None:
        return None
    if at == LATEST:
        return position_in(snapshot, snapshot.durable_through)
    before = position_in(snapshot, max(first, snapshot.first_position) - 1)
    given = at.get(snapshot.ledger_id, BEGINNING) if isinstance(at, Mapping) else BEGINNING
    if given.position == 0:
        return before
    require_readable(options, snapshot, given)
    return max(given, before, key=lambda position: position.position)


def require_readable(options: SourceOptions, snapshot: Snapshot, after: Position) -> None:
    """Whether everything behind a position is there. Raises ``LedgerDiverged``, ``DataLost``."""
    check(snapshot, after)
    if options.fail_on_data_loss and after.position + 1 < snapshot.first_position:
        raise DataLost(snapshot.ledger_id, after.position + 1, snapshot.first_position - 1)


def rows_of(slice: Slice, schema: pa.Schema, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The rows of a slice. Raises ``DataLost`` if its file was dropped since it was planned, unless that is
    accepted."""
    yield from unless_dropped(slice, read_events(slice, schema, options.queues, in_kinds=True), options)


def unless_dropped(slice: Slice, found: Iterator[T], options: SourceOptions) -> Iterator[T]:
    """What is read of a slice, up to where its file turns out to be dropped. Raises ``DataLost`` then, unless
    that is accepted."""
    try:
        yield from found
    except FileNotFoundError as error:
        if options.fail_on_data_loss:
            raise DataLost(slice.ledger_id, slice.first, slice.last) from error


# --- streams --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many records and bytes a batch; None: as many as there are."""

    records: int | None = None
    size_bytes: int | None = None


class Planner:
    """What a stream over some ledgers reads next. For one thread."""

    def __init__(self, options: SourceOptions) -> None:
        self._options: Final = options
        self._places: Final = options.places()
        self._seen: dict[str, Seen] = {}
        self._target: dict[str, int] | None = None
        self._ends: dict[str, int] = {}
        """The last wanted position of ledgers that have reached the end of the time range."""

    def refresh(self) -> dict[str, Seen]:
        """What there is now, by ledger id."""
        self._seen = snapshots_of(self._places.now())
        return self._seen

    def stop_here(self) -> None:
        """What is written from now on is not read any more: a run over what is available now."""
        self._target = {name: seen.snapshot.durable_through for name, seen in self.refresh().items()}

    def latest(self) -> dict[str, Position]:
        """How far each ledger goes, by the last look."""
        seen = self._seen or self.refresh()
        return {ledger_id: position_in(one.snapshot, self._end(one)) for ledger_id, one in seen.items()}

    def begin(self) -> dict[str, Position]:
        """Where a read of its own begins: the last position of each ledger that is not to be read.

        Raises ``LedgerDiverged``, ``DataLost``, ``SourceOptionError`` for queues that no ledger knows.
        """
        seen = self.refresh()
        check_queues(self._options, seen)
        found = {ledger_id: starting_position(self._options, one) for ledger_id, one in seen.items()}
        return {ledger_id: position for ledger_id, position in found.items() if position is not None}

    def next(self, start: Positions, limit: Limit) -> dict[str, Position]:
        """Where a batch ends that begins behind `start`.

        Raises ``LedgerMissing``, ``LedgerDiverged``, ``DataLost``; ``SourceOptionError`` for queues that no
        ledger knows.
        """
        seen = self.refresh()
        if not start:  # a stream that goes on may have outlived a queue and its history
            check_queues(self._options, seen)
        self._require_all(start, seen)
        for ledger_id, after in start.items():
            if ledger_id in seen:
                require_readable(self._options, seen[ledger_id].snapshot, after)
        read = {ledger_id: one for ledger_id, one in seen.items() if ledger_id in start}
        lags = {ledger_id: self._end(one) - start[ledger_id].position for ledger_id, one in read.items()}
        end: dict[str, Position] = {}
        for ledger_id in set(seen) - set(read):
            begins = starting_position(self._options, seen[ledger_id])
            if begins is not None:
                end[ledger_id] = begins
        for ledger_id, records in shares(lags, limit.records).items():
            one, after = read[ledger_id], start[ledger_id]
            last = max(after.position, one.snapshot.first_position - 1) + records
            last = min(last, after.position + lags[ledger_id])
            if limit.size_bytes is not None:
                last = within_bytes(one.snapshot, after.position, last, limit.size_bytes // len(read))
            end[ledger_id] = position_in(one.snapshot, last) if last > after.position else after
        return end

    def parts(self, start: Positions, end: Positions) -> list[list[Slice]]:
        """What lies behind `start`, up to `end`, in slices for a task each: again the same, however often it
        is asked.

        Raises ``LedgerMissing``, ``LedgerDiverged``, ``DataLost``.
        """
        spans, records = self._spans(start, end)
        return [
            part
            for one, first, last in spans
            for part in plan_parts(one.place, one.snapshot, first, last, records)
        ]

    def slices(self, start: Positions, end: Positions) -> list[Slice]:
        """The same in as few slices as there can be, for who pays for each: none ends but where its file
        does, or has as many records as a task is given. Raises as `parts`.
        """
        spans, records = self._spans(start, end)
        return [
            piece
            for one, first, last in spans
            for piece in plan(one.place, one.snapshot, first, last, records)
        ]

    def _spans(self, start: Positions, end: Positions) -> tuple[list[tuple[Seen, int, int]], int]:
        """The first and last position of each ledger in a batch, and how many records a task is given."""
        seen = self._seen
        if any(
            name not in seen or seen[name].snapshot.durable_through < at.position for name, at in end.items()
        ):
            seen = self.refresh()
        self._require_all(start, seen)
        spans: list[tuple[Seen, int, int]] = []
        for ledger_id in sorted(set(start) & set(end) & set(seen)):
            refresh, first, last = seen[ledger_id].snapshot, start[ledger_id], end[ledger_id]
            require_readable(self._options, refresh, first)
            check(refresh, last)
            if last.position > first.position:
                spans.append((seen[ledger_id], first.position + 1, last.position))
        total = sum(last - first + 1 for _, first, last in spans)
        return spans, self._options.records_a_partition(total)

    def _require_all(self, start: Positions, seen: Mapping[str, Seen]) -> None:
        missing = set(start) - set(seen)
        if missing and not self._options.drop_missing_ledger:
            raise LedgerMissing(missing)

    def _end(self, seen: Seen) -> int:
        ledger_id = seen.snapshot.ledger_id
        last = self._ends.get(ledger_id)
        if last is None:
            last = last_wanted(self._options, seen)
            to_time_us = self._options.to_time_us
            if to_time_us is not None and seen.snapshot.last_time_us >= to_time_us:
                self._ends[ledger_id] = last
        if self._target is not None:
            last = min(last, self._target.get(ledger_id, 0))
        return last


def shares(lags: Mapping[str, int], most: int | None) -> dict[str, int]:
    """So many records of each ledger, `most` in all: those that lag little get all, others equal parts."""
    lags = {ledger_id: max(0, lag) for ledger_id, lag in lags.items()}
    if most is None:
        return dict(lags)
    given: dict[str, int] = {}
    left = most
    for index, ledger_id in enumerate(sorted(lags, key=lambda one: (lags[one], one))):
        given[ledger_id] = min(lags[ledger_id], left // (len(lags) - index))
        left -= given[ledger_id]
    return given


def within_bytes(snapshot: Snapshot, after: int, last: int, most_bytes: int) -> int:
    """The last position up to which about so many bytes lie behind `after`, at least one record."""
    left = most_bytes
    for segment in snapshot.segments:
        low, high = max(after + 1, segment.first_position), min(last, segment.last_position)
        if low > high:
            continue
        a_record = max(1, segment.records_bytes // max(1, segment.record_count))
        fitting = left // a_record
        if fitting < high - low + 1:
            return min(last, max(after + 1, low + fitting - 1))
        left -= a_record * (high - low + 1)
    return last
