"""Where a ledger's history begins later than position 1, the tables open with what its checkpoint tells."""

from collections.abc import Iterable
from typing import Any, Final

from postroom.spark.ledger_source.checkpoint_totals import CheckpointTotals, totals_of
from postroom.spark.ledger_source.record_batches import Opening, read_opening
from postroom.spark.pipeline.books import Book
from postroom.spark.pipeline.errors import HistoryGone
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.work import sums_of, write_partials
from postroom.spark.places.place import Look, Place
from postroom.spark.tables.policy import Policy, apply
from postroom.spark.tables.range import Range


def open_ledger(place: Place, look: Look, books: Iterable[Book], policy: Policy) -> list[str]:
    """Open the tables that don't know a ledger yet; returns their names. Raises ``HistoryGone`` where one
    that does lacks records that are gone."""
    if look.first_position <= 1:
        return []
    fresh = []
    for book in books:
        position = book.position(look.ledger_id).position
        if not book.follows(look.ledger_id, look.first_position):
            if position or look.ledger_id in book.state.openings:
                raise HistoryGone(book.name, look.ledger_id, position, look.first_position)
            fresh.append(book)
    if fresh:
        told = read_opening(place, look)
        for book in fresh:
            _open(book, look, told, policy)
    return [book.name for book in fresh]


OPENINGS_FILE: Final = "openings.json"


def note_opening(root: Root, place: Place, look: Look, through: int) -> None:
    """Write down the totals of the checkpoint that a ledger was opened from: the audit begins its sums with
    them."""
    told = totals_of(place.carried(look, through))
    if told is not None:
        root.note(OPENINGS_FILE, {"ledgers": {**_openings(root), look.ledger_id: told.to_json()}})


def noted_openings(root: Root) -> dict[str, CheckpointTotals]:
    """The totals that were written down, by ledger. Raises ``PipelineError``."""
    return {ledger_id: CheckpointTotals.from_json(one) for ledger_id, one in _openings(root).items()}


def _openings(root: Root) -> dict[str, Any]:
    noted = root.noted(OPENINGS_FILE)
    return {} if noted is None else dict(noted["ledgers"])


def _open(book: Book, look: Look, told: Opening | None, policy: Policy) -> None:
    if told is None:
        book.open_ledger(look.ledger_id, (look.first_position, 0), [], {})
        return
    rows = Range(apply(policy, told.rows))
    written = list(write_partials(book.store, rows, look.ledger_id, 0))
    opening = (told.first_position, told.carried_through)
    book.open_ledger(look.ledger_id, opening, [one.file for one in written], sums_of(written))
