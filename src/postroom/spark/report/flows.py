"""What went from where to where, counted from the entries table, piece by piece."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from postroom.spark.report.data import Flow
from postroom.spark.report.naming import NAMELESS, container

COLUMNS: Final = (
    "ledger_id", "serial", "queue_id", "queue", "outcome", "arrival_event", "producer", "adverse",
    "parent_serial", "parent_queue_id", "channel", "origin_ledger_id", "origin_serial",
)  # fmt: skip

MOVED: Final = ("moved", "dead_lettered", "redirected")
"""Outcomes after which another entry of the same ledger comes in the stead of this one."""

OWN: Final = "(queue manager)"

Queue = tuple[str, int]
"""A queue of a ledger: its ids."""


@dataclass(slots=True)
class FlowCounts:
    """Counts as they grow with each piece of the table."""

    names: dict[Queue, str] = field(default_factory=dict)
    puts: Counter[tuple[str, Queue]] = field(default_factory=Counter)
    moves: Counter[tuple[Queue, Queue, str]] = field(default_factory=Counter)
    ends: Counter[tuple[Queue, str]] = field(default_factory=Counter)
    came: list[pa.Table] = field(default_factory=list)
    """What came through channels: origin, and where it came to."""
    left: list[pa.Table] = field(default_factory=list)
    """What was forwarded."""

    def add(self, rows: pa.Table) -> None:
        """Count some folded rows of entries."""
        self._add_names(rows)
        is_move = pc.is_valid(rows["parent_serial"])
        is_come = pc.is_valid(rows["origin_serial"])
        self._add_puts(rows.filter(pc.invert(pc.or_(is_move, is_come))))
        self._add_moves(rows.filter(pc.and_(is_move, pc.invert(is_come))))
        self._add_ends(rows)
        self.came.append(rows.filter(is_come).select(_CAME))
        is_left = pc.fill_null(pc.equal(rows["outcome"], "forwarded"), False)
        self.left.append(rows.filter(is_left).select(_LEFT))

    def _add_names(self, rows: pa.Table) -> None:
        for row in rows.group_by(["ledger_id", "queue_id"]).aggregate([("queue", "max")]).to_pylist():
            self.names[row["ledger_id"], row["queue_id"]] = row["queue_max"] or str(row["queue_id"])

    def _add_puts(self, rows: pa.Table) -> None:
        nobody = pc.if_else(pc.fill_null(rows["adverse"], False), OWN, "")
        named = rows.append_column("source", pc.coalesce(rows["producer"], nobody))
        for row in _counted(named, ("source", "ledger_id", "queue_id")):
            source = row["source"] if row["source"] == OWN else container(row["source"])
            self.puts[source, (row["ledger_id"], row["queue_id"])] += row["serial_count"]

    def _add_moves(self, rows: pa.Table) -> None:
        for row in _counted(rows, ("ledger_id", "parent_queue_id", "queue_id", "arrival_event")):
            ledger = row["ledger_id"]
            key = (
                (ledger, row["parent_queue_id"]),
                (ledger, row["queue_id"]),
                row["arrival_event"] or "move",
            )
            self.moves[key] += row["serial_count"]

    def _add_ends(self, rows: pa.Table) -> None:
        for row in _counted(rows, ("ledger_id", "queue_id", "outcome")):
            if row["outcome"] not in (*MOVED, "forwarded"):
                self.ends[(row["ledger_id"], row["queue_id"]), row["outcome"] or "held"] += row[
                    "serial_count"
                ]

    def flows(self, name: Callable[[str, str], str]) -> list[Flow]:
        """All flows; ``name(ledger id, queue)`` is what people call a queue."""

        def called(queue: Queue) -> str:
            return name(queue[0], self.names.get(queue, str(queue[1])))

        found = [Flow(source, called(queue), "put", number) for (source, queue), number in self.puts.items()]
        found += [Flow(called(a), called(b), kind, number) for (a, b, kind), number in self.moves.items()]
        found += [
            Flow(called(queue), outcome, "end", number) for (queue, outcome), number in self.ends.items()
        ]
        return _together(found + self._crossed(called))

    def _crossed(self, called: Callable[[Queue], str]) -> list[Flow]:
        """What went between queue managers: each arrival with the entry that was forwarded."""
        came, left = _joined(self.came), _joined(self.left)
        if came is None or left is None:
            return []
        both = left.join(
            came, ["ledger_id", "serial"], ["origin_ledger_id", "origin_serial"], "full outer",
            left_suffix="", right_suffix="_there", coalesce_keys=True,
        )  # fmt: skip
        counts: dict[tuple[str, str, str], int] = defaultdict(int)
        for row in _counted(both, ("ledger_id", "queue_id", "ledger_id_there", "queue_id_there", "channel")):
            counts[_crossing(row, called)] += row["serial_count"]
        return [Flow(source, target, kind, number) for (source, target, kind), number in counts.items()]


def _together(found: list[Flow]) -> list[Flow]:
    """Flows between the same names as one."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for flow in found:
        sums[flow.source, flow.target, flow.kind] += flow.entries
    return [Flow(*key, number) for key, number in sums.items()]


_CAME: Final = ["origin_ledger_id", "origin_serial", "ledger_id", "queue_id", "channel"]
_LEFT: Final = ["ledger_id", "serial", "queue_id"]


def _crossing(row: dict[str, Any], called: Callable[[Queue], str]) -> tuple[str, str, str]:
    """Source, target and kind of a group of messages that crossed, or of which only one side is known."""
    here = called((row["ledger_id"], row["queue_id"])) if row["queue_id"] is not None else None
    if row["queue_id_there"] is None:
        return (here or NAMELESS, "forwarded", "end")
    there = called((row["ledger_id_there"], row["queue_id_there"]))
    return (here, there, "channel") if here else (f"channel {row['channel'] or ''}", there, "put")


def _joined(pieces: Iterable[pa.Table]) -> pa.Table | None:
    tables = list(pieces)
    return pa.concat_tables(tables).combine_chunks() if tables else None


def _counted(rows: pa.Table, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    return list(rows.group_by(list(keys)).aggregate([("serial", "count")]).to_pylist())
