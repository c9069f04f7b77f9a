"""Tables of a pipeline that has had no rows for them: empty for every reader, in every format. What no
pipeline makes is refused."""

import json
from pathlib import Path

import duckdb
import pytest

from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import settled_options
from postroom.spark.store import open_store, read_folded
from postroom.spark.store.formats import FORMATS
from postroom.spark.store.protocol import VersionGone
from postroom.spark.store.queries import duckdb_query
from postroom.spark.store.source import TableReader, table_options, table_struct
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.views import fold_sql, levels_sql, pending_sql, quantile_sql
from tests.ledger.ledger_maker import LedgerMaker
from tests.spark.local_pipeline import catch_up, options, piped, rows_of


@pytest.fixture(scope="module", params=FORMATS)
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over a ledger in which nothing has happened yet."""
    place = tmp_path_factory.mktemp("empty")
    maker = LedgerMaker(place / "ledger")
    maker.queue("orders")
    folder, root = maker.finish(), place / "tables"
    settled_options(Root(str(root)), options(root, folder, format=request.param))
    catch_up(piped(root, folder, format=request.param))
    return root


@pytest.mark.parametrize("name", DEFINITIONS)
def test_each_table_is_empty(tables: Path, name: str) -> None:
    definition, store = DEFINITIONS[name], open_store(str(tables), name)
    assert rows_of(tables, name) == []
    found = duckdb.sql(duckdb_query(store)).to_arrow_table()
    assert (found.num_rows, found.schema.names) == (0, definition.schema.names)
    reader = TableReader(table_options({"path": str(tables), "table": name}), table_struct(definition))
    assert [batch for part in reader.partitions() for batch in reader.read(part) if len(batch)] == []
    nothing = read_folded(store)
    assert duckdb.sql(fold_sql(definition, "nothing", "duckdb")).fetchall() == []
    assert nothing.num_rows == 0


def test_questions_have_no_answers(tables: Path) -> None:
    for name, sql in (
        ("destinations", levels_sql),
        ("entries", pending_sql),
        ("dwell_times", lambda rows: quantile_sql(rows, 0.5)),
    ):
        text = sql(f"({duckdb_query(open_store(str(tables), name))})")
        assert duckdb.sql(text).fetchall() == []


def test_what_no_pipeline_makes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VersionGone, match="there is no table entries"):
        read_folded(open_store(str(tmp_path / "elsewhere"), "entries"))
    root = tmp_path / "tables"
    settled_options(Root(str(root)), options(root, only=("entries",)))
    assert rows_of(root, "entries") == []
    with pytest.raises(VersionGone, match="there is no table delays"):
        read_folded(open_store(str(root), "delays"))
    settings = root / "_pipeline" / "settings.json"
    settings.write_text(json.dumps({"tables": ["entries"]}))
    with pytest.raises(VersionGone, match="there is no table entries"):
        read_folded(open_store(str(root), "entries"))
