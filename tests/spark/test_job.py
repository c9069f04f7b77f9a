"""The job as people run it: exit codes, tables on disk, what it prints."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from postroom.spark import job
from tests.ledger.making import LedgerMaker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def _made(folder: Path, faulty: bool) -> Path:
    maker = LedgerMaker(folder)
    queue = maker.queue("orders")
    maker.put(queue, message_id=b"waiting")
    done = maker.put(queue, message_id=b"done")
    maker.consume(done, queue)
    if faulty:
        maker.confirm(done, queue)
    return maker.finish()


@pytest.mark.parametrize("faulty", [False, True])
def test_a_run_writes_tables_and_report_and_prints_the_audit(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], faulty: bool
) -> None:
    data = _made(tmp_path / "data", faulty)
    said: list[str] = []
    report = job.run(spark, data, tmp_path, said.append)
    printed = capsys.readouterr().out
    assert report.is_clean is not faulty
    entries = {row["message_id"]: row for row in spark.read.parquet(str(tmp_path / "entries")).collect()}
    assert (entries["waiting"]["state"], entries["done"]["outcome"]) == ("available", "consumed")
    assert spark.read.parquet(str(tmp_path / "conservation")).count() == 1
    violations = spark.read.parquet(str(tmp_path / "violations")).collect()
    assert {row["rule"] for row in violations} == (
        {"event after end", "unbalanced queue"} if faulty else set()
    )
    assert "orders" in (tmp_path / "report.html").read_text()
    assert ("violation: event after end: orders/" in printed) is faulty
    assert ("every message is accounted for" in printed) is not faulty
    assert said[0].startswith("Ledger ")


def test_a_folder_without_a_ledger_is_one_line_and_a_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.main(["--data", str(tmp_path), "--out", str(tmp_path / "out")]) == job.EXIT_UNREADABLE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no ledger here" in error
