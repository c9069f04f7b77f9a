"""A deletion that is forced past what transactions, branches, sinks and channels hold of the queue."""

import json
from typing import Any

import pytest

from postroom.ledger.format.records import RecordType
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.errors import NotAllowed, QueueInUse, SinkBranchUnknown, TransactionRolledBack
from postroom.manager.spark.sink import sinks_of
from postroom.model.codes import Outcome
from postroom.model.xa import BranchState, XaCode
from tests.manager.channel_world import CHANNEL, THERE, Receiver, Sender, resynchronise
from tests.manager.recount import check_counters, check_history
from tests.manager.restarts import restart, world_of
from tests.manager.sink_world import Job, refused
from tests.manager.world import TestSink, World
from tests.manager.xa_world import OTHER, XID, Xa, code_of


def force(world: Any, name: str = "q") -> int:
    return int(world.manager.delete_queue(name, False, False, world.now_us, True, "ann"))


def last_record(world: World) -> dict[str, Any]:
    """What the ledger says of the last queue that was deleted."""
    world.turn()
    rows = [
        detail
        for row, detail in zip(world.transitions, world.details, strict=True)
        if int(row["type"]) == RecordType.QUEUE_DELETED
    ]
    found = json.loads(rows[-1])
    assert isinstance(found, dict)
    return found


def test_a_local_transaction_is_rolled_back_wherever_its_messages_are(world: World) -> None:
    queue, other = world.queue(), world.queue("other")
    world.put(queue, b"to be taken")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    transaction = world.manager.begin(world.now_us)
    world.accept(consumer, world.held(consumer)[0], transaction)
    world.put(other, b"in the same", transaction=transaction)
    world.put(queue, b"put", transaction=transaction)
    with pytest.raises(QueueInUse, match="or force it"):
        world.manager.delete_queue("q", False, False, world.now_us)
    assert force(world) == 1
    assert (other.statistics.depth, queue.statistics.depth) == (0, 0)
    with pytest.raises(TransactionRolledBack, match=r"queue 'q', .* deleted by force by ann"):
        world.manager.commit(transaction, world.now_us)
    assert last_record(world) == {"forced_by": "ann", "rolled_back": {"transactions": 1}}
    ended = queue.statistics.ended
    assert (ended[Outcome.DELETED], ended[Outcome.ROLLED_BACK]) == (1, 1)
    assert world.manager.core.transactions.local == {}


def test_its_client_may_still_roll_it_back_and_puts_in_it_are_refused(world: World) -> None:
    queue, other, sink = world.queue(), world.queue("other"), TestSink()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, transaction=transaction)
    force(world)
    world.put(other, sink=sink, transaction=transaction)
    world.turn()
    assert [refusal[1] for refusal in sink.rejected] == ["amqp:transaction:rollback"]
    world.manager.rollback(transaction, world.now_us)
    assert other.statistics.depth == 0


def test_a_send_of_it_that_waits_is_refused_and_its_discharge_goes_on(world: World) -> None:
    queue, sink, discharger = world.queue(max_messages=1), TestSink(), TestSink()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, transaction=transaction)
    world.put(queue, sink=sink, transaction=transaction)
    transaction.dischargers.append(discharger)
    force(world)
    assert [refusal.sink for refusal in world.manager.core.effects.rejected] == [sink]
    assert discharger in world.manager.core.effects.unblocked
    with pytest.raises(TransactionRolledBack, match="deleted by force"):
        world.manager.commit(transaction, world.now_us)


def test_branches_that_are_not_prepared_are_rolled_back_with_a_reason(world: World) -> None:
    xa, queue = Xa(world), world.queue()
    world.put(queue, transaction=xa.start().transaction)
    xa.end()
    world.put(queue, transaction=xa.start(OTHER).transaction)
    force(world)
    assert last_record(world)["rolled_back"] == {"branches": 2}
    assert xa.state(XID) == xa.state(OTHER) == BranchState.ROLLBACK_ONLY
    assert code_of(lambda: xa.commit(one_phase=True)) == XaCode.XA_RBOTHER
    assert code_of(lambda: xa.end(OTHER)) == XaCode.XA_RBOTHER


@pytest.mark.parametrize("how", ["journal", "maintained"])
def test_a_prepared_branch_is_rolled_back_heuristically_and_that_outlives_a_restart(how: str) -> None:
    world = world_of(how)
    xa, queue, other = Xa(world), world.queue(), world.queue("other")
    world.put(queue, b"to be taken")
    world.put(other, b"goes back")
    consumers = [world.consumer(each, credit=1, xa=True) for each in (queue, other)]
    transaction = xa.start().transaction
    world.turn()
    world.put(other, b"put", transaction=transaction)
    received = [(consumer, entry) for consumer in consumers for entry in world.held(consumer)]
    world.manager.xa_end(xa.session, XID, 0x04000000, received, world.now_us)
    assert xa.prepare() == XaCode.XA_OK
    world.turn()
    assert force(world) == 1
    for _ in range(2):
        (row,) = world.manager.branches()
        assert (row.state, row.decided_by) == (BranchState.HEURISTICALLY_ROLLED_BACK, "ann")
        assert Xa(world).recover() == [XID]
        assert code_of(lambda: Xa(world).commit()) == XaCode.XA_HEURRB
        assert code_of(lambda: Xa(world).rollback()) == XaCode.XA_HEURRB
        assert world.manager.queue("other").statistics.depth == 1
        restart(world, how)
    Xa(world).forget()
    restart(world, how)
    assert world.manager.branches() == [] and "q" not in world.manager.queues
    check_counters(world.manager.core)
    check_history(world)


def test_a_sealed_branch_of_a_spark_sink_is_rolled_back(world: World) -> None:
    job, queue = Job(world), world.queue()
    name = job.sent(queue, b"1", b"2")
    force(world)
    assert last_record(world)["rolled_back"] == {"sink_branches": 1}
    refused(SinkBranchUnknown, lambda: job.commit(name))
    assert (sinks_of(world.manager.core).messages, sinks_of(world.manager.core).branches) == (0, {})


def test_what_confirm_ids_hold_ends_with_it_whatever_transactions_do(world: World) -> None:
    queue = world.queue()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, transaction=transaction)
    world.put(queue)
    assert force(world) == 1
    assert not queue.held


def test_a_topic_and_a_subscription(world: World) -> None:
    node = world.queue("news", kind="topic")
    queues = [
        world.manager.subscribe(Subscribing("news", client, "s", durable=True), world.now_us)
        for client in ("a", "b")
    ]
    transaction = world.manager.begin(world.now_us)
    world.put(node, transaction=transaction)
    with pytest.raises(QueueInUse, match="or force it"):
        world.manager.unsubscribe(queues[0], world.now_us)
    world.manager.unsubscribe(queues[0], world.now_us, True, "ann")
    with pytest.raises(TransactionRolledBack):
        world.manager.commit(transaction, world.now_us)
    again = world.manager.begin(world.now_us)
    world.put(node, transaction=again)
    with pytest.raises(QueueInUse, match="or force it"):
        world.manager.delete_topic("news", False, world.now_us)
    assert world.manager.delete_topic("news", False, world.now_us, True, "ann") == 1
    assert (world.manager.queues, world.manager.topics) == ({}, {})


# --- channels -------------------------------------------------------------------------------------


def test_a_batch_that_is_arriving_is_refused_and_sent_again() -> None:
    sender, receiver = Sender(), Receiver()
    receiver.queue("q")
    resynchronise(sender, receiver)
    sender.send(b"1")
    (sent,) = sender.take(10)
    receiver.receive(sent)
    batch = sender.end_batch()
    assert force(receiver) == 0
    receiver.turn()
    with pytest.raises(TransactionRolledBack, match="deleted by force"):
        receiver.commit(batch)
    sender.stop()
    receiver.stop()
    receiver.queue("q")
    resynchronise(sender, receiver)
    (again,) = sender.take(10)
    receiver.receive(again)
    receiver.commit(sender.end_batch())
    receiver.turn()
    assert receiver.bodies_on("q") == [b"1"]


def test_the_transmission_queue_of_a_channel_whose_batch_was_not_asked_for() -> None:
    sender, receiver = Sender(), Receiver()
    receiver.queue("q")
    resynchronise(sender, receiver)
    for body in (b"1", b"2"):
        sender.send(body)
    for sent in sender.take(10):
        receiver.receive(sent)
    sender.turn()
    assert force(sender, THERE) == 2
    assert [gone.description for gone in sender.manager.core.effects.detached] == [
        f"queue {THERE!r} has been deleted"
    ]
    sender.turn()
    assert sender.manager.channels.sync(CHANNEL).in_doubt is None
    sender.restart()
    assert THERE not in sender.manager.queues
    check_counters(sender.manager.core)


@pytest.mark.parametrize("after_restart", [False, True])
def test_a_batch_that_the_partner_may_have_is_backed_out_by_force(after_restart: bool) -> None:
    """As by RESOLVE: nothing is in doubt any more, and the ledger says whose decision it was."""
    sender, receiver = Sender(), Receiver()
    receiver.queue("q")
    resynchronise(sender, receiver)
    sender.send(b"1")
    for sent in sender.take(10):
        receiver.receive(sent)
    batch = sender.end_batch()
    sender.turn()
    if after_restart:
        sender.restart()
    with pytest.raises(QueueInUse, match="1 messages held by transactions or channels"):
        sender.manager.delete_queue(THERE, False, False, sender.now_us)
    assert force(sender, THERE) == 1
    if not after_restart:
        with pytest.raises(NotAllowed):
            sender.confirm(batch)
    sender.turn()
    for _ in range(2):
        assert sender.manager.channels.sync(CHANNEL).in_doubt is None
        assert THERE not in sender.manager.queues
        check_counters(sender.manager.core)
        sender.restart()
