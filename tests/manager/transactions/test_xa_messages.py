"""What the verbs of XA do to messages: assigned, committed, rolled back; and what the ledger is told."""

from collections.abc import Callable

import pytest

from postroom.ledger.format.records import RecordType
from postroom.manager.consuming.settlement import Modification
from postroom.manager.kernel.errors import NotAllowed, NotHeld, QueueInUse
from postroom.manager.kernel.options import MAX_BRANCH_MESSAGES, ManagerOptions
from postroom.model.codes import Event, HolderKind, Outcome, State
from postroom.model.xa import BranchState, XaCode
from tests.manager.decisions import decisions
from tests.manager.world import TestSink, World, a_head
from tests.manager.xa_world import RESUME, SUCCESS, SUSPEND, XID, Xa

# --- what commit and rollback do ------------------------------------------------------------------


def test_messages_are_assigned_at_end(xa: Xa, world: World) -> None:
    queue = world.queue()
    for number in range(3):
        world.put(queue, b"%d" % number)
    consumer = world.consumer(queue, credit=10, xa=True)
    xa.start()
    assert world.turn() == [b"0", b"1", b"2"]
    assert queue.statistics.slots()["uncommitted_get"] == (0, 0)
    xa.end(consumer=consumer)
    assert queue.statistics.slots()["uncommitted_get"] == (3, 3)
    assert not consumer.held
    assert [row.receipts for row in xa.manager.branches()] == [3]
    xa.prepare()
    assert queue.statistics.slots()["uncommitted_get"] == (3, 3)
    xa.commit()
    world.turn()
    assert (queue.statistics.depth, queue.statistics.consumed) == (0, 3)
    assert xa.manager.branches() == []


def test_a_suspension_assigns_too(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1, xa=True)
    world.turn()
    xa.start()
    xa.end(flags=SUSPEND, consumer=consumer)
    world.put(queue, b"2")
    world.credit(consumer, 1)
    assert world.turn() == [b"2"]
    xa.start(flags=RESUME)
    xa.end(consumer=consumer)
    xa.commit(one_phase=True)
    world.turn()
    assert queue.statistics.consumed == 2


def test_messages_may_be_accepted_in_the_branch_before_its_end(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue, b"1")
    world.put(queue, b"2")
    consumer = world.consumer(queue, credit=2, xa=True)
    world.turn()
    first, second = world.held(consumer)
    world.accept(consumer, first, xa.start().transaction)
    xa.end()
    xa.rollback()
    assert consumer.held == {second}
    world.credit(consumer, 1)
    assert world.turn() == [b"1"]


@pytest.mark.parametrize("outcome", ["release", "modify", "reject"])
def test_other_outcomes_are_not_for_branches(xa: Xa, world: World, outcome: str) -> None:
    queue = world.queue()
    world.put(queue)
    consumer = world.consumer(queue, credit=1, xa=True)
    world.turn()
    (entry,) = consumer.held
    transaction = xa.start().transaction
    give: dict[str, Callable[[], object]] = {
        "release": lambda: xa.manager.release(consumer, entry, world.now_us, -1, transaction),
        "modify": lambda: xa.manager.modify(
            consumer, entry, Modification(True), world.now_us, -1, transaction
        ),
        "reject": lambda: xa.manager.reject(consumer, entry, "c", "d", world.now_us, -1, transaction),
    }
    with pytest.raises(NotAllowed):
        give[outcome]()
    assert entry in consumer.held


def test_what_nobody_received_cannot_be_assigned(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue)
    consumer, other = world.consumer(queue, credit=1, xa=True), world.consumer(queue, xa=True)
    world.turn()
    xa.start()
    with pytest.raises(NotHeld):
        xa.manager.xa_end(xa.session, XID, SUCCESS, [(other, world.held(consumer)[0])], world.now_us)
    assert xa.state() == BranchState.ACTIVE


def test_a_rollback_gives_back_in_place_with_both_counts(xa: Xa, world: World) -> None:
    queue = world.queue()
    for number in range(3):
        world.put(queue, b"%d" % number)
    consumer = world.consumer(queue, credit=2, xa=True)
    xa.start()
    world.turn()
    xa.end(consumer=consumer)
    xa.prepare()
    xa.rollback()
    world.credit(consumer, 3)
    assert world.turn() == [b"0", b"1", b"2"]
    counts = [(e.delivery_count, e.failure_count) for e in world.held(consumer)]
    assert counts == [(1, 1), (1, 1), (0, 0)]


def test_a_rollback_over_the_redelivery_limit_goes_to_the_dead_letter_queue(xa: Xa, world: World) -> None:
    queue = world.queue(redelivery_limit=0, dead_letter_queue="dead")
    world.put(queue)
    consumer = world.consumer(queue, credit=1, xa=True)
    xa.start()
    world.turn()
    xa.end(consumer=consumer)
    xa.rollback()
    world.turn()
    assert (queue.statistics.depth, xa.manager.queue("dead").statistics.depth) == (0, 1)


def test_a_rollback_waits_for_the_redelivery_delay(xa: Xa, world: World) -> None:
    queue = world.queue(redelivery_delay_ms=100)
    world.put(queue, b"1")
    consumer = world.consumer(queue, credit=1, xa=True)
    xa.start()
    world.turn()
    xa.end(consumer=consumer)
    xa.rollback()
    world.credit(consumer, 1)
    assert world.turn() == []
    assert world.turn(ms=100) == [b"1"]


def test_puts_are_invisible_until_the_commit(xa: Xa, world: World) -> None:
    queue, sink = world.queue(), TestSink()
    world.consumer(queue, credit=10)
    branch = xa.start()
    token = world.put(queue, b"1", sink, branch.transaction)
    assert world.turn() == []
    assert sink.accepted == [token]
    assert queue.statistics.slots()["uncommitted_put"] == (1, 1)
    xa.end()
    xa.prepare()
    assert world.turn() == []
    assert queue.statistics.slots()["uncommitted_put"] == (1, 1)
    xa.commit()
    assert world.turn() == [b"1"]


def test_a_rollback_ends_what_was_put(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue, transaction=xa.start().transaction)
    xa.end()
    xa.prepare()
    xa.rollback()
    world.turn()
    assert (queue.statistics.depth, queue.statistics.ended[Outcome.ROLLED_BACK]) == (0, 1)


def test_an_ordinary_send_of_the_session_is_not_in_the_branch(xa: Xa, world: World) -> None:
    """Before start, and without naming the transaction, a message goes out at once."""
    queue = world.queue()
    world.put(queue, b"before start")
    xa.start()
    world.put(queue, b"beside it")
    world.consumer(queue, credit=10)
    assert world.turn() == [b"before start", b"beside it"]


def test_publish_and_upload_in_a_branch(xa: Xa, world: World) -> None:
    manager, topic = world.manager, world.queue("news", kind="topic")
    queues = [
        world.queue(name, kind="subscription", topic="news", subscription=name)
        for name in ("news::a", "news::b")
    ]
    target = world.queue()
    branch = xa.start()
    world.put(topic, b"published", transaction=branch.transaction)
    upload = manager.begin_upload(manager.open_producer("large", "test", ""))
    for _ in range(3):
        manager.upload_chunk(upload, b"x" * 300_000, world.now_us)
    manager.finish_upload(upload, target, a_head(), TestSink(), 7, world.now_us, branch.transaction)
    xa.end()
    assert xa.prepare() == XaCode.XA_OK
    for queue in (*queues, target):
        world.consumer(queue, credit=10)
    assert world.turn() == []
    xa.commit()
    assert sorted(map(len, world.turn())) == [9, 9, 900_000]


def test_what_is_put_in_a_branch_is_stored_whatever_its_mode(xa: Xa, world: World) -> None:
    queue, topic = world.queue(), world.queue("news", kind="topic")
    world.queue("news::a", kind="subscription", topic="news", subscription="a")
    transaction = xa.start().transaction
    world.put(queue, b"1", transaction=transaction, durable=False)
    world.put(topic, b"2", transaction=transaction, durable=False)
    world.put(queue, b"3", durable=False)
    world.turn()
    assert [(int(row["flags"]) & 3, int(row["body_len"])) for row in world.arrivals] == [
        (2, 1),
        (2, 1),
        (0, 1),
    ]
    assert sorted(world.bodies.values()) == [b"1", b"2"]


def test_a_message_put_in_a_branch_is_born_in_time(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue, b"late", transaction=xa.start().transaction, delay_ms=500)
    world.put(queue, b"soon", transaction=xa.session.branch and xa.session.branch.transaction, delay_ms=100)
    xa.end()
    xa.prepare()
    world.consumer(queue, credit=10)
    world.turn(ms=200)
    xa.commit()
    assert world.turn() == [b"soon"]
    assert world.turn(ms=300) == [b"late"]


# --- records --------------------------------------------------------------------------------------


def test_prepare_and_commit_are_one_record_each(xa: Xa, world: World) -> None:
    queue, other = world.queue(), world.queue("other")
    world.put(queue)
    consumer = world.consumer(queue, credit=1, xa=True)
    branch = xa.start()
    world.put(other, transaction=branch.transaction)
    world.turn()
    xa.end(consumer=consumer)
    xa.prepare()
    world.turn()
    xa.commit()
    world.turn()
    put, got = (int(row["position"]) for row in reversed(world.arrivals))
    held = State.PUT_UNCONFIRMED, State.GET_UNCONFIRMED
    assert decisions(world) == [
        ("PREPARE", [(other.id, held[0], held[0], [(put, put)]), (queue.id, held[1], held[1], [(got, got)])]),
        (
            "CONFIRM",
            [
                (other.id, held[0], State.AVAILABLE, [(put, put)]),
                (queue.id, held[1], State.DELETED, [(got, got)]),
            ],
        ),
    ]
    holder = [
        (RecordType(row["type"]).name, HolderKind(row["holder_kind"]).name, Event(row["event"]).name)
        for row in world.transitions
        if row["holder"] == branch.transaction.id and row["type"] != RecordType.ENTRY_EVENT
    ]
    assert holder == [
        ("HOLDER_OPENED", "XA_BRANCH", "NONE"),
        ("HOLDER_OPENED", "XA_PREPARED", "NONE"),
        ("DECISION", "XA_PREPARED", "PREPARE"),
        ("DECISION", "XA_PREPARED", "CONFIRM"),
        ("HOLDER_CLOSED", "XA_PREPARED", "NONE"),
    ]


def test_a_branch_that_did_nothing_leaves_no_record(xa: Xa, world: World) -> None:
    xa.start()
    xa.end()
    assert xa.prepare() == XaCode.XA_RDONLY
    world.turn()
    assert world.transitions == []


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_a_decision_is_one_block(prepared: bool, committed: bool) -> None:
    limit = MAX_BRANCH_MESSAGES
    world = World(ManagerOptions(max_branch_messages=limit, max_unsettled_per_consumer=limit))
    xa, queue = Xa(world), world.queue(redelivery_limit=0, dead_letter_queue="dead")
    for _ in range(limit // 2):
        world.put(queue, b"")
    consumer = world.consumer(queue, credit=limit, xa=True)
    branch = xa.start()
    world.turn()
    for _ in range(limit // 2):
        world.put(queue, b"", transaction=branch.transaction)
    xa.end(consumer=consumer)
    world.turn()
    if prepared:
        xa.prepare()
        world.turn()
    before = world.builder.next_position
    if committed:
        xa.commit(one_phase=not prepared)
    else:
        xa.rollback()
    after = world.builder.next_position
    blocks = []
    while (parts := world.builder.take()) is not None:
        blocks.append((parts.first_position, parts.last_position))
    assert blocks == [(before, after - 1)]


# --- between prepare and commit -------------------------------------------------------------------


def test_expiry_and_deletion_do_not_spoil_the_commit(xa: Xa, world: World) -> None:
    queue, target = world.queue(), world.queue("target")
    world.put(queue, b"received", ttl_ms=100)
    consumer = world.consumer(queue, credit=1, xa=True)
    branch = xa.start()
    world.put(target, b"sent", transaction=branch.transaction, ttl_ms=100)
    world.turn()
    xa.end(consumer=consumer)
    xa.prepare()
    world.turn(ms=10_000)
    assert xa.manager.purge_queue("q", world.now_us) == 0
    xa.commit()
    world.turn(ms=1000)
    assert queue.statistics.consumed == 1
    assert target.statistics.ended[Outcome.EXPIRED] == 1


def test_what_expired_meanwhile_expires_when_it_comes_back(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue, ttl_ms=100)
    consumer = world.consumer(queue, credit=1, xa=True)
    xa.start()
    world.turn()
    xa.end(consumer=consumer)
    xa.prepare()
    world.turn(ms=200)
    xa.rollback()
    world.turn()
    assert (queue.statistics.depth, queue.statistics.ended[Outcome.EXPIRED]) == (0, 1)


def test_room_is_kept_from_put_to_commit(xa: Xa, world: World) -> None:
    """So nothing can be full at commit: what is too much is refused when it is sent."""
    queue, sink = world.queue(max_messages=1), TestSink()
    world.put(queue, b"1", transaction=xa.start().transaction)
    world.put(queue, b"2", sink, producer=world.manager.open_producer("hurried", "", "", 0))
    world.turn()
    assert len(sink.rejected) == 1
    xa.end()
    xa.prepare()
    xa.commit()
    assert queue.statistics.depth == 1


def test_a_destination_of_a_branch_cannot_be_deleted(xa: Xa, world: World) -> None:
    queue = world.queue()
    world.put(queue, transaction=xa.start().transaction)
    xa.end()
    xa.prepare()
    with pytest.raises(QueueInUse, match="held by transactions"):
        xa.manager.delete_queue("q", False, False, world.now_us)
    xa.commit()
    assert xa.manager.delete_queue("q", False, False, world.now_us) == 1
