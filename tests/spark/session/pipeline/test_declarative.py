"""The declarative example is run to its end by Spark's own command, and its views say what the tables say."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from tests.spark.local_pipeline import read_all, rows_of
from tests.spark.random_lives import Lives

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SPEC = Path(__file__).parents[4] / "examples" / "declarative" / "spark-pipeline.yml"


def run(folder: Path, tables: Path) -> subprocess.CompletedProcess[str]:
    """As its first lines say, with this interpreter and this build."""
    scripts = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "TABLES": str(tables),
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [f"{scripts}/spark-pipelines", "--remote", "local[2]", "run", "--spec", str(SPEC)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


@pytest.mark.long
def test_the_views_are_made(tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    read_all(tables, Lives(tmp_path / "ledger", Random(1)).run(60))
    done = run(tmp_path, tables)
    output = done.stdout + done.stderr
    assert "Run is COMPLETED." in output, output[-3000:]
    assert done.returncode == 0, output[-3000:]
    held = Counter(
        (row["ledger_id"], row["queue"], row["state"])
        for row in rows_of(tables, "entries")
        if row["state"] != "deleted"
    )
    rows = pq.read_table(tmp_path / "spark-warehouse" / "queues_now").to_pylist()
    assert {(row["ledger_id"], row["queue"], row["state"]): row["entries"] for row in rows} == held
    undelivered = pq.read_table(tmp_path / "spark-warehouse" / "undelivered_by_reason")["entries"]
    assert sum(undelivered.to_pylist()) == len(rows_of(tables, "undelivered"))
