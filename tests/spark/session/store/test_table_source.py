"""The tables through Spark: every format, folded and as stored, older versions; and Delta through Spark's own
jars where they resolve."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.store import open_store, read_folded
from postroom.spark.store import source as table_source
from postroom.spark.store.folded import read_bucket
from postroom.spark.store.protocol import CHECKPOINT_COMMITS, DONE, OPEN, Snapshot
from postroom.spark.store.source import Bucket, Bundle, TableReader, plan, table_options
from postroom.spark.store.table_store import TableStore
from postroom.spark.tables import DEFINITIONS
from tests.spark.store.small_tables import DAY, LEDGER, OTHER, at

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ENTRIES = DEFINITIONS["entries"]


def _entries(first: int, count: int, ledger_id: str = LEDGER, **texts: str) -> pa.Table:
    """Rows of the entries table; columns not given are null."""
    numbers = pa.array(range(first, first + count), pa.int64())
    given = {
        "ledger_id": pa.array([ledger_id] * count),
        "serial": numbers,
        "queue_id": pa.array([1] * count, pa.int64()),
        "event_count": pa.array([1] * count, pa.int64()),
        "first_position": numbers,
        "first_ordinal": pa.array([0] * count, pa.int32()),
        "last_position": numbers,
        "last_ordinal": pa.array([0] * count, pa.int32()),
    } | {name: pa.array([text] * count) for name, text in texts.items()}
    nothing = {field.name: pa.nulls(count, field.type) for field in ENTRIES.fields}
    return pa.table(nothing | given)


def _fill(root: Path, format: str) -> TableStore:
    """Two versions: entries 1 to 4 done and 5 to 7 open; then 5 and 6 consumed, still open."""
    store = open_store(str(root), "entries", format)
    files = [
        store.write(_entries(1, 3, state="deleted", queue="orders"), DONE, DAY, LEDGER),
        store.write(_entries(4, 1, OTHER, state="deleted", queue="orders"), DONE, DAY, OTHER),
        store.write(_entries(5, 3, state="available", queue="orders"), OPEN, None, LEDGER),
    ]
    store.commit(files, [], at(7, store.state()), "batch")
    later = _entries(5, 2, state="deleted")
    later = later.set_column(later.schema.names.index("last_position"), "last_position", [[8, 9]])
    store.commit([store.write(later, OPEN, None, LEDGER)], [], at(9, store.state()), "batch")
    return store


@pytest.fixture(params=["delta", "parquet"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    _fill(tmp_path, str(request.param))
    return tmp_path


NOW = {
    (1, "deleted", "orders", 1),
    (2, "deleted", "orders", 1),
    (3, "deleted", "orders", 1),
    (4, "deleted", "orders", 1),
    (5, "deleted", "orders", 2),
    (6, "deleted", "orders", 2),
    (7, "available", "orders", 1),
}


def test_spark_reads_each_entry_once_with_all_columns(spark: SparkSession, root: Path) -> None:
    frame = spark.read.format("postroom.table").option("path", str(root)).option("table", "entries").load()
    assert frame.columns == ENTRIES.schema.names
    assert frame.schema["serial"].metadata["comment"] == ENTRIES.field("serial").comment
    rows = frame.select("serial", "state", "queue", "event_count").collect()
    assert {tuple(row) for row in rows} == NOW
    assert len(rows) == len(NOW)


def test_spark_reads_chosen_columns_an_older_version_and_stored_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = _fill(tmp_path, "parquet")
    reader = spark.read.format("postroom.table").options(path=str(tmp_path), table="entries")
    some = reader.schema("ledger_id string, state string").load()
    assert some.groupBy("ledger_id").count().collect()[0][1] in (1, 6)
    old = reader.schema("serial bigint, state string").option("version", "0").load()
    assert {tuple(row) for row in old.where("serial >= 5").collect()} == {
        (number, "available") for number in (5, 6, 7)
    }
    raw = (
        spark.read.format("postroom.table")
        .options(path=str(tmp_path), table="entries", raw="true")
        .load()
        .select("part", "day")
    )
    counted = {tuple(row) for row in raw.groupBy("part", "day").count().collect()}
    assert counted == {("done", DAY, 4), ("open", None, 5)}
    assert store.state().version == 1


def test_spark_reads_a_table_that_has_no_rows_yet(spark: SparkSession, tmp_path: Path) -> None:
    store = open_store(str(tmp_path), "undelivered", "parquet")
    store.commit([], [], store.state(), "batch")
    frame = spark.read.format("postroom.table").options(path=str(tmp_path), table="undelivered").load()
    assert frame.collect() == []


def test_spark_tells_what_is_wrong_with_the_options(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no table nothing; there are"):
        spark.read.format("postroom.table").options(path=str(tmp_path), table="nothing").load()


# --- without Spark ------------------------------------------------------------------------------------


def test_options_are_checked() -> None:
    for options, why in [
        ({}, '"path" is missing'),
        ({"path": "/t"}, '"table" is missing'),
        ({"path": "/t", "table": "entries", "version": "x"}, "whole number"),
        ({"path": "/t", "table": "entries", "version": "1", "asOf": "2026-11-22"}, "not both"),
        ({"path": "/t", "table": "entries", "asOf": "yesterday"}, "RFC 3339"),
        ({"path": "/t", "table": "entries", "raw": "maybe"}, "true or false"),
    ]:
        with pytest.raises(SourceOptionError, match=why):
            table_options(options)


def test_buckets_hold_every_key_once(root: Path) -> None:
    store = open_store(str(root), "entries")
    whole = sorted(read_folded(store, ["serial"])["serial"].to_pylist())
    parts = [
        read_bucket(store, store.files(), ["serial"], number, 3)["serial"].to_pylist() for number in range(3)
    ]
    assert sorted(serial for part in parts for serial in part) == whole
    assert sum(bool(part) for part in parts) > 1


def test_large_tables_are_planned_as_many_tasks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(root), "entries")
    monkeypatch.setattr(table_source, "BUNDLE_BYTES", 1)
    monkeypatch.setattr(table_source, "BUCKET_ROWS", 2)
    planned = plan(store, store.snapshot(), raw=False)
    assert [type(task) for task in planned] == [Bundle, Bundle, Bucket, Bucket, Bucket]
    assert plan(store, replace(Snapshot(store.state(), ())), raw=False) == []


def test_tasks_give_exactly_the_columns_asked_for(root: Path) -> None:
    options = table_options({"path": str(root), "table": "entries"})
    struct = table_source.table_struct(ENTRIES)
    reader = TableReader(options, struct)
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert {batch.schema.names == ENTRIES.schema.names for batch in batches} == {True}
    assert sum(batch.num_rows for batch in batches) == len(NOW)


# --- Delta through the JVM ----------------------------------------------------------------------------

DELTA_JARS = os.environ.get("POSTROOM_DELTA_JARS", "")
"""Jars of Delta (delta-spark and delta-storage) for the Spark of `DELTA_PYTHON`, separated by commas."""

DELTA_PYTHON = os.environ.get("POSTROOM_DELTA_PYTHON", sys.executable)

READ_DELTA = """
import sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.jars", sys.argv[2])
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate())
table = spark.read.format("delta").load(sys.argv[1])
print("ROWS", sorted(map(tuple, table.where("serial >= 3").groupBy("part", "ledger_id").count().collect())))
spark.sql(f"OPTIMIZE delta.`{sys.argv[1]}`")
"""


@pytest.mark.skipif(
    not DELTA_JARS, reason="POSTROOM_DELTA_JARS is not set; Delta has no release for Spark 4.3 yet"
)
def test_spark_with_deltas_own_jars_reads_and_optimizes_the_table(tmp_path: Path) -> None:
    store = _fill(tmp_path, "delta")
    for position in range(10, CHECKPOINT_COMMITS + 10):  # so that there is a checkpoint of deltalake's, too
        store.commit([], [], at(position, store.state()), "batch")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [DELTA_PYTHON, "-c", READ_DELTA, store.uri, DELTA_JARS],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert f"ROWS {[('done', LEDGER, 1), ('done', OTHER, 1), ('open', LEDGER, 5)]}" in done.stdout, (
        done.stderr
    )
    assert store.state().positions == at(CHECKPOINT_COMMITS + 9).positions
    assert read_folded(store, ["serial"]).num_rows == len(NOW)
