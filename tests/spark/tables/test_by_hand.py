"""Rows of the tables worked out by hand, from ledgers that a queue manager wrote."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from postroom.spark.ledger_source.columns import NEVER_NULL
from postroom.spark.ledger_source.record_batches import read_opening
from postroom.spark.places.uris import place_of
from postroom.spark.tables import DEFINITIONS
from postroom.spark.tables.fold import DONE, partials, split
from tests.ledger.ledger_maker import E, H, LedgerMaker, O, S
from tests.manager.channel_world import CHANNEL, Receiver, Sender
from tests.manager.over_ledger import LedgerWorld
from tests.manager.xa_world import XID, Xa
from tests.spark.event_ranges import events_of, table
from tests.spark.real_ledgers import FORGETFUL, Writer

MINUTE_US = 60_000_000


def rows(name: str, events: pa.Table) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = table(DEFINITIONS[name], events).to_pylist()
    return made


def written(world: LedgerWorld, folder: Path) -> pa.Table:
    folder.mkdir(exist_ok=True)
    world.write_out(folder)
    return events_of(folder)


def only(found: list[dict[str, Any]], **wanted: object) -> dict[str, Any]:
    """The one row that has these values."""
    (row,) = [row for row in found if all(row[name] == value for name, value in wanted.items())]
    return row


def picked(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# --- deliveries and delays


def test_each_delivery_is_a_row(tmp_path: Path) -> None:
    world = LedgerWorld()
    queue = world.queue("q", redelivery_limit=5)
    world.put(queue, b"x")
    consumer = world.consumer(queue, credit=1)
    world.turn(2)
    world.fail(consumer, world.held(consumer)[0])
    world.turn(3)
    world.credit(consumer, 1)
    world.turn(4)
    world.accept(consumer, world.held(consumer)[0])
    world.turn()
    first, second = rows("deliveries", written(world, tmp_path))
    assert picked(first, "holder_kind", "began_event", "ended_event") == ("consumer", "acquire", "fail")
    assert picked(first, "ended_state", "outcome") == ("available", None)
    assert picked(first, "delivery_delta", "failure_delta") == (1, 1)
    assert picked(second, "ended_event", "ended_state", "outcome") == ("confirm", "deleted", "consumed")
    assert second["began_position"] > first["last_position"]
    assert second["held_us"] == (second["ended_time"] - second["began_time"]).total_seconds() * 1e6


def test_a_delivery_goes_on_under_a_transaction_and_back(tmp_path: Path) -> None:
    world = LedgerWorld()
    queue = world.queue("q")
    world.put(queue, b"x")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    transaction = world.manager.begin(world.now_us)
    world.accept(consumer, world.held(consumer)[0], transaction)
    world.turn(1)
    world.manager.commit(transaction, world.now_us)
    world.turn(1)
    (delivery,) = rows("deliveries", written(world, tmp_path))
    assert picked(delivery, "holder_kind", "holder_id") == ("consumer", consumer.id)
    assert picked(delivery, "last_holder_kind", "last_holder_id") == ("local_transaction", transaction.id)
    assert picked(delivery, "ended_event", "outcome") == ("confirm", "consumed")


def test_a_wait_says_why_and_how_long(tmp_path: Path) -> None:
    world = LedgerWorld()
    queue = world.queue("q")
    world.put(queue, b"x", delay_ms=500)
    world.turn()
    world.turn(600)
    world.put(queue, b"y", delay_ms=500)
    world.turn()
    over, waiting = rows("delays", written(world, tmp_path))
    assert picked(over, "causes", "began_event", "ended_event") == ("unborn", "put", "due")
    assert over["ended_state"] == "available"
    assert over["delayed_us"] == (over["ended_time"] - over["began_time"]).total_seconds() * 1e6 >= 500_000
    assert picked(waiting, "causes", "ended_time") == ("unborn", None)


# --- destinations and dwell times


def test_a_minute_of_a_queue(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    orders = maker.queue("orders")
    first, second = maker.put(orders, body=b"12345"), maker.put(orders, body=b"123")
    maker.fail(first, orders)
    maker.consume(first, orders)
    maker.builder.set_time(maker.builder.time_us + MINUTE_US)
    maker.change(second, orders, E.DELAY, S.AVAILABLE, S.DELAYED, holder_kind=H.NONE, holder=0, causes=4)
    events = events_of(maker.finish())
    one, two = rows("destinations", events)
    assert picked(one, "arrivals", "arrived_bytes", "ends", "consumed") == (2, 8, 1, 1)
    assert picked(one, "deliveries", "redeliveries", "failures") == (2, 1, 1)
    assert picked(one, "available_change", "depth_change", "available_high", "depth_high") == (1, 1, 2, 2)
    assert picked(two, "arrivals", "available_change", "delayed_change", "depth_change") == (0, -1, 1, 0)
    assert picked(two, "paused_delays", "unborn_delays") == (1, 0)
    assert (two["minute"] - one["minute"]).total_seconds() == 60
    assert picked(two, "available_high", "depth_high") == (-1, 0)


def test_only_minutes_inside_a_range_are_done_and_old_ones_when_all_is_settled(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    orders = maker.queue("orders")
    for minutes in (0, 1, 1, 120):
        maker.builder.set_time(maker.builder.time_us + minutes * MINUTE_US)
        maker.put(orders)
    events = events_of(maker.finish())
    destinations = DEFINITIONS["destinations"]
    folded = partials(destinations, events)
    inside = [rows for part, _, rows in split(destinations, folded, events) if part == DONE]
    assert sum(map(len, inside)) == 2
    assert all(part != DONE for part, _, _ in split(destinations, folded))
    settled = [rows for part, _, rows in split(destinations, folded, settled=True) if part == DONE]
    assert sum(map(len, settled)) == 3


def test_dwell_times_by_hand(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    orders = maker.queue("orders")
    for _ in range(3):
        maker.consume(maker.put(orders), orders)
    maker.put(orders)
    entries = DEFINITIONS["entries"]
    folded = table(entries, events_of(maker.finish()))
    (done,) = [rows for part, _, rows in split(entries, folded) if part == DONE]
    available, held = rows("dwell_times", done)
    assert picked(available, "state", "queue", "entries", "total_us") == ("available", "orders", 3, 3000)
    assert picked(held, "state", "bucket", "longest_us") == ("unconfirmed", available["bucket"], 1000)


# --- messages and transactions


def test_a_message_is_done_when_all_its_entries_are(tmp_path: Path) -> None:
    maker = LedgerMaker(tmp_path / "ledger")
    orders, audit = maker.queue("orders"), maker.queue("audit")
    both = maker.put(maker.routing_set(orders, audit), message_id=b"m")
    maker.consume(both, orders)
    half = rows("messages", events_of(maker.finish()))[0]
    assert picked(half, "message_id", "arrived", "ended", "consumed") == ("m", 2, 1, 1)
    maker.change(both, audit, E.EXPIRE, S.AVAILABLE, S.DELETED, holder_kind=0, holder=0, outcome=O.EXPIRED)
    events = events_of(maker.finish())
    whole = only(rows("messages", events), serial=both)
    assert picked(whole, "arrived", "ended", "consumed", "expired") == (2, 2, 1, 1)
    messages = DEFINITIONS["messages"]
    assert [part for part, _, _ in split(messages, partials(messages, events))] == [DONE]


def test_what_a_transaction_put_and_how_it_was_decided(tmp_path: Path) -> None:
    world = LedgerWorld()
    queue = world.queue("q")
    kept, dropped = world.manager.begin(world.now_us), world.manager.begin(world.now_us)
    for transaction in (kept, dropped):
        world.put(queue, b"x", transaction=transaction)
        world.put(queue, b"y", transaction=transaction)
    world.turn(1)
    world.manager.commit(kept, world.now_us)
    world.manager.rollback(dropped, world.now_us)
    world.turn()
    found = rows("transactions", written(world, tmp_path))
    yes, no = only(found, holder_id=kept.id), only(found, holder_id=dropped.id)
    assert picked(yes, "holder_kind", "puts", "puts_decided", "decision") == (
        "local_transaction",
        2,
        2,
        "confirm",
    )
    assert picked(no, "puts", "decision") == (2, "undo")
    assert yes["decided_position"] == yes["last_position"] > yes["first_position"]


def test_a_branch_is_one_row_prepared_or_not(tmp_path: Path) -> None:
    world = LedgerWorld()
    queue, xa = world.queue("q"), Xa(world)
    world.put(queue, b"x", transaction=xa.start(XID).transaction)
    xa.end(XID)
    xa.prepare(XID)
    world.turn(1)
    xa.commit(XID)
    world.turn()
    (branch,) = rows("transactions", written(world, tmp_path))
    assert picked(branch, "holder_kind", "puts", "gets", "decision") == ("xa_branch", 1, 0, "confirm")
    assert (
        branch["holder"]
        and branch["first_position"] < branch["prepared_position"] < branch["decided_position"]
    )


# --- undelivered and channels


def test_what_was_tried_in_vain_says_why(tmp_path: Path) -> None:
    world = LedgerWorld()
    world.queue("dead")
    queue = world.queue("q", redelivery_limit=0, dead_letter_queue="dead")
    world.put(queue, b"x")
    world.put(queue, b"consumed")
    consumer = world.consumer(queue, credit=2)
    world.turn()
    bad, good = world.held(consumer)
    world.fail(consumer, bad)
    world.accept(consumer, good)
    world.turn()
    (gone,) = rows("undelivered", written(world, tmp_path))
    assert picked(gone, "serial", "queue", "failures", "retries") == (bad.serial, "q", 1, 1)
    assert picked(gone, "outcome", "rule") == ("dead_lettered", "dead_letter")
    assert gone["condition"] == "postroom:redelivery-limit-exceeded" and "limit 0" in gone["description"]


def test_both_ends_of_a_channel(tmp_path: Path) -> None:
    sender, receiver = Sender(), Receiver()
    receiver.start("0a" * 16)
    sender.start()
    for number in range(3):
        sender.send(b"%d" % number)
    sender.send(b"fast", durable=False)
    sent = sender.take(4)
    for one in sent:
        receiver.receive(one)
        if one.fast:
            sender.taken(one)
    batch = sender.end_batch()
    receiver.commit(batch)
    receiver.turn()
    sender.confirm(batch)
    sender.turn()
    out = only(rows("channels", written(sender, tmp_path / "here")), channel=CHANNEL)
    assert picked(out, "direction", "messages", "fast", "batches", "taken") == ("sent", 4, 1, 1, 4)
    assert picked(out, "backed_out", "last_luwid") == (0, batch.luwid.hex())
    came = only(rows("channels", written(receiver, tmp_path / "there")), channel=CHANNEL)
    assert picked(came, "direction", "messages", "fast", "last_sequence") == ("received", 4, 1, 3)
    assert came["bytes"] > 0
    batches = rows("transactions", written(sender, tmp_path / "here"))
    of_batch = only(batches, holder_kind="channel_batch")
    assert picked(of_batch, "gets", "gets_decided", "decision", "channel") == (3, 3, "forward", CHANNEL)


# --- history that was dropped


def test_what_is_older_than_the_history_is_told_by_the_checkpoint(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ledger", FORGETFUL)
    writer.write(150)
    old = writer.alive[0]
    writer.write(150)
    writer._event(old, E.ACQUIRE, S.AVAILABLE, S.GET_UNCONFIRMED, 0)
    writer._event(old, E.CONFIRM, S.GET_UNCONFIRMED, S.DELETED, O.CONSUMED)
    writer.write(1)
    events = _with_opening(tmp_path / "ledger")
    entries = rows("entries", events)
    carried = [row for row in entries if row["is_carried"]]
    assert {row["serial"] for row in carried} <= set(writer.alive)
    assert old in {row["serial"] for row in carried}
    consumed = only(entries, serial=old)
    if consumed["state"] == "deleted":  # else the checkpoint is newer than its end
        assert picked(consumed, "event_count", "outcome", "last_event") == (2, "consumed", "confirm")
    for row in carried:
        assert picked(row, "message_id", "queue") == (row["message_id"], "orders")
        assert row["arrival_event"] is None and row["first_available_time"] is None
    depth = sum(row["depth_change"] for row in rows("destinations", events))
    assert depth == sum(row["state"] != "deleted" for row in entries)
    assert sum(row["arrived"] - row["ended"] for row in rows("messages", events)) == depth


def _with_opening(folder: Path) -> pa.Table:
    """All that a pipeline folds: the opening, and the events that it has not counted already."""
    place = place_of(str(folder))
    snapshot = place.snapshot()
    opening = read_opening(place, snapshot)
    assert opening is not None and snapshot.first_position > 1
    assert [name for name in NEVER_NULL if opening.rows[name].null_count] == []
    events = events_of(folder)
    serials, positions = events.column("serial").to_numpy(), events.column("position").to_numpy()
    in_opening = (serials < opening.first_position) & (positions <= opening.carried_through)
    return pa.concat_tables([opening.rows, events.filter(pa.array(~in_opening))])
