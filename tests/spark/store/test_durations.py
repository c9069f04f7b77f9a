"""Durations as readers see them: exact once a state has been left, null while it lasts."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from postroom.spark.store import open_store, read_folded
from postroom.spark.store.queries import duckdb_query
from tests.ledger.ledger_maker import START_US, E, LedgerMaker, S
from tests.spark.local_pipeline import read_all

LIVE = ("entries", "deliveries", "delays")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """One message that is held, one that waits, one that was held and has ended."""
    maker = LedgerMaker(tmp_path / "ledger")
    orders = maker.queue("orders")
    for name in ("held", "waiting", "ended"):
        serial = maker.put(orders, message_id=name.encode())
        if name == "waiting":
            maker.acquire(serial, orders)
            maker.change(
                serial, orders, E.FAIL, S.GET_UNCONFIRMED, S.DELAYED, causes=2, due_us=START_US + 10**9
            )
        elif name == "held":
            maker.fail(serial, orders)
            maker.acquire(serial, orders)
        else:
            maker.consume(serial, orders)
    read_all(tmp_path / "tables", maker.finish())
    return tmp_path / "tables"


def durations(rows: list[dict[str, Any]]) -> list[int | None]:
    return [row[name] for row in rows for name in row if name.endswith("_us")]


@pytest.mark.parametrize("name", LIVE)
def test_what_goes_on_is_null(tables: Path, name: str) -> None:
    store = open_store(str(tables), name)
    shown, stored = (read_folded(store, ongoing=ongoing).to_pylist() for ongoing in (False, True))
    queried = duckdb.sql(duckdb_query(store)).to_arrow_table().to_pylist()
    for rows in (shown, queried):
        found = durations(rows)
        assert None in found
        assert all(number is None or number >= 0 for number in found)
        assert any(number for number in found) or name == "delays"
    assert [number for number in durations(stored) if number is not None and number < 0]
    assert [number for number in durations(stored) if number is not None and number >= 0] == [
        number for number in durations(shown) if number is not None
    ]


def test_of_an_entry_only_the_state_that_it_is_in(tables: Path) -> None:
    rows = {row["message_id"]: row for row in read_folded(open_store(str(tables), "entries")).to_pylist()}
    held, waiting, ended = rows["held"], rows["waiting"], rows["ended"]
    assert (held["unconfirmed_us"], held["available_us"], held["delayed_us"]) == (None, 2000, 0)
    assert (waiting["delayed_us"], waiting["unconfirmed_us"]) == (None, 1000)
    assert (ended["available_us"], ended["unconfirmed_us"], ended["delayed_us"]) == (1000, 1000, 0)
