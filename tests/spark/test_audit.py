"""The entries table and the audit: a clean ledger gives no violation, each planted fault gives its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from postroom.ledger.block import Group
from postroom.spark import audit, frames
from postroom.spark.relation import legal_rows, legal_transitions
from tests.ledger.making import E, H, LedgerMaker, O, S
from tests.spark.conftest import events_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def _clean(maker: LedgerMaker) -> None:
    """Something of every kind, without a fault."""
    orders, dead, archive = maker.queue("orders"), maker.queue("orders.dead"), maker.queue("archive")
    maker.producer(3, "shop")
    for number in range(10):
        maker.consume(maker.put(orders, message_id=b"m%d" % number, producer=3), orders)
    back = maker.put(orders)
    maker.fail(back, orders)
    maker.fail(back, orders)
    maker.commit()
    maker.dead_letter(back, orders, dead)
    expired = maker.put(orders)
    maker.change(
        expired, orders, E.EXPIRE, S.AVAILABLE, S.DELETED, holder_kind=H.NONE, holder=0, outcome=O.EXPIRED
    )
    maker.next_file()
    held = maker.put(archive)
    maker.acquire(held, archive)
    both = maker.put(maker.routing_set(orders, archive))
    maker.consume(both, archive)
    tentative = [
        maker.put(
            archive, event=E.PUT_HELD, to_state=S.PUT_UNCONFIRMED, holder_kind=H.LOCAL_TRANSACTION, holder=9
        )
    ]
    tentative.append(
        maker.put(
            archive, event=E.PUT_HELD, to_state=S.PUT_UNCONFIRMED, holder_kind=H.LOCAL_TRANSACTION, holder=9
        )
    )
    ranges = [(tentative[0], tentative[1])]
    done = Group(archive, S.PUT_UNCONFIRMED, S.AVAILABLE, O.NONE, 0, 0, 0, ranges)
    maker.group(E.CONFIRM, [done], decision=True, holder_kind=H.LOCAL_TRANSACTION, holder=9)
    fleeting = maker.put(archive, durable=False, body=None)
    maker.next_file(new_epoch=True)
    lost = Group(archive, S.AVAILABLE, S.DELETED, O.LOST, 0, 0, 0, [(fleeting, fleeting)])
    maker.group(E.RESTART, [lost])
    maker.change(held, archive, E.RESTART, S.GET_UNCONFIRMED, S.AVAILABLE, delivery_delta=1)
    purged = Group(archive, S.AVAILABLE, S.DELETED, O.PURGED, 0, 0, 0, ranges)
    maker.group(E.PURGE, [purged])
    _returned(maker, maker.queue("$undelivered"), maker.put(maker.queue("replies"), adverse=True))


def _returned(maker: LedgerMaker, queue: int, report: int) -> None:
    maker.change(
        maker.put(queue), queue, E.RETURN_TO_SENDER, S.AVAILABLE, S.DELETED,
        holder_kind=H.NONE, holder=0, outcome=O.RETURNED_TO_SENDER, detail={"report": report},
    )  # fmt: skip


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    maker = LedgerMaker(tmp_path_factory.mktemp("clean"))
    _clean(maker)
    return events_of(spark, maker.finish()).cache()


def _audit(spark: SparkSession, events: DataFrame, first_position: int) -> tuple[list[Row], list[Row]]:
    """(violations, conservation)."""
    entries = frames.entries(events).persist()
    sums = audit.conservation(events, entries, first_position).persist()
    found = audit.violations(events, entries, sums, legal_transitions(spark), first_position)
    return found.collect(), sums.collect()


def test_a_clean_ledger_has_no_violation_and_balances(spark: SparkSession, clean: DataFrame) -> None:
    found, conservation = _audit(spark, clean, 1)
    assert found == []
    sums = {row["queue"]: row for row in conservation}
    orders, archive = sums["orders"], sums["archive"]
    assert (orders["arrivals"], orders["held"], orders["consumed"]) == (13, 1, 10)
    assert (orders["dead_lettered"], orders["expired"], orders["difference"]) == (1, 1, 0)
    assert orders["verdict"] == sums["orders.dead"]["verdict"] == "balanced"
    assert (archive["arrivals"], archive["consumed"], archive["purged"], archive["lost"]) == (5, 1, 2, 1)
    assert archive["verdict"] == "balanced; 1 not persistent, lost at a crash"


def test_entries_tell_what_became_of_each_message(clean: DataFrame) -> None:
    rows = {(row["serial"], row["queue"]): row for row in frames.entries(clean).collect()}
    first = min(rows)
    consumed = rows[first]
    assert (consumed["message_id"], consumed["state"], consumed["outcome"]) == ("m0", "deleted", "consumed")
    assert (consumed["producer"], consumed["event_count"], consumed["ended_time"]) == (
        "app/shop",
        3,
        consumed["last_event_time"],
    )
    dead = next(row for key, row in rows.items() if key[1] == "orders.dead")
    parent = rows[dead["parent_serial"], "orders"]
    assert (parent["outcome"], parent["delivery_count"], parent["failure_count"]) == ("dead_lettered", 2, 2)
    held = next(row for row in rows.values() if row["last_event"] == "restart" and row["outcome"] is None)
    assert (held["state"], held["holder_kind"], held["delivery_count"]) == ("available", None, 1)


def test_entries_do_not_depend_on_partitions(clean: DataFrame) -> None:
    key = ["serial", "queue_id"]
    expected = frames.entries(clean).orderBy(key).collect()
    assert frames.entries(clean.repartition(7, "position")).orderBy(key).collect() == expected


def _duplicated_event(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.acquire(serial, queue)
    maker.acquire(serial, queue)


def _confirmed_twice(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.consume(serial, queue)
    maker.confirm(serial, queue)


def _missing_transition(maker: LedgerMaker, queue: int) -> None:
    maker.confirm(maker.put(queue), queue)


def _lost_arrival(maker: LedgerMaker, queue: int) -> None:
    other = maker.put(maker.queue(f"beside {queue}"))
    maker.consume(other, queue)


def _illegal_transition(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.change(serial, queue, E.CONFIRM, S.AVAILABLE, S.DELETED, outcome=O.CONSUMED)


def _wrong_holder(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.change(serial, queue, E.LOCK, S.AVAILABLE, S.LOCKED_FOR_BROWSE, holder_kind=H.CONSUMER)


def _missing_child(maker: LedgerMaker, queue: int) -> None:
    maker.dead_letter(maker.put(queue), queue, queue, children=0)


def _second_child(maker: LedgerMaker, queue: int) -> None:
    maker.dead_letter(maker.put(queue), queue, queue, children=2)


def _child_without_move(maker: LedgerMaker, queue: int) -> None:
    parent = maker.put(queue)
    maker.put(queue, event=E.DEAD_LETTER, parent=(parent, queue))


def _stored_message_lost(maker: LedgerMaker, queue: int) -> None:
    serial = maker.put(queue)
    maker.group(E.RESTART, [Group(queue, S.AVAILABLE, S.DELETED, O.LOST, 0, 0, 0, [(serial, serial)])])


def _missing_report(maker: LedgerMaker, queue: int) -> None:
    """Returned, with a report that is none."""
    _returned(maker, queue, 1)


FAULTS: dict[str, tuple[Callable[[LedgerMaker, int], None], set[str]]] = {
    "duplicated event": (_duplicated_event, {"broken sequence"}),
    "confirmed twice": (_confirmed_twice, {"event after end", "unbalanced queue"}),
    "missing transition": (_missing_transition, {"broken sequence"}),
    "lost arrival": (_lost_arrival, {"lost arrival", "unbalanced queue"}),
    "illegal transition": (_illegal_transition, {"illegal transition"}),
    "wrong holder": (_wrong_holder, {"illegal transition"}),
    "missing child": (_missing_child, {"missing child"}),
    "second child": (_second_child, {"second child"}),
    "child without move": (_child_without_move, {"child without move"}),
    "missing report": (_missing_report, {"missing report"}),
    "stored message lost": (_stored_message_lost, {"stored message lost"}),
}
"""A queue for each fault, and the rules that the audit must find broken there."""


def test_each_planted_fault_is_found_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path)
    for name, (plant, _) in FAULTS.items():
        plant(maker, maker.queue(name))
    events = events_of(spark, maker.finish()).cache()
    found, _ = _audit(spark, events, 1)
    rules: dict[str, set[str]] = {}
    for row in found:
        rules.setdefault(row["queue"], set()).add(row["rule"])
    assert rules == {name: expected for name, (_, expected) in FAULTS.items()}
    assert {row["rule"] for row in found} <= set(audit.RULES)


def test_entries_older_than_the_history_are_no_violation(spark: SparkSession, clean: DataFrame) -> None:
    later = clean.where("position > 30")
    found, conservation = _audit(spark, later, 31)
    assert found == []
    verdicts = {row["verdict"] for row in conservation}
    assert "balanced; what is older than the history was not seen arriving" in verdicts


def test_the_relation_is_the_brokers_own_table() -> None:
    legal = set(legal_rows())
    assert ("get_unconfirmed", "deleted", "consumer", "confirm", "consumed") in legal
    assert ("get_unconfirmed", "get_unconfirmed", "consumer", "expire", None) in legal  # noted
    assert ("available", "deleted", None, "confirm", "consumed") not in legal
    assert not any(row[0] == "deleted" for row in legal)


def test_the_entries_table_has_the_columns_that_are_declared(clean: DataFrame) -> None:
    assert frames.entries(clean).columns == list(frames.ENTRY_COMMENTS)
