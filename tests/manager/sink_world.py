"""What tests of Spark sinks have in common: a job whose tasks and driver speak to a world's queue manager."""

from dataclasses import dataclass, replace

from postroom.manager.kernel.errors import ManagerError
from postroom.manager.queues.queue import Queue
from postroom.manager.spark.sink import SinkBranch, SinkContact
from tests.manager.world import World


@dataclass
class Job:
    """One run of a query that writes to a sink."""

    world: World
    app: str = "app"
    query_id: str = "query"
    run_id: str = "run1"
    above: bool = False
    accept_duplicates: bool = False

    def contact(self, batch_id: int, digest: str = "") -> SinkContact:
        return SinkContact(
            self.app, self.query_id, self.run_id, batch_id, digest, self.above, self.accept_duplicates
        )

    def begin(
        self, batch_id: int = 0, partition: int = 0, attempt: int = 0, digest: str = ""
    ) -> SinkBranch | None:
        sinks = self.world.manager.sinks
        return sinks.begin(self.contact(batch_id, digest), partition, attempt, self.world.now_us)

    def opened(self, batch_id: int = 0, partition: int = 0, attempt: int = 0) -> SinkBranch:
        branch = self.begin(batch_id, partition, attempt)
        assert branch is not None, "the batch is decided"
        return branch

    def seal(self, branch: SinkBranch) -> str:
        return self.world.manager.sinks.seal(self.app, branch.name, self.world.now_us).name

    def sent(
        self, queue: Queue, *bodies: bytes, batch_id: int = 0, partition: int = 0, attempt: int = 0
    ) -> str:
        """The name of a sealed branch with these messages."""
        branch = self.opened(batch_id, partition, attempt)
        for body in bodies:
            self.world.put(queue, body, transaction=branch.transaction)
        return self.seal(branch)

    def commit(
        self, *names: str, batch_id: int = 0, digest: str = "", offsets: str = "", position: int | None = None
    ) -> tuple[bool, int]:
        contact = self.contact(batch_id, digest or f"digest{batch_id}")
        return self.world.manager.sinks.commit(contact, offsets, position, list(names), self.world.now_us)

    def batch(self, queue: Queue, batch_id: int, *bodies: bytes, **more: object) -> None:
        """Send it with one task, and commit."""
        self.commit(self.sent(queue, *bodies, batch_id=batch_id), batch_id=batch_id, **more)  # type: ignore[arg-type]

    def next_run(self, run_id: str = "run2", **changed: object) -> "Job":
        return replace(self, run_id=run_id, **changed)  # type: ignore[arg-type]


def refused(kind: type[ManagerError], verb: object) -> ManagerError:
    """The refusal of that kind with which ``verb`` ends."""
    assert callable(verb)
    try:
        verb()
    except ManagerError as error:
        assert type(error) is kind, error
        return error
    raise AssertionError("it was not refused")


def received(world: World, name: str = "q") -> list[bytes]:
    """Everything that is available on the queue, in order; it is consumed."""
    consumer = world.consumer(world.manager.queue(name), credit=100)
    bodies = world.turn()
    for entry in world.held(consumer):
        world.accept(consumer, entry)
    world.close(consumer)
    world.turn()
    return bodies
