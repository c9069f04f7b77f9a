"""Fixtures: one PostgreSQL server for all tests of this folder; tests that kill it start it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.twophase.postgres import PostgreSQL


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSQL]:
    """A server that lives as long as the tests."""
    with PostgreSQL() as server:
        yield server
