"""`postroom audit` on the command line: what it refuses, how it ends, what it prints, without Spark."""

import json
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from postroom.cli import main
from postroom.cli.common.spark_session import cause_of
from postroom.ledger.errors import LedgerError
from postroom.model.names import DYNAMIC_PREFIX
from postroom.spark.audit import command
from postroom.spark.audit.command import AuditOptions
from postroom.spark.audit.result import RESULT_FILE, AuditResult, ExitCode, QueueSums, Unproven, result_of
from postroom.spark.audit.show import SHOWN_QUEUES
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.audit.audit_results import RESULT, VIOLATION


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["audit", *arguments])


def _finds(monkeypatch: pytest.MonkeyPatch, result: AuditResult) -> list[AuditOptions]:
    """Have the audit find that; returns the options that it is run with."""
    runs: list[AuditOptions] = []

    def run(options: AuditOptions, session: Any, report: Any) -> AuditResult:
        runs.append(options)
        return result

    monkeypatch.setattr(command, "run_audit", run)
    return runs


UNPROVEN = (Unproven("a", "everything", "the history begins at position 9", 0),)


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        (replace(RESULT, managers=(), crossings=()), ExitCode.CLEAN, ": every message is accounted for"),
        (
            RESULT,
            ExitCode.CLEAN,
            "every persistent message is accounted for; of the others 1 lost when a broker ended",
        ),
        (
            replace(RESULT, violations=(VIOLATION,), violation_counts={"second arrival": 1}),
            ExitCode.VIOLATIONS,
            "violation: second arrival: london: orders/7 at position 7, 9: put",
        ),
        (replace(RESULT, unproven=UNPROVEN), ExitCode.NOT_PROVEN, "not proven: the history begins"),
        (
            replace(RESULT, unproven=UNPROVEN, violation_counts={"second arrival": 3}),
            ExitCode.VIOLATIONS,
            "3 violations",
        ),
    ],
)
def test_the_exit_code_is_the_verdict(
    monkeypatch: pytest.MonkeyPatch, result: AuditResult, code: ExitCode, text: str
) -> None:
    _finds(monkeypatch, result)
    ended = _run("--data", "x")
    assert ended.exit_code == code
    assert text in ended.stdout.replace("\n", " ")


def test_json_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    _finds(monkeypatch, RESULT)
    printed = json.loads(_run("--data", "x", "--json").stdout)
    assert result_of(printed) == RESULT
    assert (printed["verdict"], printed["exit_code"]) == ("clean", 0)


def test_options_reach_the_audit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runs = _finds(monkeypatch, RESULT)
    out = tmp_path / "out"
    token = tmp_path / "token"
    token.write_text("secret\n")
    _run(
        "--data",
        "a",
        "--data",
        "store:b",
        "--elsewhere",
        "ROME",
        "--out",
        str(out),
        "--token-file",
        str(token),
    )
    _run("--tables", "root", "--format", "iceberg")
    assert runs == [
        AuditOptions((str(Path("a").resolve()), "store:b"), None, "", ("ROME",), out, "secret"),
        AuditOptions((), str(Path("root").resolve()), "iceberg", (), None, ""),
    ]


@pytest.mark.parametrize("arguments", [(), ("--data", "a", "--tables", "b")])
def test_ledgers_or_tables_must_be_named(arguments: tuple[str, ...]) -> None:
    ended = _run(*arguments)
    assert ended.exit_code == 2
    assert "give the ledgers (--data, again for each) or the tables (--tables)" in ended.stderr


def test_what_can_t_be_read_is_one_line_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def session(records: int) -> AbstractContextManager[Any]:
        raise AssertionError("nothing is to be read")

    with pytest.raises(LedgerError, match="no ledger here"):
        command.run_audit(AuditOptions((str(tmp_path),)), session)
    ended = _run("--data", str(tmp_path))
    assert ended.exit_code == ExitCode.UNREADABLE
    assert ended.stderr.startswith("Error: ")
    assert ended.stderr.count("\n") == 1


def test_of_a_task_s_failure_the_cause_is_told() -> None:
    failure = (
        "An exception was thrown from the Python worker:\n"
        'Traceback (most recent call last):\n  File "x.py", line 1, in read\n'
        "FileNotFoundError: 00000001.events\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "postroom.spark.ledger_source.ranges.DataLost: ledger f: positions 1 to 9 were not read\n"
        " SQLSTATE: 38000"
    )
    assert cause_of(failure) == "ledger f: positions 1 to 9 were not read"
    assert cause_of("[TABLE] is not there\nmore") == "[TABLE] is not there"
    assert cause_of("") == ""


def test_the_cut_is_said_before_spark_starts(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "london")
    maker.put(maker.queue("orders"))
    lines: list[str] = []

    def session(records: int) -> AbstractContextManager[Any]:
        assert records == 2
        raise LedgerError("far enough")

    with pytest.raises(LedgerError, match="far enough"):
        command.run_audit(AuditOptions((str(maker.finish()),)), session, lines.append)
    assert lines == ["Ledger 0195f2a0-0000-7000-8000-00000000000a (london): positions 1 to 2"]


def test_an_audit_that_is_cut_off_leaves_no_verdict_of_the_one_before(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "london")
    maker.put(maker.queue("orders"))
    (tmp_path / RESULT_FILE).write_text("clean, it says")

    def session(records: int) -> AbstractContextManager[Any]:
        raise LedgerError("cut off")

    with pytest.raises(LedgerError, match="cut off"):
        command.run_audit(AuditOptions((str(maker.finish()),), out=tmp_path), session)
    assert not (tmp_path / RESULT_FILE).exists()


def _dynamic(number: int, difference: int = 0) -> QueueSums:
    name = f"{DYNAMIC_PREFIX}{number:032x}"
    verdict = "balanced" if difference == 0 else "unbalanced"
    return replace(RESULT.queues[0], queue_id=number, queue=name, difference=difference, verdict=verdict)


def test_dynamic_queues_are_one_line_unless_they_do_not_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = (*RESULT.queues, *map(_dynamic, range(10, 110)), _dynamic(200, 1))
    result = replace(RESULT, queues=queues)
    _finds(monkeypatch, result)
    output = _run("--data", "x").stdout
    (line,) = (each for each in output.splitlines() if "100 dynamic queues" in each)
    assert [cell.strip() for cell in line.strip("│").split("│")][1:3] == ["0", "1,000"]
    assert (
        output.count(DYNAMIC_PREFIX) == 1 and f"{DYNAMIC_PREFIX}{200:032x}" in output and "orders" in output
    )
    assert _run("--data", "x", "--all").stdout.count(DYNAMIC_PREFIX) == SHOWN_QUEUES - 1
    printed = json.loads(_run("--data", "x", "--json").stdout)
    assert result_of(printed) == result


def test_a_long_name_is_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "orders." * 36
    _finds(monkeypatch, replace(RESULT, queues=(replace(RESULT.queues[0], queue=name),)))
    assert name in _run("--data", "x").stdout
