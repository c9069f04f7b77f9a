"""Two message channel agents with stores that forget what was not synced, and a link that breaks anywhere.

The machines are the real ones; the queue managers are models: a list of messages, batches that hold some of
them, a disk that is a copy of the last sync.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from postroom.channel.negotiation import Terms
from postroom.channel.receiving_machine import ReceivingMachine
from postroom.channel.sending_machine import BEAT, FINISH, REQUEST_CONFIRM, SendingMachine
from postroom.channel.wire import BatchEnd
from postroom.model.channel import ChannelDefinition


@dataclass
class Held:
    """A batch that holds messages."""

    luwid: bytes
    messages: list[int] = field(default_factory=list)
    last_sequence: int = 0
    is_confirm_requested: bool = False


@dataclass
class SenderStore:
    """What the sending queue manager knows."""

    waiting: list[int] = field(default_factory=list)
    batches: list[Held] = field(default_factory=list)
    last_sequence: int = 0
    batches_begun: int = 0

    def back_out(self, batch: Held) -> None:
        self.batches.remove(batch)
        self.waiting = sorted(self.waiting + batch.messages)

    def confirm(self, batch: Held) -> None:
        self.batches.remove(batch)
        self.last_sequence = batch.last_sequence

    def resynchronise(self, partner_last: bytes, partner_sequence: int) -> None:
        names = [batch.luwid for batch in self.batches]
        # The number of a batch is known when its confirmation is requested: that may be lost, but then the
        # partner has it.
        if partner_last in names:
            for batch in self.batches[: names.index(partner_last) + 1]:
                self.confirm(batch)
            self.last_sequence = partner_sequence
        for batch in reversed(self.batches[:]):
            self.back_out(batch)
        assert self.last_sequence == partner_sequence, "the two ends don't agree"


@dataclass
class ReceiverStore:
    """What the receiving queue manager knows."""

    messages: list[int] = field(default_factory=list)
    last_luwid: bytes = b""
    last_sequence: int = 0


@dataclass
class Numbered:
    """A message on its way."""

    sequence: int
    message: int


@dataclass
class Beat:
    """A batch heartbeat on its way."""


class Rehearsal:
    """One channel, both ends, and the network between them."""

    def __init__(self, definition: ChannelDefinition) -> None:
        self.definition = definition
        self.terms = Terms("B", "ledger", definition.batch_size, definition.sequence_wrap, True, 1 << 20)
        self.sender, self.receiver = SenderStore(), ReceiverStore()
        self.sender_disk, self.receiver_disk = SenderStore(), ReceiverStore()
        self.now_us = 0
        self.puts = 0
        self.connect()

    def connect(self) -> None:
        self.sender.resynchronise(self.receiver.last_luwid, self.receiver.last_sequence)
        self.sending = SendingMachine(self.terms, self.definition, self.sender.last_sequence, self.now_us)
        self.receiving = ReceivingMachine(self.terms, self.receiver.last_sequence, self.receiver.last_luwid)
        self.there: list[Numbered | BatchEnd | Beat] = []
        self.back: list[bytes | None] = []
        """LUWIDs that were confirmed; None answers a heartbeat."""
        self.unsynced: list[int] = []
        """Taken, but what says so isn't durable: they may not leave."""
        self.unsent: list[int] = []
        """Behind a batch that is full and whose confirmation can't be requested yet."""
        self.whole: list[Held] = []
        """Batches that are full and not yet requested to be confirmed, and the one that is being filled."""
        self.filling: Held | None = None
        self.arriving: list[int] = []
        self.committing: list[BatchEnd] = []

    # What may happen.

    def put(self) -> None:
        self.puts += 1
        self.sender.waiting.append(self.puts)
        self.sync_sender()

    def take(self) -> None:
        """Take one message for the batch that is being filled."""
        if self.sending.room() <= len(self.unsynced) + len(self.unsent) or not self.sender.waiting:
            return
        if self.filling is None:
            self.sender.batches_begun += 1
            self.filling = Held(self.sender.batches_begun.to_bytes(16, "big"))
            self.sender.batches.append(self.filling)
        message = self.sender.waiting.pop(0)
        self.filling.messages.append(message)
        self.unsynced.append(message)
        if self.sending.small and len(self.filling.messages) == self.terms.batch_size:
            self.whole.append(self.filling)
            self.filling = None

    def sync_sender(self) -> None:
        self.sender_disk = copy.deepcopy(self.sender)
        self.unsent += self.unsynced
        self.unsynced.clear()
        self.go_on()

    def go_on(self) -> None:
        """What the link does whenever anything may be done."""
        self.flush()
        while self.step():
            self.flush()

    def flush(self) -> None:
        while self.unsent and not self.sending.full:
            message = self.unsent.pop(0)
            self.there.append(Numbered(int(self.sending.add(1000, self.now_us)), message))
            if self.sending.full:
                self.step()

    def step(self) -> bool:
        """The machine's next step."""
        ahead = len(self.unsynced) + len(self.unsent)
        step = self.sending.step(ahead, not self.sender.waiting, self.now_us)
        if step == REQUEST_CONFIRM:
            self.request_confirm()
        elif step == BEAT:
            self.there.append(Beat())
            self.sending.beat()
        else:
            assert step != FINISH or self.sending.stopping
            return False
        return True

    def request_confirm(self) -> None:
        batch = self.whole.pop(0) if self.whole else self.filling
        if batch is self.filling:
            self.filling = None
        assert batch is not None and len(batch.messages) == self.sending.count
        batch.is_confirm_requested, batch.last_sequence = True, int(self.sending.sequence)
        self.there.append(BatchEnd(batch.luwid, batch.last_sequence, len(batch.messages)))
        self.sending.confirm_requested()

    def arrive(self) -> None:
        """The receiver reads the next thing."""
        if not self.there:
            return
        item = self.there.pop(0)
        if isinstance(item, Numbered):
            self.receiving.arrived(item.sequence)
            self.arriving.append(item.message)
        elif isinstance(item, Beat):
            self.back.append(None)
        else:
            self.receiving.ended(item)
            self.receiver.messages += self.arriving
            self.receiver.last_luwid, self.receiver.last_sequence = item.luwid, item.last_sequence
            self.arriving.clear()
            self.committing.append(item)

    def sync_receiver(self) -> None:
        self.receiver_disk = copy.deepcopy(self.receiver)
        for end in self.committing:
            self.receiving.confirmed(end)
            self.back.append(end.luwid)
        self.committing.clear()

    def answer(self) -> None:
        """The sender reads the next answer."""
        if not self.back:
            return
        luwid = self.back.pop(0)
        if luwid is None:
            self.sending.beat_answered(self.now_us)
        else:
            batch = self.sender.batches[0]
            assert batch.is_confirm_requested and batch.luwid == luwid
            self.sender.confirm(batch)
            self.sending.confirmed(self.now_us)
        self.go_on()

    def wait(self) -> None:
        self.now_us += 3000
        self.go_on()

    def cut(self) -> None:
        """The link is lost; the receiver rolls back, the sender keeps what it has requested to be confirmed.

        The next link is refused until what the receiver says of its last batch is durable.
        """
        self.back_out()
        self.receiver_disk = copy.deepcopy(self.receiver)
        self.connect()

    def back_out(self) -> None:
        for batch in reversed(self.sender.batches[:]):
            if not batch.is_confirm_requested:
                self.sender.back_out(batch)

    def crash_sender(self) -> None:
        self.sender = copy.deepcopy(self.sender_disk)
        self.receiver_disk = copy.deepcopy(self.receiver)
        self.connect()

    def crash_receiver(self) -> None:
        self.receiver = copy.deepcopy(self.receiver_disk)
        self.back_out()
        self.connect()

    def settle(self) -> None:
        """Let everything come to rest, with nothing failing."""
        while self.sender.waiting or self.sender.batches:
            before = (len(self.receiver.messages), self.sending.batches, self.now_us)
            self.take()
            self.sync_sender()
            self.arrive()
            self.sync_receiver()
            self.answer()
            self.wait()
            assert before != (len(self.receiver.messages), self.sending.batches, self.now_us)
            assert self.now_us < 1_000_000_000, "it never comes to rest"


def _often(event: Callable[[Rehearsal], None], times: int) -> Callable[[Rehearsal], None]:
    def many(rehearsal: Rehearsal) -> None:
        for _ in range(times):
            event(rehearsal)

    return many


EVENTS: dict[str, Callable[[Rehearsal], None]] = {
    "put": Rehearsal.put,
    "put many": _often(Rehearsal.put, 5),
    "take many": _often(Rehearsal.take, 5),
    "arrive many": _often(Rehearsal.arrive, 7),
    "take": Rehearsal.take,
    "sync sender": Rehearsal.sync_sender,
    "arrive": Rehearsal.arrive,
    "sync receiver": Rehearsal.sync_receiver,
    "answer": Rehearsal.answer,
    "wait": Rehearsal.wait,
    "cut": Rehearsal.cut,
    "crash sender": Rehearsal.crash_sender,
    "crash receiver": Rehearsal.crash_receiver,
}
COURSES = (
    "put many" + ", take, sync sender, arrive, sync receiver, answer, wait" * 12,
    "put many, take many, sync sender" + ", arrive" * 8 + ", sync receiver, answer, answer, sync sender",
    "put many, take many, sync sender, arrive many, sync receiver, put many, take many, answer, sync sender,"
    " arrive many, answer, sync receiver, answer, answer",
)
"""What may happen where nothing fails: one message at a time, several at once."""
FAILURES = ("cut", "crash sender", "crash receiver")
