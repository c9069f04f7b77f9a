"""What events and tables tell of an entry that was made of another: the ids of its message, and its root."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from postroom.cli import main
from postroom.client import ConnectionFactory, Message
from postroom.server.configuration.config import QueueConfig
from postroom.spark.ledger_source import ancestry
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.slices import plan
from postroom.spark.tables import DEFINITIONS
from tests.ledger.ledger_maker import E, LedgerMaker, O, S
from tests.server.harness import BrokerThread, make_config
from tests.spark.event_ranges import events_of, table

Row = dict[str, Any]


def moved(maker: LedgerMaker, serial: int, queue: int, to: int, body_serial: int, event: int = E.MOVE) -> int:
    """An entry whose body is on the disk goes to another queue: its arrival has no ids."""
    maker.change(serial, queue, event, S.AVAILABLE, S.DELETED, outcome=O.MOVED, holder_kind=0)
    return maker.put(to, event=event, parent=(serial, queue), body=None, body_serial=body_serial)


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Path, list[int]]:
    """A message that was dead-lettered, replayed and dead-lettered again, in three files."""
    maker = LedgerMaker(tmp_path / "ledger")
    orders, dead = maker.queue("orders"), maker.queue("dead")
    maker.put(orders, message_id=b"another")
    first = maker.put(orders, message_id=b"a", correlation_id=b"c", group_id=b"g", creation_us=5)
    maker.next_file()
    second = moved(maker, first, orders, dead, first, E.DEAD_LETTER)
    maker.seal(1)
    third = moved(maker, second, dead, orders, first)
    maker.next_file()
    fourth = moved(maker, third, orders, dead, first, E.DEAD_LETTER)
    return maker.finish(), [first, second, third, fourth]


def arrivals(rows: pa.Table, serials: list[int]) -> list[Row]:
    known = {row["serial"]: row for row in rows.to_pylist() if row.get("from_state", "start") == "start"}
    return [known[serial] for serial in serials]


def test_derived_entries_have_their_messages_ids_and_root(chain: tuple[Path, list[int]]) -> None:
    folder, serials = chain
    events = events_of(folder)
    for name in ("entries", "messages"):
        for rows in (events, table(DEFINITIONS[name], events)):
            for row in arrivals(rows, serials):
                ids = (row["message_id"], row["correlation_id"], row["group_id"], row["group_sequence"])
                assert ids == ("a", "c", "g", 7)
                assert row["root_serial"] == serials[0]
                assert row["creation"].timestamp() * 1e6 == 5
                assert name == "messages" or row["root_queue_id"] == 1
    others = [row for row in events.to_pylist() if row["event"] == "put" and row["serial"] != serials[0]]
    assert [(row["root_serial"] == row["serial"], row["root_queue_id"]) for row in others] == [(True, 1)]


def test_however_it_is_cut(chain: tuple[Path, list[int]]) -> None:
    folder, _ = chain
    place = FolderPlace(folder)
    look = place.look()
    single = plan(place, look, 1, look.durable_through, 1)
    batches = [batch for slice in single for batch in read_events(slice)]
    order = [("position", "ascending"), ("ordinal", "ascending")]
    assert pa.Table.from_batches(batches).sort_by(order) == events_of(folder).sort_by(order)
    some = pa.schema([EVENTS_SCHEMA.field(name) for name in ("serial", "root_serial")])
    told = [row for slice in single for batch in read_events(slice, some) for row in batch.to_pylist()]
    assert sum(row["root_serial"] is not None for row in told) == 5


def test_a_chain_is_followed_only_so_far(
    chain: tuple[Path, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ancestry, "MAX_GENERATIONS", 1)
    folder, serials = chain
    roots = [row["root_serial"] for row in arrivals(events_of(folder), serials)]
    assert roots == [serials[0], serials[0], serials[0], serials[1]]


def test_what_retention_has_dropped_is_not_told(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    orders, dead = maker.queue("orders"), maker.queue("dead")
    first = maker.put(orders, message_id=b"a")
    maker.next_file()
    maker.seal(1)
    second = moved(maker, first, orders, dead, first)
    maker.drop(1)
    (row,) = arrivals(events_of(maker.finish()), [second])
    assert (row["message_id"], row["parent_serial"], row["root_serial"]) == (None, first, first)


def test_through_the_broker_after_a_restart(tmp_path: Path) -> None:
    config = make_config(queue=[QueueConfig(name="orders"), QueueConfig(name="elsewhere")])
    message = Message("x", message_id="the-id", correlation_id="the-other", durable=True)
    with (
        BrokerThread(config, folder=tmp_path / "data") as broker,
        ConnectionFactory(broker.url).create_connection() as connection,
    ):
        connection.create_session().create_producer("orders").send(message)
    with BrokerThread(config, folder=tmp_path / "data") as broker:
        said = ["message", "move", "orders", "elsewhere", "--all", "--url", broker.url]
        assert CliRunner().invoke(main, said).exit_code == 0
        said = ["message", "move", "elsewhere", "orders", "--all", "--url", broker.url]
        assert CliRunner().invoke(main, said).exit_code == 0
    events = sorted(events_of(tmp_path / "data").to_pylist(), key=lambda row: row["position"])
    queues = ("orders", "elsewhere")
    came = [row for row in events if row["from_state"] == "start" and row["queue"] in queues]
    assert [row["event"] for row in came] == ["put", "move", "move"]
    assert {(row["message_id"], row["correlation_id"]) for row in came} == {("the-id", "the-other")}
    assert {row["root_serial"] for row in came} == {came[0]["serial"]}
