"""The table of entries, by hand."""

from pathlib import Path
from typing import Any

from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.fold import partials
from tests.ledger.ledger_maker import E, LedgerMaker, O, S
from tests.spark.event_ranges import cut, events_of, every_position, fold_pairs, table, through_parts

ENTRIES = DEFINITIONS["entries"]


def rows(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    made = table(ENTRIES, events_of(folder)).to_pylist()
    return {(row["serial"], row["queue_id"]): row for row in made}


def test_an_entry_says_where_it_is_and_how_long_it_was_where(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    orders = maker.queue("orders")
    consumed = maker.put(orders, message_id=b"a", priority=7)
    maker.fail(consumed, orders)
    held = maker.put(orders)
    maker.acquire(held, orders)
    maker.consume(consumed, orders)
    found = rows(maker.finish())
    first = found[consumed, orders]
    assert (first["queue"], first["state"], first["outcome"]) == ("orders", "deleted", "consumed")
    assert (first["message_id"], first["priority"], first["arrival_event"]) == ("a", 7, "put")
    assert (first["delivery_count"], first["failure_count"], first["event_count"]) == (1, 1, 5)
    assert (first["available_us"], first["unconfirmed_us"], first["delayed_us"]) == (1000 + 3000, 2000, 0)
    assert (first["holder_kind"], first["first_position"], first["last_position"]) == (None, consumed, 8)
    second = found[held, orders]
    assert (second["state"], second["holder_kind"], second["holder_id"]) == (
        "get_unconfirmed",
        "consumer",
        900,
    )
    assert (second["ended_time"], second["outcome"], second["available_us"]) == (None, None, 1000)


def test_ranges_of_one_position_give_the_same_rows(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    orders, dead = maker.queue("orders"), maker.queue("dead")
    both = maker.routing_set(orders, dead)
    for _ in range(3):
        maker.fail(maker.put(both), orders)
    maker.dead_letter(maker.put(orders), orders, dead)
    maker.change(
        maker.put(orders), orders, E.EXPIRE, S.AVAILABLE, S.DELETED, outcome=O.EXPIRED, holder_kind=0
    )
    events = events_of(maker.finish())
    whole = table(ENTRIES, events)
    pieces = cut(events, every_position(events))
    made = [partials(ENTRIES, piece) for piece in pieces]
    assert fold_pairs(ENTRIES, made, lambda count: count // 2).equals(whole)
    assert through_parts(ENTRIES, pieces, 4).equals(whole)
