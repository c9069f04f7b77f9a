"""A Spark query that consumes a queue, beside all other clients: ``python -m tests.simulation.spark_queries
--seeds 300``; one again: ``… --seed 17``.

It plans by what the broker says, reads the ledger's files from the disk, takes what it has read into a table
together with the position, and confirms that. What is in the table outlives connections and crashes. It asks
no more of the broker than `postroom.manager.spark.subscription_verbs` promises: everything that is assigned
is there once, whenever it is read, nobody else gets it, and what a position confirms is what lies before it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from postroom.amqp.message.sections import Data, Message, decode_message
from postroom.ledger.reading.body_reader import BodyReader
from postroom.ledger.reading.reader import LedgerReader
from postroom.manager.queues.entry_lookup import held_serials
from postroom.manager.spark.subscription import SparkSubscriptionDefinition
from postroom.model.codes import Event, HolderKind
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.actors import Surroundings
from tests.simulation.disk import SimDisk
from tests.simulation.managers import OK, Manager, Mover, Replayer, number, parts_of
from tests.simulation.oracle import Broken, Fate, Oracle
from tests.simulation.seeds import command
from tests.simulation.world import World

TYPE: Final = "postroom.spark-subscription"
NAME: Final = "query"
CHECKPOINT: Final = "checkpoint"
QUERIES: Final = 3
"""Among the kinds of clients."""

LOST: Final = 0
"""The id of a message that wasn't persistent, and of which a crash has left nothing else."""

Place = tuple[int, int]
"""Position and serial of what was assigned."""


class Table:
    """What the query has taken for good, and what it knows of the ledger."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.position = 0
        """Everything that was assigned up to here is in it."""
        self.confirmed = 0
        """As the broker has answered."""
        self.let_go = 0
        """As it was last asked to: what lies there or before is in the table, and may be gone from the ledger
        although the answer never came."""
        self.rows: dict[Place, Fate] = {}
        self.known: dict[Place, int] = {}
        """Ids of all that was ever read: whoever reads it again must read the same."""
        self.planned = 0
        self.is_registered = False

    def lets_go(self, position: int) -> None:
        """The broker is asked to confirm: from now on it may have heard of that."""
        self.let_go = max(self.let_go, position)
        for (at, _), fate in self.rows.items():
            if at <= position:
                fate.holder = ""

    def ended(self, confirmed: int) -> None:
        """The broker has ended the subscription: what isn't confirmed went back to its place, and whoever has
        such rows must take them out again."""
        for place in [place for place in self.rows if place[0] > confirmed]:
            self.rows.pop(place).holder = ""

    def confirm(self, position: int, oracle: Oracle) -> None:
        """The broker has answered: what lies there or before is over."""
        self.confirmed = max(self.confirmed, position)
        for (at, _), fate in self.rows.items():
            if at <= position and not fate.settled_by:
                oracle.settled(fate, "accepted")
                fate.holder = ""


class QueryWorld(World):
    """A world with such a query."""

    clock_jumps = False  # it ends the subscription's lease

    def __init__(self, seed: int) -> None:
        self.table: Table | None = None
        self.is_over = False
        super().__init__(seed)
        # What they bring from another queue may have no body in the ledger.
        self.kinds = [kind for kind in self.kinds if kind not in (Mover, Replayer)]
        self.kinds += [Query] * QUERIES

    def _start(self) -> None:
        super()._start()
        if self.table is None:
            alone = [name for name in self.swarm.plain_queues() if self.swarm.traits.get(name) != "groups"]
            self.table = Table(self.random.choice(alone or ["q0"]))
            if not alone:
                self.swarm.traits["q0"] = "plain"
        service = self.manager.spark_subscriptions
        if NAME not in service.all and not self.is_over:
            window = self.random.choice((2, 5, 20, 1000))
            service.create(SparkSubscriptionDefinition(NAME, self.table.queue, window), self.now_us)

    def crash(self) -> None:
        super().crash()
        assert self.table is not None
        for (position, _), fate in self.table.rows.items():
            if position > self.table.let_go and fate.durable and not self.is_over:
                fate.holder = NAME

    def step(self) -> None:
        super().step()
        self.hear_of_end()

    def hear_of_end(self) -> None:
        """Where the disk is too small, the broker ends the subscription rather than refuse messages. It stays
        in the list until it is deleted."""
        spark = self.manager.spark_subscriptions.all.get(NAME)
        if spark is not None and spark.ended_us and not self.is_over:
            assert self.table is not None and self.swarm.disk_bytes and spark.reason == "space"
            self.table.ended(spark.confirmed)
            self.is_over = True

    def decide_branches(self) -> None:
        """The query confirms what it has, and is no more: the rest goes back to its place."""
        super().decide_branches()
        assert self.table is not None
        service, position = self.manager.spark_subscriptions, self.table.position
        self.hear_of_end()
        if self.table.is_registered and not self.is_over:
            self.compare_held()
        if self.table.is_registered and position and not self.is_over:
            service.confirm(NAME, CHECKPOINT, position, self.now_us)
            self.table.confirm(position, self.oracle)
        service.delete(NAME, self.now_us)
        self.is_over = True
        self.settle()
        if self.random.random() < 0.5:
            self.crash()
        for fate in self.table.rows.values():
            fate.holder = ""

    def compare_held(self) -> None:
        """What the broker holds for the query is held by its ledger's word, too, once all is durable."""
        self.settle()
        queue = self.manager.spark_subscriptions.all[NAME].queue
        held = {int(serial) for serials in held_serials(queue) for serial in serials}
        with copied(self.disk) as folder:
            recorded = {serial for _, serial in _assigned(LedgerReader(folder, beyond_durable=True))}
        if held - recorded:
            raise Broken(f"{NAME} holds {sorted(held - recorded)}, and no record of the ledger assigns them")


class Query(Manager):
    """Plans, reads and confirms, one thing after another."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        assert isinstance(world, QueryWorld) and world.table is not None
        self.surroundings = world
        self.table = world.table
        self.queue = NAME
        self.verb = ""
        self.position = 0

    def go_on(self) -> None:
        if self.surroundings.is_over:
            return
        table, random = self.table, self.world.random
        if not table.is_registered:
            self.request("REGISTER", {"replace": False})
        elif table.planned > table.position and random.random() < 0.6:
            self.read()
        elif table.position > table.confirmed and random.random() < 0.6:
            self.confirm(table.position)
        elif table.confirmed and random.random() < 0.1:
            self.confirm(random.randrange(1, table.confirmed + 1))
        else:
            self.request("PLAN", {})

    def confirm(self, position: int) -> None:
        self.position = position
        self.table.lets_go(position)
        self.request("CONFIRM", {"position": position})

    def request(self, verb: str, body: dict[str, object]) -> None:
        self.verb = verb
        self.send_request(verb, TYPE, {}, {"checkpoint": CHECKPOINT, **body})

    def on_reply(self, reply: Message) -> None:
        status, condition, body = parts_of(reply)
        if self.surroundings.is_over:
            return
        if status != OK:
            raise Broken(f"{self.verb} was answered with {status} {condition}")
        self.table.is_registered = True
        table, confirmed = self.table, number(body["confirmed"])
        if not table.position:
            table.position = table.confirmed = confirmed  # where it began
        if confirmed > table.position:
            raise Broken(f"{confirmed} is confirmed, and the table has {table.position}")
        table.planned = max(table.planned, number(body["assigned_through"]))
        if self.verb == "CONFIRM":
            table.confirm(self.position, self.world.oracle)

    def read(self) -> None:
        """A batch: everything that was assigned behind the table's position, or the first part of it."""
        table = self.table
        found, durable_through = self.found()
        planned = min(table.planned, durable_through)
        fresh = {place: id for place, id in found.items() if table.position < place[0] <= planned}
        through = self.world.random.choice([planned, *(position for position, _ in fresh)])
        for place, id in sorted(fresh.items()):
            if place[0] <= through and id != LOST:
                table.rows[place] = self.taken(id)
        table.position = max(table.position, through)

    def taken(self, id: int) -> Fate:
        oracle = self.world.oracle
        if any(fate.id == id for fate in self.table.rows.values()):
            raise Broken(f"message {id} was assigned to {NAME} twice")
        fate = oracle.taken(id, self.table.queue, self.world.now_us, NAME)
        fate.holder = NAME
        oracle.gave(fate, "accepted")
        return fate

    def found(self) -> tuple[dict[Place, int], int]:
        """The ids of all that was assigned and is not confirmed, by place; and how far is durable as far as a
        reader of the files can tell."""
        table = self.table
        with copied(self.surroundings.disk) as folder:
            reader = LedgerReader(folder)
            places = [place for place in _assigned(reader) if place[0] > table.confirmed]
            bodies = BodyReader(folder).read(np.array([serial for _, serial in places], np.uint64))
        spans = zip(bodies.starts.tolist(), bodies.ends.tolist(), strict=True)
        texts = [bytes(bodies.bodies[first:last]) for first, last in spans]
        ids = {
            place: _id_in(text) if text else table.known.get(place, LOST)
            for place, text in zip(places, texts, strict=True)
        }
        missing = [place for place in table.known if place[0] > table.let_go and place not in ids]
        changed = [place for place, id in ids.items() if table.known.get(place, id) not in (id, LOST)]
        if missing or changed:
            raise Broken(f"read again, {missing} are missing and {changed} are others")
        table.known.update(ids)
        return ids, reader.durable_through


@contextmanager
def copied(disk: SimDisk) -> Iterator[Path]:
    """A folder with the ledger's files as they are now, while the block runs."""
    with TemporaryDirectory() as name:
        yield disk.write_out(Path(name))


def _assigned(reader: LedgerReader) -> list[Place]:
    found: list[Place] = []
    for rows in reader.rows():
        own = rows["event"] == int(Event.ACQUIRE)
        own &= rows["holder_kind"] == int(HolderKind.SPARK_SUBSCRIPTION)
        found += zip(rows["position"][own].tolist(), rows["serial"][own].tolist(), strict=True)
    return found


def _id_in(sections: bytes) -> int:
    body = decode_message(sections).body
    assert isinstance(body, Data)
    return int(body.joined().split(b";", 1)[0])


def counts(world: QueryWorld) -> dict[str, int]:
    """The counts of all worlds together."""
    assert world.table is not None
    return {"messages taken": len(world.table.rows), "crashes": world.crashes}


if __name__ == "__main__":
    sys.exit(command("python -m tests.simulation.spark_queries", __doc__, QueryWorld, counts))
