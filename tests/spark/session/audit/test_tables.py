"""The audit of a pipeline's tables: they are folded anew, and every row that differs is named."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from postroom.spark.audit.command import AuditOptions, run_audit
from postroom.spark.audit.ledgers import inspect_ledgers
from postroom.spark.audit.result import AuditResult, Violation
from postroom.spark.audit.tables import open_tables, subject_of_tables
from postroom.spark.pipeline.checkpoint_bootstrap import OPENINGS_FILE
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import note_ledgers
from postroom.spark.store import open_store
from postroom.spark.store.protocol import DataFile, TableError
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from tests.ledger.dropped_history import with_dropped_history
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.corpus import clean
from tests.spark.local_pipeline import EAGER, catch_up, piped
from tests.spark.report_ledgers import LAZY, london, paris

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def _tables(folder: Path) -> Path:
    """Tables of three queue managers, some settled, some with partial rows."""
    maker, sent = london(folder / "london")
    ledgers = [maker.finish(), paris(folder / "paris", sent).finish()]
    tables = folder / "tables"
    pipeline = piped(tables, *ledgers, upkeep=EAGER)
    catch_up(pipeline, records=9)
    rich = LedgerMaker(folder / "rich")
    clean(rich)
    pipeline = piped(tables, *ledgers, rich.finish(), upkeep=LAZY)
    note_ledgers(Root(str(tables)), pipeline.seen)
    catch_up(pipeline, records=30)
    return tables


def _audited(spark: SparkSession, tables: Path) -> AuditResult:
    @contextmanager
    def session(records: int) -> Iterator[SparkSession]:
        yield spark

    return run_audit(AuditOptions(tables=str(tables)), session)


# --- corruption -----------------------------------------------------------------------------------


def _some_file(store: TableStore) -> DataFile:
    return max(store.files(), key=lambda file: file.rows)


def _gone(store: TableStore) -> int:
    """A file is lost; how many rows that were."""
    file = _some_file(store)
    store.commit([], [file], store.state(), "lose")
    return file.rows


def _changed(store: TableStore, column: str, value: int) -> int:
    """Every row of a file has another value."""
    file = _some_file(store)
    rows = store.read(file)
    place = rows.schema.get_field_index(column)
    other = pa.array([value] * len(rows), rows.schema.field(column).type)
    changed = rows.set_column(place, column, other).select(store.definition.schema.names)
    written = store.write(changed, file.part, file.day, file.ledger_id)
    store.commit([written], [file], store.state(), "change")
    return file.rows


def _twice(store: TableStore) -> int:
    """A finished row is there a second time."""
    file = next(file for file in store.files("done"))
    rows = store.read(file).slice(0, 1).select(store.definition.schema.names)
    written = store.write(rows, file.part, file.day, file.ledger_id)
    store.commit([written], [], store.state(), "repeat")
    return 1


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _tables(tmp_path_factory.mktemp("piped"))


@pytest.fixture(scope="module")
def planted(tables: Path) -> dict[str, int]:
    """How many rows of which tables are not what they should be."""
    return {
        "messages": _gone(open_store(str(tables), "messages")),
        "destinations": _changed(open_store(str(tables), "destinations"), "arrivals", 77),
        "entries": _twice(open_store(str(tables), "entries")),
    }


@pytest.fixture(scope="module")
def result(spark: SparkSession, tables: Path, planted: dict[str, int]) -> AuditResult:
    return _audited(spark, tables)


def test_every_other_row_is_what_the_events_fold_to(result: AuditResult, planted: dict[str, int]) -> None:
    found = Counter(_table(one) for one in result.violations)
    assert result.violation_counts == {"table differs": sum(planted.values())}
    assert found == planted
    assert [one.table for one in result.tables] == list(DEFINITIONS)
    assert all(one.rows and one.files and one.size_bytes for one in result.tables)


def _table(violation: Violation) -> str:
    return violation.detail.split(" ", 2)[1]


def test_what_differs_is_named(result: AuditResult) -> None:
    details = {_table(one): one for one in result.violations}
    assert "the row is missing" in details["messages"].detail
    assert re.search(r"arrivals is \d+, folded anew \d+", details["destinations"].detail)
    assert "the row is there 2 times" in details["entries"].detail
    assert details["entries"].serial is not None
    assert details["entries"].positions


def test_the_cut_is_the_position_of_the_events(result: AuditResult) -> None:
    assert {cut.name for cut in result.cuts} == {"london", "paris", "rich"}
    assert all(cut.opened_from == 0 for cut in result.cuts)
    assert sum(one.verdicts["arrived"] for one in result.crossings) == 2


# --- what is not proven -------------------------------------------------------------------------


def test_tables_that_begin_later_open_from_the_totals_that_the_pipeline_keeps(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    with_dropped_history(ledger)
    tables = tmp_path / "tables"
    catch_up(piped(tables, ledger, upkeep=LAZY), records=500)
    root = Root(str(tables))
    (cut,) = subject_of_tables(open_tables(str(tables), ""), ()).cuts
    assert cut.first_position > 1
    (ledgers,) = inspect_ledgers([str(ledger)])
    assert ledgers.checkpoint is not None
    assert cut.opened_from == ledgers.checkpoint.position
    root.delete(OPENINGS_FILE)
    (closed,) = subject_of_tables(open_tables(str(tables), ""), ()).cuts
    assert closed.opened_from is None


def test_a_root_without_events_is_told(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no table of events here"):
        open_tables(str(tmp_path), "")
