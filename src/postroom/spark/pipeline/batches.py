"""One batch: what tasks have made of some ranges becomes part of the tables, one commit each.

The driver may die between any two of these commits. Each table says in its own commit how far it is, so the
next run goes on from where the least advanced table is, and the others drop what they have.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from postroom.spark.pipeline.errors import PipelineGap, PipelineStopped
from postroom.spark.pipeline.pipeline_table import PipelineTable
from postroom.spark.pipeline.slice_files import RangeDone, sums_of


@dataclass(frozen=True, slots=True)
class BatchDone:
    """What a batch came to."""

    ranges: tuple[RangeDone, ...]
    """Those that count, by ledger, ascending."""
    rows: int
    """Events."""
    records: int
    """Positions."""
    seconds: float
    """From the beginning of its tasks to the last commit."""
    stopped: PipelineStopped | None = None
    upkeep: tuple[str, ...] = field(default=())
    """What was done to the tables after it, in words."""


def take(tables: Sequence[PipelineTable], ranges: Iterable[RangeDone], begun_s: float) -> BatchDone:
    """Commit what tasks made of some ranges to every table that lacks it.

    Raises ``PipelineGap`` before anything is committed if a range doesn't follow on what a table has.
    """
    counted, stopped = _up_to_the_stop(ranges)
    first = {one.ledger_id: one.first for one in reversed(counted)}
    for ledger_id, begins in first.items():
        for table in tables:
            if not table.follows(ledger_id, begins):
                raise PipelineGap(table.name, ledger_id, table.position(ledger_id).position, begins)
    reached = {one.ledger_id: one.position for one in counted if one.last >= one.first}
    for table in tables:
        written = [file for one in counted for file in one.files if file.table == table.name]
        files = [one.file for one in written]
        table.add(files, reached, sum(file.rows for file in files), sums_of(written))
    rows = sum(one.rows for one in counted)
    records = sum(one.last - one.first + 1 for one in counted)
    return BatchDone(counted, rows, records, time.monotonic() - begun_s, stopped)


def _up_to_the_stop(ranges: Iterable[RangeDone]) -> tuple[tuple[RangeDone, ...], PipelineStopped | None]:
    """The ranges in order, of each ledger up to where its intake stopped: what was made of later ones is left
    out.

    Raises ``PipelineGap`` where two ranges of a ledger leave a hole between them.
    """
    counted: list[RangeDone] = []
    stopped: dict[str, PipelineStopped] = {}
    reached: dict[str, int] = {}
    for one in sorted(ranges, key=lambda one: (one.ledger_id, one.first)):
        if one.ledger_id in stopped:
            continue
        before = reached.get(one.ledger_id)
        if before is not None and one.first > before + 1:
            raise PipelineGap("(this batch)", one.ledger_id, before, one.first)
        counted.append(one)
        reached[one.ledger_id] = one.last
        if one.stopped:
            stopped[one.ledger_id] = PipelineStopped(one.ledger_id, one.last + 1, one.stopped)
    return tuple(counted), next(iter(stopped.values()), None)
