"""The audit over several ledgers: what left one must have come to another, once; each planted fault shows."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from postroom.ledger.block import Group
from postroom.spark.audit import crossings, steps
from postroom.spark.audit.rules import CROSSING_RULES
from tests.ledger.making import E, H, LedgerMaker, O, S
from tests.spark.conftest import events_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LONDON = UUID("0195f2a0-0000-7000-8000-0000000000a1")
PARIS = UUID("0195f2a0-0000-7000-8000-0000000000b2")
ROME = UUID("0195f2a0-0000-7000-8000-0000000000c3")
BATCH = 77
CHANNEL = 5
FAR = 1 << 40


class Pair:
    """Two queue managers: LONDON sends to PARIS."""

    def __init__(self, folder: Path) -> None:
        self.london = LedgerMaker(folder / "london", LONDON)
        self.paris = LedgerMaker(folder / "paris", PARIS)
        self.transmission = self.london.queue("PARIS")
        self.orders = self.paris.queue("orders")
        self.paris.receiving_channel(CHANNEL, "LONDON.PARIS", LONDON)
        self.sequence = 0

    def put(self, **put: object) -> int:
        return self.london.put(self.transmission, **put)  # type: ignore[arg-type]

    def take(self, serial: int) -> None:
        """Into the batch."""
        self.london.change(
            serial, self.transmission, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED,
            holder_kind=H.CHANNEL_BATCH, holder=BATCH,
        )  # fmt: skip

    def confirm(self, *serials: int) -> None:
        """The batch is confirmed: one decision."""
        ranges = [(serial, serial) for serial in serials]
        group = Group(self.transmission, S.GET_UNCONFIRMED, S.DELETED, O.FORWARDED, 0, 0, 0, ranges)
        self.london.group(E.FORWARD, [group], decision=True, holder_kind=H.CHANNEL_BATCH, holder=BATCH)

    def send_fast(self, serial: int) -> None:
        """Outside the batch."""
        self.london.change(
            serial, self.transmission, E.FORWARD, S.AVAILABLE, S.DELETED,
            holder_kind=H.NONE, holder=0, outcome=O.FORWARDED,
        )  # fmt: skip

    def receive(self, serial: int, **put: object) -> int:
        self.sequence += 1
        came = {"producer": CHANNEL, "parent": (serial, self.sequence), "received": True, **put}
        return self.paris.put(self.orders, **came)  # type: ignore[arg-type]

    def forward(self, serial: int) -> None:
        self.take(serial)
        self.receive(serial)
        self.confirm(serial)

    def entries(self, spark: SparkSession) -> DataFrame:
        both = [events_of(spark, maker.finish()) for maker in (self.london, self.paris)]
        return steps.lives(steps.steps(both[0].unionByName(both[1])))


def looks(spark: SparkSession, *rows: tuple[UUID, int, int]) -> DataFrame:
    """(ledger, first position, first look) each."""
    made = [(str(ledger), first, None, look) for ledger, first, look in rows]
    return spark.createDataFrame(made, crossings.LOOKS)


def crossed(spark: SparkSession, pair: Pair, *elsewhere: str) -> DataFrame:
    both = looks(spark, (LONDON, 1, FAR), (PARIS, 1, FAR))
    return crossings.crossings(pair.entries(spark), both, elsewhere)


def verdicts(table: DataFrame) -> dict[int, str]:
    return {row["origin_serial"]: row["verdict"] for row in table.collect()}


def test_what_was_forwarded_and_received_once_has_arrived(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    serials = [pair.put(message_id=b"m%d" % number) for number in range(3)]
    for serial in serials:
        pair.take(serial)
    for serial in serials:
        pair.receive(serial)
    pair.confirm(*serials)
    waiting = pair.put()
    table = crossed(spark, pair)
    rows: dict[int, Row] = {row["origin_serial"]: row for row in table.collect()}
    assert {serial: row["verdict"] for serial, row in rows.items()} == dict.fromkeys(serials, "arrived")
    assert waiting not in rows
    first = rows[serials[0]]
    assert (first["queue"], first["target_queue"], first["message_id"]) == ("PARIS", "orders", "m0")
    assert (first["origin_ledger_id"], first["target_ledger_id"]) == (str(LONDON), str(PARIS))
    sums = crossings.crossing_sums(table).collect()
    assert [(row["queue"], row["arrived"], row["lost"], row["violations"]) for row in sums] == [
        ("PARIS", 3, 0, 0)
    ]
    assert crossings.crossing_violations(table).count() == 0


def test_what_came_through_a_channel_names_its_origin_and_no_parent(
    spark: SparkSession, tmp_path: Path
) -> None:
    pair = Pair(tmp_path)
    serial = pair.put()
    pair.forward(serial)
    row = next(row for row in pair.entries(spark).collect() if row["queue"] == "orders")
    assert (row["channel"], row["origin_ledger_id"]) == ("LONDON.PARIS", str(LONDON))
    assert row["origin_serial"] == serial
    assert (row["parent_serial"], row["parent_queue_id"]) == (None, None)


def test_a_fast_message_without_arrival_is_named_as_lost(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    came, lost = (pair.put(durable=False, body=None, message_id=name) for name in (b"came", b"lost"))
    for serial in (came, lost):
        pair.send_fast(serial)
    pair.receive(came, durable=False, body=None)
    table = crossed(spark, pair)
    assert verdicts(table) == {came: "arrived", lost: "lost"}
    named = [row["message_id"] for row in table.where("verdict = 'lost'").collect()]
    assert named == ["lost"]
    assert crossings.crossing_violations(table).count() == 0


@pytest.mark.parametrize("received", [False, True])
def test_what_a_batch_holds_is_in_doubt(spark: SparkSession, tmp_path: Path, received: bool) -> None:
    pair = Pair(tmp_path)
    serial = pair.put()
    pair.take(serial)
    if received:
        pair.receive(serial)
    assert verdicts(crossed(spark, pair)) == {serial: "in doubt"}


def test_a_message_that_is_not_persistent_may_arrive_and_be_written_off(
    spark: SparkSession, tmp_path: Path
) -> None:
    pair = Pair(tmp_path)
    serial = pair.put(durable=False, body=None)
    pair.take(serial)
    pair.receive(serial, durable=False, body=None)
    ranges = [(serial, serial)]
    pair.london.group(
        E.RESTART, [Group(pair.transmission, S.GET_UNCONFIRMED, S.DELETED, O.LOST, 0, 0, 0, ranges)]
    )
    assert verdicts(crossed(spark, pair)) == {serial: "written off"}


def test_an_arrival_that_was_rolled_back_has_not_come(spark: SparkSession, tmp_path: Path) -> None:
    """Neither has one whose batch is open; the message comes again, and that counts."""
    pair = Pair(tmp_path)
    held = {"event": E.PUT_HELD, "to_state": S.PUT_UNCONFIRMED, "holder_kind": H.LOCAL_TRANSACTION}
    first, second = pair.put(), pair.put()
    for serial in (first, second):
        pair.take(serial)
        back = pair.receive(serial, holder=9, **held)
        if serial == first:
            pair.paris.change(
                back, pair.orders, E.UNDO, S.PUT_UNCONFIRMED, S.DELETED,
                holder_kind=H.LOCAL_TRANSACTION, holder=9, outcome=O.ROLLED_BACK,
            )  # fmt: skip
            pair.receive(serial)
            pair.confirm(serial)
    assert verdicts(crossed(spark, pair)) == {first: "arrived", second: "in doubt"}


def _missing(pair: Pair, serial: int) -> None:
    pair.take(serial)
    pair.confirm(serial)


def _twice(pair: Pair, serial: int) -> None:
    pair.forward(serial)
    pair.receive(serial)


def _twice_as_something_else(pair: Pair, serial: int) -> None:
    """As a dead letter beside the message itself."""
    pair.forward(serial)
    pair.orders, orders = pair.paris.queue(f"dead {serial}"), pair.orders
    pair.receive(serial)
    pair.orders = orders


def _backed_out_though_received(pair: Pair, serial: int) -> None:
    pair.take(serial)
    pair.receive(serial)
    pair.london.change(
        serial, pair.transmission, E.UNDO, S.GET_UNCONFIRMED, S.AVAILABLE,
        holder_kind=H.CHANNEL_BATCH, holder=BATCH,
    )  # fmt: skip


def _consumed_though_received(pair: Pair, serial: int) -> None:
    pair.receive(serial)
    pair.london.consume(serial, pair.transmission)


def _never_sent(pair: Pair, serial: int) -> None:
    pair.receive(serial)


def _of_nobody(pair: Pair, serial: int) -> None:
    """A serial that no message has."""
    pair.receive(serial + 1)
    pair.london.queue(f"beside {serial}")


FAULTS: dict[str, tuple[Callable[[Pair, int], None], str]] = {
    "missing": (_missing, "missing arrival"),
    "twice": (_twice, "received twice"),
    "twice, once as a dead letter": (_twice_as_something_else, "received twice"),
    "backed out though received": (_backed_out_though_received, "arrival without forward"),
    "consumed though received": (_consumed_though_received, "arrival without forward"),
    "never sent": (_never_sent, "arrival without forward"),
    "of nobody": (_of_nobody, "arrival without forward"),
}


def test_each_planted_fault_is_found_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    expected = {}
    for name, (plant, rule) in FAULTS.items():
        serial = pair.put()
        plant(pair, serial)
        expected[serial + (name == "of nobody")] = rule
        pair.forward(pair.put())
    broken = crossings.crossing_violations(crossed(spark, pair)).collect()
    assert {row["serial"]: row["rule"] for row in broken} == expected
    assert len(broken) == len(expected)
    assert set(expected.values()) == set(CROSSING_RULES)


def test_only_what_the_first_looks_saw_is_judged(spark: SparkSession, tmp_path: Path) -> None:
    """Both sides run on: what left after the sender's first look may not have come, what came after the
    receiver's first look may not be known to have left."""
    pair = Pair(tmp_path)
    left = pair.put()
    pair.take(left)
    came = pair.put()
    look_london, look_paris = pair.london.builder.next_position - 1, pair.paris.builder.next_position - 1
    pair.confirm(left)
    pair.receive(came)
    both = looks(spark, (LONDON, 1, look_london), (PARIS, 1, look_paris))
    assert verdicts(crossings.crossings(pair.entries(spark), both)) == {left: "under way", came: "under way"}


def test_partners_that_are_not_audited_are_said_to_be_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    serial = pair.put()
    pair.take(serial)
    pair.confirm(serial)
    pair.paris.receiving_channel(9, "ROME.PARIS", ROME)
    pair.receive(1234, producer=9)
    table = crossed(spark, pair, "PARIS")
    assert verdicts(table) == {serial: "elsewhere", 1234: "elsewhere"}


def test_dropped_history_is_no_violation(spark: SparkSession, tmp_path: Path) -> None:
    """Of the receiver: what left before its history began. Of the sender: what is older than its own."""
    pair = Pair(tmp_path)
    gone, old = pair.put(), pair.put()
    pair.forward(gone)
    pair.forward(old)
    entries = pair.entries(spark).cache()
    first_of_paris = entries.where("queue = 'orders'").agg({"arrival_time": "max"}).collect()[0][0]
    made = [(str(LONDON), 1, None, FAR), (str(PARIS), 40, first_of_paris, FAR)]
    blind = spark.createDataFrame(made, crossings.LOOKS)
    without = entries.where(f"ledger_id = '{LONDON}'")
    found = verdicts(crossings.crossings(without, blind))
    assert found[gone] == "older than history"
    both = looks(spark, (LONDON, old, FAR), (PARIS, 1, FAR))
    without = entries.where(f"ledger_id = '{PARIS}' or serial >= {old}")
    assert verdicts(crossings.crossings(without, both)) == {gone: "older than history", old: "arrived"}
