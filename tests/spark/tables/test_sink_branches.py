"""The tables of a ledger with a Spark job that writes: batches with several winners, losers, runs, a restart,
the end of a lease."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from postroom.spark.tables import DEFINITIONS
from tests.spark.event_ranges import cut, events_of, every_position, table, through_parts
from tests.spark.lived_ledgers import BROKERS

TRANSACTIONS, ENTRIES = DEFINITIONS["transactions"], DEFINITIONS["entries"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("batches")
    BROKERS["batches"]().check_whole(made)
    return made


def test_each_branch_is_a_transaction(folder: Path) -> None:
    rows = table(TRANSACTIONS, events_of(folder)).to_pylist()
    branches = {row["holder"]: row for row in rows if row["holder_kind"] == "spark_branch"}
    decided = Counter((row["decision"], row["puts"], row["puts_decided"]) for row in branches.values())
    assert decided == {
        ("confirm", 2, 2): 9,
        ("undo", 1, 1): 5,
        ("confirm", 1, 1): 1,
        (None, 1, 0): 1,
    }
    assert all(name.endswith("@app") for name in branches)


def test_the_winners_of_a_batch_are_decided_at_one_moment(folder: Path) -> None:
    rows = table(TRANSACTIONS, events_of(folder)).to_pylist()
    moments: dict[str, set[Any]] = {}
    for row in rows:
        if row["holder_kind"] == "spark_branch" and row["decision"] == "confirm":
            moments.setdefault(row["holder"].split("-")[0], set()).add(row["decided_time"])
    assert sorted(moments) == ["0", "1", "2", "3"]
    assert all(len(each) == 1 for each in moments.values())


def test_entries_say_which_branch_holds_them(folder: Path) -> None:
    rows = table(ENTRIES, events_of(folder)).to_pylist()
    states = Counter((row["state"], row["outcome"], row["holder_kind"]) for row in rows)
    assert states == {
        ("available", None, None): 19,
        ("deleted", "rolled_back", None): 5,
        ("put_unconfirmed", None, "spark_branch"): 1,
    }


def test_ranges_of_one_position_give_the_same_rows(folder: Path) -> None:
    events = events_of(folder)
    for definition in (TRANSACTIONS, ENTRIES):
        pieces = cut(events, every_position(events))
        assert through_parts(definition, pieces, 4).equals(table(definition, events))
