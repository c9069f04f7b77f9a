"""The programs of the page on workers do what it says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import received
from tests.clients.broker import BrokerProcess
from tests.clients.pages import Page, fates

pytestmark = pytest.mark.sockets


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with BrokerProcess(tmp_path / "data") as broker:
        yield Page("write-a-worker.md", broker, tmp_path)


def test_two_orders_are_sold_and_three_are_dead_letters(page: Page) -> None:
    page.run_commands()
    page.write_files()
    with page.running([sys.executable, "worker.py"]) as process:
        page.run([sys.executable, "shop.py"])
        invoices = received(page.broker.url, "invoices", 2)
        dead = received(page.broker.url, "orders.dead", 3)
    assert process.returncode == 0
    assert {invoice.body for invoice in invoices} == {
        '{"order":0,"text":"1 apples"}',
        '{"order":1,"text":"1 figs"}',
    }
    assert {letter.annotations["x-opt-dead-letter-description"] for letter in dead} == {
        "ValueError: who would buy them?",
        "0 pieces can't be sold",
        "JSON is malformed: invalid character (byte 0)",
    }
    page.broker.stop()
    assert fates(page.broker) == {
        "orders": {"consumed": 2, "dead_lettered": 3},
        "invoices": {"consumed": 2},
        "orders.dead": {"consumed": 3},
    }
