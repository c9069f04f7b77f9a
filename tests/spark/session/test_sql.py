"""Ledgers and tables in Spark SQL: tables of the catalog, ready views over a pipeline's tables, figures of a
read; and all of that over Spark Connect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from postroom.cli import main
from postroom.spark.pipeline.errors import PipelineError
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import settled_options
from postroom.spark.pipeline.views import create_views
from tests.spark.local_pipeline import options
from tests.spark.session.view_ledger import check_views, make_ledger, make_tables, rows

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ledger(tmp_path_factory.mktemp("sql") / "ledger")


@pytest.fixture(scope="module")
def tables(ledger: Path) -> Path:
    return make_tables(ledger, ledger.parent / "it's tables")


# --- tables of the catalog ------------------------------------------------------------------------


def test_tables_of_the_catalog_by_path(spark: SparkSession, ledger: Path, tables: Path) -> None:
    quoted = str(tables).replace("'", "\\'")
    made = {
        "a": f"postroom OPTIONS (path '{ledger}', queues 'orders')",
        "b": f"postroom LOCATION '{ledger}'",
        "c": f"postroom OPTIONS (paths '{ledger}')",
        "d": f"postroom.messages OPTIONS (path '{ledger}', queues 'dead', token 'secret')",
        "e": f"postroom.table OPTIONS (path '{quoted}', table 'entries')",
        "f": f"`postroom.table` OPTIONS (table 'entries') LOCATION '{quoted}'",
    }
    for name, what in made.items():
        spark.sql(f"CREATE TABLE {name} USING {what}")
    try:
        assert rows(spark, "SELECT DISTINCT queue FROM a") == [Row(queue="orders")]
        (all_of_it,) = rows(spark, "SELECT count(*) FROM b")
        assert rows(spark, "SELECT count(*) FROM c") == [all_of_it]
        assert rows(spark, "SELECT queue FROM d") == [Row(queue="dead")]
        for name in "ef":
            found = rows(spark, f"SELECT queue FROM {name} WHERE state = 'get_unconfirmed'")
            assert found == [Row(queue="orders")]
        assert len(rows(spark, "SELECT * FROM b WITH (queues = 'dead')")) == 2
        assert "secret" not in spark.table("d").schema.json()
    finally:
        for name in made:
            spark.sql(f"DROP TABLE {name}")
    assert (ledger / "superblock").exists() or any(ledger.iterdir())
    assert (tables / "entries").exists()


def test_what_a_table_cannot_be_made_of_is_told(spark: SparkSession, ledger: Path) -> None:
    with pytest.raises(PySparkException, match='has no option "tabel"; did you mean "table"'):
        spark.sql(f"CREATE TABLE wrong USING postroom.table OPTIONS (path '{ledger}', tabel 'entries')")
    with pytest.raises(PySparkException, match='has no option "quues"; did you mean "queues"'):
        spark.sql(f"CREATE TABLE wrong USING postroom OPTIONS (path '{ledger}', quues 'orders')")
    with pytest.raises(AnalysisException, match="wrong"):
        spark.sql("SELECT * FROM wrong").collect()
    with pytest.raises(PySparkException, match="did you mean 'orders'"):
        spark.read.format("postroom").option("queues", "order").load(str(ledger)).collect()


# --- ready views ----------------------------------------------------------------------------------


def test_ready_views(spark: SparkSession, tables: Path) -> None:
    check_views(spark, tables)
    create_views(spark, str(tables), "later_", stuck_after_s=100 * 365 * 86_400)
    assert rows(spark, "SELECT * FROM later_stuck") == []


def test_the_command_prints_them(spark: SparkSession, tables: Path) -> None:
    done = CliRunner().invoke(main, ["pipeline", "views", "--tables", str(tables), "--prefix", "my_"])
    assert done.exit_code == 0
    statements = done.stdout.split(";\n")
    for statement in statements[:-1]:
        spark.sql(statement)
    assert len(rows(spark, "SELECT * FROM my_stuck")) == 3
    nothing = CliRunner().invoke(main, ["pipeline", "views", "--tables", str(tables.parent / "none")])
    assert nothing.exit_code == 1
    assert "no pipeline has run here" in nothing.stderr


def test_views_over_tables_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    settled_options(Root(str(tmp_path)), options(tmp_path))
    for name in create_views(spark, str(tmp_path), "empty_"):
        assert rows(spark, f"SELECT * FROM `{name}`") == []
    with pytest.raises(PipelineError, match="no pipeline has run here"):
        create_views(spark, str(tmp_path / "elsewhere"))


# --- figures of a read ----------------------------------------------------------------------------


def test_figures_of_a_stream_are_in_its_progress(spark: SparkSession, ledger: Path, tmp_path: Path) -> None:
    events = spark.readStream.format("postroom").load(str(ledger))
    observed = events.observe("ledger", F.count("*").alias("events"), F.max("position").alias("position"))
    query = (
        observed.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    figures = [one.observedMetrics["ledger"] for one in query.recentProgress if one.observedMetrics]
    assert sum(one.events for one in figures) == spark.read.format("postroom").load(str(ledger)).count()


# --- Spark Connect --------------------------------------------------------------------------------


@pytest.mark.long
def test_over_spark_connect(ledger: Path, tables: Path, tmp_path: Path) -> None:
    fields = {name: text for name, text in os.environ.items() if not name.startswith("SPARK_")}
    here = os.pathsep.join([str(ROOT), *(str(Path(one).resolve()) for one in sys.path if one)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.session.spark_connect", str(ledger), str(tables), str(tmp_path)],
        env=fields | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=400,
        cwd=tmp_path,
    )
    assert done.returncode == 0 and "all is there" in done.stdout, done.stderr[-4000:]
