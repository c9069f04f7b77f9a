"""Sums of the events and entries of each queue: of one task's, to be added up."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from postroom.ledger.format.layout import Array
from postroom.spark.audit.families import MOVE_EVENTS
from postroom.spark.audit.walk.breaches import Bounds
from postroom.spark.audit.walk.columns import HIGHEST as HIGHEST_OF
from postroom.spark.audit.walk.columns import LOWEST, SUMS, TOTALS
from postroom.spark.audit.walk.lives import Columns
from postroom.spark.audit.walk.moves import TRANSACTIONS, Move, Test
from postroom.spark.audit.walk.sorted_events import HIGHEST, NONE, SortedEvents
from postroom.spark.ledger_source.state_names import OUTCOMES
from postroom.spark.tables import arrays
from postroom.spark.tables.groups import Rank, group

_KIN: Final = frozenset(MOVE_EVENTS.values())


class Totals:
    """The sums of one task, by queue."""

    def __init__(self, steps: SortedEvents, bounds: Bounds) -> None:
        self._steps: Final = steps
        self._bounds: Final = bounds
        starts = steps.groups.starts
        ledgers, queues = steps.ledger[starts], steps.number("queue_id")[starts]
        by_queue = group([ledgers, queues], Rank(np.arange(len(starts)), None))
        self._queues: Final = (ledgers[by_queue.first], queues[by_queue.first])
        self._of_entry: Final[Array] = by_queue.of_row
        self._of_event: Final[Array] = self._of_entry[steps.groups.of_sorted]

    def table(self, lives: pa.Table, events: Mapping[str, Array]) -> pa.Table:
        """Rows of `TOTALS`; ``events``: those of each kind that is counted, by their numbers."""
        sums = {**self._of_events(), **self._of_lives(lives)}
        for name, rows in events.items():
            sums[name] = np.bincount(self._of_event[rows], minlength=self._count)
        sums["refused"] = np.zeros(self._count, np.int64)
        made = {name: pa.array(sums[name].astype(np.int64)) for name in SUMS} | self._extremes()
        made["queue"], made["queue_of_events"] = self._names()
        ledgers = pa.array(self._steps.ledgers.texts, pa.string()).take(pa.array(self._queues[0]))
        made |= {"ledger_id": ledgers, "queue_id": pa.array(self._queues[1])}
        return pa.Table.from_arrays([made[name] for name in TOTALS.names], schema=TOTALS)

    @property
    def _count(self) -> int:
        return len(self._queues[0])

    def _events(self, such: Array) -> Array:
        return np.bincount(self._of_event[such], minlength=self._count)

    def _entries(self, such: Array) -> Array:
        return np.bincount(self._of_entry[such], minlength=self._count)

    def _of_events(self) -> dict[str, Array]:
        steps = self._steps
        own = steps.now(lambda move: not move.is_carried)
        early = own & (steps.number("position") <= steps.by_ledger(self._bounds.checkpoint, NONE))
        arrival = own & steps.now(lambda move: move.is_arrival)
        found = {
            "events": self._events(own),
            "arrivals": self._events(arrival),
            "early_events": self._events(early),
            "early_arrivals": self._events(early & arrival),
        }
        for name in OUTCOMES:
            ends = own & steps.now(_ends_as(name))
            found[f"ended_{name}"] = self._events(ends)
            found[f"early_ended_{name}"] = self._events(early & ends)
        return found

    def _of_lives(self, lives: pa.Table) -> dict[str, Array]:
        steps = self._steps
        ends = steps.groups.ends
        serial = steps.number("serial")[ends]

        def last(test: Test) -> Array:
            found: Array = steps.now(test)[ends]
            return found

        arrival_events = arrays.codes(lives.column("arrival_event"))
        kin = last(lambda move: move.is_end and move.outcome in _KIN) | arrival_events.among(*MOVE_EVENTS)
        crosses = last(_crosses) | arrays.valid(lives.column("origin_serial"))
        stored = arrays.numbers(lives.column("stored"))
        found = {
            "entries": np.ones(len(ends), bool),
            "available": last(lambda move: move.to_state == "available"),
            "delayed": last(lambda move: move.to_state == "delayed"),
            "unconfirmed": last(lambda move: move.holds),
            "in_transit": last(lambda move: move.holds and move.holder_kind in TRANSACTIONS),
            "held": last(lambda move: not move.is_end),
            "seen": serial < steps.by_ledger(self._bounds.first, NONE)[ends],
            "crossing": crosses,
            "kin": kin,
            "returned": last(lambda move: move.is_end and move.outcome == "returned_to_sender"),
            "stored_lost": last(lambda move: move.is_end and move.outcome == "lost") & stored,
        }
        return {name: self._entries(such) for name, such in found.items()}

    def _extremes(self) -> Columns:
        steps = self._steps
        time = steps.number("time")
        carried = steps.now(lambda move: move.is_carried)
        highest = {
            "last_time_us": np.where(carried, NONE, time),
            "carried_through": np.where(carried, steps.number("position"), NONE),
            "holder": steps.number("holder_id"),
        }
        made = {}
        for name in HIGHEST_OF:
            found = np.full(self._count, NONE, np.int64)
            np.maximum.at(found, self._of_event, highest[name])
            made[name] = arrays.of_kind(found, pa.int64(), found == NONE)
        first = np.full(self._count, HIGHEST, np.int64)
        np.minimum.at(first, self._of_event, np.where(carried, HIGHEST, time))
        made["first_time_us"] = arrays.of_kind(first, pa.int64(), first == HIGHEST)
        return made

    def _names(self) -> tuple[pa.Array, pa.Array]:
        """Each queue's name, and as its events have it."""
        codes = arrays.codes(self._steps.events.column("queue"))
        numbers = codes.numbers[self._steps.groups.order]
        own = np.where(self._steps.now(lambda move: not move.is_carried), numbers, -1)
        texts = pa.array(codes.texts, pa.string())
        made = []
        for each in (numbers, own):
            best = np.full(self._count, -1, np.int64)
            np.maximum.at(best, self._of_event, each)
            made.append(texts.take(pa.array(best, mask=best < 0)))
        return made[0], made[1]


def _ends_as(outcome: str) -> Test:
    return lambda move: move.is_end and move.outcome == outcome


def _crosses(move: Move) -> bool:
    """It left by a channel, or a channel's batch has it."""
    forwarded = move.is_end and move.outcome == "forwarded"
    return forwarded or (move.holds and move.holder_kind == "channel_batch")


def refused(events: pa.Table) -> pa.Table:
    """Rows of `TOTALS` of messages that were refused, by ledger."""
    ledgers = arrays.codes(events.column("ledger_id"))
    counts = np.bincount(ledgers.numbers, minlength=len(ledgers.texts)).astype(np.int64)
    zeros = pa.array(np.zeros(len(counts), np.int64))
    made = dict.fromkeys(SUMS, zeros) | {
        "ledger_id": pa.array(ledgers.texts, pa.string()),
        "queue_id": zeros,
        "refused": pa.array(counts),
    }
    columns = [made.get(field.name, pa.nulls(len(counts), field.type)) for field in TOTALS]
    return pa.Table.from_arrays(columns, schema=TOTALS)


def added(totals: pa.Table) -> pa.Table:
    """One row for each queue."""
    ledgers, queues = arrays.codes(totals.column("ledger_id")), arrays.numbers(totals.column("queue_id"))
    by_queue = group([ledgers.numbers, queues], Rank(np.arange(len(queues)), None))
    which, count = by_queue.of_row, len(by_queue)
    made = {
        "ledger_id": pa.array(ledgers.texts, pa.string()).take(pa.array(ledgers.numbers[by_queue.first])),
        "queue_id": pa.array(queues[by_queue.first]),
    }
    for name in ("queue", "queue_of_events"):
        codes = arrays.codes(totals.column(name))
        best = _merged(np.maximum, codes.numbers.astype(np.int64), which, count, -1)
        made[name] = pa.array(codes.texts, pa.string()).take(pa.array(best, mask=best < 0))
    for names, merge, none in (
        (SUMS, np.add, 0),
        (LOWEST, np.minimum, HIGHEST),
        (HIGHEST_OF, np.maximum, NONE),
    ):
        for name in names:
            found = _merged(merge, arrays.numbers(totals.column(name), none), which, count, none)
            made[name] = pa.array(found, mask=None if merge is np.add else found == none)
    return pa.Table.from_arrays([made[name] for name in TOTALS.names], schema=TOTALS)


def _merged(merge: np.ufunc, values: Array, which: Array, count: int, none: int) -> Array:
    found = np.full(count, none, np.int64)
    merge.at(found, which, values)
    return found
