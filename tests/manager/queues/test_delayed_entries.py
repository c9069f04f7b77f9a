"""Entries that wait for a time, packed or not, against a plain list."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ManagerOptions, QueueDefinition
from postroom.manager.kernel.statistics import HeldByAll
from postroom.manager.queues import delayed_entries
from postroom.manager.queues.delayed_entries import DelayedEntries, can_be_packed, moment_us
from postroom.manager.queues.queue import Queue
from postroom.model import numbers as n
from postroom.model.codes import Outcome
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import World
from tests.sampling import examples


def unborn(queue: Queue, serial: int, due_us: int, expiry_us: int) -> Entry:
    entry = Entry(queue, serial, serial % 10, 3, expiry_us, serial * 2, serial * 3, None)
    entry.state = n.DELAYED
    entry.causes = n.UNBORN
    entry.due_us = due_us
    entry.place = 0
    return entry


def facts(entry: Entry) -> tuple[int, ...]:
    return (
        *(entry.serial, entry.priority, entry.flags, entry.due_us, entry.expiry_us, entry.body_serial),
        *(entry.body_offset, entry.body_len, entry.state, entry.causes, entry.place),
    )


class AgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = Queue(1, QueueDefinition(name="q"), 1000, HeldByAll())
        self.delayed: DelayedEntries = self.queue.delayed
        self.model: dict[int, tuple[int, ...]] = {}
        self.serial = 0
        self.now = 0

    @rule(
        times=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=30),
        packed=st.booleans(),
    )
    def add(self, times: list[tuple[int, int]], packed: bool) -> None:
        for due, expiry in times:
            self.serial += 1
            expiry_us = self.now + expiry if expiry else 0
            entry = unborn(self.queue, self.serial, self.now + due, expiry_us)
            self.model[self.serial] = facts(entry)
            assert can_be_packed(entry)
            if packed:
                self.delayed.pack(entry)
            else:
                self.delayed.add(entry)

    @rule(step=st.integers(0, 15), limit=st.integers(1, 60))
    def time_passes(self, step: int, limit: int) -> None:
        self.now += step
        for _ in range(limit):
            due = sorted((self._moment(f), serial) for serial, f in self.model.items())
            entry = self.delayed.pop(self.now)
            if not due or due[0][0] > self.now:
                assert entry is None
                return
            assert entry is not None
            assert facts(entry) == self.model.pop(due[0][1])

    @rule(data=st.data())
    def one_leaves(self, data: st.DataObject) -> None:
        entries = self.delayed.entries()
        assert [facts(entry) for entry in entries] == [
            self.model[serial] for _, serial in sorted((self._moment(f), s) for s, f in self.model.items())
        ]
        if entries:
            entry = data.draw(st.sampled_from(entries))
            self.delayed.discard(entry)
            del self.model[int(entry.serial)]

    @rule(count=st.integers(1, 50))
    def restored(self, count: int) -> None:
        other = DelayedEntries(self.queue)
        for number in range(count):
            self.serial += 1
            entry = unborn(self.queue, self.serial, self.now + 1 + number * 7 % 50, 0)
            self.model[self.serial] = facts(entry)
            other.pack(entry)
        self.delayed.restore(other._tail.getvalue())

    @rule(serial=st.integers(0, 200), limit=st.integers(1, 20))
    def some_behind_a_serial(self, serial: int, limit: int) -> None:
        found = self.delayed.behind(serial, limit)
        expected = sorted(each for each in self.model if each > serial)[:limit]
        assert [facts(entry) for entry in found] == [self.model[each] for each in expected]
        assert all(self.delayed.holds(entry) for entry in found)

    @invariant()
    def agrees(self) -> None:
        assert len(self.delayed) == len(self.model)
        assert sorted(self.delayed.serials()) == sorted(self.model)
        first = min((self._moment(f) for f in self.model.values()), default=0)
        assert self.delayed.next_us() == first

    def _moment(self, fact: tuple[int, ...]) -> int:
        due, expiry = fact[3], fact[4]
        return min(due, expiry) if expiry else due


AgainstAList.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
TestAgainstAList = AgainstAList.TestCase


def test_the_number_of_runs_stays_small() -> None:
    queue = Queue(1, QueueDefinition(name="q"), 1000, HeldByAll())
    waiting = queue.delayed
    now, serial = 0, 0
    for _ in range(2000):
        now += 10
        for spread in (7, 500, 3000):
            serial += 1
            waiting.pack(unborn(queue, serial, now + 1 + serial * 7919 % spread, 0))
        while waiting.pop(now) is not None:
            pass
    assert len(waiting._runs) <= 16


def test_a_full_tail_becomes_a_run() -> None:
    queue = Queue(1, QueueDefinition(name="q"), 1000, HeldByAll())
    for serial in range(1, delayed_entries.RUN_ENTRIES + 2):
        queue.delayed.pack(unborn(queue, serial, 10 + serial, 0))
    assert len(queue.delayed) == delayed_entries.RUN_ENTRIES + 1
    assert queue.delayed.next_us() == 11


@given(st.integers(0, 50), st.integers(0, 50))
def test_the_moment_is_whatever_comes_first(due_us: int, expiry_us: int) -> None:
    queue = Queue(1, QueueDefinition(name="q"), 1000, HeldByAll())
    times = [time for time in (due_us, expiry_us) if time]
    assert moment_us(unborn(queue, 1, due_us, expiry_us)) == min(times, default=(1 << 63) - 1)


SMALL = ManagerOptions(live_head=5, delayed_head=5, min_live_head=2)


def test_packed_unborn_messages_come_in_the_order_of_their_births() -> None:
    world = World(SMALL)
    queue = world.queue()
    for number in range(50):
        world.put(queue, f"{number:02}".encode(), delay_ms=100 - number)
    assert queue.delayed.packed == 45
    assert queue.statistics.slots()["unborn"] == (50, 100)
    consumer = world.consumer(queue, credit=100)
    assert world.turn(50) == []
    assert world.turn(1) == [b"49"]
    assert world.turn(100) == [f"{number:02}".encode() for number in reversed(range(49))]
    assert len(world.held(consumer)) == 50


def test_births_nobody_waits_for_are_packed_again() -> None:
    world = World(SMALL)
    queue = world.queue()
    for number in range(50):
        world.put(queue, f"{number:02}".encode(), delay_ms=10 + number)
    world.turn(100)
    assert queue.bands[4].backlog.count == 45
    assert world.manager.core.memory.live_entries == 5
    world.consumer(queue, credit=100)
    assert world.turn() == [f"{number:02}".encode() for number in range(50)]


def test_a_life_not_longer_than_the_time_to_birth_ends_unseen() -> None:
    world = World(SMALL)
    queue = world.queue()
    tokens = [world.put(queue, ttl_ms=ttl, delay_ms=20) for ttl in [20] * 5 + [10] * 5 + [21]]
    consumer = world.consumer(queue, credit=100)
    assert world.turn(19) == []
    assert queue.statistics.ended[Outcome.EXPIRED] == 5
    assert world.turn(1) == [b"body"]
    assert queue.statistics.ended[Outcome.EXPIRED] == 10
    assert len(tokens) == 11 and len(consumer.held) == 1


def test_packed_unborn_messages_survive_a_restart_without_becoming_objects() -> None:
    world = LedgerWorld(SMALL)
    queue = world.queue()
    for number in range(40):
        world.put(queue, f"{number:02}".encode(), delay_ms=100 + number, ttl_ms=-1 if number % 2 else 50)
    world.put(queue, b"lost", durable=False, delay_ms=100)
    world.turn()
    world.restart()
    queue = world.manager.queue("q")
    assert (queue.delayed.packed, world.manager.core.memory.live_entries) == (40, 0)
    assert queue.statistics.slots()["unborn"] == (40, 80)
    world.turn(60)
    assert queue.statistics.ended[Outcome.EXPIRED] == 20
    world.consumer(queue, credit=100)
    assert world.turn(100) == [f"{number:02}".encode() for number in range(1, 40, 2)]


def test_unborn_messages_of_a_transaction_are_born_after_a_restart() -> None:
    world = LedgerWorld(SMALL)
    queue = world.queue()
    transaction = world.manager.begin(world.now_us)
    for number in range(20):
        world.put(queue, f"{number:02}".encode(), delay_ms=100, transaction=transaction)
    world.manager.commit(transaction, world.now_us)
    world.turn()
    world.restart()
    world.consumer(world.manager.queue("q"), credit=100)
    assert world.turn(99) == []
    assert world.turn(1) == [f"{number:02}".encode() for number in range(20)]


def test_a_purge_ends_packed_unborn_messages() -> None:
    world = World(SMALL)
    queue = world.queue()
    for _ in range(50):
        world.put(queue, delay_ms=10)
    assert world.manager.purge_queue("q", world.now_us) == 50
    assert (queue.statistics.depth, len(queue.delayed), world.manager.core.memory.live_entries) == (0, 0, 0)
    assert world.turn(100) == []
