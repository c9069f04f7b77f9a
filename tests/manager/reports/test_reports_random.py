"""Messages that ask for reports, put, taken, given back, expired and restarted at random: exactly the reports
that are due, and all counters right."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.amqp.message.message_head import scan_head
from postroom.amqp.message.sections import Data
from postroom.manager.kernel.consumer import Consumer
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.kernel.transaction import Transaction
from postroom.model.mq import Report
from tests.manager.over_ledger import LedgerWorld
from tests.manager.recount import check_counters, check_history
from tests.manager.reports.report_messages import asking, on, put
from tests.sampling import examples

COA = (0, Report.COA, Report.COA_WITH_DATA, Report.COA_WITH_FULL_DATA)
COD = (0, Report.COD, Report.COD_WITH_DATA, Report.COD_WITH_FULL_DATA)
EXPIRATION = (0, Report.EXPIRATION, Report.EXPIRATION_WITH_DATA, Report.EXPIRATION_WITH_FULL_DATA)
TTL_MS = 50_000
SIZES = (10, 70_000, 300_000)


@dataclass
class Run:
    """A queue, one consumer, and what reports should have come."""

    world: LedgerWorld
    due: Counter[int] = field(default_factory=Counter)
    words: dict[int, int] = field(default_factory=dict)
    """Serial → what it asks for."""
    consumer: Consumer | None = None
    open: tuple[Transaction, list[int]] | None = None

    def put(
        self, coa: int, cod: int, expiration: int, durable: bool, expires: bool, size: int, within: bool
    ) -> None:
        word = int(COA[coa] | COD[cod] | EXPIRATION[expiration])
        payload = asking(
            word, durable=durable, ttl=TTL_MS if expires else None, body=Data([b"x" * SIZES[size]])
        )
        transaction = None
        if within:
            if self.open is None:
                self.open = (self.world.manager.begin(self.world.now_us), [])
            transaction = self.open[0]
            self.open[1].append(word)
        assert put(self.world, self.world.manager.queue("q"), payload, transaction) is None
        if not within:
            self.due[259] += bool(coa)

    def decide(self, commit: bool) -> None:
        if self.open is not None:
            (transaction, words), self.open = self.open, None
            if commit:
                self.world.manager.commit(transaction, self.world.now_us)
                self.due[259] += sum(word & 0x700 != 0 for word in words)
            else:
                self.world.manager.rollback(transaction, self.world.now_us)
            self.world.turn()

    def take(self, outcome: int) -> None:
        """One delivery: accepted, given back, failed at, accepted in a transaction, or its link lost."""
        world = self.world
        consumer = world.consumer(world.manager.queue("q"), 1)
        before = len(world.delivered)
        world.turn()
        held = world.held(consumer)
        word = self.word_of(world.delivered[before].body) if held else 0
        for entry in held:
            if outcome == 0:
                world.accept(consumer, entry)
            elif outcome == 1:
                world.release(consumer, entry)
            elif outcome == 2:
                world.fail(consumer, entry)
            elif outcome == 3:
                transaction = world.manager.begin(world.now_us)
                world.accept(consumer, entry, transaction)
                world.manager.commit(transaction, world.now_us)
            self.due[260] += outcome in (0, 3) and word & 0x3800 != 0
        world.close(consumer, lost=outcome == 4)
        world.turn()

    @staticmethod
    def word_of(body: bytes) -> int:
        return int(scan_head(body).report)

    def expire(self) -> None:
        """Time passes for all that can expire; what is still there is met by the scan."""
        waiting = self.waiting()
        self.world.turn(TTL_MS + 10_000)
        self.world.turn(10_000)
        self.due[258] += sum(word & 0xE00000 != 0 for word, expires in waiting if expires)

    def waiting(self) -> list[tuple[int, bool]]:
        browser = self.world.browser(self.world.manager.queue("q"), 1000)
        before = len(self.world.delivered)
        self.world.turn()
        found = [
            (self.word_of(delivery.body), bool(delivery.entry.expiry_us))
            for delivery in self.world.delivered[before:]
        ]
        self.world.close(browser)
        return found


PUT = st.tuples(
    st.just("put"),
    *(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)),
    *(st.just(True), st.booleans(), st.integers(0, 2), st.booleans()),
)
STEPS = st.one_of(
    PUT,
    PUT,
    st.tuples(st.just("take"), st.integers(0, 4)),
    st.tuples(st.just("decide"), st.booleans()),
    st.tuples(st.just("expire")),
    st.tuples(st.just("restart")),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=25))
def test_exactly_the_reports_that_are_due(steps: list[tuple[object, ...]]) -> None:
    world = LedgerWorld(
        ManagerOptions(live_head=4, min_live_head=1, max_live_entries=8, transaction_timeout_ms=0)
    )
    world.queue("q")
    world.queue("replies")
    run = Run(world)
    for name, *arguments in steps:
        if name == "restart":
            run.open = None
            world.restart()
            world.turn()
        elif name == "expire" and run.open is not None:
            continue
        else:
            getattr(run, str(name))(*arguments)
        check_counters(world.manager.core)
    run.decide(False)
    came = Counter(report.feedback for report in on(world))
    assert came == +run.due
    check_history(world)
