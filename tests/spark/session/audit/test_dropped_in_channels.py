"""Whatever a channel drops, doubles or makes up is found: every damage of every message that crossed between
simulated queue managers, with cut lines and crashes behind them.

All damaged copies are judged at once: a run of Spark costs more than a ledger.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from postroom.spark.audit import crossings
from postroom.spark.audit.ledgers import inspect_ledgers
from postroom.spark.audit.rules import CROSSING_RULES
from postroom.spark.audit.walk.columns import EVENT_COLUMNS
from postroom.spark.audit.walk.packing import of_rows
from postroom.spark.audit.walk.walk import walk
from tests.simulation.channels.runs import FAULTS, PAIRS, run_seed, run_with_fault
from tests.spark.lived_ledgers import written
from tests.spark.session.audit.audits import batches_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FAULT_STEP: Final = 60
TRIANGLE: Final = 1
"""Seed of three queue managers with everything at random."""
FAR: Final = 1 << 40
COLUMNS: Final = [name for name in EVENT_COLUMNS if name not in ("ledger_id", "origin_ledger_id")]


@dataclass(frozen=True)
class Crossing:
    """A message that crossed, as the undamaged ledgers have it."""

    origin: str
    serial: int
    target: str
    arrived_serial: int
    persistent: bool


Damage = Callable[[pa.Table, Crossing], pa.Table]


def _is(events: pa.Table, ledger: str, serial: int) -> pa.Array:
    return pc.and_(pc.equal(events["ledger_id"], ledger), pc.equal(events["serial"], serial))


def _without_arrival(events: pa.Table, message: Crossing) -> pa.Table:
    return events.filter(pc.invert(_is(events, message.target, message.arrived_serial)))


def _arrived_again(events: pa.Table, message: Crossing) -> pa.Table:
    came = events.filter(_is(events, message.target, message.arrived_serial))
    again = came.set_column(
        came.column_names.index("serial"), "serial", pa.array([FAR] * len(came), came["serial"].type)
    )
    return pa.concat_tables([events, again])


def _without_message(events: pa.Table, message: Crossing) -> pa.Table:
    return events.filter(pc.invert(_is(events, message.origin, message.serial)))


def _consumed_instead(events: pa.Table, message: Crossing) -> pa.Table:
    """The sender's ledger says that somebody has consumed what the receiver got."""
    forwarded = pc.fill_null(pc.equal(events["outcome"], "forwarded"), False)
    which = pc.and_(_is(events, message.origin, message.serial), forwarded)
    outcomes = pc.if_else(which, "consumed", events["outcome"])
    return events.set_column(events.column_names.index("outcome"), "outcome", outcomes)


DAMAGES: Final[dict[str, tuple[Damage, str, str]]] = {
    "the arrival left out": (_without_arrival, "missing arrival", "lost"),
    "arrived once more": (_arrived_again, "received twice", "received twice"),
    "the sender's message left out": (_without_message, "arrival without forward", "arrival without forward"),
    "consumed at the sender": (_consumed_instead, "arrival without forward", "arrival without forward"),
}
"""What is done, and the verdict on a persistent message and on another."""

Verdicts = dict[str, dict[tuple[str, int], str]]
"""Verdicts of each copy."""


@dataclass
class Judged:
    """Every copy of every world: what was expected of the damaged message, and the verdicts of all."""

    expected: dict[str, tuple[tuple[str, int], str]]
    verdicts: Verdicts


def _worlds(folder: Path) -> Iterator[pa.Table]:
    """The events of all queue managers of each world."""
    disks = [
        {name: node.disk for name, node in world.nodes.items()}
        for world in (
            run_with_fault(PAIRS["batches of three"](), 1, FAULT_STEP, FAULTS["crash of both"]),
            run_with_fault(PAIRS["normal speed"](), 1, FAULT_STEP, FAULTS["crash of both"]),
            run_seed(TRIANGLE),
        )
    ]
    for number, world in enumerate(disks):
        (folder / str(number)).mkdir()
        ledgers = inspect_ledgers(
            [str(written(disk, folder / str(number) / name)) for name, disk in world.items()]
        )
        events = pa.Table.from_batches([batch for one in ledgers for batch in batches_of(one)])
        yield events.select(["ledger_id", "origin_ledger_id", *COLUMNS])


def _crossed(events: pa.Table) -> list[Crossing]:
    """Messages that were forwarded, and arrived; not those that went on from there: what is done to one
    would be done to two."""
    came = events.filter(pc.is_valid(events["origin_serial"])).to_pylist()
    forwarded = {
        (row["ledger_id"], row["serial"])
        for row in events.filter(pc.equal(events["outcome"], "forwarded")).to_pylist()
    }
    found = {
        (row["origin_ledger_id"], row["origin_serial"]): Crossing(
            row["origin_ledger_id"], row["origin_serial"], row["ledger_id"], row["serial"], row["stored"]
        )
        for row in came
    }
    arrived = {(one.target, one.arrived_serial) for one in found.values()}
    once = [found[key] for key in sorted(found) if key in forwarded - arrived]
    return [one for one in once if (one.target, one.arrived_serial) not in forwarded]


def _copy(events: pa.Table, name: str) -> pa.Table:
    """With ledgers of its own."""
    for column in ("ledger_id", "origin_ledger_id"):
        named = pc.binary_join_element_wise(events[column], name, " ")
        events = events.set_column(events.column_names.index(column), column, named)
    return events


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    folder = tmp_path_factory.mktemp("worlds")
    copies: list[pa.Table] = []
    expected: dict[str, tuple[tuple[str, int], str]] = {}
    for number, events in enumerate(_worlds(folder)):
        copies.append(_copy(events, f"{number}|undamaged|"))
        for message in _crossed(events):
            for what, (damage, persistent, other) in DAMAGES.items():
                name = f"{number}|{what}|{message.origin} {message.serial}"
                copies.append(_copy(damage(events, message), name))
                key = (f"{message.origin} {name}", message.serial)
                expected[name] = (key, persistent if message.persistent else other)
    path = folder / "events.parquet"
    pq.write_table(pa.concat_tables(copies), path, coerce_timestamps="us")
    coverage = [(id, 1, None, FAR) for copy in copies for id in pc.unique(copy["ledger_id"]).to_pylist()]
    table = crossings.crossings(
        walk(of_rows(spark.read.parquet(str(path)))).lives(),
        spark.createDataFrame(coverage, crossings.COVERAGE),
    )
    verdicts: Verdicts = {}
    for row in table.collect():
        name = row["origin_ledger_id"].partition(" ")[2]
        verdicts.setdefault(name, {})[row["origin_ledger_id"], row["origin_serial"]] = row["verdict"]
    return Judged(expected, verdicts)


def test_what_a_channel_drops_or_doubles_is_told(judged: Judged) -> None:
    found = {name: judged.verdicts[name].get(key) for name, (key, _) in judged.expected.items()}
    assert found == {name: verdict for name, (_, verdict) in judged.expected.items()}
    assert {verdict for _, verdict in judged.expected.values()} > {"missing arrival", "lost"}


def test_nothing_else_is_told(judged: Judged) -> None:
    """Of the other messages of a damaged copy, and of copies that aren't damaged."""
    others = {
        (name, key): verdict
        for name, verdicts in judged.verdicts.items()
        for key, verdict in verdicts.items()
        if verdict in CROSSING_RULES and judged.expected.get(name, ("", ""))[0] != key
    }
    assert others == {}
    undamaged = [verdicts for name, verdicts in judged.verdicts.items() if "undamaged" in name]
    assert len(undamaged) == 3
    assert all("arrived" in verdicts.values() for verdicts in undamaged)
