"""Random commands over the real ledger, restarts too, against the reference: order, counts, conservation."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from postroom.manager.consumer import Consumer
from postroom.manager.effects import Delivery
from postroom.manager.entry import Entry
from postroom.manager.options import ManagerOptions
from postroom.manager.transaction import Transaction
from postroom.model.codes import Outcome, State
from postroom.model.tables import relation
from tests.manager.over_ledger import LedgerWorld
from tests.manager.reference import GOT_IN_TRANSACTION, HELD, Message, Place, Reference
from tests.manager.world import MS, TestSink, recount

QUEUES = st.sampled_from(["plain", "strict", "dead"])
SMALL = ManagerOptions(
    live_head=3,
    min_live_head=1,
    fetch_entries=2,
    fetch_bytes=40,
    body_cache_bytes=60,
    max_deliveries_per_turn=3,
    expiry_scan_ms=0,
    release_backoff_ms=1,
    max_release_backoff_ms=4,
    transaction_timeout_ms=0,
)


class RandomUse(RuleBasedStateMachine):
    """Each rule does one thing to both, lets the queue manager come to rest, and compares."""

    @initialize(strict_delay_ms=st.sampled_from([0, 5]))
    def start(self, strict_delay_ms: int) -> None:
        self.world = LedgerWorld(SMALL)
        self.world.queue("plain")
        self.world.queue(
            "strict",
            redelivery_limit=1,
            redelivery_delay_ms=strict_delay_ms,
            dead_letter_queue="dead",
            lost_link_counts=True,
        )
        self.world.queue("dead")
        strict = Place("strict", limit=1, delay_us=strict_delay_ms * MS, dead_letters="dead")
        self.reference = Reference([Place("plain"), strict, Place("dead")])
        self.reference.now_us = self.world.now_us
        self.consumers: list[Consumer] = []
        self.transactions: list[Transaction] = []
        self.entries: dict[int, Entry] = {}
        self.bodies = count()

    # What is done.

    @rule(
        name=QUEUES,
        priority=st.sampled_from([0, 4, 4, 4, 9]),
        durable=st.sampled_from([True, True, True, False]),
        ttl_ms=st.sampled_from([-1, -1, -1, 3, 20]),
        delay_ms=st.sampled_from([0, 0, 0, 4]),
        size=st.integers(4, 30),
        within=st.booleans(),
    )
    def put(
        self, name: str, priority: int, durable: bool, ttl_ms: int, delay_ms: int, size: int, within: bool
    ) -> None:
        transaction = self.transactions[-1] if within and self.transactions else None
        body = str(next(self.bodies)).encode().rjust(size, b".")
        self.world.put(
            self.world.manager.queue(name),
            body,
            transaction=transaction,
            priority=priority,
            durable=durable,
            ttl_ms=ttl_ms,
            delay_ms=delay_ms,
        )
        expiry_us = self.world.now_us + ttl_ms * MS if ttl_ms > 0 else 0
        message = Message(body, priority, durable, expiry_us, transaction=transaction)
        self.reference.arrive(self.reference.places[name], message, delay_ms * MS)
        self._rest()

    @precondition(lambda self: len(self.consumers) < 6)
    @rule(name=QUEUES, credit=st.integers(0, 6))
    def open(self, name: str, credit: int) -> None:
        self.consumers.append(self.world.consumer(self.world.manager.queue(name), credit))
        self._rest()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), credit=st.integers(0, 6), drain=st.booleans())
    def credit(self, data: st.DataObject, credit: int, drain: bool) -> None:
        self.world.credit(data.draw(st.sampled_from(self.consumers)), credit, drain)
        self._rest()

    @precondition(lambda self: any(c.held and not c.suspended for c in self.consumers))
    @rule(
        data=st.data(),
        verb=st.sampled_from(["accept", "accept", "release", "fail", "reject"]),
        within=st.booleans(),
        settled=st.booleans(),
    )
    def settle(self, data: st.DataObject, verb: str, within: bool, settled: bool) -> None:
        consumer = data.draw(st.sampled_from([c for c in self.consumers if c.held and not c.suspended]))
        entry = data.draw(st.sampled_from(self.world.held(consumer)))
        transaction = self.transactions[-1] if within and self.transactions else None
        self._say(verb, consumer, entry, -1 if settled else 1, transaction)
        place, message = self._message(entry)
        if transaction is None:
            self.reference.settle(place, message, verb)
        else:
            message.state, message.transaction = GOT_IN_TRANSACTION, transaction
            message.settled, message.verb = settled, verb
        self._rest()

    def _say(
        self, verb: str, consumer: Consumer, entry: Entry, token: int, transaction: Transaction | None
    ) -> None:
        manager, now_us = self.world.manager, self.world.now_us
        if verb == "accept":
            manager.accept(consumer, entry, now_us, token, transaction)
        elif verb == "release":
            manager.release(consumer, entry, now_us, token, transaction)
        elif verb == "fail":
            manager.modify(consumer, entry, True, False, None, now_us, token, transaction)
        else:
            manager.reject(consumer, entry, "app:bad", "", now_us, token, transaction)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), lost=st.booleans())
    def close(self, data: st.DataObject, lost: bool) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self._close(consumer, lost)

    def _close(self, consumer: Consumer, lost: bool) -> None:
        self.consumers.remove(consumer)
        held = self.world.held(consumer)
        lost = lost or consumer.suspended
        self.world.close(consumer, lost)
        for entry in sorted(held, key=lambda e: (-e.place, -e.ordinal)):
            place, message = self._message(entry)
            charged = lost and place.name == "strict"
            self.reference.come_back(place, message, charged, lost, False)
        self._rest()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), timeout_ms=st.sampled_from([3, 10_000]))
    def suspend_or_resume(self, data: st.DataObject, timeout_ms: int) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        if consumer.suspended:
            self.world.manager.resume_consumer(consumer, TestSink(), self.world.now_us)
        else:
            assert self.world.manager.suspend_consumer(consumer, timeout_ms * MS, self.world.now_us)
        self._rest()

    @precondition(lambda self: len(self.transactions) < 2)
    @rule()
    def begin(self) -> None:
        self.transactions.append(self.world.manager.begin(self.world.now_us))

    @precondition(lambda self: self.transactions)
    @rule(data=st.data(), commit=st.booleans())
    def decide(self, data: st.DataObject, commit: bool) -> None:
        transaction = data.draw(st.sampled_from(self.transactions))
        self.transactions.remove(transaction)
        if commit:
            self.world.manager.commit(transaction, self.world.now_us)
            self.reference.commit(transaction)
        else:
            self.world.manager.rollback(transaction, self.world.now_us)
            self.reference.rollback(transaction)
        self._rest()

    @rule(ms=st.sampled_from([1, 2, 5, 30]))
    def wait(self, ms: int) -> None:
        self.world.now_us += ms * MS
        self._let_suspended_go()
        self.reference.pass_time(self.world.now_us)
        self._rest()

    def _let_suspended_go(self) -> None:
        """Links that were not resumed in time are lost."""
        self.reference.now_us = self.world.now_us
        for consumer in list(self.consumers):
            if consumer.suspended and consumer.suspended_until_us <= self.world.now_us:
                self.consumers.remove(consumer)
                for entry in sorted(self.world.held(consumer), key=lambda e: (-e.place, -e.ordinal)):
                    place, message = self._message(entry)
                    self.reference.come_back(place, message, place.name == "strict", True, False)

    @rule(name=QUEUES)
    def purge(self, name: str) -> None:
        self.world.manager.purge_queue(name, self.world.now_us)
        place = self.reference.places[name]
        for message in list(place.messages):
            if message.state in ("current", "unborn", "redelivery_delay"):
                self.reference.end(place, message, Outcome.PURGED)
        self._rest()

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.consumers.clear()
        self.transactions.clear()
        self.reference.restart()
        self._rest()

    # What is compared.

    def _rest(self) -> None:
        """Let everything come to rest; every delivery must be the next that the reference has."""
        before = len(self.world.delivered)
        self.world.turn()
        for delivery in self.world.delivered[before:]:
            self._check_delivery(delivery)

    def _check_delivery(self, delivery: Delivery) -> None:
        place = self.reference.places[delivery.entry.queue.name]
        message = place.available()[0]
        assert (delivery.body, delivery.delivery_count) == (message.body, message.deliveries)
        message.state, message.holder = HELD, delivery.consumer

    def _message(self, entry: Entry) -> tuple[Place, Message]:
        place = self.reference.places[entry.queue.name]
        holder = entry.owner
        for message in place.messages:
            if message.holder is not None and message.body in self._bodies_of(entry):
                return place, message
        raise AssertionError(f"the reference does not have what {holder} holds")

    def _bodies_of(self, entry: Entry) -> set[bytes]:
        return {delivery.body for delivery in self.world.delivered if delivery.entry is entry}

    @invariant()
    def counters_agree(self) -> None:
        if not hasattr(self, "world"):
            return
        for name, place in self.reference.places.items():
            queue = self.world.manager.queue(name)
            statistics = queue.statistics
            slots = statistics.slots()
            assert {state: slots[state] for state in place.counts()} == place.counts()
            assert statistics.depth == len(place.messages)
            assert statistics.received == place.received
            ended = {o: statistics.ended[o] for o in Outcome if statistics.ended[o]}
            if statistics.consumed:
                ended[Outcome.CONSUMED] = statistics.consumed
            assert ended == {outcome: number for outcome, number in place.ended.items() if number}
            assert not (queue.ready and statistics.current), "someone waits beside what he could have"
            counted = recount(queue)
            assert (counted["current"], counted["delayed"]) == (
                statistics.current,
                slots["unborn"][0] + slots["redelivery_delay"][0],
            )

    def teardown(self) -> None:
        """Everything that is left comes out, in order."""
        if not hasattr(self, "world"):
            return
        for transaction in self.transactions:
            self.world.manager.rollback(transaction, self.world.now_us)
            self.reference.rollback(transaction)
            self._rest()
        while self.consumers:
            self._close(self.consumers[-1], False)
        self.wait(100)
        for name in self.reference.places:
            self.world.consumer(self.world.manager.queue(name), 10_000)
        self._rest()
        assert all(not place.available() for place in self.reference.places.values())
        self.counters_agree()
        check_history(self.world)


def check_history(world: LedgerWorld) -> None:
    """Every event of the ledger is legal, and begins where the one before it of that entry ended."""
    legal = {tuple(map(int, row)) for row in relation()}
    states: dict[tuple[int, int], int] = {}
    for _, serial, queue, from_state, holder_kind, event, to_state, outcome in world.rows():
        assert (from_state, holder_kind, event, to_state, outcome) in legal
        assert states.get((serial, queue), State.START) == from_state
        states[serial, queue] = to_state
    live = sum(state != State.DELETED for state in states.values())
    assert live == sum(queue.statistics.depth for queue in world.manager.queues.values())


RandomUse.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestRandomUse = RandomUse.TestCase
