"""The program of the how-to page does what it says, and is as short as it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.client import ConnectionFactory
from tests.clients.broker import USUAL, BrokerProcess
from tests.clients.driver import ROOT, python_path
from tests.twophase.postgres import PostgreSQL

pytestmark = [pytest.mark.sockets, pytest.mark.peer]
PAGE = ROOT / "docs" / "howto" / "two-phase-commit.md"
PROGRAM = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
MOST_LINES = 40
RUN_S = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", USUAL) as process:
        yield process


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": python_path()},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )


def test_the_program_moves_orders_to_rows_and_invoices(
    broker: BrokerProcess, postgres: PostgreSQL, tmp_path: Path
) -> None:
    assert PROGRAM is not None
    text = PROGRAM[1].replace("5672", str(broker.port)).replace("dbname=shop", postgres.dsn)
    assert len(text.splitlines()) < MOST_LINES
    postgres.execute("DROP TABLE IF EXISTS sales")
    postgres.execute("CREATE TABLE sales (item text CHECK (item <> 'coal'))")
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        orders = session.create_producer("orders")
        orders.send_all(["apples", "pears"])
        first = run(text, tmp_path)
        assert (first.stdout, first.returncode) == ("sold apples\nsold pears\n", 0), first.stderr
        orders.send("coal")
        second = run(text, tmp_path)
        assert "CheckViolation" in second.stderr
        assert second.stdout == ""
        assert [message.body for message in session.create_browser("orders")] == ["coal"]
        invoices = [message.body for message in session.create_browser("invoices")]
        assert invoices == ["invoice for apples", "invoice for pears"]
    assert postgres.execute("SELECT item FROM sales ORDER BY item") == [("apples",), ("pears",)]
