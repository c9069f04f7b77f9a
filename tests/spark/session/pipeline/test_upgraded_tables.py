"""What every released version has written, by Spark: its tables go on and balance, its ledgers too, and a
stream goes on from its checkpoint."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from postroom.spark.audit.command import AuditOptions, run_audit
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import note_ledgers, settled_options
from postroom.spark.tables import DEFINITIONS
from tests.spark.local_pipeline import assert_whole, catch_up, options, piped, settle_all
from tests.spark.session.audit.audits import audited
from tests.upgrades.fixtures import (
    CHECKPOINT,
    ENDING,
    FORMATS,
    LEDGERS,
    TABLES,
    names_of,
    tables_folder,
    unpack,
    versions,
)
from tests.upgrades.lives import MADE_UP_PARTNER
from tests.upgrades.summary import summary_of
from tests.upgrades.write import PIPED

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

each_version = pytest.mark.parametrize("version", versions(), ids=lambda version: version.name)


def opened(version: Path, name: str, folder: Path) -> Path:
    """The folder of a ledger that this version has opened, and closed."""
    ledger = unpack(version / LEDGERS / (name + ENDING), folder / name)
    summary_of(ledger)
    return ledger


@pytest.mark.long
@each_version
@pytest.mark.parametrize("table_format", FORMATS)
def test_a_pipeline_goes_on_with_its_tables(
    spark: SparkSession, tmp_path: Path, version: Path, table_format: str
) -> None:
    with tables_folder(table_format, tmp_path / "tables") as tables:
        unpack(version / TABLES / (table_format + ENDING), tables)
        goes_on(spark, tmp_path, version, tables, table_format)


def goes_on(spark: SparkSession, tmp_path: Path, version: Path, tables: Path, table_format: str) -> None:
    """What the ledgers hold beyond the tables is read into them, and all of it balances."""
    sources = [opened(version, name, tmp_path) for name in PIPED]
    settings = settled_options(Root(str(tables)), options(tables, *sources))
    assert settings.format == table_format, "the tables know it"
    pipeline = piped(tables, *sources, format=table_format)
    note_ledgers(Root(str(tables)), pipeline.seen)
    assert catch_up(pipeline), "there was something to read"
    settle_all(pipeline)
    settles = table_format != "iceberg"  # there nothing is, and tables made of settled rows stay empty
    names = [name for name, definition in DEFINITIONS.items() if settles or definition.source == "events"]
    assert_whole(tables, *sources, names=names)

    @contextmanager
    def session(records: int) -> Iterator[SparkSession]:
        yield spark

    result = run_audit(AuditOptions(tables=str(tables)), session)
    assert not result.violations


@pytest.mark.long
@each_version
def test_its_ledgers_balance(spark: SparkSession, tmp_path: Path, version: Path) -> None:
    names = [name for name in names_of(version, LEDGERS) if name not in MADE_UP_PARTNER]
    folders = [opened(version, name, tmp_path) for name in names]
    assert not audited(spark, *folders).violations


@each_version
def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path, version: Path) -> None:
    checkpoint = unpack(version / (CHECKPOINT + ENDING), tmp_path / "checkpoint")
    sources = [str(opened(version, name, tmp_path)) for name in PIPED]
    stream = spark.readStream.format("postroom").option("paths", json.dumps(sources)).load()
    counts: dict[int, int] = {}

    def count(rows: DataFrame, batch_id: int) -> None:
        counts[batch_id] = rows.count()

    writing = stream.writeStream.foreachBatch(count).option("checkpointLocation", checkpoint.as_uri())
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    assert sum(counts.values()), "there was something to read"
    assert 0 not in counts, "the first batch is done"
