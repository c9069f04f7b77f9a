"""What the ledgers of a version have lived through: between them, all that the format can say."""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from unittest import mock

from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.names.remote_queue_definition import RemoteQueueDefinition
from postroom.manager.spark.subscription import SparkSubscriptionDefinition
from postroom.model.channel import ChannelDefinition
from postroom.model.mq import LIFE_FAMILIES
from postroom.model.xa import Xid
from tests.manager import ledger_topics
from tests.manager.channel_world import Receiver, Sender, resynchronise
from tests.manager.over_ledger import LedgerWorld
from tests.manager.reports.report_messages import asking, put
from tests.manager.restarts import fill
from tests.manager.sink_world import Job
from tests.manager.store_face import StoreFace
from tests.manager.world import TestSink, a_head
from tests.manager.xa_world import Xa
from tests.simulation.channels.runs import FAULTS, PAIRS, run_with_fault
from tests.simulation.seeds import played
from tests.simulation.world import World
from tests.spark.lived_ledgers import BROKERS, FAULT_STEP, written

SEEDS: Final = (58, 44, 13, 49, 34)
"""Of the simulation: crashes, delays, suspended links, moves, purges, checkpoints, packed files."""
LIVES: Final = ("forced", "branches", "batches", "assignments")
MADE_UP_PARTNER: Final = ("sender", "receiver")
"""The ends of a channel that know no ledger of each other: an audit can't follow their messages."""
FEW_SUBSCRIPTIONS: Final = 8
CONFIRM: Final = 7

SECTION: Final = b"\x00\x53\x75\xa0\x01x"
"""A message of one byte."""
A_MINUTE_MS: Final = 60_000
SECOND_US: Final = 1_000_000


def ledgers(folder: Path) -> list[Path]:
    """Folders of ledgers, each named as what it is. Their brokers have crashed: nothing was closed."""
    made = []
    lives: dict[str, Callable[[], LedgerWorld]] = {name: BROKERS[name] for name in LIVES}
    for name, live in (lives | {"topics": topics, "held": held, "settings": settings, "kept": kept}).items():
        (folder / name).mkdir()
        live().write_out(folder / name)
        made.append(folder / name)
    for name, world in zip(("sender", "receiver"), channel(), strict=True):
        (folder / name).mkdir()
        world.write_out(folder / name)
        made.append(folder / name)
    pair = run_with_fault(PAIRS["batches of three"](), 1, FAULT_STEP, FAULTS["crash of both"])
    made += [written(node.disk, folder / name) for name, node in pair.nodes.items()]
    return made + [written(played(World, seed).disk, folder / f"seed{seed}") for seed in SEEDS]


def topics() -> LedgerWorld:
    """Publishes to some durable subscriptions, over a restart."""
    with mock.patch.object(ledger_topics, "SUBSCRIPTIONS", FEW_SUBSCRIPTIONS):
        return BROKERS["publishes"]()


def held() -> LedgerWorld:
    """A message in every state, under every holder that there is."""
    world = LedgerWorld()
    _store(StoreFace(world, "store"))
    queue = world.queue(
        "work", duplicate_window=10, dead_letter_queue="dead", redelivery_delay_ms=A_MINUTE_MS
    )
    world.queue("dead")
    for number in range(12):
        world.put(queue, b"%d" % number, priority=number % 10, durable=number % 4 != 3)
    world.put(queue, b"later", delay_ms=A_MINUTE_MS)
    world.put(queue, b"over", ttl_ms=A_MINUTE_MS)
    consumer, failing = world.consumer(queue, 2), world.consumer(queue, 1)
    world.turn()
    world.fail(failing, world.held(failing)[0])
    world.close(failing)
    suspended = world.consumer(world.queue("suspended"), 1)
    world.put(world.manager.queue("suspended"), b"kept for its link")
    world.turn()
    world.manager.suspend_consumer(suspended, 10 * SECOND_US, world.now_us)
    transaction = world.manager.begin(world.now_us)
    world.put(queue, b"in a transaction", transaction=transaction)
    world.accept(consumer, world.held(consumer)[0], transaction)
    _branches(world)
    job = Job(world)
    job.batch(queue, 0, b"written by a batch")
    job.sent(queue, b"in doubt", batch_id=1)
    world.put(world.queue("read"), b"read by Spark")
    subscription = SparkSubscriptionDefinition("reader", "read", 10, lease_s=86_400)
    world.manager.spark_subscriptions.create(subscription, world.now_us)
    world.turn()
    return world


def _branches(world: LedgerWorld) -> None:
    xa, queue = Xa(world), world.queue("branches")
    world.put(queue, b"received in a branch")
    prepared, open_branch = Xid(1, b"prepared", b"b"), Xid(1, b"open", b"b")
    consumer = world.consumer(queue, 1, xa=True)
    world.put(queue, b"sent in a branch", transaction=xa.start(prepared).transaction)
    world.turn()
    xa.end(prepared, consumer=consumer)
    xa.prepare(prepared)
    world.put(queue, b"sent in another", transaction=xa.start(open_branch).transaction)
    world.turn()


def _store(face: StoreFace) -> None:
    face.put(uid=("QM1", 1), confirm=CONFIRM)
    face.put(uid=("QM1", 2))
    face.get(uid=("QM1", 2), confirm=CONFIRM)
    face.put(uid=("QM1", 3), message_id="three", correlation_id="one")
    face.put(uid=("QM1", 4))
    lock, _ = face.lock(uid=("QM1", 3), confirm=8)
    other, _ = face.lock(uid=("QM1", 4), confirm=9)
    face.get(lock=other, uid=("QM1", 4), confirm=10)
    assert lock
    face.put(uid=("QM1", 5))
    face.unlock(face.lock(uid=("QM1", 5))[0])


def settings() -> LedgerWorld:
    """Definitions of every kind, and what queues do by theirs."""
    world = LedgerWorld(ManagerOptions(queue_manager="LONDON"))
    manager = world.manager
    manager.create_quota(QuotaDefinition("small", messages_maximum=100), world.now_us)
    manager.names.define(
        RemoteQueueDefinition("far", remote_queue="near", remote_queue_manager="PARIS"), world.now_us
    )
    world.queue("PARIS", usage="transmission")
    for name in ("dead", "expired"):
        world.queue(name)
    expiring = world.queue(
        "expiring",
        quota="small",
        expiration_policy="redirect",
        expiry_queue="expired",
        dead_letter_queue="dead",
    )
    world.put(expiring, b"soon over", ttl_ms=10)
    assert put(world, world.queue("asks"), asking(LIFE_FAMILIES)) is None
    world.put(manager.queue("asks"), SECTION, eligible=True)
    manager.pause(world.queue("paused"), "consumption", world.now_us, True)
    world.put(manager.queue("paused"), b"waits")
    purged = world.queue("purged")
    world.put(purged, b"purged")
    world.turn()
    world.turn(ms=20)
    manager.purge_queue("purged", world.now_us)
    manager.delete_queue("purged", False, False, world.now_us)
    world.turn()
    rejecting = world.consumer(expiring, 1)
    world.put(expiring, SECTION, ttl_ms=A_MINUTE_MS)
    world.turn()
    manager.reject(rejecting, world.held(rejecting)[0], "app:broken", "no such customer", world.now_us)
    manager.refused(world._producer, "nowhere", 17, "amqp:not-found", "there is no such queue", world.now_us)
    world.turn()
    return world


def kept() -> LedgerWorld:
    """What stays: leases, chunks of uploads, bodies that are retained, message ids; history that went. All of
    it once in a checkpoint whose files have gone, and once in the journal."""
    world = LedgerWorld(retention_bytes=0)
    world.queue("kept", body_retention_s=86_400, duplicate_window=5)
    _keep(world, "before")
    for _ in range(3):
        fill(world)
        world.maintain()
    _keep(world, "after")
    return world


def _keep(world: LedgerWorld, when: str) -> None:
    queue, leases = world.manager.queue("kept"), world.ledger.leases
    for name in ("expires", "released"):
        leases.grant(f"{name} {when}", "ann", world.now_us, duration_s=1)
    leases.grant(f"reader {when}", "ann", world.now_us, bodies=True, queues=["kept"])
    leases.release(f"released {when}", world.now_us)
    for _ in range(2):
        upload = world.manager.begin_upload(world._producer)
        for _ in range(3):
            world.manager.upload_chunk(upload, bytes(1000), world.now_us)
        world.turn()
    world.manager.finish_upload(upload, queue, a_head(), TestSink(), world.new_token(), world.now_us)
    consumer = world.consumer(queue, 1)
    world.put(queue, b"consumed, and kept", priority=9, message_id=when)
    world.put(queue, b"for a reader of the ledger", durable=False)
    world.turn()
    world.accept(consumer, world.held(consumer)[0])
    world.close(consumer)
    world.turn(ms=2000)
    leases.tend(world.now_us, False)
    Job(world, app=when).batch(queue, 0, b"of a forgotten sink")
    world.turn()
    world.manager.sinks.forget(when, world.now_us)
    world.turn()


def channel() -> tuple[LedgerWorld, LedgerWorld]:
    """Both ends of a channel: a batch that is confirmed, one that is in doubt."""
    sender, receiver = Sender(), Receiver()
    resynchronise(sender, receiver)
    for confirmed in (True, False):
        for number in range(3):
            sender.send(b"%d" % number)
        for sent in sender.take(100):
            assert receiver.receive(sent) is None
        batch = sender.end_batch()
        receiver.commit(batch)
        receiver.turn()
        if confirmed:
            sender.confirm(batch)
        sender.turn()
    gone = ChannelDefinition("GONE", type="receiver")
    receiver.manager.channels.define(gone, receiver.now_us)
    receiver.manager.channels.delete("GONE", receiver.now_us)
    receiver.turn()
    return sender, receiver
