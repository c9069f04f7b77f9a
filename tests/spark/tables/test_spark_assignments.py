"""The tables of a ledger with Spark subscriptions: each message that one was given is a delivery to it."""

from collections import Counter
from pathlib import Path

import pytest

from postroom.spark.tables import DEFINITIONS
from tests.spark.event_ranges import cut, events_of, every_position, table, through_parts
from tests.spark.lived_ledgers import BROKERS

ENTRIES, DELIVERIES, TRANSACTIONS = (DEFINITIONS[name] for name in ("entries", "deliveries", "transactions"))

ENDS = {
    ("quick", "confirm", "consumed"): 38,
    ("quick", "release", None): 4,
    ("slow", "release", None): 13,
    ("slow", "restart", "lost"): 4,
}
STATES = {
    ("available", None, None): 4,
    ("deleted", "consumed", None): 39,
    ("deleted", "lost", None): 4,
    ("get_unconfirmed", None, "consumer"): 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("assignments")
    BROKERS["assignments"]().check_whole(made)
    return made


def test_every_assignment_is_a_delivery_to_the_subscription(folder: Path) -> None:
    rows = table(DELIVERIES, events_of(folder)).to_pylist()
    ends = Counter((row["holder"], row["ended_event"], row["outcome"]) for row in rows if row["holder"])
    assert ends == ENDS
    first, *_ = (row for row in rows if row["holder"] == "slow" and row["ended_event"] == "release")
    assert (first["began_event"], first["holder_kind"], first["delivery_delta"]) == (
        "acquire",
        "spark_subscription",
        0,
    )


def test_entries_that_came_back_have_been_delivered_to_nobody(folder: Path) -> None:
    rows = table(ENTRIES, events_of(folder)).to_pylist()
    states = Counter((row["state"], row["outcome"], row["holder_kind"]) for row in rows)
    assert states == STATES
    assert all(row["delivery_count"] == 0 for row in rows)


def test_no_subscription_is_a_transaction(folder: Path) -> None:
    rows = table(TRANSACTIONS, events_of(folder)).to_pylist()
    assert "spark_subscription" not in {row["holder_kind"] for row in rows}


def test_ranges_of_one_position_give_the_same_rows(folder: Path) -> None:
    events = events_of(folder)
    for definition in (DELIVERIES, ENTRIES):
        pieces = cut(events, every_position(events))
        assert through_parts(definition, pieces, 4).equals(table(definition, events))
