"""What keeps a command that starts Spark from its work is told in one line, without a traceback, before
Spark's seconds."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.spark import session
from tests.ledger.ledger_maker import LedgerMaker

OLD = """#!/bin/sh
echo 'openjdk version "11.0.22" 2024-01-16' >&2
exit 0
"""
RULES = '[[rule]]\nwhen = "true"\naction = "leave"\n'


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    maker = LedgerMaker(tmp_path / "ledger")
    maker.put(maker.queue("orders"))
    return maker.finish()


def commands(folder: Path) -> list[list[str]]:
    """Each command that starts a Spark of its own."""
    rules = folder.parent / "rules.toml"
    rules.write_text(RULES)
    tables = str(folder.parent / "tables")
    return [
        ["pipeline", "run", "--data", str(folder), "--tables", tables],
        ["pipeline", "rebuild", "entries", "--tables", tables],
        ["audit", "--data", str(folder)],
        ["job", "triage", "--rules", str(rules), "--queue", "orders", "--data", str(folder)],
        ["job", "backfill", "--table", tables, "--queue", "orders"],
    ]


def refused(*arguments: str) -> str:
    """The one line of an error."""
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code not in (0, None)
    assert isinstance(result.exception, SystemExit), result.exception
    lines = [line for line in result.stderr.splitlines() if not line.startswith("[")]
    assert len(lines) == 1 and lines[0].startswith("Error: "), result.stderr
    return lines[0]


def test_no_java(ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for arguments in commands(ledger):
        assert "Spark needs Java 17 or newer, and no java is in PATH: install one" in refused(*arguments)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert "JAVA_HOME is" in refused(*commands(ledger)[0])


def test_an_old_java(ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(OLD)
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    for arguments in commands(ledger):
        assert f"{java} is Java 11: install one" in refused(*arguments)
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="1.8.0_402"\n')
    assert f"{java} is Java 8: install one" in refused(*commands(ledger)[0])
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="21.0.1"\n')
    session.require_java()
    (tmp_path / "jdk" / "release").unlink()
    java.write_text("#!/bin/sh\nexit 1\n")
    assert "doesn't tell its version" in refused(*commands(ledger)[0])


def test_options_of_a_pipeline(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    run = ["pipeline", "run", "--data", str(ledger), "--tables"]
    tables = str(ledger.parent / "tables")
    assert "no such table format: xyz" in refused(*run, tables, "--format", "xyz")
    assert "no such table: nope; there are events" in refused(*run, tables, "--only", "nope")
    assert "Unrecognized filesystem type" in refused(*run, "nope://bucket/tables")
    assert "Unrecognized filesystem type" in refused("pipeline", "status", "--tables", "nope://bucket/x")
    assert "ftp://x: no such place" in refused("pipeline", "run", "--data", "ftp://x", "--tables", tables)
