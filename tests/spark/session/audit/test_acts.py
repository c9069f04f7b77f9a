"""Acts in audits: they are no messages, and each has its row in the table, once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from postroom.spark.audit.command import AuditOptions, run_audit
from postroom.spark.audit.result import AuditResult
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import note_ledgers, settled_options
from postroom.spark.pipeline.views import create_views
from postroom.spark.store import open_store
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.local_pipeline import catch_up, options, piped, settle_all

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

QUEUE, REFUSED = {"operation": "CREATE", "type": "queue", "name": "orders", "status": 201}, 403


def lived(folder: Path) -> Path:
    maker = LedgerMaker(folder)
    queue = maker.queue("orders")
    maker.act(user="alice", **QUEUE)
    maker.consume(maker.put(queue), queue)
    maker.act(user="mallory", operation="ATTACH", type="destination", name="pay", status=REFUSED, count=3)
    maker.put(queue)
    maker.act(user="mallory", operation="SIGN-IN", status=401)
    return maker.finish()


def audited(spark: SparkSession, tables: Path) -> AuditResult:
    @contextmanager
    def session(records: int) -> Iterator[SparkSession]:
        yield spark

    return run_audit(AuditOptions(tables=str(tables)), session)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Those of a ledger with acts in it."""
    ledger, tables = lived(tmp_path / "ledger"), tmp_path / "tables"
    settled_options(Root(str(tables)), options(tables, ledger))
    pipeline = piped(tables, ledger)
    note_ledgers(Root(str(tables)), pipeline.seen)
    catch_up(pipeline, 3)
    settle_all(pipeline)
    return tables


@pytest.mark.long
def test_every_act_has_its_row(spark: SparkSession, tables: Path) -> None:
    result = audited(spark, tables)
    assert (result.violation_count, result.events, result.refused_unheard) == (0, 4, 0)
    assert {one.table: one.rows for one in result.tables}["acts"] == 3
    create_views(spark, str(tables))
    counts = spark.sql("SELECT user, sum(count) AS n FROM acts WHERE status >= 400 GROUP BY user").collect()
    assert [(row.user, row.n) for row in counts] == [("mallory", 4)]


@pytest.mark.long
def test_a_row_that_is_gone_is_found(spark: SparkSession, tables: Path) -> None:
    store = open_store(str(tables), "acts")
    gone = store.files()[0]
    store.commit([], [gone], store.state(), "damage")
    violations = audited(spark, tables).violations
    assert len(violations) == gone.rows > 0
    for violation in violations:
        assert violation.rule == "table differs" and "table acts" in violation.detail
        assert violation.positions
