"""The table of acts: its rows are what the ledger's records say, whatever becomes of those who act."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from postroom.ledger.reading.acts import read_acts
from postroom.spark.pipeline.operations.erase import erase
from postroom.spark.pipeline.operations.rebuild import rebuild
from postroom.spark.pipeline.options import PipelineOptions, load_settings
from postroom.spark.pipeline.root import Root
from postroom.spark.pipeline.settings import settled_options
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.policy import Policy
from tests.ledger.ledger_maker import LEDGER_ID, LedgerMaker
from tests.spark.local_pipeline import ENGINE, assert_whole, options, read_all, rows_of

KEY = b"0123456789abcdef"
DONE = {
    "user": "alice", "remote": "192.0.2.7:5000", "container": "console", "operation": "CREATE",
    "type": "queue", "name": "orders", "status": 201, "arguments": '{"max_messages": 5}',
}  # fmt: skip
REFUSED = {
    "user": "mallory", "remote": "192.0.2.9:4000", "operation": "ATTACH", "type": "destination",
    "name": "pay", "status": 403, "description": "mallory has no right", "count": 17,
}  # fmt: skip
TEXTS = ("user", "remote", "container", "operation", "type", "name", "description", "arguments")


def lived(folder: Path) -> Path:
    """A queue is created and used, somebody is refused, the configuration is read anew."""
    maker = LedgerMaker(folder)
    queue = maker.queue("orders")
    maker.act(**DONE)
    maker.consume(maker.put(queue), queue)
    maker.act(**REFUSED)
    maker.act(operation="RELOAD", status=200)
    return maker.finish()


def rows(tables: Path) -> list[dict[str, Any]]:
    return sorted(rows_of(tables, "acts"), key=lambda row: int(row["position"]))


@pytest.mark.parametrize("table_format", ["delta", "parquet", "iceberg"])
def test_a_row_is_what_the_record_says(tmp_path: Path, table_format: str) -> None:
    ledger, tables = lived(tmp_path / "ledger"), tmp_path / "tables"
    settled_options(Root(str(tables)), options(tables, ledger, format=table_format))
    read_all(tables, ledger, records=2, format=table_format)
    assert_whole(tables, ledger, names=("events", "acts"))
    if table_format == "parquet":
        assert rebuild(str(tables), "acts", ENGINE) == 3
    found = rows(tables)
    expected = [
        dict.fromkeys(TEXTS, "") | {"count": 1} | {k: v for k, v in act.items() if k != "time_us"}
        for act in read_acts(ledger)
    ]
    assert [{k: v for k, v in row.items() if k not in ("ledger_id", "time")} for row in found] == expected
    assert {row["ledger_id"] for row in found} == {str(LEDGER_ID)}
    assert [int(row["time"].timestamp() * 1e6) for row in found] == [
        act["time_us"] for act in read_acts(ledger)
    ]


def test_an_act_is_no_message(tmp_path: Path) -> None:
    read_all(tmp_path / "tables", lived(tmp_path / "ledger"))
    events = [row for row in rows_of(tmp_path / "tables", "events") if row["act"]]
    assert [(row["record"], row["event"], row["queue_id"], row["reason"]) for row in events] == [
        ("act", "act", 0, None)
    ] * 3
    assert {name: len(rows_of(tmp_path / "tables", name)) for name in ("entries", "messages")} == {
        "entries": 1,
        "messages": 1,
    }


@pytest.mark.parametrize(
    ("action", "user", "description"),
    [
        ("keep", "mallory", "mallory has no right"),
        ("hash", Policy({}, KEY).hashed("mallory"), None),
        ("drop", None, None),
    ],
)
def test_the_policy_says_what_becomes_of_who_acts(
    tmp_path: Path, action: str, user: str | None, description: str | None
) -> None:
    policy = Policy({"act": action}, KEY)
    read_all(tmp_path / "tables", lived(tmp_path / "ledger"), policy=policy)
    refused = rows(tmp_path / "tables")[1]
    assert (refused["user"], refused["description"]) == (user, description)
    assert (refused["operation"], refused["status"], refused["count"]) == ("ATTACH", 403, 17)
    stored = str(rows_of(tmp_path / "tables", "events"))
    assert ("mallory" in stored) == (action == "keep")


@pytest.mark.parametrize("policy", [Policy(), Policy({"act": "hash"}, KEY)])
def test_who_acted_is_erased_from_events_and_acts(tmp_path: Path, policy: Policy) -> None:
    tables = tmp_path / "tables"
    settings = options(tables, lived(tmp_path / "ledger"), policy=policy)
    settled_options(Root(str(tables)), settings)
    read_all(tables, tmp_path / "ledger", policy=policy)
    found = erase(str(tables), "act", "mallory", policy)
    assert found.rows == {"events": 1, "acts": 1}
    alice, refused, _ = rows(tables)
    assert (alice["user"], refused["user"]) == (policy.written("act", "alice"), None)
    assert refused["remote"] == policy.written("act", "192.0.2.9:4000")
    assert erase(str(tables), "user", "alice", policy).rows == {}, "acts follow `act` alone"
    assert [row["user"] for row in rows(tables)] == [policy.written("act", "alice"), None, ""]


def test_tables_of_an_older_version_gain_the_table(tmp_path: Path) -> None:
    """All that 0.2.0 had, or some of it."""
    root, chosen = Root(str(tmp_path)), PipelineOptions(("a",), str(tmp_path))
    settled_options(root, chosen)
    written = msgspec.to_builtins(load_settings(root))
    del written["known"], written["policy"]["act"]
    written["tables"].remove("acts")
    root.note("settings.json", written)
    assert settled_options(root, chosen).names == tuple(DEFINITIONS)
    root.note("settings.json", written | {"tables": ["events", "entries"]})
    assert settled_options(root, chosen).names == ("events", "entries")


def test_a_table_that_was_left_out_stays_out(tmp_path: Path) -> None:
    others = tuple(name for name in DEFINITIONS if name != "acts")
    root = Root(str(tmp_path))
    settled_options(root, PipelineOptions(("a",), str(tmp_path), only=others))
    assert settled_options(root, PipelineOptions(("a",), str(tmp_path))).names == others
