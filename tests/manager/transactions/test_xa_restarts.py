"""Branches over the real ledger: what restarts, checkpoints and dropped history make of them."""

from pathlib import Path

import pytest

from postroom.ledger.reading.dump import Filter, dump
from postroom.ledger.reading.message_log import MessageLog
from postroom.ledger.reading.reader import LedgerReader
from postroom.ledger.reading.trace import trace
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.transactions.xa_branch import BranchRow
from postroom.model.codes import Outcome
from postroom.model.xa import BranchState, XaCode, XaVerb, cell
from tests.manager.ledger_reading import everything
from tests.manager.over_ledger import LedgerWorld
from tests.manager.recount import check_counters, check_history
from tests.manager.restarts import WITHOUT_HISTORY, fill, restart, world_of
from tests.manager.world import TestSink, a_head
from tests.manager.xa_world import JOIN, OTHER, XID, Xa, bring, code_of


@pytest.fixture
def world(how: str) -> LedgerWorld:
    return world_of(how)


@pytest.mark.parametrize("state", BranchState, ids=lambda state: state.name)
def test_a_restart(xa: Xa, world: LedgerWorld, how: str, state: BranchState) -> None:
    bring(xa, state)
    restart(world, how)
    assert Xa(world).state() == cell(XaVerb.RESTART, state).to
    if cell(XaVerb.RESTART, state).to == BranchState.NONEXISTENT:
        assert code_of(xa.prepare) == XaCode.XAER_NOTA


def prepared(xa: Xa, world: LedgerWorld) -> BranchRow:
    """Puts and receipts of every sort, in a file that has more dead than living."""
    fill(world)
    source, target = world.queue("source"), world.queue("target")
    topic = world.queue("news", kind="topic")
    world.manager.subscribe(Subscribing("news", "c", "durable", durable=True), world.now_us)
    for number in range(4):
        world.put(source, b"%d" % number, durable=number != 1)
    consumer = world.consumer(source, credit=3, xa=True)
    transaction = xa.start().transaction
    world.turn()
    world.put(target, b"persistent", transaction=transaction)
    world.put(target, b"non-persistent", transaction=transaction, durable=False)
    world.put(target, b"unborn", transaction=transaction, delay_ms=60_000)
    world.put(topic, b"published", transaction=transaction, durable=False)
    upload = world.manager.begin_upload(world.manager.open_producer("large", "test", ""))
    world.manager.upload_chunk(upload, b"x" * 300_000, world.now_us)
    world.manager.upload_chunk(upload, b"y" * 300_000, world.now_us)
    world.manager.finish_upload(upload, target, a_head(), TestSink(), 7, world.now_us, transaction)
    xa.end(consumer=consumer)
    assert xa.prepare() == XaCode.XA_OK
    (row,) = world.manager.branches()
    return row


def test_a_prepared_branch_is_committed_after_a_restart(xa: Xa, world: LedgerWorld, how: str) -> None:
    before = prepared(xa, world)
    restart(world, how)
    xa = Xa(world)
    assert xa.recover() == [XID]
    (row,) = world.manager.branches()
    assert (row.puts, row.receipts) == (before.puts, before.receipts) == (5, 3)
    assert (row.since_us, row.container, row.user) == (before.since_us, "container", "user")
    xa.commit()
    for name in ("target", "news::c/durable", "source"):
        world.consumer(world.manager.queue(name), credit=10)
    assert sorted(world.turn(), key=lambda body: (len(body), body)) == [
        *(b"3", b"published", b"persistent", b"non-persistent"),
        b"x" * 300_000 + b"y" * 300_000,
    ]
    assert world.turn(ms=60_000) == [b"unborn"]
    assert world.manager.queue("source").statistics.consumed == 3
    if how != WITHOUT_HISTORY:
        check_history(world)


def test_a_prepared_branch_is_rolled_back_after_a_restart(xa: Xa, world: LedgerWorld, how: str) -> None:
    """What was not stored and received in it is lost: nothing but its name has survived."""
    prepared(xa, world)
    restart(world, how)
    xa = Xa(world)
    xa.rollback()
    source, target = world.manager.queue("source"), world.manager.queue("target")
    consumer = world.consumer(source, credit=10)
    assert world.turn() == [b"0", b"2", b"3"]
    counts = [(e.delivery_count, e.failure_count) for e in world.held(consumer)]
    assert counts == [(1, 1), (1, 1), (0, 0)]
    assert source.statistics.ended[Outcome.LOST] == 1
    assert (target.statistics.depth, target.statistics.ended[Outcome.ROLLED_BACK]) == (0, 4)
    check_counters(world.manager.core)
    if how != WITHOUT_HISTORY:
        check_history(world)


@pytest.mark.parametrize("committed", [False, True])
def test_a_heuristic_outcome_survives_until_forgotten(
    xa: Xa, world: LedgerWorld, how: str, committed: bool
) -> None:
    prepared(xa, world)
    if committed:
        xa.heuristic_commit()
    else:
        xa.heuristic_rollback()
    restart(world, how)
    xa = Xa(world)
    assert xa.recover() == [XID]
    assert code_of(xa.commit) == (XaCode.XA_HEURCOM if committed else XaCode.XA_HEURRB)
    (row,) = world.manager.branches()
    assert (row.puts, row.receipts) == (0, 0)
    xa.forget()
    restart(world, how)
    xa = Xa(world)
    assert world.manager.branches() == []
    if how != WITHOUT_HISTORY:
        check_history(world)


def test_a_decision_is_for_ever(xa: Xa, world: LedgerWorld, how: str) -> None:
    prepared(xa, world)
    restart(world, how)
    Xa(world).commit()
    restart(world, how)
    xa = Xa(world)
    assert world.manager.branches() == []
    assert code_of(xa.commit) == XaCode.XAER_NOTA
    assert world.manager.queue("target").statistics.depth == 4


def test_no_time_out_after_a_restart_either(xa: Xa, world: LedgerWorld, how: str) -> None:
    bring(xa, BranchState.PREPARED)
    restart(world, how)
    world.turn(ms=10_000_000)
    assert Xa(world).state() == BranchState.PREPARED


def test_a_prepared_branch_takes_nothing_more_after_a_restart(xa: Xa, world: LedgerWorld, how: str) -> None:
    bring(xa, BranchState.PREPARED)
    restart(world, how)
    xa = Xa(world)
    assert code_of(lambda: xa.start(flags=JOIN)) == XaCode.XAER_PROTO
    assert code_of(xa.start) == XaCode.XAER_DUPID
    xa.start(OTHER)


def test_the_ledger_is_whole_and_tells_of_it(xa: Xa, world: LedgerWorld, how: str, tmp_path: Path) -> None:
    prepared(xa, world)
    restart(world, how)
    Xa(world).commit()
    world.turn()
    world.check_whole(tmp_path)
    lines = list(dump(tmp_path, Filter()))
    decided = [line for line in lines if line.get("holder_kind") == "xa_prepared" and "event" in line]
    assert {line["holder_name"] for line in decided} == {f"container/{XID}"}
    events = [line["event"] for line in decided]
    assert events.count("confirm") == 8
    if how != WITHOUT_HISTORY:
        assert events.count("prepare") == 8
        (opened,) = (line for line in lines if line.get("holder_kind") == "xa_branch" and "detail" in line)
        assert opened["detail"] == {"name": str(XID), "container": "container", "user": "user"}


def test_the_log_and_the_trace_of_a_message_name_its_branch(
    xa: Xa, world: LedgerWorld, tmp_path: Path
) -> None:
    source, target = world.queue("source"), world.queue("target")
    world.put(source)
    consumer = world.consumer(source, credit=1, xa=True)
    transaction = xa.start().transaction
    world.turn()
    world.put(target, transaction=transaction)
    xa.end(consumer=consumer)
    xa.prepare()
    xa.commit()
    world.turn()
    world.write_out(tmp_path)
    reader = LedgerReader(tmp_path)
    records = list(MessageLog(everything).records(reader, reader.first_position, reader.durable_through))
    events = [(record.destination, record.event, record.transaction) for record in records]
    assert ("target", "Produced", str(XID)) in events
    assert ("source", "Consumed", str(XID)) in events
    assert ("source", "Produced", "") in events
    put = next(line["serial"] for line in dump(tmp_path, Filter()) if line.get("event") == "put_held")
    states = [(line["event"], line["to"]) for line in trace(tmp_path, put)]
    assert states == [
        *(("put_held", "put_unconfirmed"), ("prepare", "put_unconfirmed"), ("confirm", "available"))
    ]


def test_temporary_places_stay_until_the_branch_is_decided(xa: Xa, world: LedgerWorld, how: str) -> None:
    """They go at a restart, but not with what a prepared branch decides about."""
    world.queue("news", kind="topic")
    temporary = world.queue("temporary", temporary=True)
    subscription = world.manager.subscribe(Subscribing("news", "c", "s", durable=False), world.now_us)
    world.queue("unused", temporary=True)
    transaction = xa.start().transaction
    world.put(temporary, transaction=transaction)
    world.put(world.manager.topic("news"), transaction=transaction)
    xa.end()
    xa.prepare()
    restart(world, how)
    xa = Xa(world)
    assert {"temporary", subscription.name} <= set(world.manager.queues)
    assert "unused" not in world.manager.queues
    xa.commit()
    assert not {"temporary", subscription.name} & set(world.manager.queues)


def test_units_of_order_with_what_a_branch_holds(xa: Xa, world: LedgerWorld, how: str) -> None:
    """Bodies that were not stored can't be asked for their unit."""
    queue = world.queue("units", unit_of_order=True)
    world.put(queue, b"volatile", durable=False)
    world.put(queue, b"stored")
    consumer = world.consumer(queue, credit=2, xa=True)
    xa.start()
    world.turn()
    xa.end(consumer=consumer)
    xa.prepare()
    restart(world, how)
    xa = Xa(world)
    xa.rollback()
    world.consumer(world.manager.queue("units"), credit=2)
    assert world.turn() == [b"stored"]


def test_the_limit_does_not_touch_what_is_prepared(how: str) -> None:
    options = ManagerOptions(max_branch_messages=2)
    world = world_of(how, options)
    xa, queue = Xa(world), world.queue()
    fill(world)
    transaction = xa.start().transaction
    for _ in range(2):
        world.put(queue, transaction=transaction)
    xa.end()
    xa.prepare()
    world.options = ManagerOptions(max_branch_messages=1)
    restart(world, how)
    xa = Xa(world)
    xa.commit()
    assert world.manager.queue("q").statistics.current == 2
