"""Which ranges a query that consumes is given, what it registers and confirms, and when it must stop."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from postroom.spark.consume.errors import (
    CheckpointReplaced,
    LedgerBehind,
    OffsetsUnreadable,
    SubscriptionEnded,
    TableBehind,
    WindowFull,
)
from postroom.spark.consume.offsets import offset_of
from postroom.spark.consume.options import read_consume_options
from postroom.spark.consume.table import epoch_mark
from postroom.spark.data_source.errors import SourceOptionError
from postroom.spark.ledger_source.positions import LedgerDiverged, Position
from tests.spark.consume.played_subscription import (
    EPOCH_ID,
    LEDGER,
    NAME,
    Played,
    Query,
    positions,
    record_position,
)

OTHER_ID = UUID("0195f2a0-0000-7000-8000-00000000000b")


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path / "data").put(3)


def at(position: int) -> Position:
    return Position(1, EPOCH_ID, position)


def test_the_first_batch_says_where_it_begins_and_registers_when_its_rows_are_asked_for(
    played: Played,
) -> None:
    query = Query(played)
    begin = query.next()
    assert (begin.position, begin.begins, played.requests) == (at(1), True, ["PLAN"])
    assert query.rows(begin) == []
    assert played.requests == ["PLAN", "REGISTER"] and played.registered == begin.checkpoint
    query.committed = begin
    end = query.next()
    assert (end.position, end.begins, end.checkpoint) == (at(7), False, begin.checkpoint)
    assert query.rows(end) == [2, 3, 4, 5, 6, 7]


def test_offsets_are_what_spark_keeps_of_them(played: Played) -> None:
    begin = Query(played).next()
    fields = begin.to_dict()
    assert fields == {
        LEDGER: {"epoch": 1, "epoch_id": EPOCH_ID, "position": 1},
        "checkpoint": begin.checkpoint,
        "subscription": NAME,
        "begins": True,
    }
    assert offset_of(fields) == begin


@pytest.mark.parametrize(
    "fields", [{}, {"checkpoint": 7}, {LEDGER: 5, "checkpoint": "c", "subscription": "s"}]
)
def test_offsets_of_another_query_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(OffsetsUnreadable):
        offset_of(fields)


def test_a_crash_before_the_registration_needs_nobody(played: Played) -> None:
    query = Query(played)
    begin = query.next()  # it is in the offset log, and the process is killed
    again = query.restart()
    assert again.start().checkpoint != begin.checkpoint, "Spark asks for a first offset anew"
    assert again.rows(begin) == []
    assert played.registered == begin.checkpoint


def test_a_first_batch_whose_rows_nobody_asked_for_is_registered_with_the_second(played: Played) -> None:
    query = Query(played)
    query.committed = query.next()
    assert query.next().position == at(7)
    assert played.registered == query.committed.checkpoint


def test_looking_and_reading_again_change_nothing(played: Played) -> None:
    query = Query(played)
    query.batch()
    before = (played.confirmed, played.held)
    end = query.next()
    assert [query.rows(end) for _ in range(3)] == [[2, 3, 4, 5, 6, 7]] * 3
    assert (played.confirmed, played.held) == before and "CONFIRM" not in " ".join(played.requests)


def test_a_batch_is_the_same_within_a_process_and_never_has_what_is_confirmed_in_the_next(
    played: Played,
) -> None:
    query = Query(played)
    query.batch()
    end = query.next()
    assert len(query.rows(end)) == 6
    played.confirm(end.checkpoint, LEDGER, at(5))
    assert len(query.rows(end)) == 6, "the batch is still being worked on"
    assert query.restart().rows(end) == [6, 7], "a crash between confirming and Spark's commit log"
    played.confirm(end.checkpoint, LEDGER, at(7))
    assert query.restart().rows(end) == []


def test_a_batch_that_the_table_has_is_the_same_within_a_process_and_empty_after_a_crash(
    played: Played, tmp_path: Path
) -> None:
    table = str(tmp_path / "table")
    query = Query(played, f"table:{table}#lake")
    query.batch()
    end = query.next()
    count = len(played.requests)
    assert len(query.rows(end)) == 6
    record_position(table, "lake", at(5))
    assert len(query.rows(end)) == 6, "the batch is still being worked on"
    assert len(played.requests) == count, "the plan is known"
    assert query.restart().rows(end) == [6, 7], "a crash between the table's commit and Spark's commit log"


def test_a_first_batch_that_another_query_overtook_is_refused(played: Played) -> None:
    query, other = Query(played), Query(played)
    begin = query.next()
    other.batch()
    registered = played.registered
    with pytest.raises(CheckpointReplaced):
        query.rows(begin)
    assert played.registered == registered


# --- what is confirmed -----------------------------------------------------------------------------


def test_with_spark_what_is_in_its_commit_log_is_confirmed_with_the_next_plan(played: Played) -> None:
    query = Query(played, "spark")
    query.batch()
    assert query.batch() == [2, 3, 4, 5, 6, 7]
    assert played.confirmed == 1
    assert query.next() == query.committed
    assert (played.confirmed, played.held) == (7, [])
    count = len(played.requests)
    query.next()
    assert played.requests[count:] == ["PLAN"], "once is enough"


def test_with_call_nothing_is_confirmed_here(played: Played) -> None:
    query = Query(played)
    query.batch()
    query.batch()
    query.next()
    assert played.confirmed == 1


def test_with_a_table_its_position_is_confirmed(played: Played, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    query = Query(played, f"table:{table}#lake")
    query.batch()
    query.batch()
    record_position(table, "lake", at(7))
    query.next()
    assert played.confirmed == 7


def test_a_table_behind_sparks_checkpoint_stops_the_query(played: Played, tmp_path: Path) -> None:
    query = Query(played, f"table:{tmp_path / 'table'}#lake")
    query.batch()
    query.batch()
    with pytest.raises(TableBehind, match=r"says nothing for app lake.*append_once"):
        query.next()
    record_position(str(tmp_path / "table"), "lake", at(5))
    with pytest.raises(TableBehind, match=r"up to position 7 is written, table .* says 5"):
        query.restart().next()
    assert played.confirmed == 1


def test_a_table_that_lacks_what_was_confirmed_stops_the_query(played: Played, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    query = Query(played, f"table:{table}#lake")
    query.batch()
    played.confirm(played.registered, LEDGER, at(7))
    record_position(table, "lake", at(5))
    with pytest.raises(TableBehind, match=r"has position 5 .* up to 7 is confirmed, and gone"):
        query.next()


def test_the_table_rules_over_a_checkpoint_that_lost_entries(played: Played, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    query = Query(played, f"table:{table}#lake")
    query.batch()
    begin = query.committed
    query.batch()
    record_position(table, "lake", at(7))
    query.committed = begin  # the last entries of the checkpoint are lost
    played.put(2)
    end = query.restart().next()
    assert played.confirmed == 7
    assert (end.position.position, query.rows(end)) == (11, [8, 9, 10, 11])


@pytest.mark.parametrize("confirm", ["call", "spark", "table"])
def test_a_checkpoint_that_lost_entries_never_gives_out_what_is_confirmed(
    played: Played, tmp_path: Path, confirm: str
) -> None:
    query = Query(played, f"table:{tmp_path / 'table'}#lake" if confirm == "table" else confirm)
    query.batch()
    begin = query.committed
    played.confirm(played.registered, LEDGER, at(5))
    query.committed = begin
    assert query.restart().rows(query.next()) == [6, 7]


# --- checkpoints -----------------------------------------------------------------------------------


def test_a_new_checkpoint_is_told_of_the_registered_one(played: Played) -> None:
    Query(played).batch()
    with pytest.raises(CheckpointReplaced, match=f"checkpoint {played.registered} is registered") as raised:
        Query(played).next()
    assert (raised.value.registered, raised.value.confirmed) == (played.registered, 1)


def test_a_new_checkpoint_takes_over_what_is_not_confirmed_and_the_old_one_is_refused(played: Played) -> None:
    old = Query(played)
    old.batch()
    old.batch()
    played.confirm(played.registered, LEDGER, at(5))
    new = Query(played, more={"onNewCheckpoint": "confirmed"})
    assert new.batch() == []
    assert new.batch() == [6, 7]
    for options in ({}, {"onNewCheckpoint": "confirmed"}):
        old.more = options
        with pytest.raises(CheckpointReplaced):
            old.restart().next()
        with pytest.raises(CheckpointReplaced):
            old.restart().rows(replace(old.start(), position=at(8)))


def test_with_a_table_a_new_checkpoint_begins_where_the_table_ends(played: Played, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    old = Query(played, f"table:{table}#lake")
    old.batch()
    old.batch()
    record_position(table, "lake", at(7))  # and neither is that confirmed nor is the checkpoint left
    new = Query(played.put(1), f"table:{table}#lake", {"onNewCheckpoint": "confirmed"})
    assert new.next().position == at(7)
    new.batch()
    assert new.batch() == [8, 9]
    assert played.confirmed == 7


def test_two_that_would_take_over_do_so_once_a_start(played: Played) -> None:
    one, two = (Query(played, more={"onNewCheckpoint": "confirmed"}) for _ in range(2))
    one.batch()
    two.batch()
    with pytest.raises(CheckpointReplaced):
        one.next()
    assert two.batch() == [2, 3, 4, 5, 6, 7]


def test_a_subscription_that_was_made_anew_is_not_read_on(played: Played) -> None:
    query = Query(played)
    query.batch()
    query.batch()
    played.registered = ""
    with pytest.raises(SubscriptionEnded):
        query.next()


# --- the ledger ------------------------------------------------------------------------------------


def test_the_end_waits_until_the_ledger_shows_it(played: Played) -> None:
    query = Query(played)
    query.batch()
    played.assigned_through = played.last + 1
    query.clock.meanwhile = played._record
    assert query.next().position == at(8)


def test_a_path_that_is_not_kept_up_or_another_ledger_is_told(played: Played, tmp_path: Path) -> None:
    query = Query(played)
    query.batch()
    played.assigned_through = played.last + 1
    with pytest.raises(LedgerBehind, match="ends at position 7, the broker speaks of 8"):
        query.next()
    Played(tmp_path / "other", ledger_id=OTHER_ID)
    query.more = {"path": str(tmp_path / "other")}
    with pytest.raises(LedgerBehind, match=f"there is ledger {OTHER_ID}; the broker's is {LEDGER}"):
        query.restart().next()


def test_a_broker_that_was_set_up_anew_is_told(played: Played, tmp_path: Path) -> None:
    query = Query(played)
    query.batch()
    played.ledger_id = OTHER_ID
    with pytest.raises(LedgerBehind, match="the broker was set up anew"):
        query.next()


def test_a_ledger_of_another_history_stops_the_query(played: Played, tmp_path: Path) -> None:
    query = Query(played)
    query.batch()
    other = replace(query.committed, position=Position(1, "ab" * 16, 1))
    query.committed = other
    with pytest.raises(LedgerDiverged):
        query.restart().next()


def test_a_table_of_another_history_stops_the_query(played: Played, tmp_path: Path) -> None:
    record_position(str(tmp_path / "table"), "lake", Position(1, "ab" * 16, 5))
    with pytest.raises(LedgerDiverged, match="no epoch of this ledger is the one that the table names"):
        Query(played, f"table:{tmp_path / 'table'}#lake").next()


def test_the_mark_of_an_epoch_is_a_version_of_delta() -> None:
    assert epoch_mark("f" * 32) == 2**63 - 1
    assert epoch_mark("") == 0


# --- idle, and full --------------------------------------------------------------------------------


def test_idle_polling_asks_the_broker_at_most_so_often(tmp_path: Path) -> None:
    played = Played(tmp_path / "data")
    query = Query(played, more={"pollMs": "250"})
    query.batch()
    count = len(played.requests)
    for _ in range(9):
        query.next()
    assert (len(played.requests) - count, query.clock.now) == (9, 2.0)
    played.put(1)
    query.batch()
    assert query.clock.now == 2.25
    played.put(1)
    query.batch()
    assert query.clock.now == 2.25, "no wait where there is something to do"


def test_a_full_window_makes_room_by_what_is_proved_without_anything_new(tmp_path: Path) -> None:
    played = Played(tmp_path / "data", window=2).put(5)
    query = Query(played, "spark")
    for _ in range(4):
        assert played.held or not query.committed
        query.batch()
    assert [len(played.held), len(played.waiting)] == [1, 0]
    assert query.next() == query.committed and not played.held


@pytest.mark.parametrize("confirm", ["spark", "call", "table"])
def test_a_run_over_what_is_available_drains_more_than_a_window(tmp_path: Path, confirm: str) -> None:
    table = str(tmp_path / "table")
    played = Played(tmp_path / "data", window=2).put(7)
    query = Query(played, f"table:{table}#lake" if confirm == "table" else confirm)
    query.planner.drain()
    seen: list[int] = []
    while (end := query.next()) != query.committed:
        seen += query.rows(end)
        if confirm == "table":
            record_position(table, "lake", end.position)
        if confirm == "call" and not end.begins:
            played.confirm(end.checkpoint, LEDGER, end.position)
        query.committed = end
        if len(seen) < 30:
            played.put(1)  # a producer that never rests: the run ends all the same
    assert played.confirmed == query.committed.position.position
    assert min(played.waiting) > 8 and len(played.waiting) < 7
    assert len(set(seen)) == len(seen)


def test_a_run_ends_where_what_waits_cannot_be_assigned(tmp_path: Path) -> None:
    played = Played(tmp_path / "data", takes_nothing=True).put(3)
    query = Query(played, "spark")
    query.planner.drain()
    query.batch()
    assert query.next() == query.committed


def test_a_run_that_nobody_confirms_says_so(tmp_path: Path) -> None:
    played = Played(tmp_path / "data", window=2).put(5)
    query = Query(played, "call")
    query.planner.drain()
    query.batch()
    query.batch()
    with pytest.raises(WindowFull, match="every batch must be confirmed"):
        query.next()


def test_a_query_with_a_full_window_only_waits(tmp_path: Path) -> None:
    played = Played(tmp_path / "data", window=2).put(5)
    query = Query(played, "call")
    query.batch()
    query.batch()
    assert query.next() == query.committed
    played.confirm(played.registered, LEDGER, query.committed.position)
    assert query.next() != query.committed


def test_a_look_has_everything_that_is_not_confirmed_and_registers_nothing(played: Played) -> None:
    slices = Query(played).planner.unconfirmed()
    assert positions(slices) == [2, 3, 4, 5, 6, 7]
    assert (played.requests, played.registered) == (["READ"], "")


def test_tasks_are_cut_by_messages(played: Played) -> None:
    query = Query(played)
    query.batch()
    end = query.next()
    assert len(query.planner.parts(query.committed, end)) == 1
    query.more = {"partitionRecords": "2"}
    query.restart()
    assert len(query.planner.parts(query.committed, end)) == 3


# --- options ---------------------------------------------------------------------------------------

GOOD = {"path": "/l", "broker": "amqp://h", "subscription": "s", "confirm": "call"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"subscription": ""}, '"subscription" is missing'),
        ({"broker": "http://h"}, '"broker": scheme'),
        ({"broker": ""}, '"broker" is missing'),
        ({"confirm": ""}, '"confirm" is missing: it names what proves'),
        ({"confirm": "table:/t"}, '"confirm" is table:URI#APP, call or spark'),
        ({"confirm": "table:#a"}, '"confirm" is table:URI#APP, call or spark'),
        ({"onNewCheckpoint": "ignore"}, '"onNewCheckpoint" is fail or confirmed'),
        ({"pollMs": "0"}, '"pollMs" is a whole number from 1'),
        ({"queues": "a"}, '"queues" has no meaning with mode=consume'),
        ({"maxRows": "5"}, '"maxRows" has no meaning with mode=consume'),
        ({"failOnDataLoss": "false"}, '"failOnDataLoss" has no meaning with mode=consume'),
        ({"path": ""}, '"path" is missing'),
    ],
)
def test_options_that_are_wrong_are_named(changed: dict[str, str], message: str) -> None:
    with pytest.raises(SourceOptionError, match=message):
        read_consume_options(GOOD | changed)


def test_a_table_may_have_the_mark_in_its_uri() -> None:
    confirm = read_consume_options(GOOD | {"confirm": "table:s3://b/t#1#lake"}).confirm
    assert confirm is not None and (confirm.table_uri, confirm.app) == ("s3://b/t#1", "lake")


def test_a_look_needs_no_confirm() -> None:
    assert read_consume_options(GOOD | {"confirm": "call"}, is_stream=False).confirm is not None
    some = {name: text for name, text in GOOD.items() if name != "confirm"}
    assert read_consume_options(some, is_stream=False).confirm is None
