"""``postroom pipeline status``: how far each table has each ledger, from the tables and a look at the
ledgers."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from postroom.ledger.errors import LedgerError
from postroom.spark.ledger_source.positions import LedgerDiverged, check
from postroom.spark.pipeline.ledgers import Lag, lag_of, snapshots_at, time_at
from postroom.spark.pipeline.lock import holder
from postroom.spark.pipeline.options import known_settings
from postroom.spark.pipeline.pipeline_table import PipelineTable, open_tables
from postroom.spark.pipeline.root import Root
from postroom.spark.places.place import Seen


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
    seen, unreadable = _snapshots(tuple(data) or tuple(settings.data), token)
    opened = open_tables(tables, settings.tables, settings.format)
    times: dict[tuple[str, int], int] = {}
    shown = tuple(_table(table, seen, times) for table in opened.values())
    return PipelineStatus(shown, holder(root), unreadable, time.time_ns() // 1000)


def _snapshots(uris: Iterable[str], token: str) -> tuple[dict[str, Seen], dict[str, str]]:
    seen: dict[str, Seen] = {}
    unreadable: dict[str, str] = {}
    for uri in uris:
        try:
            seen |= snapshots_at([uri], token)
        except (LedgerError, OSError) as error:
            unreadable[uri] = str(error)
    return seen, unreadable


def _table(table: PipelineTable, seen: Mapping[str, Seen], times: dict[tuple[str, int], int]) -> TableStatus:
    files = table.store.files() if table.state.version >= 0 else []
    known = sorted({*table.state.positions, *seen})
    state = table.state
    return TableStatus(
        name=table.name,
        version=state.version,
        ledgers=tuple(_ledger(table, ledger_id, seen.get(ledger_id), times) for ledger_id in known),
        files=len(files),
        open_files=len(table.open_files),
        open_rows=table.open_rows,
        size_bytes=sum(file.size_bytes for file in files),
        rows_in=state.rows_in,
        rows_copied=state.rows_copied,
        updated_us=state.updated_us,
    )


def _ledger(
    table: PipelineTable, ledger_id: str, seen: Seen | None, times: dict[tuple[str, int], int]
) -> LedgerStatus:
    at = table.position(ledger_id)
    if seen is None:
        return LedgerStatus(ledger_id, at.epoch, at.position, None)
    try:
        check(seen.snapshot, at)
    except LedgerDiverged as error:
        return LedgerStatus(ledger_id, at.epoch, at.position, None, str(error))
    key = (ledger_id, at.position)
    if key not in times:
        times[key] = time_at(seen, at.position)
    return LedgerStatus(ledger_id, at.epoch, at.position, lag_of(seen.snapshot, at.position, times[key]))
