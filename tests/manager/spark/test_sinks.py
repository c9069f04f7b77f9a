"""Spark sinks: batches are decided once, whoever asks how often; what runs and queries may, and what not."""

import pytest

from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.errors import (
    LimitExceeded,
    NotAllowed,
    QueueInUse,
    RequestInvalid,
    SinkBatchReplaced,
    SinkBranchOpen,
    SinkBranchSpoiled,
    SinkBranchUnknown,
    SinkFenced,
    SinkQueryReplaced,
    SinkUnknown,
)
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.sink import MAX_REMEMBERED_RUNS, sinks_of
from postroom.manager.spark.sink_verbs import LEASE_ENDED
from tests.manager.recount import check_counters
from tests.manager.sink_world import Job, received, refused
from tests.manager.world import MS, TestSink, World, a_head


@pytest.fixture
def queue(world: World) -> Queue:
    return world.queue()


# A batch.


def test_a_batch_becomes_available_at_its_commit(world: World, queue: Queue, job: Job) -> None:
    names = [job.sent(queue, b"a", b"b", partition=0), job.sent(queue, b"c", partition=1)]
    world.turn()
    assert (queue.statistics.current, queue.statistics.depth) == (0, 3)
    assert job.commit(*names) == (True, 3)
    check_counters(world.manager.core)
    assert received(world) == [b"a", b"b", b"c"]


def test_winners_come_in_the_order_in_which_they_are_named(world: World, queue: Queue, job: Job) -> None:
    first, second = job.sent(queue, b"a"), job.sent(queue, b"b", partition=1)
    job.commit(second, first)
    assert received(world) == [b"b", b"a"]


def test_other_attempts_lose(world: World, queue: Queue, job: Job) -> None:
    """Sealed or not, of this batch or of one before."""
    left_behind = job.sent(queue, b"old", batch_id=0)
    job.sent(queue, b"slow", batch_id=1, attempt=0)
    world.put(queue, b"open", transaction=job.opened(batch_id=1, partition=5).transaction)
    winner = job.sent(queue, b"won", batch_id=1, attempt=1)
    assert job.commit(winner, batch_id=1) == (True, 1)
    assert received(world) == [b"won"]
    assert queue.statistics.depth == 0
    assert not sinks_of(world.manager.core).branches
    refused(SinkBranchUnknown, lambda: world.manager.sinks.seal("app", left_behind, world.now_us))
    check_counters(world.manager.core)


def test_a_commit_that_is_asked_again_does_nothing_more(world: World, queue: Queue, job: Job) -> None:
    name = job.sent(queue, b"a")
    assert job.commit(name) == (True, 1)
    again = job.sent(queue, b"a", batch_id=1)
    assert job.commit(name) == (False, 0)
    assert job.commit(again, batch_id=1) == (True, 1)
    assert received(world) == [b"a", b"a"]


def test_a_decided_batch_is_not_to_be_sent_again(queue: Queue, job: Job) -> None:
    job.batch(queue, 0, b"a")
    assert job.begin(0) is None
    assert job.begin(1) is not None
    assert job.next_run().begin(0) is None


def test_what_was_sent_in_vain_is_rolled_back_by_the_commit_that_comes_again(
    world: World, queue: Queue, job: Job
) -> None:
    slow = job.opened()
    job.batch(queue, 0, b"a")
    assert slow.transaction.decided
    job.accept_duplicates = True
    job.sent(queue, b"again")
    assert job.commit() == (False, 0)
    assert received(world) == [b"a"]


def test_a_batch_without_messages(queue: Queue, job: Job) -> None:
    assert job.commit() == (True, 0)
    assert job.begin(0) is None
    empty = job.sent(queue, batch_id=1)
    assert job.commit(empty, batch_id=1) == (True, 0)


def test_a_sealed_branch_takes_nothing_more(world: World, queue: Queue, job: Job) -> None:
    branch, sink = job.opened(), TestSink()
    job.seal(branch)
    world.put(queue, b"late", sink, transaction=branch.transaction)
    world.turn()
    assert sink.rejected[0][1] == NotAllowed.condition
    assert job.seal(branch) == branch.name
    assert job.commit(branch.name) == (True, 0)


def test_a_winner_must_be_sealed(world: World, queue: Queue, job: Job) -> None:
    """Otherwise something of it could still be under way."""
    sealed, branch = job.sent(queue, b"a"), job.opened(partition=1)
    refused(SinkBranchOpen, lambda: job.commit(sealed, branch.name))
    job.seal(branch)
    assert job.commit(sealed, branch.name) == (True, 1)


def test_a_winner_that_is_gone_decides_nothing(world: World, queue: Queue, job: Job) -> None:
    name = job.sent(queue, b"a")
    error = refused(SinkBranchUnknown, lambda: job.commit(name, "0-1-0-77"))
    assert error.info == {"branches": ["0-1-0-77"]}
    assert (queue.statistics.current, queue.statistics.depth) == (0, 1)
    assert job.commit(name) == (True, 1)


def test_a_winner_of_another_batch_is_none(queue: Queue, job: Job) -> None:
    name = job.sent(queue, b"a", batch_id=1)
    refused(SinkBranchUnknown, lambda: job.commit(name, batch_id=2))


def test_no_branch_wins_twice(queue: Queue, job: Job) -> None:
    name = job.sent(queue, b"a")
    refused(RequestInvalid, lambda: job.commit(name, name))


def test_sinks_are_apart(world: World, queue: Queue, job: Job) -> None:
    other = Job(world, app="other")
    theirs = other.sent(queue, b"theirs")
    refused(SinkBranchUnknown, lambda: job.commit(theirs))
    job.batch(queue, 0, b"ours")
    assert other.commit(theirs) == (True, 1)
    assert received(world) == [b"ours", b"theirs"]


def test_a_task_takes_its_own_branch_back(world: World, queue: Queue, job: Job) -> None:
    branch = job.opened()
    world.put(queue, b"a", transaction=branch.transaction)
    stays = job.sent(queue, b"b", partition=1)
    sinks = world.manager.sinks
    assert [sinks.rollback("app", branch.name, world.now_us) for _ in range(2)] == [1, 0]
    assert sinks.rollback("nobody's", "", world.now_us) == 0
    assert job.commit(stays) == (True, 1)


# Runs.


def test_a_new_run_ends_the_one_before(world: World, queue: Queue, job: Job) -> None:
    name = job.sent(queue, b"a")
    open_branch = job.opened(partition=1)
    after = job.next_run()
    after.begin()
    assert queue.statistics.depth == 0 and open_branch.transaction.decided
    error = refused(SinkFenced, lambda: job.commit(name))
    assert error.info == {"app": "app", "run_id": "run2"}
    refused(SinkFenced, job.begin)
    refused(SinkBranchUnknown, lambda: job.seal(open_branch))
    assert after.commit(after.sent(queue, b"b")) == (True, 1)
    assert received(world) == [b"b"]


def test_the_driver_of_a_new_run_may_be_the_first_to_speak(queue: Queue, job: Job) -> None:
    name = job.sent(queue, b"a")
    job.next_run().commit()
    refused(SinkFenced, lambda: job.commit(name))


def test_earlier_runs_stay_refused(job: Job) -> None:
    for number in range(MAX_REMEMBERED_RUNS + 1):
        job.next_run(f"later{number}").begin()
    for number in range(MAX_REMEMBERED_RUNS):
        refused(SinkFenced, job.next_run(f"later{number}").begin)
    assert job.next_run("run1").begin() is not None, "so old that nothing is known of it"


def test_a_refused_run_disturbs_nobody(queue: Queue, job: Job) -> None:
    """A query with a lost checkpoint, say."""
    name = job.sent(queue, b"a")
    job.batch(queue, 0, b"b")
    name = job.sent(queue, b"a", batch_id=1)
    refused(SinkQueryReplaced, job.next_run(query_id="new").begin)
    assert job.commit(name, batch_id=1) == (True, 1)


# Lost checkpoints.


def test_a_batch_of_the_same_id_with_other_offsets_is_refused(queue: Queue, job: Job) -> None:
    job.batch(queue, 0, b"a", digest="first", offsets='{"a": 1}', position=7)
    error = refused(SinkBatchReplaced, lambda: job.commit(digest="second"))
    assert error.info == {
        "app": "app",
        "query_id": "query",
        "batch_id": 0,
        "digest": "first",
        "given_digest": "second",
        "offsets": '{"a": 1}',
        "position": 7,
    }
    refused(SinkBatchReplaced, lambda: job.begin(0, digest="second"))
    assert job.begin(0, digest="first") is None


def test_batches_that_are_remembered_no_more_are_refused() -> None:
    job = Job(World(ManagerOptions(sink_batches_remembered=2)))
    queue = job.world.queue()
    for batch_id in range(3):
        job.batch(queue, batch_id, b"a")
    assert job.commit(batch_id=1) == (False, 0)
    error = refused(SinkBatchReplaced, lambda: job.commit(batch_id=0))
    assert error.info["digest"] == ""


def test_another_query_is_refused_until_the_user_chooses(world: World, queue: Queue, job: Job) -> None:
    job.batch(queue, 41, b"a", offsets="[41]", position=5)
    new = job.next_run(query_id="new")
    for verb in (new.begin, lambda: new.commit(batch_id=99)):
        error = refused(SinkQueryReplaced, verb)
        assert error.info == {
            "app": "app",
            "query_id": "query",
            "batch_id": 41,
            "offsets": "[41]",
            "position": 5,
        }
    new.accept_duplicates = True
    new.batch(queue, 0, b"a")
    new.accept_duplicates = False
    new.batch(queue, 1, b"b")
    assert received(world) == [b"a", b"a", b"b"]
    refused(SinkQueryReplaced, job.next_run("run3").begin)


def test_another_query_may_begin_where_nothing_was_decided(world: World, queue: Queue, job: Job) -> None:
    job.sent(queue, b"a")
    new = job.next_run(query_id="new")
    new.batch(queue, 0, b"b")
    assert received(world) == [b"b"]


def test_rows_above_the_recorded_position(world: World, queue: Queue, job: Job) -> None:
    """With them nothing is sent twice: so any batch may come again."""
    job.batch(queue, 3, b"a", position=10)
    again = job.next_run(query_id="new", above=True)
    assert again.begin(0) is not None
    assert world.manager.sinks.find("app").position == 10
    again.batch(queue, 0, b"b", position=12)
    again.batch(queue, 0, b"c", position=11, digest="other")
    assert world.manager.sinks.find("app").position == 12
    assert again.commit(digest="other") == (False, 0)
    assert received(world) == [b"a", b"b", b"c"]


def test_without_a_recorded_position_none_is_above_it(queue: Queue, job: Job) -> None:
    """Everything would be sent twice, though the user was promised that nothing is."""
    job.batch(queue, 0, b"a")
    job.above = True
    assert job.begin(0) is None
    refused(SinkBatchReplaced, lambda: job.commit(digest="other"))
    refused(SinkQueryReplaced, job.next_run(query_id="new").begin)


def test_duplicates_are_accepted_only_of_what_differs(world: World, queue: Queue, job: Job) -> None:
    job.batch(queue, 0, b"a")
    job.accept_duplicates = True
    assert job.begin(0, digest="digest0") is None
    assert job.commit(job.sent(queue, b"a")) == (False, 0)
    assert job.commit(job.sent(queue, b"a", b"b"), digest="longer") == (True, 2)
    assert received(world) == [b"a", b"a", b"b"]


def test_what_came_behind_a_batch_that_is_written_anew_is_written_anew_too(queue: Queue, job: Job) -> None:
    for batch_id in range(4):
        job.batch(queue, batch_id, b"a")
    job.next_run(accept_duplicates=True).commit(batch_id=1, digest="other")
    after = job.next_run()
    assert after.begin(1) is None
    assert after.begin(2) is not None
    assert after.commit(batch_id=2, digest="another") == (True, 0)
    assert list(after.world.manager.sinks.find("app").batches) == [0, 1, 2]


# What befalls messages.


def test_nothing_waits_for_room(world: World, job: Job) -> None:
    """Nor behind others of its link."""
    queue, sink = world.queue(max_messages=1), TestSink()
    patient = world.manager.open_producer("patient", "test", "", 60_000)
    branch = job.opened()
    world.put(queue, b"a", sink, branch.transaction, patient)
    world.put(queue, b"b", sink, branch.transaction, patient)
    world.turn()
    assert sink.rejected[0][1] == "amqp:resource-limit-exceeded" and "no room" in sink.rejected[0][2]
    world.put(queue, b"waits", sink, None, patient)
    world.put(world.queue("free"), b"c", sink, branch.transaction, patient)
    world.turn()
    assert [token for token, *_ in sink.rejected] == [2, 4]
    assert job.commit(job.seal(branch)) == (True, 1)


def test_a_presettled_message_that_is_refused_spoils_its_branch(world: World, job: Job) -> None:
    queue, sinks = world.queue(max_messages=1), world.manager.sinks
    branch, producer = job.opened(), world.manager.open_producer("p", "test", "")
    for token in (1, -1, -1, 4):
        world.manager.put(
            producer, queue, a_head(), b"a", TestSink(), token, world.now_us, branch.transaction
        )
    with pytest.raises(SinkBranchSpoiled) as raised:
        sinks.seal("app", branch.name, world.now_us)
    assert raised.value.refused == "amqp:resource-limit-exceeded"
    assert raised.value.description.count("refused") == 1
    assert queue.statistics.depth == 0
    refused(SinkBranchUnknown, lambda: job.seal(branch))


def test_messages_whose_ids_were_taken_spoil_the_branch(world: World, job: Job) -> None:
    queue = world.queue(duplicate_window=10)
    world.put(queue, b"a", message_id="a")
    branch = job.opened()
    world.put(queue, b"a", transaction=branch.transaction, message_id="a")
    refused(SinkBranchSpoiled, lambda: job.seal(branch))


def test_attempts_of_one_task_send_the_same_ids(world: World, job: Job) -> None:
    """They are taken by the commit, and not before."""
    queue = world.queue(duplicate_window=10)
    names = []
    for attempt in range(2):
        branch = job.opened(attempt=attempt)
        world.put(queue, b"%d" % attempt, transaction=branch.transaction, message_id="a")
        names.append(job.seal(branch))
    job.commit(names[1])
    world.put(queue, b"again", message_id="a")
    assert received(world) == [b"1"]
    assert queue.statistics.duplicates == 1


def test_winners_with_the_same_ids_are_refused(world: World, job: Job) -> None:
    queue = world.queue(duplicate_window=10)
    names = []
    for partition in range(2):
        branch = job.opened(partition=partition)
        world.put(queue, b"a", transaction=branch.transaction, message_id="a")
        names.append(job.seal(branch))
    refused(SinkBranchSpoiled, lambda: job.commit(*names))
    assert queue.statistics.current == 0
    assert job.commit(names[0]) == (True, 1)


def test_a_twin_that_came_by_another_way_spoils_the_branch(world: World, job: Job) -> None:
    queue = world.queue(duplicate_window=10)
    branch = job.opened()
    world.put(queue, b"a", transaction=branch.transaction, message_id="a")
    name = job.seal(branch)
    world.put(queue, b"a", message_id="a")
    refused(SinkBranchSpoiled, lambda: job.commit(name))
    assert received(world) == [b"a"]


def test_delayed_and_expiring_messages(world: World, queue: Queue, job: Job) -> None:
    branch = job.opened()
    world.put(queue, b"unborn", transaction=branch.transaction, delay_ms=60_000)
    world.put(queue, b"born by then", transaction=branch.transaction, delay_ms=1_000)
    world.put(queue, b"expired by then", transaction=branch.transaction, ttl_ms=1_000)
    world.put(queue, b"lives", transaction=branch.transaction, ttl_ms=50_000)
    name = job.seal(branch)
    world.turn(ms=2_000)
    job.commit(name)
    assert received(world) == [b"born by then", b"lives"]
    world.turn(ms=60_000)
    assert received(world) == [b"unborn"]


def test_a_topic_as_destination(world: World, job: Job) -> None:
    topic = world.queue("news", kind="topic")
    for name in ("one", "two"):
        world.manager.subscribe(Subscribing("news", "c", name, durable=True), world.now_us)
    branch = job.opened()
    world.put(topic, b"a", transaction=branch.transaction)
    name = job.seal(branch)
    (row,) = world.manager.sinks.branches(world.manager.sinks.find("app"))
    assert (row.messages, row.bytes) == (2, 2)
    assert sinks_of(world.manager.core).branches[world.manager.sinks.holder_of("app", name)].sent == 1
    assert job.commit(name) == (True, 2)
    for name in ("one", "two"):
        assert received(world, f"news::c/{name}") == [b"a"]
    check_counters(world.manager.core)


def test_priorities_and_units_of_order(world: World, job: Job) -> None:
    queue = world.queue(unit_of_order=True)
    branch = job.opened()
    world.put(queue, b"low", transaction=branch.transaction, priority=1)
    world.put(queue, b"high", transaction=branch.transaction, priority=9)
    job.commit(job.seal(branch))
    assert received(world) == [b"high", b"low"]


def test_bodies_are_not_kept_in_memory(world: World, queue: Queue, job: Job) -> None:
    name = job.sent(queue, *(bytes(1000) for _ in range(10)))
    core = world.manager.core
    assert (core.memory.cached_bytes, core.memory.volatile_bytes) == (0, 0)
    job.commit(name)
    assert len(received(world)) == 10


def test_a_queue_is_not_deleted_with_what_lies_in_branches(world: World, queue: Queue, job: Job) -> None:
    job.sent(queue, b"a")
    with pytest.raises(QueueInUse):
        world.manager.delete_queue("q", False, False, world.now_us)
    world.manager.sinks.forget("app", world.now_us)
    world.manager.delete_queue("q", False, False, world.now_us)


def test_nothing_is_received_in_a_branch(world: World, queue: Queue, job: Job) -> None:
    world.put(queue, b"a")
    consumer = world.consumer(queue, credit=1)
    world.turn()
    (entry,) = world.held(consumer)
    with pytest.raises(NotAllowed):
        world.accept(consumer, entry, job.opened().transaction)


# Bounds.


def test_the_lease_of_a_branch() -> None:
    world = World(ManagerOptions(sink_branch_lease_ms=1000))
    job, queue = Job(world), world.queue()
    branch = job.opened()
    world.put(queue, b"a", transaction=branch.transaction)
    world.turn(ms=900)
    sealed = job.sent(queue, b"b", partition=1)
    world.now_us += 100 * MS
    assert world.manager.next_deadline_us() == world.now_us
    world.manager.on_time(world.now_us)
    (alarm,) = world.manager.take_effects().alarms
    assert (alarm.event, alarm.name) == (LEASE_ENDED, "app") and "sink_branch_lease_ms" in alarm.text
    assert sinks_of(world.manager.core).leases_ended == 1
    assert queue.statistics.depth == 1
    refused(SinkBranchUnknown, lambda: job.commit(sealed, branch.name))
    assert job.commit(sealed) == (True, 1)
    world.turn(ms=10_000)
    assert world.manager.next_deadline_us() == 0


def test_sealing_begins_the_lease_anew() -> None:
    world = World(ManagerOptions(sink_branch_lease_ms=1000))
    job = Job(world)
    branch, other = job.opened(), job.opened(partition=1)
    world.turn(ms=600)
    job.seal(branch)
    world.turn(ms=600)
    assert other.transaction.decided and not branch.transaction.decided
    world.turn(ms=400)
    assert branch.transaction.decided


@pytest.mark.parametrize(
    ("bound", "condition"),
    [
        ({"max_sink_branch_messages": 2}, "postroom:sink-branch-full"),
        ({"max_sink_messages": 2}, "amqp:resource-limit-exceeded"),
        ({"max_sink_bytes": 2}, "amqp:resource-limit-exceeded"),
    ],
)
def test_what_branches_hold_is_bounded(bound: dict[str, int], condition: str) -> None:
    world = World(ManagerOptions(**bound))  # type: ignore[arg-type]
    job, queue, sink = Job(world), world.queue(), TestSink()
    branch = job.opened()
    for _ in range(3):
        world.put(queue, b"a", sink, transaction=branch.transaction)
    world.turn()
    assert sink.accepted == [1, 2]
    ((token, rejected_with, text),) = sink.rejected
    assert (token, rejected_with) == (3, condition) and next(iter(bound)) in text
    assert job.commit(job.seal(branch)) == (True, 2)
    branch = job.opened(batch_id=1)
    world.put(queue, b"a", sink, transaction=branch.transaction)
    world.turn()
    assert sink.accepted == [1, 2, 4], "there is room again"


def test_branches_and_sinks_are_bounded() -> None:
    job = Job(World(ManagerOptions(max_sinks=1, max_sink_branches=2)))
    job.opened(), job.opened(partition=1)
    error = refused(LimitExceeded, lambda: job.begin(0, 2))
    assert "max_sink_branches" in error.description
    error = refused(LimitExceeded, Job(job.world, app="other").begin)
    assert "max_sinks" in error.description


# Administrators.


def test_a_sink_that_is_forgotten_begins_anew(world: World, queue: Queue, job: Job) -> None:
    job.batch(queue, 0, b"a")
    job.sent(queue, b"b", batch_id=1)
    assert world.manager.sinks.forget("app", world.now_us) == 1
    refused(SinkUnknown, lambda: world.manager.sinks.forget("app", world.now_us))
    assert world.manager.sinks.all() == []
    new = job.next_run(query_id="new")
    new.batch(queue, 0, b"c")
    assert received(world) == [b"a", b"c"]
