"""``postroom pipeline status``: how far each table has each ledger, from the tables and a look at the
ledgers."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from postroom.ledger.errors import LedgerError
from postroom.spark.ledger_source.positions import LedgerDiverged, check
from postroom.spark.ledger_source.ranges import Seen
from postroom.spark.pipeline.books import Book, open_books
from postroom.spark.pipeline.ledgers import Lag, lag_of, look_at_all, time_at
from postroom.spark.pipeline.lock import holder
from postroom.spark.pipeline.options import known_settings
from postroom.spark.pipeline.root import Root


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """A table and a ledger."""

    ledger_id: str
    epoch: int
    position: int
    lag: Lag | None
    """None if the ledger can't be looked at."""
    diverged: str = ""
    """Why the ledger's history isn't the one that was read; empty if it is."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table."""

    name: str
    version: int
    ledgers: tuple[LedgerStatus, ...]
    files: int
    open_files: int
    open_rows: int
    size_bytes: int
    rows_in: int
    """Rows that batches gave it since the beginning."""
    rows_copied: int
    """Rows written again by settling and compaction."""
    updated_us: int

    @property
    def copied_per_row(self) -> float:
        """Rows written again for each that came: the price of keeping the table in order."""
        return self.rows_copied / self.rows_in if self.rows_in else 0.0


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """All of it."""

    tables: tuple[TableStatus, ...]
    holder: str | None
    """Who writes them now."""
    unreadable: Mapping[str, str]
    """Ledgers that can't be looked at, and why."""
    time_us: int


def status(tables: str, data: Iterable[str] = (), token: str = "") -> PipelineStatus:
    """The status of the tables in a folder; `data` default those of the last run. Raises ``LedgerError``."""
    root = Root(tables)
    settings = known_settings(root)
    seen, unreadable = _look(tuple(data) or tuple(settings.data), token)
    books = open_books(tables, settings.tables, settings.format)
    times: dict[tuple[str, int], int] = {}
    shown = tuple(_table(book, seen, times) for book in books.values())
    return PipelineStatus(shown, holder(root), unreadable, time.time_ns() // 1000)


def _look(uris: Iterable[str], token: str) -> tuple[dict[str, Seen], dict[str, str]]:
    seen: dict[str, Seen] = {}
    unreadable: dict[str, str] = {}
    for uri in uris:
        try:
            seen |= look_at_all([uri], token)
        except (LedgerError, OSError) as error:
            unreadable[uri] = str(error)
    return seen, unreadable


def _table(book: Book, seen: Mapping[str, Seen], times: dict[tuple[str, int], int]) -> TableStatus:
    files = book.store.files() if book.state.version >= 0 else []
    known = sorted({*book.state.positions, *seen})
    state = book.state
    return TableStatus(
        book.name,
        state.version,
        tuple(_ledger(book, ledger_id, seen.get(ledger_id), times) for ledger_id in known),
        len(files),
        len(book.open_files),
        book.open_rows,
        sum(file.size_bytes for file in files),
        state.rows_in,
        state.rows_copied,
        state.updated_us,
    )


def _ledger(book: Book, ledger_id: str, seen: Seen | None, times: dict[tuple[str, int], int]) -> LedgerStatus:
    at = book.position(ledger_id)
    if seen is None:
        return LedgerStatus(ledger_id, at.epoch, at.position, None)
    try:
        check(seen.look, at)
    except LedgerDiverged as error:
        return LedgerStatus(ledger_id, at.epoch, at.position, None, str(error))
    key = (ledger_id, at.position)
    if key not in times:
        times[key] = time_at(seen, at.position)
    return LedgerStatus(ledger_id, at.epoch, at.position, lag_of(seen.look, at.position, times[key]))
