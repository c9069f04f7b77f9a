"""The audit over several ledgers: what left one must have come to another, once; each planted fault shows.

All pairs of queue managers are judged at once: a run of Spark costs more than a ledger.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from postroom.ledger.format.block import Group
from postroom.spark.audit import crossings
from postroom.spark.audit.ledgers import inspect_ledgers
from postroom.spark.audit.rules import CROSSING_RULES, CROSSING_VERDICTS
from postroom.spark.audit.walk.packing import of_rows
from postroom.spark.audit.walk.walk import walk
from tests.ledger.ledger_maker import E, H, LedgerMaker, O, S
from tests.spark.session.audit.audits import events_in_one

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROME = UUID("0195f2a0-0000-7000-8000-0000000000c3")
BATCH = 77
FAST = 55
CHANNEL = 5
FAR = 1 << 40


class Pair:
    """Two queue managers: LONDON sends to PARIS. Each pair has ledgers of its own."""

    def __init__(self, folder: Path, number: int) -> None:
        self.ids = [UUID(int=(0xA1 << 120) + 2 * number + end) for end in (0, 1)]
        folder.mkdir()
        self.london = LedgerMaker(folder / "london", self.ids[0])
        self.paris = LedgerMaker(folder / "paris", self.ids[1])
        self.transmission = self.london.queue("PARIS")
        self.orders = self.paris.queue("orders")
        self.paris.receiving_channel(CHANNEL, "LONDON.PARIS", self.ids[0])
        self.sequence = 0
        self.coverage = [FAR, FAR]
        """First snapshots: up to which position."""

    def snapshot(self) -> None:
        """The first snapshot is now."""
        self.coverage = [maker.builder.next_position - 1 for maker in (self.london, self.paris)]

    def folders(self) -> list[Path]:
        return [maker.finish() for maker in (self.london, self.paris)]

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
        """Outside the batch, to be forgotten when the answer has come."""
        self.take_fast(serial)
        self.london.change(
            serial, self.transmission, E.FORWARD, S.GET_UNCONFIRMED, S.DELETED,
            holder_kind=H.CONSUMER, holder=FAST, outcome=O.FORWARDED,
        )  # fmt: skip

    def take_fast(self, serial: int) -> None:
        self.london.change(
            serial, self.transmission, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED,
            holder_kind=H.CONSUMER, holder=FAST,
        )  # fmt: skip

    def receive(self, serial: int, **put: object) -> int:
        self.sequence += 1
        came = {"producer": CHANNEL, "parent": (serial, self.sequence), "received": True, **put}
        return self.paris.put(self.orders, **came)  # type: ignore[arg-type]

    def forward(self, serial: int) -> None:
        self.take(serial)
        self.receive(serial)
        self.confirm(serial)


Expected = dict[int, str]
"""Verdicts by the sender's serial."""


def _batch(pair: Pair) -> Expected:
    serials = [pair.put(message_id=b"m%d" % number) for number in range(3)]
    for serial in serials:
        pair.take(serial)
    for serial in serials:
        pair.receive(serial)
    pair.confirm(*serials)
    pair.put()  # waits
    return dict.fromkeys(serials, "arrived")


def _fast(pair: Pair) -> Expected:
    came, lost = (pair.put(durable=False, body=None, message_id=name) for name in (b"came", b"lost"))
    for serial in (came, lost):
        pair.send_fast(serial)
    pair.receive(came, durable=False, body=None)
    return {came: "arrived", lost: "lost"}


def _fast_without_an_answer(pair: Pair) -> Expected:
    came, waits = (pair.put(durable=False, body=None) for _ in range(2))
    for serial in (came, waits):
        pair.take_fast(serial)
    pair.receive(came, durable=False, body=None)
    return {came: "in doubt"}


def _in_doubt(pair: Pair) -> Expected:
    received, not_received = pair.put(), pair.put()
    for serial in (received, not_received):
        pair.take(serial)
    pair.receive(received)
    return dict.fromkeys((received, not_received), "in doubt")


def _written_off(pair: Pair) -> Expected:
    """Not persistent: received, and lost on the sender's side before it knew."""
    serial = pair.put(durable=False, body=None)
    pair.take(serial)
    pair.receive(serial, durable=False, body=None)
    ranges = [(serial, serial)]
    pair.london.group(
        E.RESTART, [Group(pair.transmission, S.GET_UNCONFIRMED, S.DELETED, O.LOST, 0, 0, 0, ranges)]
    )
    return {serial: "written off"}


def _rolled_back(pair: Pair) -> Expected:
    """An arrival that was rolled back has not come, nor has one whose batch is open; the message comes
    again, and that counts."""
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
    return {first: "arrived", second: "in doubt"}


def _under_way(pair: Pair) -> Expected:
    """What left after the sender's first look may not have come, what came after the receiver's first look
    may not be known to have left."""
    left = pair.put()
    pair.take(left)
    came = pair.put()
    pair.snapshot()
    pair.confirm(left)
    pair.receive(came)
    return dict.fromkeys((left, came), "under way")


def _elsewhere(pair: Pair) -> Expected:
    """Partners that are not audited: one is named, another is known by what comes from it."""
    pair.transmission = pair.london.queue("FAR AWAY")
    serial = pair.put()
    pair.take(serial)
    pair.confirm(serial)
    pair.paris.receiving_channel(9, "ROME.PARIS", ROME)
    pair.receive(1234, producer=9)
    return {serial: "elsewhere", 1234: "elsewhere"}


def _twice_from_elsewhere(pair: Pair) -> Expected:
    """Nothing of a partner who isn't audited may come twice."""
    pair.paris.receiving_channel(9, "ROME.PARIS", ROME)
    for _ in range(2):
        pair.receive(4321, producer=9)
    return {4321: "received twice"}


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


def _faults(pair: Pair) -> Expected:
    expected = {}
    for name, (plant, rule) in FAULTS.items():
        serial = pair.put()
        plant(pair, serial)
        expected[serial + (name == "of nobody")] = rule
        right = pair.put()
        pair.forward(right)
        expected[right] = "arrived"
    return expected


SCENES: dict[str, Callable[[Pair], Expected]] = {
    "batch": _batch,
    "fast": _fast,
    "fast, without an answer": _fast_without_an_answer,
    "in doubt": _in_doubt,
    "written off": _written_off,
    "rolled back": _rolled_back,
    "under way": _under_way,
    "elsewhere": _elsewhere,
    "twice from elsewhere": _twice_from_elsewhere,
    "faults": _faults,
}


@dataclass
class Crossed:
    """All scenes at once."""

    expected: dict[str, Expected]
    pairs: dict[str, Pair]
    entries: DataFrame
    rows: list[Row]
    sums: list[Row]
    violations: list[Row]

    def of(self, scene: str) -> list[Row]:
        ids = {str(one) for one in (*self.pairs[scene].ids, *([ROME] if "elsewhere" in scene else []))}
        return [
            row
            for row in self.rows
            if row["origin_ledger_id"] in ids and {row["target_ledger_id"], row["origin_ledger_id"]} & ids
        ]


@pytest.fixture(scope="module")
def crossed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crossed]:
    folder = tmp_path_factory.mktemp("pairs")
    pairs = {name: Pair(folder / name, number) for number, name in enumerate(SCENES)}
    expected = {name: SCENES[name](pair) for name, pair in pairs.items()}
    ledgers = inspect_ledgers([str(one) for pair in pairs.values() for one in pair.folders()])
    coverage = [
        (str(id), 1, None, position)
        for pair in pairs.values()
        for id, position in zip(pair.ids, pair.coverage, strict=True)
    ]
    with events_in_one(spark, ledgers) as events:
        entries = walk(of_rows(events)).lives().persist()
        table = crossings.crossings(
            entries, spark.createDataFrame(coverage, crossings.COVERAGE), ["FAR AWAY"]
        ).persist()
        yield Crossed(
            expected,
            pairs,
            entries,
            table.collect(),
            crossings.crossing_sums(table).collect(),
            crossings.crossing_violations(table).collect(),
        )


@pytest.mark.parametrize("scene", SCENES)
def test_every_message_that_crosses_has_its_verdict(crossed: Crossed, scene: str) -> None:
    wanted = crossed.expected[scene]
    found = {row["origin_serial"]: row["verdict"] for row in crossed.of(scene)}
    assert {serial: found.get(serial) for serial in wanted} == wanted
    assert scene.endswith("elsewhere") or found == wanted


def test_a_crossing_names_both_sides(crossed: Crossed) -> None:
    first = min(crossed.of("batch"), key=lambda row: row["origin_serial"])
    london, paris = map(str, crossed.pairs["batch"].ids)
    assert (first["queue"], first["target_queue"], first["message_id"]) == ("PARIS", "orders", "m0")
    assert (first["origin_ledger_id"], first["target_ledger_id"]) == (london, paris)
    lost = [row["message_id"] for row in crossed.of("fast") if row["verdict"] == "lost"]
    assert lost == ["lost"]


def test_crossings_are_summed_by_sender_and_receiver(crossed: Crossed) -> None:
    london, paris = map(str, crossed.pairs["batch"].ids)
    (sums,) = (row for row in crossed.sums if row["ledger_id"] == london)
    assert (sums["queue"], sums["to_ledger_id"]) == ("PARIS", paris)
    assert (sums["arrived"], sums["lost"], sums["violations"]) == (3, 0, 0)


def test_only_what_breaks_a_rule_is_a_violation(crossed: Crossed) -> None:
    broken = {
        serial: verdict
        for expected in crossed.expected.values()
        for serial, verdict in expected.items()
        if verdict in CROSSING_RULES
    }
    assert {row["serial"]: row["rule"] for row in crossed.violations} == broken
    assert set(broken.values()) == set(CROSSING_RULES)
    fields = {row["verdict"] for row in crossed.rows}
    assert fields == {*CROSSING_RULES, *CROSSING_VERDICTS} - {"older than history"}


def test_what_came_through_a_channel_names_its_origin_and_no_parent(crossed: Crossed) -> None:
    london, paris = map(str, crossed.pairs["batch"].ids)
    row: Any = crossed.entries.where(f"ledger_id = '{paris}'").orderBy("serial").first()
    assert (row["channel"], row["origin_ledger_id"]) == ("LONDON.PARIS", london)
    assert row["origin_serial"] in crossed.expected["batch"]
    assert (row["parent_serial"], row["parent_queue_id"]) == (None, None)


def test_dropped_history_is_no_violation(spark: SparkSession, crossed: Crossed) -> None:
    """Of the receiver: what left before its history began. Of the sender: what is older than its own."""
    london, paris = map(str, crossed.pairs["batch"].ids)
    gone, old, _ = sorted(crossed.expected["batch"])
    first_of_paris = (
        crossed.entries.where(f"ledger_id = '{paris}'").agg({"arrival_time": "max"}).collect()[0][0]
    )
    blind = spark.createDataFrame(
        [(london, 1, None, FAR), (paris, 40, first_of_paris, FAR)], crossings.COVERAGE
    )
    of_london = crossed.entries.where(f"ledger_id = '{london}'")
    found = {row["origin_serial"]: row["verdict"] for row in crossings.crossings(of_london, blind).collect()}
    assert found[gone] == "older than history"
    later = spark.createDataFrame([(london, old, None, FAR), (paris, 1, None, FAR)], crossings.COVERAGE)
    rest = crossed.entries.where(f"ledger_id = '{paris}' or (ledger_id = '{london}' and serial >= {old})")
    found = {row["origin_serial"]: row["verdict"] for row in crossings.crossings(rest, later).collect()}
    assert (found[gone], found[old]) == ("older than history", "arrived")
