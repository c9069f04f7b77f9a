"""Random publishes, subscriptions and restarts against a model that is nothing but lists."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.manager.administration.subscriptions import Subscribing
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.kernel.transaction import Transaction
from postroom.manager.queues.queue import Queue
from tests.manager.destinations.pattern_matches import matches
from tests.manager.over_ledger import LedgerWorld
from tests.sampling import examples

TOPICS = ("a", "a.b", "a.c", "x")
PATTERNS = ("a", "a.b", "a.*", "a.#", "#", "x")
NAMES = ("s1", "s2", "s3", "s4")
FEW_OBJECTS = ManagerOptions(live_head=4, min_live_head=2, max_routing_sets=2, fetch_entries=3)

STEPS = st.sampled_from(
    ["publish"] * 5
    + ["subscribe"] * 3
    + ["take"] * 3
    + ["begin", "decide", "unsubscribe", "maintain", "restart"]
)


@dataclass
class Expected:
    """One durable subscription: what waits on it, in order; True: persistent."""

    pattern: str
    waiting: list[tuple[bytes, bool]] = field(default_factory=list)


class Machine:
    """The queue manager over its ledger, and the model."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.world = LedgerWorld(FEW_OBJECTS)
        self.model: dict[str, Expected] = {}
        self.transaction: Transaction | None = None
        self.provisional: list[tuple[str, bytes, bool]] = []
        self.published = 0
        for name in TOPICS:
            self.world.manager.create_queue(QueueDefinition(name=name, kind="topic"), self.world.now_us)

    def step(self, name: str) -> None:
        getattr(self, name)()
        self.world.turn()

    def publish(self) -> None:
        topic = self.data.draw(st.sampled_from(TOPICS))
        durable = self.data.draw(st.booleans())
        within = self.transaction is not None and self.data.draw(st.booleans())
        self.published += 1
        body = b"%d" % self.published
        self.world.put(
            self.world.manager.topic(topic),
            body,
            durable=durable,
            transaction=self.transaction if within else None,
        )
        takers = self._matching(topic)
        if within:
            self.provisional += [(name, body, durable) for name in takers]
        else:
            self._arrive([(name, body, durable) for name in takers])

    def _matching(self, topic: str) -> list[str]:
        levels = topic.split(".")
        return [name for name, each in self.model.items() if matches(each.pattern.split("."), levels)]

    def _arrive(self, entries: list[tuple[str, bytes, bool]]) -> None:
        for name, body, durable in entries:
            if name in self.model:
                self.model[name].waiting.append((body, durable))

    def _subscription(self, name: str, pattern: str) -> Queue:
        wanted = Subscribing(pattern, "c", name, durable=True)
        return self.world.manager.subscribe(wanted, self.world.now_us)

    def subscribe(self) -> None:
        name = self.data.draw(st.sampled_from(NAMES))
        known = self.model.get(name)
        pattern = self.data.draw(st.sampled_from(PATTERNS))
        if known is not None and known.pattern != pattern and self._held(name):
            return
        self._subscription(name, pattern)
        if known is None or known.pattern != pattern:
            self.model[name] = Expected(pattern)

    def _held(self, name: str) -> bool:
        """Whether a transaction has put something there: then it can't go."""
        return any(each == name for each, _, _ in self.provisional)

    def unsubscribe(self) -> None:
        name = self.data.draw(st.sampled_from(NAMES))
        if name in self.model and not self._held(name):
            queue = self.world.manager.durable_subscription("c", name)
            self.world.manager.unsubscribe(queue, self.world.now_us)
            del self.model[name]

    def take(self) -> None:
        """Consume some, give the rest back."""
        if not self.model:
            return
        name = self.data.draw(st.sampled_from(sorted(self.model)))
        expected = self.model[name]
        count = self.data.draw(st.integers(1, 6))
        consumer = self.world.consumer(self._subscription(name, expected.pattern), count)
        got = self._taken(consumer)
        assert got == [body for body, _ in expected.waiting[:count]]
        keep = self.data.draw(st.integers(0, len(got)))
        for entry in self.world.held(consumer)[: len(got) - keep]:
            self.world.accept(consumer, entry)
        del expected.waiting[: len(got) - keep]
        self.world.close(consumer, lost=self.data.draw(st.booleans()))

    def _taken(self, consumer: Consumer) -> list[bytes]:
        before = len(self.world.delivered)
        self.world.turn()
        return [each.body for each in self.world.delivered[before:] if each.consumer is consumer]

    def begin(self) -> None:
        if self.transaction is None:
            self.transaction = self.world.manager.begin(self.world.now_us)

    def decide(self) -> None:
        if self.transaction is None:
            return
        if self.data.draw(st.booleans()):
            self.world.manager.commit(self.transaction, self.world.now_us)
            self._arrive(self.provisional)
        else:
            self.world.manager.rollback(self.transaction, self.world.now_us)
        self.transaction, self.provisional = None, []

    def maintain(self) -> None:
        self.world.ledger.flush()
        while self.world.ledger.maintenance_step():
            pass

    def restart(self) -> None:
        self.world.restart()
        self.transaction, self.provisional = None, []
        for expected in self.model.values():
            expected.waiting = [(body, durable) for body, durable in expected.waiting if durable]

    def check(self) -> None:
        """Counters, then everything taken from everybody; nothing is left in memory."""
        self.decide()
        self.world.turn()
        queues = {name: self._subscription(name, each.pattern) for name, each in self.model.items()}
        for name, queue in queues.items():
            assert queue.statistics.depth == len(self.model[name].waiting)
        for name, queue in queues.items():
            consumer = self.world.consumer(queue, 10_000)
            assert self._taken(consumer) == [body for body, _ in self.model[name].waiting]
            for entry in self.world.held(consumer):
                self.world.accept(consumer, entry)
            self.world.turn()
        core = self.world.manager.core
        assert (core.memory.cached_bytes, core.memory.volatile_bytes, core.memory.live_entries) == (0, 0, 0)
        assert (core.memory.shared_bodies, core.memory.shared_reads) == ({}, {})


@given(st.lists(STEPS, max_size=40), st.data())
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_every_subscription_has_what_was_published_for_it(steps: list[str], data: st.DataObject) -> None:
    machine = Machine(data)
    for step in steps:
        machine.step(step)
    machine.check()
