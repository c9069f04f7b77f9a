"""The pipeline over an object store, by its commands: ledger and tables lie there, the tables are one fold of
the ledger, and a lease keeps a second pipeline out."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom.spark.pipeline.errors import EXIT_IN_USE
from postroom.spark.pipeline.lock import LEASE_FILE
from postroom.spark.pipeline.root import Root
from tests.spark.local_pipeline import assert_whole
from tests.spark.object_store import object_store
from tests.spark.real_ledgers import Writer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ONLY = ("events", "entries")
PATIENCE_S = 120.0


@pytest.fixture
def bucket() -> Iterator[str]:
    with object_store() as uri:
        yield uri


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "postroom.cli", *words]


def postroom(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(*words), env=_environment(), capture_output=True, text=True, check=False, timeout=300
    )


def _lease_of(root: Root) -> str:
    end = time.monotonic() + PATIENCE_S
    while (found := root.read(LEASE_FILE)) is None:
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.mark.long
def test_a_pipeline_whose_ledger_and_tables_are_in_an_object_store(bucket: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    for _ in range(2):  # epochs; what a journal still has stays here
        writer = Writer(ledger)
        writer.write(250)
        writer.close()
    made = postroom("ledger", "upload", "--data", str(ledger), "--to", f"{bucket}/ledgers")
    assert made.returncode == 0, made.stderr
    data, tables = f"store:{bucket}/ledgers", f"{bucket}/tables"
    arguments = ("--data", data, "--tables", tables, "--only", ",".join(ONLY))
    run = postroom("pipeline", "run", *arguments)
    assert run.returncode == 0, run.stderr
    assert_whole(tables, data, names=ONLY)

    shown = postroom("pipeline", "status", "--tables", tables, "--json")
    assert {at["lag"]["events"] for one in json.loads(shown.stdout)["tables"] for at in one["ledgers"]} == {0}

    root = Root(tables)
    with subprocess.Popen(
        _command("pipeline", "run", "--continuous", *arguments),
        env=_environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as first:
        lease = json.loads(_lease_of(root))
        second = postroom("pipeline", "run", *arguments)
        assert second.returncode == EXIT_IN_USE
        assert lease["holder"] in second.stderr
        root.write(LEASE_FILE, json.dumps({**lease, "id": "another", "holder": "process 1 elsewhere"}))
        _, output = first.communicate(timeout=300)
    assert first.returncode == EXIT_IN_USE
    assert "process 1 elsewhere" in output
    assert_whole(tables, data, names=ONLY)
