"""Blocked sends against a plain reference: who is let in, in which order, and that nothing is lost or counted
twice."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.kernel.quota_definition import QuotaDefinition
from postroom.manager.producing.blocked_sends import blocked_sends_of
from postroom.manager.producing.quotas import quotas_of
from tests.manager.world import MS, TestSink, World
from tests.sampling import examples

LINKS = 4
QUEUES = ("a", "b", "free")


@dataclass
class Waiting:
    token: int
    link: int
    queue: str
    size: int
    due_us: int


@dataclass
class Reference:
    """One pool for queues a and b; a line; links whose sends keep their order."""

    max_messages: int
    max_bytes: int
    preemptive: bool
    stored: list[tuple[str, int]] = field(default_factory=list)
    line: list[Waiting] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)

    def fits(self, queue: str, size: int) -> bool:
        held = [s for q, s in self.stored if q != "free"]
        if queue == "free":
            return True
        room = self.max_bytes < 0 or sum(held) + size <= self.max_bytes
        return room and (self.max_messages < 0 or len(held) < self.max_messages)

    def send(self, waiting: Waiting) -> None:
        if waiting.queue != "free" and 0 <= self.max_bytes < waiting.size:
            return  # it could never fit: refused at once
        behind = any(w.link == waiting.link for w in self.line)
        line = [w for w in self.line if w.queue != "free"]
        overtakes = not self.preemptive and bool(line) and waiting.queue != "free"
        if not behind and not overtakes and self.fits(waiting.queue, waiting.size):
            self.take(waiting)
        else:
            self.line.append(waiting)

    def take(self, waiting: Waiting) -> None:
        self.stored.append((waiting.queue, waiting.size))
        self.accepted.append(waiting.token)

    def admit(self) -> None:
        """Let in until nobody can go in any more."""
        while True:
            found = next((w for w in self.line if self._may(w)), None)
            if found is None:
                return
            self.line.remove(found)
            self.take(found)

    def _may(self, waiting: Waiting) -> bool:
        first = next(w for w in self.line if w.link == waiting.link)
        if first is not waiting or not self.fits(waiting.queue, waiting.size):
            return False
        if self.preemptive or waiting.queue == "free":
            return True
        return next(w for w in self.line if w.queue != "free") is waiting


class Blocking(RuleBasedStateMachine):
    @initialize(
        max_messages=st.integers(1, 6), max_bytes=st.sampled_from([-1, 40, 100]), preemptive=st.booleans()
    )
    def start(self, max_messages: int, max_bytes: int, preemptive: bool) -> None:
        self.world = World(ManagerOptions(max_live_entries=10, live_head=4, min_live_head=2))
        self.reference = Reference(max_messages, max_bytes, preemptive)
        self._define(max_messages, max_bytes, create=True)
        for name in ("a", "b"):
            self.world.queue(name, quota="room")
        self.world.queue("free")
        self.sink = TestSink()
        open_producer = self.world.manager.open_producer
        self.links = [open_producer(f"l{n}", "c", "u", 50) for n in range(LINKS)]
        self.sinks = [TestSink() for _ in range(LINKS)]

    def _define(self, max_messages: int, max_bytes: int, create: bool) -> None:
        policy = "preemptive" if self.reference.preemptive else "fifo"
        definition = QuotaDefinition("room", max_messages, max_bytes, policy)
        manager = self.world.manager
        (manager.create_quota if create else manager.update_quota)(definition, self.world.now_us)

    @rule(link=st.integers(0, LINKS - 1), queue=st.sampled_from(QUEUES), size=st.integers(1, 40))
    def send(self, link: int, queue: str, size: int) -> None:
        token = self.world.put(
            self.world.manager.queue(queue), bytes(size), self.sinks[link], producer=self.links[link]
        )
        due_us = self.world.now_us + 50 * MS
        self.reference.send(Waiting(token, link, queue, size, due_us))
        self._rest()

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 3))
    def consume(self, queue: str, count: int) -> None:
        for _ in range(count):
            consumer = self.world.consumer(self.world.manager.queue(queue), credit=1)
            self.world.turn()
            for entry in self.world.held(consumer):
                self.world.accept(consumer, entry)
                self.reference.stored.remove((queue, int(entry.body_len)))
                self.reference.admit()
            self.world.close(consumer)
            self._rest()

    @rule(ms=st.integers(1, 30))
    def wait(self, ms: int) -> None:
        reference = self.reference
        end_us = self.world.now_us + ms * MS
        self.world.turn(ms)
        while True:
            late = [w for w in reference.line if w.due_us <= end_us]
            if not late:
                break
            reference.line = [w for w in reference.line if w not in late]
            reference.admit()
        self._rest()

    @rule(max_messages=st.integers(0, 8), max_bytes=st.sampled_from([-1, 40, 60, 120]))
    def redefine(self, max_messages: int, max_bytes: int) -> None:
        self._define(max_messages, max_bytes, create=False)
        reference = self.reference
        reference.max_messages, reference.max_bytes = max_messages, max_bytes
        if max_messages == 0:
            self._define(1, 40, create=False)
            reference.max_messages, reference.max_bytes = 1, 40
        reference.admit()
        self._rest()

    @rule(link=st.integers(0, LINKS - 1))
    def lose(self, link: int) -> None:
        self.world.manager.withdraw_sends(self.links[link], self.world.now_us)
        self.reference.line = [w for w in self.reference.line if w.link != link]
        self.reference.admit()
        self._rest()

    @rule(name=st.sampled_from(["a", "b"]))
    def purge(self, name: str) -> None:
        self.world.manager.purge_queue(name, self.world.now_us)
        self.reference.stored = [(q, s) for q, s in self.reference.stored if q != name]
        self.reference.admit()
        self._rest()

    def _rest(self) -> None:
        self.world.turn()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "world"):
            return
        core, reference = self.world.manager.core, self.reference
        accepted = sorted(token for sink in self.sinks for token in sink.accepted)
        assert accepted == sorted(reference.accepted)
        assert blocked_sends_of(core).count == len(reference.line)
        assert blocked_sends_of(core).bytes == sum(w.size + 320 for w in reference.line)
        for number, sink in enumerate(self.sinks):
            assert sink.blocked == sum(w.link == number for w in reference.line)
            assert sink.accepted == sorted(sink.accepted), "sends of one link keep their order"
        for name in QUEUES:
            statistics = self.world.manager.queue(name).statistics
            held = [s for q, s in reference.stored if q == name]
            assert (statistics.depth, statistics.depth_bytes) == (len(held), sum(held))
            assert statistics.blocked == sum(w.queue == name for w in reference.line)
        pool = quotas_of(core).by_name["room"].pool
        held = [s for q, s in reference.stored if q != "free"]
        assert (pool.messages, pool.bytes, pool.line.count) == (
            len(held),
            sum(held),
            sum(w.queue != "free" for w in reference.line),
        )


Blocking.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestBlocking = Blocking.TestCase


def test_a_quota_of_nothing_keeps_those_who_wait_until_their_time_is_over() -> None:
    world = World()
    world.manager.create_quota(QuotaDefinition("room", 1), world.now_us)
    queue, sink = world.queue(quota="room"), TestSink()
    producer = world.manager.open_producer("l", "c", "u", 50)
    world.put(queue, sink=sink, producer=producer)
    world.put(queue, sink=sink, producer=producer)
    world.manager.update_quota(QuotaDefinition("room", 0), world.now_us)
    world.manager.purge_queue("q", world.now_us)
    world.turn(50)
    assert (len(sink.accepted), len(sink.rejected)) == (1, 1)
    world.manager.update_queue(QueueDefinition(name="q"), world.now_us)
