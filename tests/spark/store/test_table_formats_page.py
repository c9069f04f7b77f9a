"""What docs/reference/table-formats.md shows runs, and what it says of the layout is so."""

import json
import re
from pathlib import Path
from typing import Any

import polars
import pytest
from deltalake import DeltaTable

from postroom.spark.store import open_store
from postroom.spark.store.protocol import DONE, OPEN
from postroom.spark.tables import DEFINITIONS
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.local_pipeline import read_all

PAGE = (Path(__file__).parents[3] / "docs/reference/table-formats.md").read_text()
SNIPPETS = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "spark.read" not in text]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    maker = LedgerMaker(tmp_path_factory.mktemp("ledger"))
    queue = maker.queue("orders")
    serials = [maker.put(queue) for _ in range(6)]
    for serial in serials[:4]:
        maker.consume(serial, queue)
    return maker.finish()


def _run(snippet: str, tables: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(snippet.replace("/srv/tables", str(tables)), names)
    return names


def test_the_page_shows_each_way_to_read() -> None:
    assert len(SNIPPETS) == 4


@pytest.mark.parametrize("format", ["delta", "parquet", "iceberg"])
def test_what_the_page_shows_runs(tmp_path: Path, ledger: Path, format: str) -> None:
    read_all(tmp_path, ledger, format=format)
    arrow, duck, frame, iceberg = SNIPPETS
    assert _run(arrow, tmp_path)["entries"].num_rows == 6
    assert _run(duck, tmp_path)["held"].fetchall() == [("orders", 2)]
    ended = _run(frame, tmp_path)["ended"].collect()
    assert ended.height == sum(file.rows for file in open_store(str(tmp_path), "entries").files(DONE))
    if format == "iceberg":
        assert _run(iceberg, tmp_path)["table"].scan().to_arrow().num_rows >= 6
    if format == "delta":
        assert polars.scan_delta(str(tmp_path / "entries")).collect().height == 6


def test_a_delta_commit_is_as_the_page_says(tmp_path: Path, ledger: Path) -> None:
    read_all(tmp_path, ledger, format="delta")
    log = sorted((tmp_path / "entries/_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log[1].read_text().splitlines()]
    told = {name: action[name] for action in actions for name in action}
    assert {"postroom", "postroom.operation"} <= set(told["commitInfo"])
    assert told["txn"]["appId"].startswith("postroom:")
    table = DeltaTable(str(tmp_path / "entries"))
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)


def test_an_entry_of_the_parquet_log_is_as_the_page_says(tmp_path: Path, ledger: Path) -> None:
    read_all(tmp_path, ledger, format="parquet")
    entry = json.loads((tmp_path / f"entries/_log/{0:020d}.json").read_text())
    section = PAGE.split("## Parquet with a commit log")[1].split("## Iceberg")[0]
    file = next(file for file in entry["add"])
    for key in [*entry, *entry["state"], *entry["columns"][0], *file]:
        assert f"`{key}`" in section, key
    assert file["part"] in (DONE, OPEN)
    open_store(str(tmp_path), "entries").checkpoint()
    checkpoint = max((tmp_path / "entries/_log").glob("*.checkpoint.json"))
    assert set(json.loads(checkpoint.read_text())) == {"state", "columns", "files", "check"}


def test_the_data_dictionary_says_what_the_table_says(tmp_path: Path, ledger: Path) -> None:
    read_all(tmp_path, ledger, format="delta")
    for name, definition in DEFINITIONS.items():
        fields = {f.name: f.metadata for f in DeltaTable(str(tmp_path / name)).schema().fields}
        for field in definition.fields:
            assert fields[field.name] == {"comment": field.comment, "postroom.merge": field.merge.value}
