"""Spark sinks over the real ledger: what restarts, checkpoints, dropped history and power cuts make of
them."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from postroom.ledger.reading.dump import Filter, dump
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.errors import SinkBatchReplaced, SinkBranchUnknown, SinkFenced
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.spark.sink import sinks_of
from postroom.manager.spark.sink_verbs import LEASE_ENDED
from tests.manager.over_ledger import LedgerWorld
from tests.manager.recount import check_counters, check_history
from tests.manager.restarts import WITHOUT_HISTORY, fill, restart, world_of
from tests.manager.sink_world import Job, received, refused
from tests.manager.world import TestSink, a_head
from tests.simulation.disk import PowerLost


@pytest.fixture
def world(how: str) -> LedgerWorld:
    return world_of(how)


def sent(world: LedgerWorld, job: Job) -> str:
    """A sealed branch with puts of every sort, in a file that has more dead than living."""
    fill(world)
    queue, topic = world.queue(), world.queue("news", kind="topic")
    for name in ("one", "two"):
        world.manager.subscribe(Subscribing("news", "c", name, durable=True), world.now_us)
    branch = job.opened()
    transaction = branch.transaction
    world.put(queue, b"persistent", transaction=transaction)
    world.turn()
    world.put(queue, b"non-persistent", transaction=transaction, durable=False)
    world.put(queue, b"unborn", transaction=transaction, delay_ms=60_000)
    world.put(topic, b"published", transaction=transaction, durable=False)
    upload = world.manager.begin_upload(world.manager.open_producer("large", "test", ""))
    world.manager.upload_chunk(upload, b"x" * 300_000, world.now_us)
    world.manager.finish_upload(upload, queue, a_head(), TestSink(), 7, world.now_us, transaction)
    return job.seal(branch)


def test_a_sealed_branch_is_committed_after_a_restart(world: LedgerWorld, job: Job, how: str) -> None:
    name = sent(world, job)
    (before,) = world.manager.sinks.branches(world.manager.sinks.find("app"))
    world.now_us += 5_000_000
    restart(world, how)
    (after,) = world.manager.sinks.branches(world.manager.sinks.find("app"))
    assert (after.messages, after.sealed) == (6, True)
    assert after == before
    assert job.commit(name) == (True, 6)
    assert sorted(received(world)) == [b"non-persistent", b"persistent", b"x" * 300_000]
    assert received(world, "news::c/one") == received(world, "news::c/two") == [b"published"]
    world.turn(ms=60_000)
    assert received(world) == [b"unborn"]
    check_counters(world.manager.core)
    if how != WITHOUT_HISTORY:
        check_history(world)


def test_an_open_branch_outlives_a_restart_too(world: LedgerWorld, job: Job, how: str) -> None:
    queue = world.queue()
    branch = job.opened()
    world.put(queue, b"a", transaction=branch.transaction)
    restart(world, how)
    queue = world.manager.queue("q")
    assert (queue.statistics.current, queue.statistics.depth) == (0, 1)
    assert job.commit(job.seal(branch)) == (True, 1)
    assert received(world) == [b"a"]


def test_a_branch_is_rolled_back_after_a_restart(world: LedgerWorld, job: Job, how: str) -> None:
    sent(world, job)
    restart(world, how)
    job.next_run().begin()
    assert received(world) == received(world, "news::c/one") == []
    assert world.manager.queue("q").statistics.depth == 0
    restart(world, how)
    assert not sinks_of(world.manager.core).branches
    if how != WITHOUT_HISTORY:
        check_history(world)


def lasting_state(world: LedgerWorld) -> list[object]:
    """All that outlives a restart of the app's state."""
    app = world.manager.sinks.find("app")
    whose: list[object] = [int(app.id), app.name, app.query_id, app.run_id, app.past_runs, app.user]
    return [*whose, app.batches, app.offsets, app.position, int(app.since_us), int(app.decided_us)]


def test_a_decision_is_for_ever(world: LedgerWorld, job: Job, how: str) -> None:
    queue = world.queue()
    for batch_id in range(3):
        job.batch(queue, batch_id, b"%d" % batch_id, offsets=f"[{batch_id}]", position=batch_id)
    before = lasting_state(world)
    restart(world, how)
    assert lasting_state(world) == before
    assert job.begin(2) is None
    assert job.commit(batch_id=2) == (False, 0)
    error = refused(SinkBatchReplaced, lambda: job.commit(batch_id=2, digest="other"))
    assert (error.info["digest"], error.info["offsets"]) == ("digest2", "[2]")
    assert received(world) == [b"0", b"1", b"2"]


def test_runs_that_are_over_stay_so(world: LedgerWorld, job: Job, how: str) -> None:
    job.begin()
    job.next_run().begin()
    restart(world, how)
    refused(SinkFenced, job.begin)
    assert job.next_run().begin() is not None


def test_a_forgotten_sink_stays_so(world: LedgerWorld, job: Job, how: str) -> None:
    sent(world, job)
    world.manager.sinks.forget("app", world.now_us)
    restart(world, how)
    assert world.manager.sinks.all() == []
    assert world.manager.queue("q").statistics.depth == 0


def test_ids_in_a_branch_are_taken_by_its_commit(world: LedgerWorld, job: Job, how: str) -> None:
    queue = world.queue(duplicate_window=10)
    names = []
    for attempt in range(2):
        branch = job.opened(attempt=attempt)
        world.put(queue, b"%d" % attempt, transaction=branch.transaction, message_id="a")
        names.append(job.seal(branch))
    restart(world, how)
    queue = world.manager.queue("q")
    branch = job.opened(attempt=2)
    world.put(queue, b"2", transaction=branch.transaction, message_id="a")
    names.append(job.seal(branch))
    assert job.commit(names[1]) == (True, 1)
    world.put(queue, b"again", message_id="a")
    restart(world, how)
    queue = world.manager.queue("q")
    world.put(queue, b"again", message_id="a")
    assert queue.statistics.duplicates == 1
    assert received(world) == [b"1"]


def test_a_twin_that_came_after_a_restart(world: LedgerWorld, job: Job, how: str) -> None:
    queue = world.queue(duplicate_window=10)
    branch = job.opened()
    world.put(queue, b"a", transaction=branch.transaction, message_id="a")
    name = job.seal(branch)
    restart(world, how)
    world.put(world.manager.queue("q"), b"a", message_id="a")
    with pytest.raises(Exception, match="duplicate_window"):
        job.commit(name)
    assert received(world) == [b"a"]


def test_the_lease_goes_on(how: str) -> None:
    options = ManagerOptions(sink_branch_lease_ms=10_000)
    world = world_of(how, options)
    job, queue = Job(world), world.queue()
    name = job.sent(queue, b"a")
    world.now_us += 9_000_000
    restart(world, how)
    world.now_us += 1_000_000
    world.manager.on_time(world.now_us)
    assert [alarm.event for alarm in world.manager.take_effects().alarms] == [LEASE_ENDED]
    refused(SinkBranchUnknown, lambda: job.commit(name))


def test_the_ledger_is_whole_and_tells_of_it(world: LedgerWorld, job: Job, how: str, tmp_path: Path) -> None:
    name = sent(world, job)
    job.sent(world.manager.queue("q"), b"loser", attempt=1)
    restart(world, how)
    job.commit(name)
    world.turn()
    world.check_whole(tmp_path)
    lines = list(dump(tmp_path, Filter()))
    decided = [line for line in lines if line.get("holder_kind") == "spark_branch" and "event" in line]
    events = [line["event"] for line in decided]
    assert (events.count("confirm"), events.count("undo")) == (6, 1)
    states = [line for line in lines if line.get("record") == "sink_state"]
    assert states[-1]["detail"]["batches"] == [[0, "digest0"]]


# Power cuts.


def scenario(world: LedgerWorld) -> list[list[bytes]]:
    """Two runs and three batches with losers; what is available after each command that decides."""
    queue, job = world.queue(), Job(world)
    outcomes: list[list[bytes]] = [[]]

    def decided(*bodies: bytes) -> None:
        outcomes.append([*outcomes[-1], *bodies])
        world.turn()

    names = []
    for partition in range(3):
        names.append(job.sent(queue, b"a%d" % partition, b"b%d" % partition, partition=partition))
        world.turn()
        job.sent(queue, b"loser", partition=partition, attempt=1)
        world.turn()
    job.commit(*names)
    decided(b"a0", b"b0", b"a1", b"b1", b"a2", b"b2")
    job.sent(queue, b"fenced", batch_id=1)
    world.turn()
    job = job.next_run()
    job.begin(1, 9)
    world.turn()
    names = [job.sent(queue, b"c%d" % partition, batch_id=1, partition=partition) for partition in range(2)]
    world.turn()
    job.commit(*names, batch_id=1)
    decided(b"c0", b"c1")
    job.batch(queue, 2, b"d")
    decided(b"d")
    return outcomes


def test_a_power_cut_at_any_moment_leaves_a_batch_whole_or_undone() -> None:
    """The disk loses its power at each of its operations in turn; what was not synced survives by chance."""
    world = LedgerWorld()
    before = world.disk.operations
    outcomes = scenario(world)
    operations = world.disk.operations - before
    assert operations > 20
    seen = set()
    for cut in range(operations):
        for seed in range(2):
            seen.add(_state_after(cut, Random(f"{cut}-{seed}"), outcomes))
    assert seen == set(range(len(outcomes))), "each outcome is met"


def _state_after(cut: int, random: Random, outcomes: list[list[bytes]]) -> int:
    """How many batches there are after a power cut: whole ones, with the sink's state saying so."""
    world = LedgerWorld()
    world.disk.crash_at_operation = world.disk.operations + cut
    with suppress(PowerLost):
        scenario(world)
    world.disk = world.disk.crash(random)
    world._open()
    check_counters(world.manager.core)
    apps = world.manager.sinks.all()
    batches = len(apps[0].batches) if apps else 0
    found = received(world) if "q" in world.manager.queues else []
    assert found == outcomes[batches]
    if apps:
        _goes_on(world, apps[0].run_id, batches)
    return batches


def _goes_on(world: LedgerWorld, run_id: str, batches: int) -> None:
    """The batch that was not decided is sent again, by the same run or by another."""
    job, queue = Job(world, run_id=run_id), world.queue()
    if batches % 2:
        job = job.next_run("run3")
    job.batch(queue, batches, b"again")
    assert received(world) == [b"again"]
    assert queue.statistics.depth == 0
    check_history(world)
