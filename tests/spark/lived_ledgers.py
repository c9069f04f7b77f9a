"""Ledgers of real brokers that have lived through something, for the audit to find nothing wrong with."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.spark.subscription import SparkSubscriptionDefinition
from postroom.model.xa import XaFlag, Xid
from tests.manager.ledger_topics import SUBSCRIPTIONS, TopicWorld
from tests.manager.over_ledger import LedgerWorld
from tests.manager.sink_world import Job
from tests.manager.xa_world import Xa
from tests.simulation import spark_queries
from tests.simulation.channels.runs import FAULTS, PAIRS, run_with_fault
from tests.simulation.disk import SimDisk
from tests.simulation.seeds import played
from tests.simulation.world import World

__all__ = ["BROKERS", "FAULTY", "SUBSCRIPTIONS", "brokers"]

FAULTY: Final = UUID("0195f2a0-0000-7000-8000-0000000000fa")

CONSUMING: Final = 5
SEEDS: Final = (11, 63, 33, 58)
"""Of the simulation: clients of every kind, crashes, moves, replays, browsers, branches, dropped history."""
QUERY_SEED: Final = 41
FAULT_STEP: Final = 60

COMMITTED, ROLLED_BACK, IN_DOUBT, LOST, HEURISTIC = (Xid(1, b"%d" % number, b"b") for number in range(5))


def _branches() -> LedgerWorld:
    """In each branch something is put and something not persistent received; one stays prepared."""
    world = LedgerWorld()
    source, target = world.queue("source"), world.queue("target")
    xa = Xa(world)
    consumer = world.consumer(source, xa=True)
    for xid in (COMMITTED, ROLLED_BACK, IN_DOUBT, LOST, HEURISTIC):
        world.put(source, b"received", durable=False)
        world.put(target, b"sent", transaction=xa.start(xid).transaction, delay_ms=60_000)
        world.credit(consumer, 1)
        world.turn()
        xa.end(xid, consumer=consumer)
        xa.prepare(xid)
        world.turn()
    xa.heuristic_commit(HEURISTIC)
    xa.commit(COMMITTED)
    world.restart()
    xa = Xa(world)
    xa.rollback(LOST)
    xa.rollback(ROLLED_BACK)
    world.turn()
    return world


def _publishes() -> LedgerWorld:
    """Something of everything that topics do, over a restart."""
    world = TopicWorld()
    for name in ("dead", "empty"):
        world.manager.create_queue(QueueDefinition(name=name, kind="topic"), world.now_us)
    for number in range(2):
        world.subscription(number, topic="dead", client="mourner")
    consumers = [world.subscriber(number) for number in range(CONSUMING)]
    world.publish(b"one", b"two")
    world.publish(b"gone at the restart", durable=False)
    for consumer in consumers:
        world.accept(consumer, world.held(consumer)[0])
    world.manager.reject(consumers[0], world.held(consumers[0])[0], "app:bad", "", world.now_us)
    world.put(world.manager.topic("empty"), b"for nobody")
    for decided in (world.manager.commit, world.manager.rollback):
        transaction = world.manager.begin(world.now_us)
        world.put(world.manager.topic("news"), b"in a transaction", transaction=transaction)
        decided(transaction, world.now_us)
    volatile = world.consumer(world.subscription(0, name="", durable=False), 10)
    world.publish(b"later", delay_ms=60_000)
    world.turn()
    world.close(volatile)
    world.turn()
    world.restart()
    world.publish(b"after")
    return world


def _batches() -> LedgerWorld:
    """Of a Spark sink: several winners, losers, two runs, a restart in between, a lease that ends."""
    world = LedgerWorld(ManagerOptions(sink_branch_lease_ms=1000))
    queue, job = world.queue("target", duplicate_window=5), Job(world)
    for batch_id in range(3):
        names = [job.sent(queue, b"a", b"b", batch_id=batch_id, partition=part) for part in range(3)]
        job.sent(queue, b"loser", batch_id=batch_id, attempt=1)
        world.turn(ms=10)
        if batch_id == 1:
            world.restart()
            queue = world.manager.queue("target")
        job.commit(*names, batch_id=batch_id)
        world.turn(ms=10)
    job.sent(queue, b"fenced", batch_id=3)
    job = job.next_run()
    name = job.sent(queue, b"c", batch_id=3)
    job.opened(3)
    world.turn(ms=500)
    job.commit(name, batch_id=3)
    job.sent(queue, b"left alone", batch_id=4)
    world.turn(ms=2000)
    job.sent(queue, b"undecided", batch_id=4)
    world.turn()
    return world


def _assignments() -> LedgerWorld:
    """Of Spark subscriptions: runs and single messages, priorities, non-persistent ones of before and while
    they are read (those have a body, and are lost all the same), positions that are confirmed, a checkpoint
    and a restart, the end of a lease, a deletion."""
    world = LedgerWorld(ManagerOptions(live_head=8, delayed_head=8, min_live_head=2, packed_run_entries=4))
    queue, service = world.queue("source"), world.manager.spark_subscriptions
    for number in range(40):
        world.put(queue, b"n", priority=9 if number % 7 == 0 else 4, durable=number % 5 != 0)
    world.turn()
    for name, window, lease_s in (("slow", 15, 60), ("quick", 10, 86_400)):
        service.create(SparkSubscriptionDefinition(name, "source", window, lease_s=lease_s), world.now_us)
        world.turn()
    for _ in range(3):
        quick = service.find("quick")
        service.confirm("quick", "", min(quick.confirmed + 3, quick.assigned), world.now_us)
        world.put(queue, b"read beside", durable=False)
        world.turn(ms=5)
    service.confirm("quick", "", service.find("quick").assigned, world.now_us)
    world.maintain()
    world.restart()
    world.turn()
    consumer = world.consumer(world.manager.queue("source"), credit=2)
    for _ in range(5):
        world.put(world.manager.queue("source"), b"later")
        world.turn()
    for entry in list(consumer.held):
        world.accept(consumer, entry)
    world.turn(ms=4_000_000)
    service = world.manager.spark_subscriptions
    service.confirm("quick", "", service.find("quick").assigned, world.now_us)
    world.turn()
    service.delete("quick", world.now_us)
    world.turn()
    return world


def _forced() -> LedgerWorld:
    """A queue is deleted by force: past a transaction, branches, prepared and not, and a sink's batch."""
    world = LedgerWorld()
    queue, other, job = world.queue("forced"), world.queue("other"), Job(world)
    for each in (queue, other):
        world.put(each, b"received")
    consumers = [world.consumer(each, 1, xa=True) for each in (queue, other)]
    xa = Xa(world)
    transactions = [world.manager.begin(world.now_us), xa.start(HEURISTIC).transaction]
    world.turn()
    received = [(consumer, entry) for consumer in consumers for entry in world.held(consumer)]
    for transaction in transactions:
        for each in (queue, other):
            world.put(each, b"put", transaction=transaction)
    world.manager.xa_end(xa.session, HEURISTIC, int(XaFlag.TMSUCCESS), received, world.now_us)
    xa.prepare(HEURISTIC)
    world.put(queue, b"put", transaction=xa.start(LOST).transaction)
    job.sent(queue, b"sealed")
    world.turn()
    world.manager.delete_queue("forced", False, False, world.now_us, True, "ann")
    world.turn()
    world.restart()
    world.manager.xa_forget(HEURISTIC, world.now_us)
    world.turn()
    return world


BROKERS: Final[dict[str, Callable[[], LedgerWorld]]] = {
    "forced": _forced,
    "branches": _branches,
    "publishes": _publishes,
    "batches": _batches,
    "assignments": _assignments,
}


def brokers(folder: Path) -> Iterator[Path]:
    """Folders of ledgers, each named as what it is."""
    for name, live in BROKERS.items():
        (folder / name).mkdir()
        live().check_whole(folder / name)
        yield folder / name
    for seed in SEEDS:
        yield written(played(World, seed).disk, folder / f"seed {seed}")
    yield written(played(spark_queries.QueryWorld, QUERY_SEED).disk, folder / f"query seed {QUERY_SEED}")
    pair = run_with_fault(PAIRS["batches of three"](), 1, FAULT_STEP, FAULTS["crash of both"])
    for name, node in pair.nodes.items():
        yield written(node.disk, folder / name)


def written(disk: SimDisk, folder: Path) -> Path:
    """The files of a simulated disk, in a new folder."""
    folder.mkdir()
    return disk.write_out(folder)
