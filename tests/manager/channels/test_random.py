"""Whatever happens at both ends of a channel, in whatever order: nothing is lost, nothing comes twice.

Real ledgers at both ends; the link between them is a list. Every step of a batch can be followed by a lost
link or a crash of either end, with what was durable by then.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from postroom.manager.channels.channel import Batch
from postroom.model.codes import Outcome
from tests.manager.channel_world import CHANNEL, THERE, Receiver, Sender, Sent, resynchronise
from tests.sampling import examples, spread


class Ends:
    """Both ends, and what is between them."""

    def __init__(self, fast: bool, batch_size: int = 0) -> None:
        self.batch_size = batch_size
        self.sender = Sender(fast, batch_size)
        self.receiver = Receiver()
        self.wire: list[Sent | Batch] = []
        self.answered: list[Sent | Batch] = []
        """Fast messages that were put there, and batches that were committed: these are answered when that
        is durable."""
        self.requested: list[Batch] = []
        self.unrequested: list[Sent] = []
        """Of the batch that is being filled."""
        self.sent: list[tuple[bytes, bool]] = []
        self.transient: set[bytes] = set()
        """What may end without having been sent."""

    # What programs do.

    def send(self, durable: bool, ttl_ms: int = -1) -> None:
        number = len(self.sent)
        body = b"%d" % number
        self.sent.append((body, durable))
        if ttl_ms > 0:
            self.transient.add(body)
        self.sender.send(body, durable=durable, ttl_ms=ttl_ms)
        self.sender.turn()

    def purge(self) -> None:
        """By an administrator: of what nobody holds everything may be gone."""
        self.transient.update(body for body, _ in self.sent)
        self.sender.manager.purge_queue(THERE, self.sender.now_us)

    # What the agents do.

    @property
    def connected(self) -> bool:
        return self.sender.end is not None and self.receiver.end is not None

    def connect(self) -> None:
        if self.connected:
            return
        self.cut()
        self.receiver.turn()
        resynchronise(self.sender, self.receiver)

    def take(self, count: int) -> None:
        if self.sender.end is None:
            return
        for sent in self.sender.take(count):
            self.wire.append(sent)
            self.unrequested.append(sent)
            if len(self.unrequested) == self.batch_size:
                self.end_batch()

    def end_batch(self) -> None:
        numbered = [sent.sequence for sent in self.unrequested if not sent.fast]
        if self.sender.end is not None and numbered:
            batch = self.sender.end_batch(numbered[-1])
            assert batch.count == len(numbered)
            self.requested.append(batch)
            self.wire.append(batch)
        if self.sender.end is not None and (numbered or len(self.unrequested) == self.batch_size):
            self.unrequested = []

    def arrive(self, count: int) -> None:
        """The receiver takes some of what has come."""
        for _ in range(count):
            if self.receiver.end is None or not self.wire:
                return
            item = self.wire.pop(0)
            if isinstance(item, Batch):
                self.receiver.commit(item)
                self.answered.append(item)
            else:
                assert self.receiver.receive(item) is None
                if item.fast:
                    self.answered.append(item)

    def answers(self) -> None:
        """What has been committed is durable, and the sender hears of it."""
        self.receiver.turn()
        while self.answered and self.receiver.end is not None and self.sender.end is not None:
            answer = self.answered.pop(0)
            if isinstance(answer, Batch) and answer in self.requested:
                self.requested.remove(answer)
                self.sender.confirm(answer)
            elif isinstance(answer, Sent) and answer in self.sender.outside:
                self.sender.taken(answer)

    # What befalls them.

    def cut(self) -> None:
        self.lose_sender()
        self.lose_receiver()

    def lose_sender(self) -> None:
        """The sender's end hears that the link is lost."""
        self.sender.stop()
        self.requested, self.unrequested = [], []

    def refuse(self) -> None:
        """The receiver ends the link, once it has answered what it has."""
        if self.connected:
            self.answers()
            self.sender.partner_ended()
            self.requested, self.unrequested = [], []
            self.lose_receiver()
            sync = self.sender.manager.channels.sync(CHANNEL)
            assert sync.in_doubt is None and not self.sender.manager.queue(THERE).held

    def lose_receiver(self) -> None:
        self.receiver.stop()
        self.wire, self.answered = [], []

    def crash_sender(self) -> None:
        self.sender.crash()
        self.requested, self.unrequested = [], []

    def crash_receiver(self) -> None:
        self.receiver.crash()
        self.wire, self.answered = [], []

    def flush(self) -> None:
        self.sender.turn()

    def maintain(self) -> None:
        for world in (self.sender, self.receiver):
            world.turn()
            world.maintain()

    # What must be true.

    def finish(self) -> None:
        """Everything that can arrive does."""
        for _ in range(len(self.sent) + 2):
            self.connect()
            self.arrive(1000)
            self.take(1000)
            self.end_batch()
            self.arrive(1000)
            self.answers()
        self.sender.turn()

    def check(self) -> None:
        bodies = self.receiver.bodies_on("q")
        for durable in (True, False):
            of_class = [body for body, is_durable in self.sent if is_durable == durable]
            came = [body for body in bodies if body in of_class]
            assert came == [body for body in of_class if body in came]  # at most once, and in their order
            if durable:
                assert set(of_class) - self.transient <= set(came)
        queue = self.sender.manager.queue(THERE)
        assert queue.is_empty() and not queue.held
        for world in (self.sender, self.receiver):
            with TemporaryDirectory() as folder:
                world.check_whole(Path(folder))
        self.check_sync()
        self.check_totals(bodies)

    def check_sync(self) -> None:
        """Both ends have the same last batch, before and after another start."""
        for _ in range(2):
            here = self.sender.manager.channels.sync(CHANNEL)
            there = self.receiver.manager.channels.sync(CHANNEL)
            assert (here.last_luwid, here.last_sequence) == (there.last_luwid, there.last_sequence)
            assert here.in_doubt is None
            assert here.last_luwid or not any(
                durable and body not in self.transient for body, durable in self.sent
            )
            self.sender.restart()
            self.receiver.restart()

    def check_totals(self, bodies: list[bytes]) -> None:
        """By the sender's ledger what has been forwarded is what has come, but for what is lost with a link:
        neither more nor less of what is persistent."""
        ended: dict[int, Outcome] = {}
        for row in self.sender.rows():
            if row[7]:
                ended[row[1]] = Outcome(row[7])
        assert len(ended) == len(self.sent)
        outcomes = [outcome for _, outcome in sorted(ended.items())]
        for (body, durable), outcome in zip(self.sent, outcomes, strict=True):
            if durable:
                assert (outcome == Outcome.FORWARDED) == (body in bodies)
            else:
                assert outcome in (Outcome.FORWARDED, Outcome.LOST) or body not in bodies
        transmission = self.sender.manager.queue(THERE)
        for total in self.sender.recover().totals:
            if total.queue == transmission.id:
                assert total.arrived == len(self.sent) == sum(total.ended)
                assert total.ended[Outcome.FORWARDED] == outcomes.count(Outcome.FORWARDED)


STEPS: dict[str, Callable[[Ends], None]] = {
    "send": lambda ends: ends.send(True),
    "send non-persistent": lambda ends: ends.send(False),
    "send for a moment": lambda ends: ends.send(True, 5),
    "a moment passes": lambda ends: ends.sender.turn(10),
    "purge": Ends.purge,
    "connect": Ends.connect,
    "take one": lambda ends: ends.take(1),
    "take some": lambda ends: ends.take(3),
    "end batch": Ends.end_batch,
    "one arrives": lambda ends: ends.arrive(1),
    "some arrive": lambda ends: ends.arrive(3),
    "answers": Ends.answers,
    "cut": Ends.cut,
    "receiver refuses": Ends.refuse,
    "sender loses link": Ends.lose_sender,
    "receiver loses link": Ends.lose_receiver,
    "sender crashes": Ends.crash_sender,
    "receiver crashes": Ends.crash_receiver,
    "flush": Ends.flush,
    "maintain": Ends.maintain,
}


BATCH = (
    *("send", "connect", "take some", "flush"),
    *("some arrive", "end batch", "one arrives", "answers"),
)
"""One batch from beginning to end, between any two steps of which something may happen."""


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.booleans(),
    st.sampled_from((0, 1, 2)),
    st.lists(
        st.sampled_from(sorted(STEPS)) | st.tuples(st.booleans(), st.integers(1, len(BATCH))), max_size=20
    ),
)
def test_nothing_is_lost_and_nothing_comes_twice(
    fast: bool, batch_size: int, steps: list[str | tuple[bool, int]]
) -> None:
    """A number stands for so many steps of a batch, of a persistent message or another one."""
    ends = Ends(fast, batch_size)
    for step in steps:
        if isinstance(step, str):
            STEPS[step](ends)
        else:
            ends.send(step[0])
            for one in BATCH[1 : step[1]]:
                STEPS[one](ends)
    ends.finish()
    ends.check()


MISHAPS = (
    *("cut", "sender loses link", "receiver loses link", "sender crashes", "receiver crashes"),
    "receiver refuses",
    "maintain",
)


@pytest.mark.sample(8)
@pytest.mark.parametrize("mishap", MISHAPS)
@pytest.mark.parametrize(
    ("fast", "persistent", "others"), [(False, 2, 1), (False, 0, 1), (True, 1, 1), (True, 0, 2)]
)
def test_a_mishap_at_any_step_of_a_batch(mishap: str, fast: bool, persistent: int, others: int) -> None:
    for at in spread(range(1, len(BATCH) + 1), 4):
        for second in ((), ("sender crashes",), ("receiver crashes",)):
            ends = Ends(fast)
            for number in range(persistent + others):
                ends.send(number < persistent)
            for step in (*BATCH[1:at], mishap, *second, *BATCH[1:]):
                STEPS[step](ends)
            ends.finish()
            ends.check()
