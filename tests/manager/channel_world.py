"""Two queue managers over real ledgers, and a channel between them: what a message channel agent does, by
hand."""

from dataclasses import dataclass

from postroom.manager.channels.channel import Batch, ReceivingEnd, SendingEnd
from postroom.manager.headers.transmission_header import TransmissionHeader
from postroom.manager.kernel.effects import Asker, Delivery
from postroom.manager.kernel.entry import Entry
from postroom.manager.kernel.options import ManagerOptions
from postroom.manager.queues.queue import Queue
from postroom.model.channel import ChannelDefinition
from postroom.model.message import MessageHead
from postroom.model.mq import Undelivered
from tests.manager.over_ledger import LedgerWorld
from tests.manager.world import TestSink, a_head

HERE, THERE = "HERE", "THERE"
CHANNEL = "HERE.THERE"
SENDER = ChannelDefinition(
    CHANNEL, type="sender", connection="amqp://there:5672", transmission_queue=THERE, sequence_wrap=100
)
RECEIVER = ChannelDefinition(CHANNEL, type="receiver", sequence_wrap=100)


def section(body: bytes) -> bytes:
    """A message with nothing but this body."""
    return b"\x00\x53\x75\xa0" + bytes((len(body),)) + body


class Answers(Asker):
    """The answers that have come."""

    def __init__(self) -> None:
        self.luwids: list[object] = []

    def answered(self, payload: object, now_us: int) -> None:
        self.luwids.append(payload)


@dataclass
class Sent:
    """A message on its way."""

    head: MessageHead
    body: bytes
    sequence: int
    serial: int
    fast: bool
    entry: Entry


class Sender(LedgerWorld):
    """The queue manager that sends."""

    def __init__(self, fast: bool = True, batch_size: int = 0) -> None:
        self.fast = fast
        self.batch_size = batch_size
        """After so many messages the queue manager begins the next batch by itself; 0 never."""
        self.end: SendingEnd | None = None
        self.sequence = 0
        self.outside: list[Sent] = []
        """Fast ones that have left, of which the partner hasn't said that it has them."""
        super().__init__(ManagerOptions(queue_manager=HERE))
        self.transmission_queue()
        self.manager.channels.define(SENDER, self.now_us)
        self.turn()

    def transmission_queue(self) -> Queue:
        return self.queue(THERE, usage="transmission")

    def send(self, body: bytes, to: str = "q", durable: bool = True, **head: object) -> None:
        """What a program puts to ``to`` at the other queue manager."""
        stored = TransmissionHeader(to, THERE, 1).put_on(section(body))
        self.put(self.manager.queue(THERE), stored, durable=durable, **head)

    def start(self) -> None:
        self.end = self.manager.channels.open_sending(CHANNEL, TestSink("channel"), self.now_us)
        self.end.fast = self.fast
        self.end.batch_size = self.batch_size
        self.sequence = self.manager.channels.sync(CHANNEL).last_sequence

    def take(self, count: int) -> list[Sent]:
        """As many of what waits, with numbers, as the channel gives out."""
        assert self.end is not None
        before = len(self.delivered)
        self.manager.channels.set_sending_credit(self.end, count, self.now_us)
        self.turn()
        self.manager.channels.set_sending_credit(self.end, 0, self.now_us)
        self.turn()
        return [self._numbered(delivery) for delivery in self.delivered[before:]]

    def _numbered(self, delivery: Delivery) -> Sent:
        durable = bool(delivery.entry.flags & 1)
        fast = self.fast and not durable
        if not fast:
            self.sequence = self.sequence % SENDER.sequence_wrap + 1
        head = a_head(durable=durable, priority=delivery.entry.priority)
        sent = Sent(head, delivery.body, self.sequence, int(delivery.entry.serial), fast, delivery.entry)
        if fast:
            self.outside.append(sent)
        return sent

    def end_batch(self, last_sequence: int = 0) -> Batch:
        assert self.end is not None
        return self.manager.channels.end_batch(self.end, last_sequence or self.sequence, self.now_us)

    def confirm(self, batch: Batch) -> None:
        assert self.end is not None
        self.manager.channels.confirm_batch(self.end, batch, self.now_us)

    def taken(self, sent: Sent) -> None:
        """The partner has a fast message."""
        assert self.end is not None
        self.outside.remove(sent)
        self.manager.channels.forward_outside(self.end, [sent.entry], self.now_us)

    def stop(self) -> None:
        """The link is lost: nobody will ever know of the fast messages that have left."""
        if self.end is not None:
            gone = [sent.entry for sent in self.outside]
            self.manager.channels.forward_outside(self.end, gone, self.now_us)
            self._close(False)

    def partner_ended(self) -> None:
        """The partner has ended the link, and has nothing that it hasn't answered."""
        if self.end is not None:
            self._close(True)

    def _close(self, refused: bool) -> None:
        assert self.end is not None
        self.manager.channels.close_sending(self.end, self.now_us, refused)
        self.end = None
        self.outside = []

    def crash(self) -> None:
        self.end = None
        self.outside = []
        super().crash()


class Receiver(LedgerWorld):
    """The queue manager that receives."""

    def __init__(self) -> None:
        self.end: ReceivingEnd | None = None
        self.answers = Answers()
        super().__init__(ManagerOptions(queue_manager=THERE))
        self.manager.channels.define(RECEIVER, self.now_us)
        self.queue("q")
        self.turn()

    def start(self, ledger: str = "0a") -> None:
        self.end = self.manager.channels.open_receiving(CHANNEL, HERE, ledger, self.now_us)

    def receive(self, sent: Sent) -> Undelivered | None:
        assert self.end is not None
        return self.manager.channels.receive(
            self.end, sent.head, sent.body, sent.sequence, sent.serial, sent.fast, self.now_us
        )

    def commit(self, batch: Batch) -> None:
        assert self.end is not None
        luwid, sequence = batch.luwid, int(batch.last_sequence)
        self.manager.channels.commit_received(self.end, luwid, sequence, self.answers, self.now_us)

    def stop(self) -> None:
        if self.end is not None:
            self.manager.channels.close_receiving(self.end, self.now_us)
            self.end = None

    def crash(self) -> None:
        self.end = None
        super().crash()

    def bodies_on(self, name: str) -> list[bytes]:
        """What waits on a queue, without their sections, taken away."""
        consumer = self.consumer(self.manager.queue(name), credit=10_000)
        bodies = self.turn()
        for delivery in [one for one in self.delivered if one.consumer is consumer]:
            self.accept(consumer, delivery.entry)
        self.close(consumer)
        self.turn()
        return [body[len(section(b"")) :] for body in bodies]


def resynchronise(sender: Sender, receiver: Receiver) -> None:
    """Both start again, and compare."""
    receiver.start()
    assert receiver.end is not None
    theirs = receiver.end
    sender.manager.channels.resynchronise(CHANNEL, theirs.last_luwid, theirs.last_sequence, sender.now_us)
    sender.start()
