"""What an audit of tables says, without Spark: the product's own checks of tables as wholes, and every table
folded anew in this process. ``tests/spark/session/audit/test_table_damages.py`` holds it to the audit
itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from postroom.ledger.errors import LedgerError
from postroom.spark.audit.result import Cut
from postroom.spark.audit.tables import (
    EVENTS,
    Tables,
    open_tables,
    refolded_names,
    subject_of_tables,
    wrong_tables,
)
from postroom.spark.pipeline.engine import HereEngine
from postroom.spark.store import open_store, read_folded
from postroom.spark.store.protocol import DONE, DataFile, TableState
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.definition import TableDefinition
from postroom.spark.tables.fold import fold, partials
from tests.spark.local_pipeline import in_order


@dataclass(frozen=True)
class Verdict:
    """An audit's verdict, or the reason for which it was refused."""

    word: str
    """clean, violations, not proven or refused."""
    reason: str
    cuts: tuple[Cut, ...] = ()


def verdict_of(root: Path) -> Verdict:
    """What an audit of these tables comes to."""
    try:
        tables = open_tables(str(root), "")
        subject = subject_of_tables(tables, ())
        wrong = [one.detail for one in wrong_tables(tables, HereEngine())]
        wrong += [f"table {name} differs" for name in refolded_names(tables) if _differs(tables, name)]
    except (LedgerError, OSError) as error:
        return Verdict("refused", str(error))
    if wrong:
        return Verdict("violations", wrong[0], subject.cuts)
    if subject.gaps:
        gap = subject.gaps[0]
        return Verdict("not proven", f"{gap.what}: {gap.why}", subject.cuts)
    return Verdict("clean", "", subject.cuts)


def rows_of_all(root: Path) -> dict[str, str]:
    """What readers see of every table."""
    return {name: str(in_order(name, read_folded(open_store(str(root), name)))) for name in DEFINITIONS}


def _differs(tables: Tables, name: str) -> bool:
    definition, store, snapshot = DEFINITIONS[name], tables.stores[name], tables.snapshots[name]
    expected = fold(definition, partials(definition, _source(tables, definition, snapshot.state)))
    return in_order(name, expected) != in_order(name, read_folded(store, snapshot=snapshot, ongoing=True))


def _source(tables: Tables, definition: TableDefinition, state: TableState) -> pa.Table:
    store = tables.stores[definition.source]
    if definition.source != EVENTS:
        then = store.snapshot(state.source_version).files
        return _read(store, (file for file in then if file.part == DONE))
    events = _read(store, tables.snapshots[EVENTS].files)
    return events.filter(pa.array([_is_for(row, state) for row in _where(events)], pa.bool_()))


def _read(store: TableStore, files: Iterable[DataFile]) -> pa.Table:
    definition = store.definition
    return pa.concat_tables([definition.schema.empty_table(), *(store.read(file) for file in files)])


def _where(events: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = events.select(["ledger_id", "position", "serial", "event"]).to_pylist()
    return rows


def _is_for(row: dict[str, object], state: TableState) -> bool:
    """Whether a table that is so far is made of this event."""
    if row["event"] == "none":
        return True
    ledger_id, position, serial = str(row["ledger_id"]), int(str(row["position"])), int(str(row["serial"]))
    at, opening = state.positions.get(ledger_id), state.openings.get(ledger_id)
    is_in_opening = opening is not None and serial < opening[0] and position <= opening[1]
    return at is not None and position <= at.position and not is_in_opening
