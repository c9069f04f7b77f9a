"""One run: a broker, its clients and its disk under a seeded scheduler and a virtual clock.

Everything that a real process does in its own time (reading a socket, finishing a sync, sealing a file,
losing power) is a step that the scheduler may take next. Crashes are placed at the commit points: after a
block was handed to the writer, after it became durable, and at a random operation of the disk inside
maintenance or start-up.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, ClassVar, TypeVar

from postroom.amqp.frames.sasl import ANONYMOUS
from postroom.ledger.errors import LedgerCorrupt
from postroom.ledger.ledger import Ledger
from postroom.ledger.storage.disk import Bytes, DiskFile, is_no_space
from postroom.ledger.storage.journal import RETRY_US
from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.manager import QueueManager
from postroom.server.configuration.config import Config
from postroom.server.connection.broker import Broker
from tests.originals import ORIGINALS
from tests.simulation.actors import Actor, Browser, Consumer, Producer, Reader, Reattacher, Requester, Resumer
from tests.simulation.batch import Batch
from tests.simulation.branches import Brancher, BranchLog
from tests.simulation.disk import SECTOR_BYTES, UNBOUNDED_BYTES, PowerLost, SimDisk
from tests.simulation.managers import (
    SWITCHES,
    Changer,
    Importer,
    Mover,
    Pauser,
    Purger,
    Remaker,
    Replayer,
    Waiter,
)
from tests.simulation.oracle import Broken, Oracle
from tests.simulation.storekeeper import LEASE_US, Storekeeper
from tests.simulation.subscribers import LocalSubscriber, Subscriber
from tests.simulation.swarm import (
    DEAD_LETTERS,
    REMADE,
    SMALL,
    SMALL_DISK_CHANCE,
    TOPIC,
    Swarm,
    ledger_options,
)
from tests.simulation.transactors import Sender, Taker

START_US = 1_800_000_000_000_000
ALWAYS: tuple[type[Actor], ...] = (Producer, Producer, Consumer, Consumer, Sender)
EXTRAS: dict[str, type[Actor]] = {
    "pauser": Pauser,
    "keeper": Storekeeper,
    "taker": Taker,
    "brancher": Brancher,
    "subscriber": Subscriber,
    "browser": Browser,
    "deleter": Changer,
    "mover": Mover,
    "replayer": Replayer,
    "importer": Importer,
    "purger": Purger,
    "requester": Requester,
    "remaker": Remaker,
    "waiter": Waiter,
    "local": LocalSubscriber,
    "reattacher": Reattacher,
}
DRAIN_ROUNDS = 20_000
QUIET_ROUNDS = 50
"""Of 50 ms each, without anything coming: then there is nothing more."""
FEW_ACTORS, MOST_ACTORS = 4, 6
SIMPLE_EVERY = 5
"""One of so many seeds is of a simple world, of full files or of short lives."""
RESUMER_CHANCE = 0.3
"""Drawn apart: without one, a seed is what it was before there was any."""
MORE_BRANCHERS = 4
"""A branch takes many questions and answers: where there are any, there are more of them."""
CUT_CHANCE = 0.3
DAY_US = 86_400_000_000
JUMPS_US = (DAY_US, 365 * DAY_US)
JUMP_CHANCE, SET_BACK_CHANCE = 0.02, 0.3
AIM = 5
"""A block of more than one sector, which can be torn, draws so many times as many crashes as a small one."""
AIM_AT_PREPARED = 4
"""While a branch that holds messages is prepared, so many times as many; …"""
AIM_AT_FIRST = 20
"""… so many when the first block of a file is in flight, …"""
MOST_AIMED = 0.5
"""… but some lives outlast both."""
HURRY_CHANCE = 0.5
STEPS_TO_CRASH = (0, 0, 1, 3, 8)
"""How soon after a block was handed to the writer the power fails: at once, or with more gathered behind."""


MOST_DECISIONS = 100
"""After so many confirms and undoes nothing can be left under a confirm id."""
AnyActor = TypeVar("AnyActor", bound=Actor)


class SimWriter:
    """Writes at once, syncs when the scheduler says so."""

    completion_fd = -1

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.job: tuple[DiskFile, bool] | None = None

    def submit(self, file: DiskFile, offset: int, parts: list[Bytes], sync_names: bool) -> None:
        file.write_at(offset, parts)
        self.job = (file, sync_names)

    def complete(self) -> bool:
        self.wait()
        return True

    def wait(self) -> None:
        assert self.job is not None
        file, sync_names = self.job
        self.job = None
        file.sync()
        if sync_names:
            self.disk.sync_names()

    def close(self) -> None:
        self.job = None


class World:
    """The scheduler of one seed."""

    clock_jumps: ClassVar = True
    """Whether it may be one whose clock jumps."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.oracle = Oracle(DEAD_LETTERS, judges_order=self.random.random() < 0.8)
        self.now_us = START_US
        small_disk = Random(f"volume {seed}").random() < SMALL_DISK_CHANCE
        later = Random(f"later {seed}")
        self.swarm = Swarm(self.random, seed % SIMPLE_EVERY == 0, small_disk, later, self.clock_jumps)
        self.swarm.instruct(self.oracle)
        self.jumps = later if "clock" in self.swarm.extras else None
        self.jumped_us = 0
        """How far the clock was set forward, less how far it was set back."""
        self.latest_us = self.now_us
        """Before it was set back."""
        self.kinds = [*ALWAYS, *(EXTRAS[kind] for kind in self.swarm.extras if kind in EXTRAS)]
        if (
            self.jumps is None
            and not self.swarm.simple
            and Random(f"resumer {seed}").random() < RESUMER_CHANCE
        ):
            self.kinds.append(Resumer)  # links that are detached are kept for an hour
        if Brancher in self.kinds:
            self.kinds += [Brancher] * MORE_BRANCHERS
        self.batches: list[Batch] = []
        self.branches: dict[str, BranchLog] = {}
        self.confirm_ids = 0
        self.disk = SimDisk().of_size(self.swarm.disk_bytes or UNBOUNDED_BYTES)
        self.refusals = 0
        """How often the disk became so full that new messages were refused."""
        self.actors: list[Actor] = []
        self.actors_made = 0
        self.crashes = 0
        self.options = ledger_options(self.random, self.swarm.simple, self.swarm.disk_bytes)
        self.time_weight = self.random.choice((0, 1, 1, 4))
        self.cut_weight = min(1, self.random.choice((0, 1, 1, 4)))
        self.maintenance_weight = self.random.choice((1, 5) if self.swarm.simple else (0, 1, 5))
        if self.swarm.disk_bytes:
            self.maintenance_weight = 5  # nothing else makes room
        self.crash_chance = self.random.choice((0.003, 0.1) if self.swarm.simple else (0.0, 0.03, 0.1))
        self.power_fails_in: int | None = None
        """Steps until a crash that was planned when a block was handed to the writer."""
        self.boot()

    def boot(self) -> None:
        """Start the broker's process on whatever the disk holds; a crash may hit the start too."""
        while True:
            if self.crashes and self.random.random() < 0.2:
                self.disk.crash_at_operation = self.disk.operations + self.random.randrange(1, 12)
            if self.jumps is not None and self.crashes and self.jumps.random() < SET_BACK_CHANCE:
                self.set_clock(-DAY_US)
            try:
                self._start()
                break
            except PowerLost:
                self.crashes += 1
                self.oracle.crashed()
                self.disk = self.disk.crash(self.random)
        self.disk.crash_at_operation = None

    def _start(self) -> None:
        self.writer = SimWriter(self.disk)
        self.ledger = self._open(self.disk, self.writer)
        self.manager = QueueManager(ManagerOptions(), self.ledger.builder)
        self.manager.restore(self.ledger.recovered, self.now_us)
        for name in (*self.swarm.queues, DEAD_LETTERS):
            if name not in self.manager.queues and name not in self.manager.topics:
                self.manager.create_queue(self.swarm.definition(name), self.now_us)
        for name in self.swarm.subscriptions:
            if name not in self.manager.queues:
                wanted = Subscribing(TOPIC, "", name.partition("::")[2], durable=True, shared=True)
                assert self.manager.subscribe(wanted, self.now_us).name == name
        self.names = 0
        config = Config(**ORIGINALS)  # type: ignore[arg-type]
        self.broker = Broker(config, self.ledger, self.manager, self._new_name)
        self.actors = []

    def _open(self, disk: SimDisk, writer: SimWriter) -> Ledger:
        folder = Path("simulated")
        return Ledger.open(folder, self.options, self.now_us, disk=disk, writer=writer, maintenance="manual")

    def _new_name(self) -> str:
        self.names += 1
        return f"name-{self.names}"

    # The steps.

    def run(self, steps: int) -> None:
        """Take so many steps, then read everything that is left and let the oracle judge."""
        try:
            for _ in range(steps):
                self.step()
            self.finish()
        except PowerLost:
            self.crash()
            self.finish()

    def step(self) -> None:
        """Whatever happens next."""
        choices: list[tuple[int, Callable[[], None]]] = [
            (12, self.carry),
            (4, self.act),
            (4, self.end_turn),
            (6, self.complete),
            (3, self.fetch),
            (max(1, FEW_ACTORS - len(self.actors)), self.connect),
            (self.maintenance_weight, self.maintain),
            (self.time_weight, self.pass_time),
            (self.cut_weight, self.cut),
        ]
        total = [weight for weight, _ in choices]
        action = self.random.choices([action for _, action in choices], total)[0]
        was_low = self.ledger.space_low
        try:
            action()
            self.refusals += self.ledger.space_low and not was_low
            self.check_quota()
            self.check_failures()
            if self._power_fails_now():
                self.crash()
        except PowerLost:
            self.crash()

    def check_failures(self) -> None:
        """A defect that the broker meets on a connection closes that alone: nobody else would hear of it."""
        for actor in self.actors:
            if actor.binding.failed:
                raise Broken(f"the broker failed on the connection of {actor.name}: its log says more")

    def _power_fails_now(self) -> bool:
        if self.power_fails_in is None:
            return False
        self.power_fails_in -= 1
        return self.power_fails_in < 0

    def act(self) -> None:
        if self.actors:
            actor = self.random.choice(self.actors)
            actor.act()
            actor.collect()

    def carry(self) -> None:
        """A piece of what one end of a connection has said reaches the other."""
        for actor in self.actors:
            actor.collect()
        speaking = [actor for actor in self.actors if actor.to_broker or actor.to_client]
        if not speaking:
            return
        actor = self.random.choice(speaking)
        size = self.random.choice((1 << 20, 1 << 20, 1 << 20, 1 << 20, 700, 60))
        if actor.to_broker and (not actor.to_client or self.random.random() < 0.5):
            if self.broker.unsynced_bytes() < self.ledger.most_unsynced_bytes:
                actor.carry_to_broker(min(size, self.ledger.most_unsynced_bytes))
        else:
            actor.carry_to_client(size)
        if actor.binding.finished:
            self.drop(actor)

    def end_turn(self) -> None:
        in_flight, block_bytes = self.ledger.in_flight, self.ledger.builder.block_bytes()
        self.broker.end_turn(self.now_us)
        if not in_flight and self.ledger.in_flight:
            self.plan_crash(block_bytes)

    def complete(self) -> None:
        if not self.ledger.in_flight:
            return
        block_bytes = self.ledger.builder.block_bytes()
        self.broker.completed(self.now_us)
        if self.ledger.in_flight:
            self.plan_crash(block_bytes)
        elif self.random.random() < self.crash_chance:
            self.crash()

    def plan_crash(self, block_bytes: int) -> None:
        """A block has just been handed to the writer: maybe the power fails before it is durable."""
        chance = self.crash_chance * (AIM if block_bytes > SECTOR_BYTES else 1)
        if any(log.step == "prepared" and log.unit.received for log in self.branches.values()):
            chance = min(chance * AIM_AT_PREPARED, MOST_AIMED)
        if self.disk.unsynced_names:
            chance = min(chance * AIM_AT_FIRST, MOST_AIMED)
            self.hurry_maintenance()
        if self.random.random() < chance:
            self.power_fails_in = self.random.choice(STEPS_TO_CRASH)

    def fetch(self) -> None:
        while self.broker.fetches:
            fetch = self.broker.fetches.pop(0)
            bodies = self.ledger.read_bodies(fetch.wanted)
            for damage in bodies:
                if isinstance(damage, LedgerCorrupt):
                    raise damage  # this disk damages nothing: it is our own doing
            self.broker.fetched(fetch, bodies, self.now_us)
        while self.broker.id_reads:
            read = self.broker.id_reads.pop(0)
            all_serials: Any = read.all_serials
            if all_serials is None:
                found: list[Any] = list(self.ledger.read_ids(read.serials))
            else:
                found = list(self.ledger.hash_ids(all_serials))
            self.broker.ids_read(read, found, self.now_us)

    def connect(self) -> None:
        if len(self.actors) >= MOST_ACTORS:
            return
        self.actors.append(self.enter(self.random.choice(self.kinds)))

    def cut(self) -> None:
        if self.actors and self.random.random() < CUT_CHANCE:
            self.drop(self.random.choice(self.actors))

    def drop(self, actor: Actor) -> None:
        actor.binding.lost(self.now_us)
        actor.gone()
        self.actors.remove(actor)

    def pass_time(self) -> None:
        self.now_us += self.random.choice(self.swarm.moments_us)
        if self.jumps is not None and self.jumps.random() < JUMP_CHANCE:
            self.set_clock(self.jumps.choice(JUMPS_US))
        self.broker.on_time(self.now_us)

    def passed_us(self) -> int:
        """The clock that nobody can set."""
        return self.now_us - self.jumped_us

    def set_clock(self, by_us: int) -> None:
        """Somebody sets the clock. Back only where no broker runs: one that does holds to its own time."""
        self.latest_us = max(self.latest_us, self.now_us)
        self.now_us += by_us
        self.jumped_us += by_us
        if by_us < 0:
            self.oracle.set_back(self.now_us)

    def hurry_maintenance(self) -> None:
        """The first block of a file is in flight: maybe what is done beside the broker is quicker than it."""
        if self.maintenance_weight and self.random.random() < HURRY_CHANCE:
            while self.maintain_once():
                pass

    def maintain(self) -> None:
        self.maintain_once()

    def maintain_once(self) -> bool:
        """One piece of work, in which the power may fail; whether there was any."""
        if self.random.random() < self.crash_chance:
            self.disk.crash_at_operation = self.disk.operations + self.random.randrange(0, 6)
        try:
            return self.ledger.maintenance_step()
        except OSError as error:
            if not is_no_space(error):
                raise
            return False  # it is tried again
        finally:
            self.disk.crash_at_operation = None

    def maintain_all(self) -> None:
        """Whatever there is to do beside the broker, as far as there is room for it."""
        with contextlib.suppress(OSError):
            while self.ledger.maintenance_step():
                pass

    def crash(self) -> None:
        """The process and everything unsynced is gone; the next one starts."""
        self.crashes += 1
        self.power_fails_in = None
        for actor in self.actors:
            if self.random.random() < 0.5:  # what had left for the client before the end still reaches it
                actor.collect()
                actor.carry_to_client(len(actor.to_client))
            actor.gone()
        self.oracle.crashed()
        self.disk = self.disk.crash(self.random)
        self.boot()

    # The end.

    def finish(self) -> None:
        """Cut every connection, let the disk catch up, check recovery, read what is left."""
        self.check_subscribers()
        for actor in list(self.actors):
            self.drop(actor)
        self.settle()
        self.let_go()
        self.decide_branches()
        self.check_recovery()
        remaining = {name: self.read_all(name) for name in (*self.swarm.sources, DEAD_LETTERS)}
        self.oracle.final(remaining, self.now_us)
        self.check_statistics()
        self.check_space()

    def settle(self) -> None:
        """Turns and syncs until nothing is left to do."""
        for _ in range(DRAIN_ROUNDS):
            self.fetch()
            self.broker.end_turn(self.now_us)
            if self.ledger.in_flight:
                self.broker.completed(self.now_us)
            elif self.at_rest() and not self.broker.fetches and not self.broker.id_reads:
                return
        raise Broken("the broker does not come to rest")

    def at_rest(self) -> bool:
        """Whether nobody waits for the disk: what an open transaction has written may well."""
        return self.manager.core.durability.wanted_through() <= self.broker.durable_through

    def let_go(self) -> None:
        """End pauses and what the message store holds, and wait until locks have run out."""
        if REMADE in self.swarm.sources and REMADE not in self.manager.queues:
            self.manager.create_queue(self.swarm.definition(REMADE), self.now_us)
        if "pauser" in self.swarm.extras:
            for name in self.swarm.sources:
                for switch in SWITCHES:
                    self.manager.resume(self.manager.queues[name], switch, self.now_us)
        while self.batches:
            self.end_batch(self.enter(Storekeeper))
        self.settle()
        self.now_us += LEASE_US
        if self.jumps is not None:
            self.set_clock(max(0, self.latest_us - self.now_us))  # so that all is born
        self.broker.on_time(self.now_us)
        self.settle()

    def enter(self, kind: type[AnyActor]) -> AnyActor:
        """A client connects."""
        binding = self.broker.connect("simulated", [ANONYMOUS], self.passed_us(), self.now_us)
        assert binding is not None
        self.actors_made += 1
        return kind(self, f"a{self.actors_made}", binding)

    def decide_branches(self) -> None:
        """Whatever is prepared is still there, however long ago that was: decide it. Then nothing is in
        doubt."""
        for _ in range(2 if self.branches else 0):
            brancher = self.enter(Brancher)
            brancher.finishes = True
            for _ in range(DRAIN_ROUNDS):
                self.attend(brancher)
                if brancher.recovered and not brancher.waits and brancher.left() is None:
                    break
            brancher.binding.lost(self.now_us)
        if any(log.step != "done" for log in self.branches.values()):
            raise Broken(
                f"branches can't be decided: {[(str(log.xid), log.step) for log in self.branches.values()]}"
            )

    def end_batch(self, storekeeper: Storekeeper) -> None:
        """Confirm or undo what is held under a confirm id, until nothing is."""
        storekeeper.finishes = True
        for _ in range(MOST_DECISIONS):
            self.attend(storekeeper)
            if not (storekeeper.waits or storekeeper.batch.fates or storekeeper.batch.unknown):
                break
        else:
            raise Broken(f"{storekeeper.batch.name()} is not let go: {storekeeper.batch.worlds}")
        storekeeper.binding.lost(self.now_us)

    def attend(self, actor: Actor) -> None:
        """Have one client act, and hear of it, while nobody else does anything."""
        actor.act()
        actor.collect()
        actor.carry_to_broker(1 << 24)
        self.settle()
        actor.collect()
        actor.carry_to_client(1 << 24)
        self.now_us += 50_000
        self.broker.on_time(self.now_us)

    def check_subscribers(self) -> None:
        """Everybody else goes, whoever subscribes takes everything: all that was for it must have come."""
        for other in [actor for actor in self.actors if not isinstance(actor, Subscriber)]:
            self.drop(other)
        greedy = [actor for actor in self.actors if isinstance(actor, Subscriber)]
        for actor in greedy:
            actor.greedy = True
        for _ in range(QUIET_ROUNDS if greedy else 0):
            for actor in greedy:
                self.attend(actor)
        for actor in greedy:
            self.oracle.check_all_came(actor.subscribed)

    def check_quota(self) -> None:
        most = self.swarm.quota_messages
        if most and self.manager.queues[SMALL].statistics.depth > most:
            raise Broken(f"more than {most} messages are on {SMALL}")

    def check_recovery(self) -> None:
        """recover∘recover = recover, on copies of the disk as it is."""
        first_disk = self.disk.copy().of_size(UNBOUNDED_BYTES)
        first = self._recovered(first_disk)
        second = self._recovered(first_disk.copy())
        if first != second:
            raise Broken(f"recovering twice gives another state: {first} and then {second}")

    def _recovered(self, disk: SimDisk) -> list[object]:
        found = self._open(disk, SimWriter(disk)).recovered
        return [
            [(queue, bytes(packed)) for queue, packed in found.backlog],
            [(queue, bytes(packed)) for queue, packed in found.unborn],
            sorted(repr(vars(row)) if hasattr(row, "__dict__") else repr(row) for row in found.explicit),
            [(queue, int(state), list(map(int, serials))) for queue, state, serials in found.lost],
            found.sinks,
            found.assigned,
            found.spark_subscriptions,
        ]

    def read_all(self, queue: str) -> list[int]:
        """Consume everything from a queue, each message once."""
        binding = self.broker.connect("simulated", [ANONYMOUS], self.passed_us(), self.now_us)
        assert binding is not None
        self.actors_made += 1
        reader = Reader(self, f"reader{self.actors_made}", binding, queue)
        quiet = 0
        while quiet < QUIET_ROUNDS:
            before = len(reader.ids)
            self.attend(reader)
            if self.swarm.disk_bytes:
                self.maintain_all()  # the thread that does it would have had its turn by now
            quiet = quiet + 1 if len(reader.ids) == before else 0
        self.drop_reader(reader)
        return reader.ids

    def drop_reader(self, reader: "Reader") -> None:
        reader.binding.lost(self.now_us)
        self.settle()

    def check_space(self) -> None:
        """Everything was read, so there is room for new messages again, without anybody's help."""
        for _ in range(QUIET_ROUNDS if self.swarm.disk_bytes else 0):
            self.maintain_all()
            self.now_us += RETRY_US
            self.settle()
            self.ledger.mark_idle()
            self.settle()
        if self.ledger.space_low:
            raise Broken(
                f"nothing is held, and new messages are refused: {self.disk.free_bytes()} bytes free"
            )

    def check_statistics(self) -> None:
        """Everything was read, so the counters of what is held must be back at nothing."""
        for name in (*self.swarm.sources, DEAD_LETTERS):
            held = {
                key: value
                for key, value in self.manager.queues[name].statistics.snapshot().items()
                if value and key.endswith(("_current", "_pending")) and not key.startswith("consumers")
            }
            if held:
                raise Broken(f"queue {name} is empty and its statistics say {held}")
