"""The notebook in `examples/` runs, on the ledgers of two queue managers."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.spark.report_ledgers import london, paris

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NOTEBOOK = Path(__file__).parents[3] / "examples" / "where-the-messages-went.ipynb"


SHORT = (
    '--driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"'
    " --conf spark.sql.codegen.wholeStage=false --conf spark.sql.adaptive.enabled=false pyspark-shell"
)
"""For few rows: planning as it goes and compiling each plan take longer than they save."""


def _texts(cell: Any) -> str:
    outputs = cell.get("outputs", ())
    return "\n".join(
        str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", "")) for output in outputs
    )


@pytest.mark.long
def test_the_notebook_runs_and_tells_of_the_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker, sent = london(tmp_path / "london")
    ledgers = [maker.finish(), paris(tmp_path / "paris", sent).finish()]
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", SHORT)
    monkeypatch.setenv("POSTROOM_DATA", ":".join(map(str, ledgers)))
    monkeypatch.setenv("POSTROOM_TABLES", str(tmp_path / "tables"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(each).resolve()) for each in sys.path if each))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    text = "\n".join(map(_texts, notebook.cells))
    assert "dead_letter" in text
    assert "order-0" in text
    assert re.search(r"orders at 20\d\d-\S+ \S+: \d+ messages", text)
    assert "every message is accounted for" in text
    assert "p99 ms" in text
    assert text.count("SVG object") == 2


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in notebook.cells)
