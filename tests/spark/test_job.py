"""The job as people run it: exit codes, tables on disk, what it prints."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from postroom.spark import job
from tests.ledger.making import LedgerMaker
from tests.spark.test_crossings import Pair

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def _faulty(folder: Path) -> Path:
    maker = LedgerMaker(folder)
    queue = maker.queue("orders")
    maker.put(queue, message_id=b"waiting")
    done = maker.put(queue, message_id=b"done")
    maker.consume(done, queue)
    maker.confirm(done, queue)
    return maker.finish()


def test_a_run_writes_tables_and_report_and_prints_the_audit(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    found = job.run(spark, job.Options([_faulty(tmp_path / "data")], tmp_path), said.append)
    printed = capsys.readouterr().out
    assert not found.is_clean
    entries = {row["message_id"]: row for row in spark.read.parquet(str(tmp_path / "entries")).collect()}
    assert (entries["waiting"]["state"], entries["done"]["outcome"]) == ("available", "consumed")
    assert spark.read.parquet(str(tmp_path / "conservation")).count() == 1
    violations = spark.read.parquet(str(tmp_path / "violations")).collect()
    assert {row["rule"] for row in violations} == {"event after end", "unbalanced queue"}
    assert "violation: event after end: orders/" in printed
    assert "every message is accounted for" not in printed
    assert said[0].startswith("Ledger ")


@pytest.mark.parametrize(("violations", "code"), [(0, 0), (2, job.EXIT_VIOLATIONS)])
def test_the_exit_code_is_the_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, violations: int, code: int
) -> None:
    stopped: list[bool] = []
    session = SimpleNamespace(stop=lambda: stopped.append(True))
    monkeypatch.setattr(job, "local_session", lambda *_: session)
    monkeypatch.setattr(job, "run", lambda *_: SimpleNamespace(is_clean=not violations))
    arguments = ["--data", str(_faulty(tmp_path / "data")), "--out", str(tmp_path / "out")]
    assert job.main(arguments) == code
    assert stopped == [True]


def test_a_folder_without_a_ledger_is_one_line_and_a_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.main(["--data", str(tmp_path), "--out", str(tmp_path / "out")]) == job.EXIT_UNREADABLE
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no ledger here" in error


def test_several_ledgers_are_audited_together(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = Pair(tmp_path)
    pair.forward(pair.put(message_id=b"came"))
    lost = pair.put(durable=False, body=None, message_id=b"lost")
    pair.send_fast(lost)
    missing = pair.put()
    pair.take(missing)
    pair.confirm(missing)
    folders = [maker.finish() for maker in (pair.london, pair.paris)]
    found = job.run(spark, job.Options(folders, tmp_path), lambda words: None)
    printed = capsys.readouterr().out
    assert (found.violation_count, found.is_clean) == (1, False)
    assert f"violation: missing arrival: london: PARIS/{missing}" in printed
    assert "Lost on the way, not persistent: lost" in printed
    assert "london: PARIS" in printed
    crossed = spark.read.parquet(str(tmp_path / "crossings")).collect()
    assert sorted(row["verdict"] for row in crossed) == ["arrived", "lost", "missing arrival"]
    assert [row["rule"] for row in spark.read.parquet(str(tmp_path / "violations")).collect()] == [
        "missing arrival"
    ]
