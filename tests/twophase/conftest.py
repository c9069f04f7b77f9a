"""Fixtures: one PostgreSQL server for all tests of this folder; tests that kill it start it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postroom.client.transactions import decision_log
from postroom.client.transactions.decision_records import ALIGNMENT_BYTES
from tests.twophase.postgres import PostgreSQL


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgreSQL]:
    """A server that lives as long as the tests."""
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision log is quicker to open so."""
    monkeypatch.setattr(decision_log, "FILE_BYTES", 16 * ALIGNMENT_BYTES)
