"""Which rows a ledger has: an event for each entry that became available, whatever way the ledger is cut."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.amqp.message.sections import Message, Value
from postroom.ledger.reading.reader import holds_ledger
from postroom.spark.ledger_source.ranges import DataLost
from postroom.spark.ledger_source.record_batches import read_events
from postroom.spark.messages.schema import EVENT_COLUMNS, FULL_SCHEMA, MESSAGES_SCHEMA, NEVER_NULL
from postroom.spark.places.folder import FolderPlace
from postroom.spark.places.slices import plan
from postroom.spark.tap.options import TapOptions, read_tap_options
from postroom.spark.tap.stream import rows_of
from tests.ledger.ledger_maker import E, LedgerMaker, S
from tests.sampling import examples
from tests.spark.corpus import LATER_US, born, decide, held, unborn
from tests.spark.lived_ledgers import brokers

EVENTS = pa.schema([FULL_SCHEMA.field(name) for name in ("position", "ordinal", "serial", "queue")])
Row = tuple[int, int, int, str]


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [folder for folder in brokers(tmp_path_factory.mktemp("lived")) if holds_ledger(folder)]


def options(folder: Path, **fields: str) -> TapOptions:
    return read_tap_options({"path": str(folder), **fields})


def read(
    folder: Path, records: int = 1 << 20, schema: pa.Schema = MESSAGES_SCHEMA, **fields: str
) -> pa.Table:
    """All rows of a ledger that is cut into slices of so many records."""
    place, chosen = FolderPlace(folder), options(folder, **fields)
    snapshot = place.snapshot()
    slices = plan(place, snapshot, 1, snapshot.durable_through, records)
    batches = [batch for piece in slices for batch in rows_of(piece, schema, chosen)]
    return pa.Table.from_batches(batches, schema)


def firsts(folder: Path) -> list[Row]:
    """The same by following every entry from its beginning: when it first was available."""
    place = FolderPlace(folder)
    snapshot = place.snapshot()
    slices = plan(place, snapshot, 1, snapshot.durable_through, 1 << 20)
    rows = [row for piece in slices for batch in read_events(piece) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["position"], row["ordinal"]))
    found: dict[tuple[int, int], Row] = {}
    for row in rows:
        if row["to_state"] == "available":
            entry = (row["serial"], row["queue_id"])
            found.setdefault(entry, (row["position"], row["ordinal"], row["serial"], row["queue"]))
    return sorted(found.values())


def tuples_of(table: pa.Table) -> list[Row]:
    return [tuple(row[name] for name in EVENTS.names) for row in table.to_pylist()]  # type: ignore[misc]


def test_every_entry_that_was_available_is_there_once_where_it_first_was(ledgers: list[Path]) -> None:
    """Also of delays, retries, transactions, moves, dead letters, restarts."""
    kinds: set[str] = set()
    for folder in ledgers:
        oldest = FolderPlace(folder).snapshot().first_position  # of older messages not all is known here
        table = read(folder, schema=pa.schema([FULL_SCHEMA.field(name) for name in EVENT_COLUMNS]))
        assert [name for name in NEVER_NULL if table[name].null_count] == []
        rows = [row for row in tuples_of(table.select(EVENTS.names)) if row[2] >= oldest]
        assert rows == [row for row in firsts(folder) if row[2] >= oldest], folder.name
        kinds |= set(_kinds(folder))
    assert {"put", "confirm", "due"} <= kinds  # each way in which it can become available is among them


def _kinds(folder: Path) -> Iterator[str]:
    place = FolderPlace(folder)
    snapshot = place.snapshot()
    positions = {(position, ordinal) for position, ordinal, _, _ in firsts(folder)}
    for piece in plan(place, snapshot, 1, snapshot.durable_through, 1 << 20):
        for batch in read_events(piece):
            for row in batch.to_pylist():
                if (row["position"], row["ordinal"]) in positions:
                    yield row["event"]


@settings(
    max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_rows_are_the_same_whatever_way_the_ledger_is_cut(ledgers: list[Path], data: st.DataObject) -> None:
    folder = data.draw(st.sampled_from(ledgers))
    whole = read(folder)
    assert read(folder, data.draw(st.integers(1, 60))).to_pylist() == whole.to_pylist()
    keys = [(row["position"], row["ordinal"]) for row in whole.to_pylist()]
    assert keys == sorted(set(keys))


def body(text: str) -> bytes:
    return Message(body=Value(text)).encode()


def make(folder: Path) -> LedgerMaker:
    """One message that is delayed for two files, one in a transaction, one for two queues, one at once."""
    maker = LedgerMaker(folder)
    orders, copies = maker.queue("orders"), maker.queue("copies")
    late = unborn(maker, orders, LATER_US, body=body("late"))
    sure = held(maker, orders, 9, body=body("sure"))
    maker.next_file()
    maker.put(maker.routing_set(orders, copies), body=body("both"))
    maker.next_file(new_epoch=True)
    decide(maker, orders, 9, sure)
    maker.put(orders, body=body("plain"))
    born(maker, late, orders)
    maker.seal(1)
    maker.finish()
    return maker


def test_a_message_that_waited_long_has_its_header_and_body_from_an_old_file(tmp_path: Path) -> None:
    make(tmp_path / "ledger")
    rows = read(tmp_path / "ledger", 1).to_pylist()
    assert [(row["queue"], row["text"], row["body_state"]) for row in rows] == [
        ("orders", "both", "present"),
        ("copies", "both", "present"),
        ("orders", "sure", "present"),
        ("orders", "plain", "present"),
        ("orders", "late", "present"),
    ]
    assert [row["ordinal"] for row in rows[:2]] == [0, 1]
    assert all(row["priority"] == 4 and row["durable"] for row in rows)


def test_the_end_of_a_later_delay_is_no_row(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    queue = maker.queue("orders")
    serial = maker.put(queue, body=body("once"))
    maker.change(serial, queue, E.DELAY, S.AVAILABLE, S.DELAYED, holder_kind=0, holder=0)
    maker.change(serial, queue, E.DUE, S.DELAYED, S.AVAILABLE, holder_kind=0, holder=0)
    folder = maker.finish()
    assert [row["position"] for row in read(folder).to_pylist()] == [serial]


def test_only_the_queues_that_are_named(tmp_path: Path) -> None:
    make(tmp_path / "ledger")
    assert [row["text"] for row in read(tmp_path / "ledger", queues="copies").to_pylist()] == ["both"]
    assert read(tmp_path / "ledger", queues="nobody's").num_rows == 0


def test_where_only_events_are_asked_for_no_message_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "ledger")
    monkeypatch.delattr(FolderPlace, "messages")
    assert read(tmp_path / "ledger", schema=EVENTS).num_rows == 5


def test_a_file_that_was_dropped_meanwhile_stops_the_read_unless_that_is_accepted(tmp_path: Path) -> None:
    make(tmp_path / "ledger")
    place = FolderPlace(tmp_path / "ledger")
    snapshot = place.snapshot()
    first = plan(place, snapshot, 1, snapshot.durable_through, 1 << 20)[0]
    for path in (tmp_path / "ledger").glob("*1.*"):
        path.unlink()
    with pytest.raises(DataLost):
        list(rows_of(first, MESSAGES_SCHEMA, options(tmp_path / "ledger")))
    accepted = options(tmp_path / "ledger", failOnDataLoss="false")
    assert list(rows_of(first, MESSAGES_SCHEMA, accepted)) == []


def test_every_column_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "spark-messages.md").read_text(
        encoding="utf-8"
    )
    table = page.split("## Columns", 1)[1].split("###", 1)[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(cells))) == sorted(FULL_SCHEMA.names)
