"""What went from where to where, counted from the entries table, piece by piece."""

from collections import Counter
from collections.abc import Callable
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
        for row in rows.group_by(["ledger_id", "queue_id"]).aggregate([("queue", "max")]).to_pylist():
            self.names[row["ledger_id"], row["queue_id"]] = row["queue_max"] or str(row["queue_id"])
        is_move = pc.is_valid(rows["parent_serial"])
        is_come = pc.is_valid(rows["origin_serial"])
        self._add_puts(rows.filter(pc.invert(pc.or_(is_move, is_come))))
        self._add_moves(rows.filter(pc.and_(is_move, pc.invert(is_come))))
        self._add_ends(rows)
        self.came.append(rows.filter(is_come).select(_CAME))
        is_left = pc.fill_null(pc.equal(rows["outcome"], "forwarded"), False)
        self.left.append(rows.filter(is_left).select(_LEFT))

    def _add_puts(self, rows: pa.Table) -> None:
        nobody = pc.if_else(pc.fill_null(rows["adverse"], False), OWN, "")
        named = rows.append_column("source", pc.coalesce(rows["producer"], nobody))
        for row in _counted(named, ("source", "ledger_id", "queue_id")):
            source = row["source"] if row["source"] == OWN else container(row["source"])
            self.puts[source, (row["ledger_id"], row["queue_id"])] += row["serial_count"]

    def _add_moves(self, rows: pa.Table) -> None:
        for row in _counted(rows, ("ledger_id", "parent_queue_id", "queue_id", "arrival_event")):
            ledger = row["ledger_id"]
            parent, queue = (ledger, row["parent_queue_id"]), (ledger, row["queue_id"])
            self.moves[parent, queue, row["arrival_event"] or "move"] += row["serial_count"]

    def _add_ends(self, rows: pa.Table) -> None:
        for row in _counted(rows, ("ledger_id", "queue_id", "outcome")):
            if row["outcome"] not in (*MOVED, "forwarded"):
                queue = (row["ledger_id"], row["queue_id"])
                self.ends[queue, row["outcome"] or "held"] += row["serial_count"]

    def flows(self, name: Callable[[str, str], str]) -> list[Flow]:
        """All flows; ``name(ledger id, queue)`` is what people call a queue."""

        def called(queue: Queue) -> str:
            return name(queue[0], self.names.get(queue, str(queue[1])))

        sums: Counter[tuple[str, str, str]] = Counter()
        for (source, queue), number in self.puts.items():
            sums[source, called(queue), "put"] += number
        for (a, b, kind), number in self.moves.items():
            sums[called(a), called(b), kind] += number
        for (queue, outcome), number in self.ends.items():
            sums[called(queue), outcome, "end"] += number
        sums.update(self._crossed(called))
        return [Flow(*key, number) for key, number in sums.items()]

    def _crossed(self, called: Callable[[Queue], str]) -> Counter[tuple[str, str, str]]:
        """What went between queue managers, or of which only one side is known: each arrival with the entry
        that was forwarded."""
        sums: Counter[tuple[str, str, str]] = Counter()
        if not self.came:
            return sums
        came, left = (pa.concat_tables(tables).combine_chunks() for tables in (self.came, self.left))
        both = left.join(
            came, ["ledger_id", "serial"], ["origin_ledger_id", "origin_serial"], "full outer",
            left_suffix="", right_suffix="_there", coalesce_keys=True,
        )  # fmt: skip
        for row in _counted(both, ("ledger_id", "queue_id", "ledger_id_there", "queue_id_there", "channel")):
            here = called((row["ledger_id"], row["queue_id"])) if row["queue_id"] is not None else ""
            key = (here or NAMELESS, "forwarded", "end")
            if row["queue_id_there"] is not None:
                there = called((row["ledger_id_there"], row["queue_id_there"]))
                key = (here, there, "channel") if here else (f"channel {row['channel'] or ''}", there, "put")
            sums[key] += row["serial_count"]
        return sums


_CAME: Final = ["origin_ledger_id", "origin_serial", "ledger_id", "queue_id", "channel"]
_LEFT: Final = ["ledger_id", "serial", "queue_id"]


def _counted(rows: pa.Table, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    return list(rows.group_by(list(keys)).aggregate([("serial", "count")]).to_pylist())
