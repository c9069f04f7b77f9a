"""The clients of a simulation: real AMQP engines with a few lines of behaviour each.

An actor owns one connection. Its bytes travel through two pipes that the world carries in pieces of its own
choosing, or cuts.
"""

from random import Random
from typing import Protocol

from librt.strings import BytesWriter

from postroom.amqp.connection import Connection
from postroom.amqp.events import (
    DispositionReceived,
    Event,
    SenderDispositionReceived,
    TransferReceived,
)
from postroom.amqp.messaging import DELIVERY_DELAY
from postroom.amqp.options import ConnectionOptions
from postroom.amqp.outcomes import (
    ACCEPTED,
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from postroom.amqp.performatives import Coordinator, Source, Target
from postroom.amqp.receiver import ReceiverLink
from postroom.amqp.sections import Data, Header, Message, decode_message
from postroom.amqp.sender import SenderLink
from postroom.amqp.types import ULong
from postroom.client.destinations import filters
from postroom.server.binding import ConnectionBinding
from tests.simulation.oracle import Answer, Broken, Fate, Oracle, Unit

AMQP_VALUE_SECTION = b"\x00\x53\x77"
RCV_SECOND = 1
SND_SETTLED = 1
MAX_UNSETTLED = 40
TOPIC = "topic"
_WANTS_1 = filters("n = 1")


class Surroundings(Protocol):
    """What an actor may know of the world."""

    random: Random
    oracle: Oracle
    now_us: int
    queues: list[str]
    """Where is sent to; the topic among them."""
    sources: list[str]
    """Where is consumed from: queues and the topic's subscriptions."""
    subscriptions: list[str]
    selects: bool
    """Whether messages have what selectors ask for."""


class Actor:
    """One connection to the broker, from its handshake to its loss."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        self.world = world
        self.name = name
        self.binding = binding
        options = ConnectionOptions(server=False, container_id=name, sasl_mechanisms=[], hostname="simulated")
        self.engine = Connection(options, world.now_us)
        self.engine.open()
        self.session = self.engine.begin()
        self.to_broker = bytearray()
        self.to_client = bytearray()

    def act(self) -> None:
        """Do one thing that such a client does."""
        raise NotImplementedError

    def collect(self) -> None:
        """Put what both engines have to say into the pipes."""
        self.to_broker += self.engine.data_to_send()
        self.to_client += self.binding.data_to_send()

    def carry_to_broker(self, size: int) -> None:
        data = bytes(self.to_broker[:size])
        del self.to_broker[:size]
        if data and not self.binding.finished:
            self.binding.receive(data, self.world.now_us, self.world.now_us)

    def carry_to_client(self, size: int) -> None:
        data = bytes(self.to_client[:size])
        del self.to_client[:size]
        if data:
            for event in self.engine.receive_data(data, self.world.now_us):
                self.heard(event)

    def heard(self, event: Event) -> None:
        """React to what the broker said."""
        if isinstance(event, DispositionReceived):
            for delivery in event.deliveries:
                self.answered(delivery.context, event.state)

    def answered(self, context: object, state: DeliveryState | None) -> None:
        """The broker's answer to something that this actor sent."""

    def gone(self) -> None:
        """The connection or the broker is gone."""


def encode(
    fate: Fate, priority: int, ttl_ms: int | None, delay_ms: int, padding: int, selects: bool
) -> bytes:
    """The message of this fate: its id is its body."""
    header = Header(durable=fate.durable, priority=priority, ttl=ttl_ms)
    message = Message(header=header, body=Data([b"%d;" % fate.id + b"x" * padding]))
    if delay_ms:
        message.message_annotations = {DELIVERY_DELAY: ULong(delay_ms)}
    if selects:
        message.application_properties = {"n": fate.id % 3}
    return message.encode()


def decode(payload: bytes) -> tuple[int, int]:
    """Id and delivery count of a message that came."""
    message = decode_message(payload)
    assert isinstance(message.body, Data)
    assert message.header is not None
    return int(message.body.joined().split(b";", 1)[0]), message.header.delivery_count


class Producer(Actor):
    """Sends to one queue, outside transactions, durable or not, settled or not."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.queue = world.random.choice(world.queues)
        self.link: SenderLink = self.session.attach_sender(
            f"{name}-out", Source(), Target(address=self.queue)
        )
        self.sent = 0

    def act(self) -> None:
        random = self.world.random
        for _ in range(random.randrange(1, 6)):
            if not self.link.attached or self.link.credit <= 0:
                return
            self.send(None, b"")

    def send(self, unit: Unit | None, txn_id: bytes) -> None:
        random, world = self.world.random, self.world
        priority = random.choice((4, 4, 4, 0, 9))
        ttl_ms = random.choice((None, None, None, None, 50, 2000))
        expiry_us = world.now_us + ttl_ms * 1000 if ttl_ms is not None else 0
        durable, to_topic = random.random() < 0.8, self.queue == TOPIC
        first = world.subscriptions[0] if to_topic else self.queue
        fate = world.oracle.sent(first, (self.name, priority), durable, expiry_us, unit)
        if ttl_ms is not None:
            fate.expiry_us = world.now_us + ttl_ms * 1000
            fate.order_perturbed = True
        delay_ms = random.choice((0, 0, 0, 0, 0, 5, 300))
        if delay_ms:
            fate.due_us = world.now_us + delay_ms * 1000
            fate.order_perturbed = True
        if to_topic:
            fate.has_dead_letters = False
            world.oracle.published(fate, world.subscriptions[1:])
        padding = random.choice((0, 10, 200, 3000))
        state = TransactionalState(txn_id) if txn_id else None
        self.sent += 1
        tag = self.sent.to_bytes(4, "big")
        payload = encode(fate, priority, ttl_ms, delay_ms, padding, world.selects)
        self.link.send(payload, tag, False, state=state, context=fate)

    def answered(self, context: object, state: DeliveryState | None) -> None:
        if isinstance(context, Fate) and context.unit is None:
            self.world.oracle.answered(
                context, Answer.ACCEPTED if isinstance(state, Accepted) else Answer.REFUSED
            )


class Consumer(Actor):
    """Takes from one queue and settles in its own time, in any way a client can."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding, queue: str = "") -> None:
        super().__init__(world, name, binding)
        self.queue = queue or world.random.choice(world.sources)
        self.wanted = 1 if world.selects and not queue and world.random.random() < 0.4 else None
        self.second = world.random.random() < 0.5
        self.presettled = not (self.second or queue) and world.random.random() < 0.1
        self.link: ReceiverLink = self.session.attach_receiver(
            f"{name}-in",
            Source(address=self.queue, filter=_WANTS_1 if self.wanted else None),
            Target(),
            snd_settle_mode=SND_SETTLED if self.presettled else 0,
            rcv_settle_mode=RCV_SECOND if self.second else 0,
        )
        self.held: dict[int, Fate] = {}
        self.waiting: dict[int, tuple[Fate, str]] = {}

    def act(self) -> None:
        random = self.world.random
        if not self.link.attached:
            return
        if random.random() < 0.4 and len(self.held) < MAX_UNSETTLED:
            self.ask(random.randrange(1, 30), random.random() < 0.2)
        elif self.held:
            self.settle_some()

    def ask(self, credit: int, drain: bool) -> None:
        """Credit is taken back only where order isn't judged: what was on its way then returns unseen."""
        if credit < self.link.credit and self.world.oracle.judges_order:
            credit = self.link.credit
        self.link.flow(credit, drain=drain)

    def settle_some(self) -> None:
        random = self.world.random
        first = random.choice(list(self.held))
        if random.random() < 0.6:
            first = next(iter(self.held))
        outcome, state = self.choose()
        self.dispose(first, outcome, state)

    def choose(self) -> tuple[str, DeliveryState]:
        roll = self.world.random.random()
        if roll < 0.75:
            return "accepted", ACCEPTED
        if roll < 0.83:
            return "released", Released()
        if roll < 0.91:
            return "modified", Modified(delivery_failed=True)
        return "rejected", Rejected()

    def dispose(self, delivery_id: int, outcome: str, state: DeliveryState) -> None:
        fate = self.held.pop(delivery_id)
        if outcome in ("released", "modified"):
            fate.order_perturbed = True
            fate.released = fate.released or outcome == "released"
        else:
            self.world.oracle.gave(fate, outcome)
        self.link.settle(delivery_id, delivery_id, state, settled=not self.second)
        if self.second:
            self.waiting[delivery_id] = (fate, outcome)

    def heard(self, event: Event) -> None:
        super().heard(event)
        if isinstance(event, TransferReceived):
            self.received(event)
        elif isinstance(event, SenderDispositionReceived) and event.settled:
            for delivery_id in event.delivery_ids:
                fate, outcome = self.waiting.pop(delivery_id, (None, ""))
                if fate is not None and outcome in ("accepted", "rejected"):
                    self.world.oracle.settled(fate, outcome)

    def received(self, event: TransferReceived) -> None:
        id, count = decode(event.payload)
        fate = self.world.oracle.delivered(id, self.queue, count, self.name, self.world.now_us)
        if self.wanted is not None and id % 3 != self.wanted:
            raise Broken(f"message {id} does not match the selector of {self.name}")
        if event.settled:
            self.world.oracle.settled(fate, "pre-settled")
            fate.given.add("pre-settled")
        else:
            self.held[event.delivery_id] = fate

    def gone(self) -> None:
        for fate in self.held.values():
            fate.order_perturbed = True
        self.world.oracle.deliveries_returned(self.queue, self.presettled)


class Transactor(Producer):
    """Sends several messages in a local transaction and discharges it, one way or the other."""

    def __init__(self, world: Surroundings, name: str, binding: ConnectionBinding) -> None:
        super().__init__(world, name, binding)
        self.control: SenderLink = self.session.attach_sender(f"{name}-control", Source(), Coordinator())
        self.unit: Unit | None = None
        self.txn_id = b""
        self.requests = 0

    def act(self) -> None:
        if not (self.control.attached and self.control.credit > 0):
            return
        if self.unit is None:
            self.unit = Unit()
            self.request(Declare(None), "declare")
        elif self.txn_id and self.unit.decision == "open":
            self.work(self.unit)

    def work(self, unit: Unit) -> None:
        random = self.world.random
        if self.link.attached and self.link.credit > 0 and random.random() < 0.8:
            self.send(unit, self.txn_id)
        elif random.random() < 0.7:
            unit.decision = "committing"
            self.request(Discharge(self.txn_id, False), "commit")
        else:
            unit.decision = "rolling back"
            self.request(Discharge(self.txn_id, True), "roll back")

    def request(self, body: Declare | Discharge, context: str) -> None:
        self.requests += 1
        payload = BytesWriter()
        payload.write(AMQP_VALUE_SECTION)
        body.write(payload)
        self.control.send(payload.getvalue(), self.requests.to_bytes(4, "big"), False, context=context)

    def answered(self, context: object, state: DeliveryState | None) -> None:
        if context == "declare" and isinstance(state, Declared):
            self.txn_id = bytes(state.txn_id)
        elif context in ("commit", "roll back") and self.unit is not None:
            committed = context == "commit" and isinstance(state, Accepted)
            self.world.oracle.decided(self.unit, committed)
            self.unit, self.txn_id = None, b""
        elif isinstance(context, Fate) and isinstance(state, Rejected):
            self.world.oracle.answered(context, Answer.REFUSED)

    def gone(self) -> None:
        if self.unit is not None and self.unit.decision in ("open", "rolling back"):
            self.world.oracle.decided(self.unit, False)
        elif self.unit is not None and self.unit.decision == "committing":
            self.unit.decision = "unknown"
