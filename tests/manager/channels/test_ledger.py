"""What the ledger tells of messages that leave and come by channels: to readers, and to the next start."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from postroom.ledger.format.records import ArrivalFlag
from postroom.ledger.reading.dump import Filter, dump
from postroom.ledger.reading.trace import trace
from postroom.model.codes import Event, HolderKind, Outcome, State
from tests.manager.channel_world import CHANNEL, Receiver, Sender, resynchronise, section
from tests.manager.ledger_reading import events, logged
from tests.manager.over_ledger import LedgerWorld


def lines_of(world: LedgerWorld) -> list[dict[str, Any]]:
    with TemporaryDirectory() as name:
        world.write_out(Path(name))
        return list(dump(Path(name), Filter()))


def traced(world: LedgerWorld, serial: int) -> set[int]:
    with TemporaryDirectory() as name:
        world.write_out(Path(name))
        return {line["serial"] for line in trace(Path(name), serial)}


def pass_on(sender: Sender, receiver: Receiver, count: int, to: str = "q", **head: Any) -> None:
    """So many persistent messages in one batch, and as many fast ones."""
    resynchronise(sender, receiver)
    for number in range(count):
        sender.send(b"%d" % number, to=to)
        sender.send(b"fast %d" % number, to=to, durable=False)
    for sent in sender.take(100):
        for name, value in head.items():
            setattr(sent.head, name, value)
        assert receiver.receive(sent) is None
        if sent.fast:
            sender.taken(sent)
    batch = sender.end_batch()
    receiver.commit(batch)
    receiver.turn()
    sender.confirm(batch)
    sender.turn()


def test_each_arrival_names_its_channel_and_its_serial_there(sender: Sender, receiver: Receiver) -> None:
    pass_on(sender, receiver, 2)
    sent = [line for line in lines_of(sender) if line.get("event") == "put"]
    came = [line for line in lines_of(receiver) if line.get("event") in ("put", "put_held")]
    assert [line["origin_serial"] for line in came] == [line["serial"] for line in sent]
    assert [line.get("sequence") for line in came] == [1, None, 2, None]
    assert all((line["channel"], line["origin_ledger"]) == (CHANNEL, "0a") for line in came)
    assert all("parent" not in line and "parent_queue" not in line for line in came)


def test_what_leaves_is_held_by_its_batch_or_by_the_channel_s_consumer(
    sender: Sender, receiver: Receiver
) -> None:
    pass_on(sender, receiver, 1)
    events = [row[3:] for row in sender.rows() if row[5] not in (Event.PUT, Event.NONE)]
    batch, consumer = HolderKind.CHANNEL_BATCH, HolderKind.CONSUMER
    assert sorted(events) == [
        (State.AVAILABLE, consumer, Event.ACQUIRE, State.GET_UNCONFIRMED, Outcome.NONE),
        (State.AVAILABLE, batch, Event.ACQUIRE, State.GET_UNCONFIRMED, Outcome.NONE),
        (State.GET_UNCONFIRMED, consumer, Event.FORWARD, State.DELETED, Outcome.FORWARDED),
        (State.GET_UNCONFIRMED, batch, Event.FORWARD, State.DELETED, Outcome.FORWARDED),
    ]


def test_a_foreign_serial_is_nobody_s_parent(sender: Sender, receiver: Receiver) -> None:
    for _ in range(40):  # so that the serials that come are those of messages here, too
        receiver.put(receiver.manager.queue("q"), section(b"here"))
    receiver.turn()
    pass_on(sender, receiver, 2)
    arrivals = [line for line in lines_of(receiver) if "origin_serial" in line]
    here = {line["serial"] for line in lines_of(receiver) if line.get("event") == "put"}
    assert {line["origin_serial"] for line in arrivals} & here
    for line in arrivals:
        assert traced(receiver, line["serial"]) == {line["serial"]}
        assert traced(receiver, line["origin_serial"]) <= {line["origin_serial"]}


@pytest.mark.parametrize("restart", [False, True])
def test_a_dead_letter_of_it_is_made_here(sender: Sender, receiver: Receiver, restart: bool) -> None:
    receiver.queue("strict", dead_letter_queue="dead", redelivery_limit=0)
    pass_on(sender, receiver, 1, to="strict")
    if restart:
        receiver.restart()
    consumer = receiver.consumer(receiver.manager.queue("strict"), credit=10)
    receiver.turn()
    for delivery in receiver.delivered:
        receiver.manager.reject(consumer, delivery.entry, "app:no", "", receiver.now_us)
    receiver.turn()
    lines = [line for line in lines_of(receiver) if "serial" in line]
    letters = [line for line in lines if line["queue"] == "dead"]
    parents = {line["serial"] for line in lines if line["queue"] == "strict"}
    assert letters and all(line["parent"] in parents for line in letters)
    assert all("received" not in line["flags"] for line in letters)


@pytest.mark.parametrize("maintain", [False, True])
def test_duplicate_windows_remember_what_came(sender: Sender, receiver: Receiver, maintain: bool) -> None:
    queue = receiver.queue("once", duplicate_window=10)
    resynchronise(sender, receiver)
    for body in (b"1", b"2"):
        sender.send(body, to="once")
    for sent in sender.take(2):
        sent.head.message_id, sent.head.message_id_type = sent.body, 1
        receiver.receive(sent)
    receiver.commit(sender.end_batch())
    receiver.turn()
    before = receiver.recover().duplicates
    assert [(queue_id, len(taken)) for queue_id, taken in before] == [(queue.id, 2)]
    if maintain:
        for _ in range(2):
            receiver.restart()
            receiver.maintain()
    assert receiver.recover().duplicates == before


def test_what_came_outlives_the_files_that_told_of_it(sender: Sender, receiver: Receiver) -> None:
    """Its arrival is carried by the checkpoint, word for word."""
    pass_on(sender, receiver, 1)
    before = receiver.recover().explicit
    assert [row.flags & ArrivalFlag.RECEIVED for row in before] == [ArrivalFlag.RECEIVED]
    for _ in range(3):
        receiver.restart()
        receiver.maintain()
    (row,) = receiver.recover().explicit
    assert (row.flags, row.parent_serial, row.parent_queue) == (
        before[0].flags,
        before[0].parent_serial,
        before[0].parent_queue,
    )
    receiver.restart()
    assert receiver.bodies_on("q") == [b"0"]


def test_a_large_message_is_written_in_pieces(sender: Sender, receiver: Receiver) -> None:
    large = b"\x00\x53\x75\xb0" + (600_000).to_bytes(4, "big") + bytes(600_000)
    resynchronise(sender, receiver)
    sender.send(b"1")
    (sent,) = sender.take(1)
    sent.body = sent.body[: -len(section(b"1"))] + large
    assert receiver.receive(sent) is None
    receiver.commit(sender.end_batch())
    receiver.restart()
    assert [len(body) for body in receiver.bodies_on("q")] == [len(large) - len(section(b""))]
    with TemporaryDirectory() as name:
        receiver.check_whole(Path(name))


def test_the_message_log_calls_it_consumed(sender: Sender, receiver: Receiver, tmp_path: Path) -> None:
    pass_on(sender, receiver, 1)
    told = [each[:2] for each in events(logged(sender, tmp_path))]
    consumer = ("Consumer created", "THERE")  # the channel's own, which holds what is in no batch
    assert sorted(told) == [*[("Consumed", "THERE")] * 2, consumer, *[("Produced", "THERE")] * 2]
