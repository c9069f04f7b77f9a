"""The walk: what comes of events doesn't depend on how they are ordered and cut, and ids are told apart."""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from postroom.spark.audit.legal import legal_rows
from postroom.spark.audit.walk import columns
from postroom.spark.audit.walk.blocks import batches_of, tables_in
from postroom.spark.audit.walk.breaches import Bounds
from postroom.spark.audit.walk.ids import repeated, text_numbers
from postroom.spark.audit.walk.packing import events_in, packed
from postroom.spark.audit.walk.totals import added
from postroom.spark.audit.walk.walk import walked
from postroom.spark.ledger_source.columns import EVENTS_SCHEMA

EVENTS = pa.schema([EVENTS_SCHEMA.field(name) for name in columns.EVENT_COLUMNS])
LEDGERS = ("first", "second")
BOUNDS = Bounds({"first": 1, "second": 50}, {"second": 120})
KINDS = {
    columns.LIFE: columns.LIVES,
    columns.STAY: columns.STAYS,
    columns.ASSIGNMENT: columns.ASSIGNMENTS,
    columns.WAIT: columns.WAITS,
    columns.BREACH: columns.BREACHES,
    columns.TOTAL: columns.TOTALS,
    columns.REFUSAL: columns.REFUSALS,
    columns.ID: columns.IDS,
}

Row = dict[str, object]
Found = dict[int, pa.Table]


def _events(seed: int) -> list[Row]:
    """Lives of a few hundred entries, by steps that the life cycle has, in an order that it doesn't allow."""
    chance = random.Random(seed)
    legal = [row for row in legal_rows() for _ in range(10 if row[0] in ("start", "put_unconfirmed") else 1)]
    rows = []
    for position in range(1, 3000):
        ledger = chance.choice(LEDGERS)
        came, goes, kind, event, outcome = chance.choice(legal)
        serial = position if came == "start" else chance.randint(max(1, position - 60), position)
        row: Row = dict.fromkeys(EVENTS.names) | {
            "ledger_id": ledger,
            "serial": serial,
            "queue_id": serial % 4,
            "epoch": position // 300,
            "position": position,
            "ordinal": 0,
            "queue": chance.choice(["orders", "bills", None]),
            "time": position * 20,
            "event": chance.choice([event, event, event, "none"]),
            "from_state": came,
            "to_state": goes,
            "outcome": outcome,
            "holder_kind": kind,
            "holder_id": chance.choice([None, 1, 2]),
            "holder": chance.choice([None, "app/1-0-0-0@sink"]),
        }
        if came == "start":
            row |= {"producer_id": 1, "message_id": f"id {chance.randint(1, 60)}", "stored": True}
        rows.append(row)
    return rows


def _walked(rows: list[Row], cuts: int, parts: int) -> Found:
    """All that comes of them, by kind; totals added up."""
    size = -(-len(rows) // cuts)
    blocks = [
        batch
        for start in range(0, len(rows), size)
        for batch in packed(_batches(rows[start : start + size]), parts)
    ]
    whole = pa.Table.from_batches(blocks)
    some: dict[int, list[pa.Table]] = {kind: [] for kind in KINDS}
    for part in range(parts):
        mine = whole.filter(pa.compute.equal(whole.column("part"), part))
        for batch in batches_of(walked(events_in(iter(mine.to_batches())), BOUNDS, parts)):
            for kind, one in zip(batch.column("kind").to_pylist(), batch.to_struct_array(), strict=True):
                block = pa.RecordBatch.from_pydict({"block": [one["block"].as_py()]})
                some[kind] += tables_in(iter([block]), KINDS[kind])
    found = {kind: pa.concat_tables([KINDS[kind].empty_table(), *tables]) for kind, tables in some.items()}
    return found | {columns.TOTAL: added(found[columns.TOTAL])}


def _in_words(found: Found) -> dict[int, list[str]]:
    return {kind: sorted(map(str, table.to_pylist())) for kind, table in found.items()}


def _batches(rows: list[Row]) -> Iterator[pa.RecordBatch]:
    yield from pa.Table.from_pylist(rows, schema=EVENTS).to_batches()


@pytest.mark.parametrize("seed", range(5))
def test_nothing_depends_on_how_events_are_ordered_and_cut(seed: int) -> None:
    rows = _events(seed)
    whole = _in_words(_walked(rows, 1, 1))
    assert all(whole.values()), "a kind of row that never comes"
    random.Random(seed).shuffle(rows)
    assert _in_words(_walked(rows, 7, 5)) == whole


def test_entries_and_events_are_counted_once() -> None:
    rows = [row for row in _events(1) if row["queue_id"]]
    found = _walked(rows, 3, 4)
    entries = {(row["ledger_id"], row["serial"], row["queue_id"]) for row in rows}
    events = sum(row["event"] != "none" for row in rows)
    assert len(found[columns.LIFE]) == len(entries)
    totals = found[columns.TOTAL].to_pylist()
    assert sum(one["entries"] for one in totals) == len(entries)
    assert sum(one["events"] for one in totals) == events


def test_equal_ids_have_equal_numbers_wherever_they_lie() -> None:
    texts = ["", "a", "b", "ab", "a" * 8, "a" * 9, "\0", "\0" * 8, "é", "x" * 1000, "a"]
    numbers = text_numbers(pa.chunked_array([texts]))
    assert numbers[1] == numbers[-1]
    assert len(set(numbers[:-1].tolist())) == len(texts) - 1
    behind = text_numbers(pa.chunked_array([pa.array(["zz", *texts]).slice(1)]))
    assert behind.tolist() == numbers.tolist()
    assert repeated(numbers).tolist() == [numbers[1]]
