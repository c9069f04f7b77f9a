"""Where a ledger's history begins later than position 1, the tables open with what its checkpoint tells."""

from collections.abc import Iterable
from typing import Any, Final

from postroom.spark.ledger_source.checkpoint_totals import CheckpointTotals, totals_of
from postroom.spark.ledger_source.record_batches import Opening, read_opening
from postroom.spark.pipeline.errors import HistoryGone
from postroom.spark.pipeline.pipeline_table import PipelineTable
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.slice_files import sums_of, write_partials
from postroom.spark.places.place import Place, Snapshot
from postroom.spark.tables.policy import Policy, apply
from postroom.spark.tables.range import Range


def open_ledger(
    place: Place, snapshot: Snapshot, tables: Iterable[PipelineTable], policy: Policy
) -> list[str]:
    """Open the tables that don't know a ledger yet; returns their names. Raises ``HistoryGone`` where one
    that does lacks records that are gone."""
    if snapshot.first_position <= 1:
        return []
    fresh = []
    for table in tables:
        position = table.position(snapshot.ledger_id).position
        if not table.follows(snapshot.ledger_id, snapshot.first_position):
            if position or snapshot.ledger_id in table.state.openings:
                raise HistoryGone(table.name, snapshot.ledger_id, position, snapshot.first_position)
            fresh.append(table)
    if fresh:
        opening = read_opening(place, snapshot)
        for table in fresh:
            _open(table, snapshot, opening, policy)
    return [table.name for table in fresh]


OPENINGS_FILE: Final = "openings.json"


def note_opening(root: Root, place: Place, snapshot: Snapshot, through: int) -> None:
    """Write down the totals of the checkpoint that a ledger was opened from: the audit begins its sums with
    them."""
    totals = totals_of(place.carried(snapshot, through))
    if totals is not None:
        root.note(OPENINGS_FILE, {"ledgers": {**_openings(root), snapshot.ledger_id: totals.to_json()}})


def noted_openings(root: Root) -> dict[str, CheckpointTotals]:
    """The totals that were written down, by ledger. Raises ``PipelineError``."""
    return {ledger_id: CheckpointTotals.from_json(one) for ledger_id, one in _openings(root).items()}


def _openings(root: Root) -> dict[str, Any]:
    noted = root.noted(OPENINGS_FILE)
    return {} if noted is None else dict(noted["ledgers"])


def _open(table: PipelineTable, snapshot: Snapshot, opening: Opening | None, policy: Policy) -> None:
    if opening is None:
        table.open_ledger(snapshot.ledger_id, (snapshot.first_position, 0), [], {})
        return
    rows = Range(apply(policy, opening.rows))
    written = list(write_partials(table.store, rows, snapshot.ledger_id, 0))
    begins = (opening.first_position, opening.carried_through)
    table.open_ledger(snapshot.ledger_id, begins, [one.file for one in written], sums_of(written))
