"""Duplicate detection: what was taken once is accepted and dropped, whatever happens in between."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.errors import DefinitionInvalid, TransactionRolledBack, XaError
from postroom.manager.kernel.options import KIND_TOPIC, QueueDefinition
from postroom.manager.queues.queue import Queue
from postroom.model.xa import XaCode, XaFlag, Xid
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import MS, TestSink, a_head
from tests.sampling import examples

WINDOW = 3
Between = Callable[[], None]


@pytest.fixture
def world() -> LedgerWorld:
    return LedgerWorld()


@pytest.fixture
def queue(world: LedgerWorld) -> Queue:
    return world.queue(duplicate_window=WINDOW)


@pytest.fixture(params=["none", "restart", "checkpoint", "crash"])
def between(request: pytest.FixtureRequest, world: LedgerWorld) -> Between:
    """What happens between a message and its twin."""

    def happen() -> None:
        world.turn()
        if request.param == "checkpoint":
            maintain(world)
        if request.param == "crash":
            world.crash()
        elif request.param != "none":
            world.restart()

    return happen


def maintain(world: LedgerWorld) -> None:
    """Seal the journal, write a checkpoint, and let go what it covers: twice, for two generations stay."""
    for _ in range(3):
        world.restart()
        while world.ledger.maintenance_step():
            pass


def test_a_message_that_comes_again_is_accepted_and_dropped(
    world: LedgerWorld, queue: Queue, between: Between
) -> None:
    world.put(queue, b"one", message_id="a")
    between()
    queue, sink = world.manager.queue("q"), TestSink()
    token = world.put(queue, b"two", sink, message_id="a")
    world.turn()
    assert (sink.accepted, sink.rejected) == ([token], [])
    assert queue.statistics.depth == 1 and queue.statistics.duplicates == 1
    assert queue.statistics.snapshot()["duplicates_dropped"] == 1


def test_it_is_remembered_when_it_has_been_consumed(
    world: LedgerWorld, queue: Queue, between: Between
) -> None:
    world.put(queue, b"one", message_id="a")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    world.accept(consumer, world.held(consumer)[0])
    between()
    queue = world.manager.queue("q")
    world.put(queue, b"two", message_id="a")
    world.turn()
    assert queue.statistics.depth == 0 and queue.statistics.duplicates == 1


def test_the_oldest_is_forgotten(world: LedgerWorld, queue: Queue, between: Between) -> None:
    for name in ("a", "b", "c", "d"):
        world.put(queue, name.encode(), message_id=name)
    between()
    queue = world.manager.queue("q")
    for name in ("b", "a"):
        world.put(queue, b"again", message_id=name)
    world.turn()
    assert queue.statistics.duplicates == 1 and queue.statistics.depth == 5


def test_a_message_without_an_id_is_not_looked_at(world: LedgerWorld, queue: Queue) -> None:
    world.put(queue, b"one")
    world.put(queue, b"two")
    world.turn()
    assert queue.statistics.depth == 2


def test_other_destinations_and_other_types_of_id_are_others(world: LedgerWorld, queue: Queue) -> None:
    other = world.queue("other", duplicate_window=WINDOW)
    plain = world.queue("plain")
    for each in (queue, other, plain, plain):
        world.put(each, b"one", message_id="a")
    world.turn()
    assert [each.statistics.depth for each in (queue, other, plain)] == [1, 1, 2]


def test_a_large_one_leaves_nothing(world: LedgerWorld, queue: Queue) -> None:
    world.put(queue, b"one", message_id="a")
    upload = world.manager.begin_upload(world._producer)
    world.manager.upload_chunk(upload, b"x" * (300 << 10), world.now_us)
    sink = TestSink()
    world.manager.finish_upload(upload, queue, a_head(message_id="a"), sink, 7, world.now_us)
    world.turn()
    assert sink.accepted == [7] and queue.statistics.depth == 1
    assert len(world.recover().lost) == 0


@pytest.mark.parametrize("first", ["put", "committed"])
def test_a_duplicate_in_a_transaction_undoes_all_of_it(
    world: LedgerWorld, queue: Queue, between: Between, first: str
) -> None:
    if first == "put":
        world.put(queue, b"one", message_id="a")
    else:
        before = world.manager.begin(world.now_us)
        world.put(queue, b"one", transaction=before, message_id="a")
        world.manager.commit(before, world.now_us)
    between()
    queue, sink = world.manager.queue("q"), TestSink()
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"new", sink, transaction, message_id="n")
    world.put(queue, b"two", sink, transaction, message_id="a")
    world.turn()
    assert len(sink.accepted) == 2
    with pytest.raises(TransactionRolledBack, match="sent before"):
        world.manager.commit(transaction, world.now_us)
    world.put(queue, b"new", message_id="n")  # not taken before
    world.turn()
    assert queue.statistics.depth == 2


def test_what_was_rolled_back_was_not_taken(world: LedgerWorld, queue: Queue, between: Between) -> None:
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"one", transaction=transaction, message_id="a")
    world.turn()
    world.manager.rollback(transaction, world.now_us)
    between()
    queue = world.manager.queue("q")
    world.put(queue, b"two", message_id="a")
    world.turn()
    assert queue.statistics.depth == 1 and queue.statistics.duplicates == 0


def test_what_a_restart_rolls_back_was_not_taken(world: LedgerWorld, queue: Queue, between: Between) -> None:
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"one", transaction=transaction, message_id="a")
    world.turn()
    world.restart()
    between()
    queue = world.manager.queue("q")
    world.put(queue, b"two", message_id="a")
    world.turn()
    assert queue.statistics.depth == 1 and queue.statistics.duplicates == 0


def test_what_was_lost_at_a_restart_was_not_taken(world: LedgerWorld, queue: Queue, between: Between) -> None:
    world.put(queue, b"one", durable=False, message_id="a")
    world.turn()
    world.restart()
    between()
    queue = world.manager.queue("q")
    world.put(queue, b"two", message_id="a")
    world.turn()
    assert queue.statistics.depth == 1


def test_of_two_transactions_with_one_message_the_first_wins(world: LedgerWorld, queue: Queue) -> None:
    first, second = world.manager.begin(world.now_us), world.manager.begin(world.now_us)
    for transaction in (first, second):
        world.put(queue, b"one", transaction=transaction, message_id="a")
    world.manager.commit(first, world.now_us)
    with pytest.raises(TransactionRolledBack, match="by another way"):
        world.manager.commit(second, world.now_us)
    world.turn()
    assert queue.statistics.depth == 1


def test_twins_in_one_transaction_undo_it(world: LedgerWorld, queue: Queue) -> None:
    transaction = world.manager.begin(world.now_us)
    for _ in range(2):
        world.put(queue, b"one", transaction=transaction, message_id="a")
    with pytest.raises(TransactionRolledBack):
        world.manager.commit(transaction, world.now_us)


def _prepare(world: LedgerWorld, queue: Queue, xid: Xid) -> None:
    session = world.manager.open_xa_session()
    branch = world.manager.xa_start(session, xid, XaFlag.TMNOFLAGS, world.now_us)
    world.put(queue, b"one", transaction=branch.transaction, message_id="a")
    world.manager.xa_end(session, xid, XaFlag.TMSUCCESS, [], world.now_us)
    assert world.manager.xa_prepare(xid, world.now_us) == XaCode.XA_OK
    world.turn()


def test_what_a_prepared_branch_may_commit_counts_until_it_is_rolled_back(
    world: LedgerWorld, queue: Queue, between: Between
) -> None:
    xid = Xid(1, b"g", b"b")
    _prepare(world, queue, xid)
    between()
    queue = world.manager.queue("q")
    world.put(queue, b"two", message_id="a")
    world.turn()
    assert queue.statistics.duplicates == 1
    world.manager.xa_rollback(xid, world.now_us)
    world.put(queue, b"three", message_id="a")
    world.turn()
    assert queue.statistics.depth == 1


def test_a_committed_branch_is_remembered(world: LedgerWorld, queue: Queue, between: Between) -> None:
    xid = Xid(1, b"g", b"b")
    _prepare(world, queue, xid)
    world.manager.xa_commit(xid, False, world.now_us)
    between()
    queue = world.manager.queue("q")
    world.put(queue, b"two", message_id="a")
    world.turn()
    assert queue.statistics.depth == 1


@pytest.mark.parametrize("one_phase", [False, True])
def test_a_branch_that_would_take_something_twice_is_rolled_back(
    world: LedgerWorld, queue: Queue, one_phase: bool
) -> None:
    xid, session = Xid(1, b"g", b"b"), world.manager.open_xa_session()
    branch = world.manager.xa_start(session, xid, XaFlag.TMNOFLAGS, world.now_us)
    world.put(queue, b"one", transaction=branch.transaction, message_id="a")
    world.manager.xa_end(session, xid, XaFlag.TMSUCCESS, [], world.now_us)
    world.put(queue, b"other way", message_id="a")
    with pytest.raises(XaError) as refused:
        if one_phase:
            world.manager.xa_commit(xid, True, world.now_us)
        else:
            world.manager.xa_prepare(xid, world.now_us)
    assert refused.value.code == XaCode.XA_RBOTHER
    world.turn()
    assert queue.statistics.depth == 1 and world.manager.branches() == []


def _subscribe(world: LedgerWorld, client: str) -> Queue:
    return world.manager.subscribe(Subscribing("t", client, "s", True), world.now_us)


def test_a_topic_takes_what_it_publishes_once(world: LedgerWorld, between: Between) -> None:
    world.manager.create_queue(QueueDefinition("t", kind=KIND_TOPIC, duplicate_window=WINDOW), world.now_us)
    subscriptions = [_subscribe(world, client).name for client in ("one", "two")]
    world.put(world.manager.topic("t"), b"news", message_id="a")
    between()
    world.put(world.manager.topic("t"), b"again", message_id="a")
    world.turn()
    assert [world.manager.queue(name).statistics.depth for name in subscriptions] == [1, 1]
    assert world.manager.topic("t").statistics.duplicates == 1


def test_what_nobody_wanted_may_be_published_again(world: LedgerWorld, between: Between) -> None:
    world.manager.create_queue(QueueDefinition("t", kind=KIND_TOPIC, duplicate_window=WINDOW), world.now_us)
    world.put(world.manager.topic("t"), b"news", message_id="a")
    between()
    name = _subscribe(world, "one").name
    world.put(world.manager.topic("t"), b"again", message_id="a")
    world.turn()
    assert world.manager.queue(name).statistics.depth == 1


def test_a_send_that_waited_for_room_is_looked_at_again(world: LedgerWorld) -> None:
    queue, sink = world.queue(duplicate_window=WINDOW, max_messages=1), TestSink()
    world.put(queue, b"full", message_id="f")
    producers = [world.manager.open_producer(name, "c", "", 10_000) for name in ("one", "two")]
    tokens = [world.put(queue, b"x", sink, producer=producer, message_id="a") for producer in producers]
    consumer = world.consumer(queue, credit=10)
    for _ in range(2):
        world.turn()
        for entry in world.held(consumer):
            world.accept(consumer, entry)
    world.turn()
    assert sorted(sink.accepted) == tokens and queue.statistics.consumed == 2
    assert queue.statistics.duplicates == 1


def test_the_window_can_change(world: LedgerWorld, queue: Queue, between: Between) -> None:
    for name in ("a", "b"):
        world.put(queue, name.encode(), message_id=name)
    world.manager.update_queue(QueueDefinition("q", duplicate_window=1), world.now_us)
    between()
    queue = world.manager.queue("q")
    for name in ("b", "a"):
        world.put(queue, name.encode(), message_id=name)
    world.turn()
    assert queue.statistics.duplicates == 1
    world.manager.update_queue(QueueDefinition("q"), world.now_us)
    world.put(queue, b"a", message_id="a")
    world.turn()
    assert queue.statistics.duplicates == 1 and queue.duplicates is None


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (QueueDefinition("q", duplicate_window=-1), "duplicate_window is -1, must be 0 to 1000000"),
        (QueueDefinition("q", duplicate_window=1_000_001), "must be 0 to 1000000"),
        (QueueDefinition("t::s", kind="subscription", topic="t", duplicate_window=1), "subscription"),
    ],
)
def test_definitions_that_are_refused(definition: QueueDefinition, text: str) -> None:
    with pytest.raises(DefinitionInvalid, match=text):
        definition.check()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "volatile", "commit", "rollback", "restart", "maintain"]), st.integers(0, 4)
    ),
    max_size=25,
)


@given(steps=STEPS)
@settings(max_examples=examples(150), deadline=None)
def test_the_window_is_that_of_a_plain_list(steps: list[tuple[str, int]]) -> None:
    """Whatever happens, an id is dropped exactly while it is among the last that were taken."""
    world, taken, volatile = LedgerWorld(), list[int](), set[int]()
    world.queue(duplicate_window=WINDOW)
    for what, number in steps:
        queue = world.manager.queue("q")
        if what in ("restart", "maintain"):
            maintain(world) if what == "maintain" else world.restart()
            taken = [each for each in taken if each not in volatile]
            volatile.clear()
            continue
        before = queue.statistics.duplicates
        transaction = None if what in ("put", "volatile") else world.manager.begin(world.now_us)
        durable = what != "volatile"
        world.put(queue, b"x", transaction=transaction, message_id=str(number), durable=durable)
        assert (queue.statistics.duplicates > before) == (number in taken), (what, number)
        if transaction is not None and what == "commit" and number not in taken:
            world.manager.commit(transaction, world.now_us)
        elif transaction is not None:
            world.manager.rollback(transaction, world.now_us)
        if number not in taken and what != "rollback":
            taken = [*taken, number][-WINDOW:]
            volatile.discard(number)
            if not durable:
                volatile.add(number)
        world.turn(MS)
