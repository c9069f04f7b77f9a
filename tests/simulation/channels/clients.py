"""The clients of the world: who puts messages, and who takes them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from postroom.amqp.engine.connection import Connection
from postroom.amqp.engine.events import (
    DispositionReceived,
    SenderDispositionReceived,
    TransferReceived,
)
from postroom.amqp.engine.options import ConnectionOptions
from postroom.amqp.engine.shared_state import Event
from postroom.amqp.frames.outcomes import ACCEPTED, Accepted
from postroom.amqp.frames.termini import Source, Target
from postroom.amqp.message.sections import Data, Header, Message, Properties, decode_message
from postroom.model.mq import Report
from tests.simulation.channels.oracle import Sent

if TYPE_CHECKING:
    from tests.simulation.channels.world import World

CREDIT = 20
RETURN_TO_SENDER = int(Report.EXCEPTION_WITH_FULL_DATA | Report.DISCARD_MSG)
REPLIES = "replies"
MOST_WAITING = 8
"""Messages of one producer without an answer."""


class Client:
    """One end of a connection to a queue manager: see `line.End`."""

    def __init__(self, world: World, name: str, at: str) -> None:
        self.world = world
        self.name = name
        self.at = at
        """The queue manager's name."""
        options = ConnectionOptions(server=False, container_id=name, sasl_mechanisms=[], hostname="simulated")
        self.engine = Connection(options, world.now_us)
        self.engine.open()
        self.session = self.engine.begin()
        self.over = False

    @property
    def finished(self) -> bool:
        return self.over

    def data_to_send(self) -> bytes:
        return self.engine.data_to_send()

    def receive(self, data: bytes, monotonic_us: int, now_us: int) -> int:
        events = self.engine.receive_data(data, monotonic_us)
        for event in events:
            self.heard(event)
        return len(events)

    def lost(self, now_us: int) -> None:
        self.over = True

    def heard(self, event: Event) -> None:
        """React to what the queue manager said."""

    def can_act(self) -> bool:
        """Whether `act` would do anything."""
        return False

    def act(self) -> None:
        """Do one thing."""


class Producer(Client):
    """Puts a message after the other, to one address."""

    def __init__(self, world: World, name: str, at: str, task: Task) -> None:
        super().__init__(world, name, at)
        self.task = task
        self.link = self.session.attach_sender(f"{name}-out", Source(), Target(address=task.address))
        self.waiting = 0

    def can_act(self) -> bool:
        ready = self.link.attached and self.link.credit > 0 and self.waiting < MOST_WAITING
        return ready and bool(self.task.left) and not self.over

    def act(self) -> None:
        sent, payload = self.task.next_message(self.world, self.name, self.at)
        self.waiting += 1
        self.link.send(payload, sent.id.to_bytes(4, "big"), False, context=sent)

    def heard(self, event: Event) -> None:
        if isinstance(event, DispositionReceived):
            for delivery in event.deliveries:
                assert isinstance(delivery.context, Sent)
                self.waiting -= 1
                delivery.context.accepted = isinstance(event.state, Accepted)


class Task:
    """What one producer has to do, through however many connections."""

    def __init__(self, address: str, count: int, random: Random, returns: bool = False) -> None:
        self.address = address
        self.left = count
        self.returns = returns
        self._random = random

    def next_message(self, world: World, sender: str, at: str) -> tuple[Sent, bytes]:
        self.left -= 1
        durable = self._random.random() < 0.7 or self.address in world.scenario.persistent
        sent = world.oracle.puts(sender, at, self.address, durable, self.returns)
        message = Message(
            header=Header(durable=durable),
            properties=Properties(message_id=f"{sent.id}", reply_to=REPLIES if self.returns else None),
            body=Data([b"%d;" % sent.id + bytes(self._random.choice((0, 10, 700)))]),
        )
        if self.returns:
            message.message_annotations = {REPORT: RETURN_TO_SENDER}
        return sent, message.encode()


REPORT = "x-opt-report"


class Taker(Client):
    """Takes everything from a queue, and hears that it has."""

    def __init__(self, world: World, name: str, at: str, queue: str) -> None:
        super().__init__(world, name, at)
        self.queue = queue
        self.link = self.session.attach_receiver(
            f"{name}-in", Source(address=queue), Target(), rcv_settle_mode=1
        )
        self.held: dict[int, tuple[int, bool]] = {}
        self.waiting: dict[int, tuple[int, bool]] = {}
        self.payload = bytearray()

    def can_act(self) -> bool:
        return not self.over and self.link.attached and (self.link.credit < CREDIT // 2 or bool(self.held))

    def act(self) -> None:
        if self.link.credit < CREDIT // 2:
            self.link.flow(CREDIT)
        for delivery_id in list(self.held):
            self.waiting[delivery_id] = self.held.pop(delivery_id)
            self.link.settle(delivery_id, delivery_id, ACCEPTED, settled=False)

    def heard(self, event: Event) -> None:
        if isinstance(event, TransferReceived):
            self.payload += event.payload
            if not event.more:
                self.held[event.delivery_id] = decode(bytes(self.payload))
                self.payload.clear()
        elif isinstance(event, SenderDispositionReceived) and event.settled:
            for delivery_id in event.delivery_ids:
                if delivery_id in self.waiting:
                    id, durable = self.waiting.pop(delivery_id)
                    self.world.oracle.taken(id, self.at, self.queue, durable)

    def lost(self, now_us: int) -> None:
        super().lost(now_us)
        for id, _ in self.waiting.values():
            self.world.oracle.perhaps_taken(id)


def decode(payload: bytes) -> tuple[int, bool]:
    """Id, and whether it is persistent, of a message that came."""
    message = decode_message(payload)
    assert isinstance(message.body, Data)
    durable = message.header is not None and bool(message.header.durable)
    return int(message.body.joined().split(b";", 1)[0]), durable
