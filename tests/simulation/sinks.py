"""A Spark job that writes, beside all other clients: ``python -m tests.simulation.sinks --seeds 300``; one
again: ``… --seed 17``.

Its tasks send in branches; its driver commits what it chooses of them, requests it again where no answer
comes, and sometimes begins a new run. What the job remembers outlives connections and crashes, as Spark's
checkpoint does. What it requires of the broker is what `postroom.manager.spark.sink_verbs` promises: a batch
is there once, whole, and nothing of it before it is committed; nothing else of the job ever is.
"""

import sys
from dataclasses import dataclass, field
from typing import Final

from postroom.amqp.engine.sender import SenderLink
from postroom.amqp.frames.outcomes import DeliveryState, Rejected, TransactionalState
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Message
from postroom.manager.spark.sink import sinks_of
from postroom.server.connection.binding import ConnectionBinding
from tests.simulation.actors import Surroundings, new_message
from tests.simulation.managers import OK, Manager, number, parts_of
from tests.simulation.oracle import Answer, Broken, Fate, Unit
from tests.simulation.seeds import command
from tests.simulation.world import DRAIN_ROUNDS, World

SINK_TYPE: Final = "postroom.sink"
MANY: Final = 2
APP: Final = "app"
UNKNOWN: Final = "postroom:sink-branch-unknown"
MOST_ATTEMPTS: Final = 4
"""Of one batch."""
WORKERS: Final = 6
"""Among the kinds of clients."""


@dataclass(eq=False)
class Attempt:
    """Of one task: what it has sent in its branch."""

    run: int
    unit: Unit = field(default_factory=lambda: Unit("prepared"))
    branch: str = ""
    sent: int = 0
    refused: int = 0
    is_sealed: bool = False
    is_left: bool = False
    """Its connection is gone."""


class Job:
    """What the job remembers: of the batch that it is in, and of those before nothing but their number."""

    def __init__(self) -> None:
        self.run = 0
        self.fenced_through = -1
        """Runs of which the broker has answered that another has taken their place."""
        self.let_in: set[int] = set()
        """Runs that the broker has answered."""
        self.batch_id = 0
        self.attempts: list[Attempt] = []
        self.unanswered_winners: list[Attempt] | None = None
        """The winners that a commit has named which was not answered yet."""
        self.commit_requests = 0
        """How often the commit of this batch was requested."""
        self.commits = 0


class SparkWorld(World):
    """A world with such a job."""

    clock_jumps = False  # it ends the batches that are open

    def __init__(self, seed: int) -> None:
        self.job = Job()
        super().__init__(seed)
        self.kinds += [Worker] * WORKERS

    def step(self) -> None:
        super().step()
        for app in sinks_of(self.manager.core).apps.values():
            for branch in app.branches.values():
                if branch.batch_id <= app.last_batch() or branch.run_id != app.run_id:
                    what = f"{branch.name} of {branch.run_id} is left in {app.run_id}"
                    raise Broken(f"branch {what}, after batch {app.last_batch()}")

    def decide_branches(self) -> None:
        """A last run finds out what has become of the last commit, and takes back what is left."""
        super().decide_branches()
        self.job.run += 1
        worker = self.enter(Worker)
        worker.finishes = True
        for _ in range(DRAIN_ROUNDS):
            self.attend(worker)
            if worker.is_over:
                break
        else:
            raise Broken("the last run of the job doesn't come to its end")
        worker.binding.lost(self.now_us)
        if sinks_of(self.manager.core).branches:
            raise Broken(f"branches are left: {list(sinks_of(self.manager.core).branches)}")


class Worker(Manager):
    """Task and driver of the job, one thing after another."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        assert isinstance(world, SparkWorld)
        self.job = world.job
        self.target = world.random.choice(world.swarm.queues)
        self.out: SenderLink = self.session.attach_sender(
            f"{name}-out", Source(), Target(address=self.target)
        )
        self.attempt: Attempt | None = None
        self.txn_id = b""
        self.verb = ""
        self.run = 0
        """Of its last request; likewise the next three."""
        self.batch_id = 0
        self.refusal = ""
        """What it must be answered with: it has requested something that may not be."""
        self.taking_back: Attempt | None = None
        self.tags = 0
        self.finishes = False
        self.is_over = False

    # What is requested.

    def go_on(self) -> None:
        job, random = self.job, self.world.random
        mine = self.attempt if self.attempt in job.attempts else None
        if self.finishes:
            self.finish()
        elif random.random() < 0.02:
            job.run += 1
        elif job.fenced_through < job.run - 1:
            self.begin()  # the first of a run finds out how far the one before has come
        elif job.unanswered_winners is not None:
            self.commit(job.unanswered_winners)
        elif mine is not None and not mine.is_sealed:
            if random.random() < 0.75:
                self.send(mine)
            else:
                self.request("SEAL", {"branch": mine.branch})
        elif random.random() < 0.15:
            self.try_in_vain()
        elif random.random() < 0.5 and len(job.attempts) < MOST_ATTEMPTS:
            self.begin()
        else:
            self.decide()

    def decide(self) -> None:
        """Take back what a lost connection has left, or commit some of what is sealed."""
        job, random = self.job, self.world.random
        left = [each for each in job.attempts if each.is_left and not each.is_sealed and each.branch]
        sealed = [each for each in job.attempts if each.is_sealed]
        if left and random.random() < 0.3:
            self.taking_back = left[0]
            self.request("ROLLBACK", {"branch": left[0].branch})
        elif sealed:
            winners = random.sample(sealed, random.randrange(1, len(sealed) + 1))
            for attempt in winners:
                attempt.unit.decision = "deciding"
            job.unanswered_winners = winners
            self.commit(winners)

    def finish(self) -> None:
        if self.job.fenced_through < self.job.run - 1:
            self.begin()
        else:
            self.request("ROLLBACK", {})

    def begin(self) -> None:
        self.attempt = None
        self.request("BEGIN", {"partition": len(self.job.attempts), "attempt": 0})

    def commit(self, winners: list[Attempt]) -> None:
        self.job.commit_requests += 1
        names = [attempt.branch for attempt in winners]
        self.request("COMMIT", {"digest": f"d{self.job.batch_id}", "branches": names})

    def try_in_vain(self) -> None:
        """What must be refused: an earlier run, or a batch that is another one than was decided."""
        job = self.job
        if job.run - 1 in job.let_in and self.world.random.random() < 0.5:
            self.request("BEGIN", {}, run=job.run - 1)
            self.refusal = "postroom:sink-fenced"
        elif job.batch_id > 0:
            self.request("COMMIT", {"digest": "other", "branches": []}, batch_id=job.batch_id - 1)
            self.refusal = "postroom:sink-batch-replaced"

    def request(self, verb: str, body: dict[str, object], run: int = -1, batch_id: int = -1) -> None:
        self.verb, self.refusal = verb, ""
        self.run = self.job.run if run < 0 else run
        self.batch_id = self.job.batch_id if batch_id < 0 else batch_id
        who = {"query_id": "q", "run_id": f"run {self.run}", "batch_id": self.batch_id}
        self.send_request(verb, SINK_TYPE, {"name": APP}, {**who, **body})

    def send(self, attempt: Attempt) -> None:
        if self.out.attached and self.out.credit > 0:
            padding = self.world.random.choice(self.world.swarm.paddings)
            fate, payload = new_message(self.world, self.target, self.name, attempt.unit, padding)
            for one in (fate, *fate.copies):
                one.durable = True  # whatever its mode, it is stored
            attempt.sent += 1
            self.tags += 1
            state = TransactionalState(self.txn_id)
            self.out.send(payload, self.tags.to_bytes(4, "big"), False, state=state, context=fate)

    # What is answered.

    def answered(self, context: object, state: DeliveryState | None) -> None:
        outcome = state.outcome if isinstance(state, TransactionalState) else state
        if isinstance(context, Fate) and isinstance(outcome, Rejected) and self.attempt is not None:
            self.world.oracle.answered(context, Answer.REFUSED)
            self.attempt.refused += 1

    def on_reply(self, reply: Message) -> None:
        status, condition, body = parts_of(reply)
        if self.refusal and condition != self.refusal:
            raise Broken(
                f"{self.verb} of run {self.run}, batch {self.batch_id} is answered {status} {condition}"
            )
        if self.refusal or self.run < self.job.run or self.batch_id < self.job.batch_id:
            return  # nothing new
        if self.verb == "SEAL" and condition == UNKNOWN and self.job.unanswered_winners is not None:
            return  # it has lost, and the answer to the commit is under way
        if self.verb == "SEAL" and condition == UNKNOWN and self.was_forced():
            return
        if status != OK:
            raise Broken(f"{self.verb} was answered with {status} {condition}")
        if self.verb == "BEGIN":
            self.on_begun(body)
        elif self.verb == "SEAL":
            self.on_sealed(number(body["sent"]))
        elif self.verb == "COMMIT":
            self.on_committed(str(body["status"]))
        elif self.verb == "ROLLBACK":
            self.on_rolled_back()

    def was_forced(self) -> bool:
        """Whether the branch has something of a queue that is deleted by force: it is gone with that."""
        attempt = self.attempt
        if attempt is None or attempt not in self.job.attempts or not attempt.unit.may_be_forced:
            return False
        self.all_lost([attempt])
        return True

    def on_begun(self, body: dict[str, object]) -> None:
        job, is_decided = self.job, body["decided"] is True
        if is_decided:
            if job.unanswered_winners is None:
                raise Broken(f"batch {job.batch_id} is decided and nobody has committed it")
            self.done(job.unanswered_winners)
        elif job.fenced_through < job.run - 1:
            self.all_lost([each for each in job.attempts if each.run < job.run])
            job.unanswered_winners = None
        job.fenced_through = job.run - 1
        job.let_in.add(job.run)
        if not is_decided:
            self.attempt = Attempt(job.run, branch=str(body["branch"]))
            txn_id = body["txn_id"]
            assert isinstance(txn_id, bytes)
            self.txn_id = txn_id
            job.attempts.append(self.attempt)

    def on_sealed(self, sent: int) -> None:
        attempt = self.attempt
        if attempt is None or attempt not in self.job.attempts:
            return
        if sent != attempt.sent - attempt.refused:
            raise Broken(
                f"{attempt.branch} has {sent} messages: sent {attempt.sent}, {attempt.refused} refused"
            )
        attempt.is_sealed = True

    def on_committed(self, status: str) -> None:
        if status == "already" and self.job.commit_requests < MANY:
            raise Broken(f"batch {self.batch_id} was committed before, by nobody")
        if self.job.unanswered_winners is not None:
            self.done(self.job.unanswered_winners)

    def done(self, winners: list[Attempt]) -> None:
        """The batch is committed: these are there, and nothing else of it."""
        for attempt in winners:
            self.world.oracle.decided(attempt.unit, True)
        self.all_lost([each for each in self.job.attempts if each not in winners])
        self.job.attempts, self.job.unanswered_winners = [], None
        self.job.commit_requests = 0
        self.job.batch_id += 1
        self.job.commits += 1

    def all_lost(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            self.world.oracle.decided(attempt.unit, False)
            self.job.attempts.remove(attempt)

    def on_rolled_back(self) -> None:
        if self.finishes:
            self.all_lost(list(self.job.attempts))
            self.is_over = True
        elif self.taking_back is not None and self.taking_back in self.job.attempts:
            self.all_lost([self.taking_back])

    def gone(self) -> None:
        if self.attempt is not None:
            self.attempt.is_left = True


def counts(world: SparkWorld) -> dict[str, int]:
    """The counts of all worlds together."""
    return {"batches committed": world.job.commits, "crashes": world.crashes}


if __name__ == "__main__":
    sys.exit(command("python -m tests.simulation.sinks", __doc__, SparkWorld, counts))
