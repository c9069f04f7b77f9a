"""The slowest messages, and their states one after the other, from the tables entries and events."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.report.data import Life, Phase
from postroom.spark.report.depths import numbers

COLUMNS: Final = (
    "ledger_id", "serial", "queue_id", "queue", "message_id", "state", "outcome", "arrival_time",
    "ended_time", "delivery_count", "last_position", "is_carried",
)  # fmt: skip
EVENT_COLUMNS: Final = (
    "ledger_id", "serial", "queue_id", "position", "ordinal", "time", "to_state", "causes", "holder_kind",
    "holder",
)  # fmt: skip
MAX_LIVES: Final = 8
MAX_OF_A_QUEUE: Final = 2
QUEUE: Final = ("ledger_id", "queue_id")
MAX_PHASES: Final = 200
"""So many states of one message are kept; the rest becomes one."""

Row = dict[str, Any]


@dataclass(slots=True)
class Longest:
    """The messages that took longest, as they are found piece by piece."""

    wanted: int = MAX_LIVES
    ended: list[Row] = field(default_factory=list)
    open: list[Row] = field(default_factory=list)

    def add(self, rows: pa.Table) -> None:
        """Look at some folded rows of entries."""
        known = rows.filter(pc.invert(pc.fill_null(rows["is_carried"], False)))
        known = known.filter(pc.is_valid(known["arrival_time"]))
        consumed = known.filter(pc.fill_null(pc.equal(known["outcome"], "consumed"), False))
        took = pc.subtract(micros(consumed["ended_time"]), micros(consumed["arrival_time"]))
        self.ended = _best(
            [*self.ended, *_top(consumed.append_column("took", took), self.wanted)], self.wanted
        )
        there = known.filter(pc.not_equal(known["state"], "deleted"))
        since = pc.negate(micros(there["arrival_time"]))
        found = _top(there.append_column("took", since), self.wanted)
        self.open = _best([*self.open, *found], self.wanted)

    def rows(self) -> list[Row]:
        """All of them."""
        return [*self.ended, *self.open]


def micros(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps as numbers."""
    return times.cast(pa.int64())


def _top(rows: pa.Table, wanted: int) -> list[Row]:
    """The longest, `MAX_OF_A_QUEUE` of each queue: else one bad hour of one queue would be all there is."""
    ordered = rows.sort_by([("ledger_id", "ascending"), ("queue_id", "ascending"), ("took", "descending")])
    codes = [numbers(pc.dictionary_encode(ordered[name]).combine_chunks().indices) for name in QUEUE]
    begins = np.ones(len(ordered), bool)
    begins[1:] = np.logical_or.reduce([one[1:] != one[:-1] for one in codes])
    places = np.arange(len(ordered))
    rank = places - np.maximum.accumulate(np.where(begins, places, 0))
    best = ordered.filter(pa.array(rank < MAX_OF_A_QUEUE))
    chosen = pc.select_k_unstable(best, wanted * MAX_OF_A_QUEUE, [("took", "descending")])
    return list(best.take(chosen).to_pylist())


def _best(rows: list[Row], wanted: int) -> list[Row]:
    found: list[Row] = []
    of_queue: Counter[tuple[str, int]] = Counter()
    for row in sorted(rows, key=lambda row: -row["took"]):
        of_queue[row["ledger_id"], row["queue_id"]] += 1
        if of_queue[row["ledger_id"], row["queue_id"]] <= MAX_OF_A_QUEUE:
            found.append(row)
    return found[:wanted]


def key_of(row: Row) -> tuple[str, int, int]:
    return (row["ledger_id"], row["serial"], row["queue_id"])


def events_of(rows: Sequence[Row], pieces: Iterable[pa.Table]) -> dict[tuple[str, int, int], list[Row]]:
    """The events of these entries, in order, from pieces of the events table."""
    serials = pa.array(sorted({row["serial"] for row in rows}), pa.int64())
    wanted = {key_of(row) for row in rows}
    found: dict[tuple[str, int, int], list[Row]] = {key: [] for key in wanted}
    for piece in pieces:
        for row in piece.filter(pc.is_in(piece["serial"], serials)).to_pylist():
            if key_of(row) in found:
                found[key_of(row)].append(row)
    for events in found.values():
        events.sort(key=lambda row: (row["position"], row["ordinal"]))
    return found


def life(row: Row, events: Sequence[Row], queue: str, now_us: int) -> Life:
    """One message with its phases; what its events don't tell is missing at the beginning."""
    begin_us = us_of(row["arrival_time"])
    ended_us = None if row["ended_time"] is None else us_of(row["ended_time"])
    return Life(
        queue,
        row["serial"],
        row["message_id"] or "",
        begin_us,
        ended_us,
        row["outcome"] or "",
        row["delivery_count"],
        phases(events, ended_us if ended_us is not None else max(now_us, begin_us)),
    )


def phases(events: Sequence[Row], end_us: int) -> list[Phase]:
    """The states that events led to, each until the next event; neighbours that are the same are one."""
    found: list[Phase] = []
    for event, following in zip(events, [*events[1:], None], strict=True):
        until_us = us_of(following["time"]) if following else end_us
        if event["to_state"] == "deleted":
            break
        phase = Phase(event["to_state"], us_of(event["time"]), until_us, _why(event))
        last = found[-1] if found else None
        if last and ((last.state, last.why) == (phase.state, phase.why) or len(found) >= MAX_PHASES):
            found[-1] = replace(last, end_us=phase.end_us)
        else:
            found.append(phase)
    return found


def _why(event: Row) -> str:
    if event["to_state"] == "delayed":
        return str(event["causes"] or "").replace("_", " ")
    if event["to_state"] == "available" or not event["holder_kind"]:
        return ""
    kind = event["holder_kind"].replace("_", " ")
    return f"{kind} {event['holder']}" if event["holder"] else kind


def us_of(time: Any) -> int:
    """A timestamp of a row as microseconds since 1970."""
    return int(np.datetime64(time.replace(tzinfo=None), "us").astype(np.int64))
