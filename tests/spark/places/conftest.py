"""A ledger in several files."""

from pathlib import Path

import pytest

from tests.spark.real_ledgers import Writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ledger in several sealed files of two epochs, and a journal."""
    for _ in range(2):
        writer = Writer(tmp_path / "data")
        writer.write(250)
        writer.close()
    return tmp_path / "data"
